"""The cloud before and after: the pictures' own points and words, in a plot and in few bytes for a page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from theodolite.core.pictures import Picture
from theodolite.reports.displays import clouds, displays_of
from theodolite.reports.figures.cloud_pair import CloudPair
from theodolite.reports.run_folder import RunData

EVIL = '<a href="javascript:alert(1)">x</a>\x07'


def picture(n: int = 40, state: str = "pre-trained", seed: int = 0, **about: Any) -> Picture:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "token": [f"word{i % 7}" for i in range(n)],
        "text": [f"The sentence with number {i // 4}." for i in range(n)],
        "label": [("A", "B", EVIL)[i % 3] for i in range(n)],
        "cluster": [i % 27 for i in range(n)],
        "frequency": [None if i == 3 else -float(i % 5) for i in range(n)],
    }
    points = rng.standard_normal((n, 3)).astype(np.float32)
    return Picture(
        points, (0.5, 0.2, 0.1), np.arange(n), {"model": "m", "state": state, "layer": 6, "task": "t", **about}, columns
    )


def pair(n: int = 40) -> CloudPair:
    found = CloudPair.of([picture(n, "fine-tuned", 1), picture(n)])
    assert found is not None
    return found


def test_no_points_are_nothing_and_three_pictures_are_no_pair() -> None:
    assert CloudPair.of([]) is None and CloudPair.of([picture(0)]) is None
    with pytest.raises(ValueError, match="3 pictures are no pair"):
        CloudPair.of([picture()] * 3)


def test_the_frame_holds_every_point_of_both() -> None:
    frame = pair().frame()
    assert list(frame["state"]) == ["pre-trained"] * 40 + ["fine-tuned"] * 40
    assert (frame[["x", "y", "z"]].to_numpy(np.float32) == np.vstack([picture().points, picture(seed=1).points])).all()
    assert list(frame["token"][:40]) == picture().columns["token"]


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("color", [None, "frequency", "label", "cluster"])
def test_the_plot_holds_every_point_once_whatever_its_colour(dimensions: Any, color: Any) -> None:
    figure = pair().plot(dimensions, color)
    kind = {"scattergl"} if dimensions == 2 else {"scatter3d"}
    assert {trace.type for trace in figure.data} == kind
    panels = {0: "x", 1: "x2"} if dimensions == 2 else {0: "scene", 1: "scene2"}
    for at, one in enumerate(pair().pictures):
        mine = [trace for trace in figure.data if (trace.xaxis if dimensions == 2 else trace.scene) == panels[at]]
        drawn = sorted((float(x), float(y)) for trace in mine for x, y in zip(trace.x, trace.y, strict=True))
        assert drawn == sorted((float(x), float(y)) for x, y, _ in one.points)
    assert figure.layout.legend.itemsizing == "constant"


def test_of_many_clusters_twelve_have_a_colour_and_each_is_named_once() -> None:
    figure = pair().plot(color="cluster")
    named = [trace.name for trace in figure.data if trace.showlegend]
    assert named == ["15 others", *map(str, range(12))]


def test_hover_texts_are_text() -> None:
    texts = [text for trace in pair().plot(color="label").data for text in trace.text]
    assert all("<a" not in text and "\x07" not in text for text in texts)
    assert any("&lt;a href" in text for text in texts)
    assert texts[0].startswith("<b>word0</b><br>The sentence with number 0.")


def test_a_colour_or_dimension_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no 'pos'; known of them: frequency, label, cluster"):
        pair().plot(color="pos")
    with pytest.raises(ValueError, match="must be 2 or 3"):
        pair().plot(4)  # type: ignore[arg-type]


def test_pictures_pair_with_the_pre_trained_state_of_their_own_layer() -> None:
    shown = clouds([picture(state=state, layer=layer) for state in ("fine-tuned", "pre-trained") for layer in (1, 6)])
    assert [[(one.about["state"], one.about["layer"]) for one in each.pictures] for each in shown] == [
        [("pre-trained", layer), ("fine-tuned", layer)] for layer in (1, 6)
    ]
    assert len({each.name for each in shown}) == 2


def test_two_models_that_are_left_are_shown_together_and_one_alone() -> None:
    two = clouds([picture(state="", model="a"), picture(state="", model="b")])
    assert len(two) == 1 and len(two[0].pictures) == 2
    (alone,) = displays_of(RunData(name="r", pictures=(picture(),)))
    assert isinstance(alone, CloudPair) and len(alone.plot().data) == 1
