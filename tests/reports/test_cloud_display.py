"""Clouds side by side: the pictures' own points and words in a plot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from theodolite.core.pictures import Picture
from theodolite.core.result import Result
from theodolite.reports.cloud_display import CloudDisplay, cloud_displays
from theodolite.reports.figures import displays_of

EVIL = '<a href="javascript:alert(1)">x</a>\x07'


def picture(n: int = 40, state: str = "pre-trained", seed: int = 0, **about: Any) -> Picture:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "token": [f"word{i % 7}" for i in range(n)],
        "text": [f"The sentence with number {i // 4}." for i in range(n)],
        "label": [("A", "B", EVIL)[i % 3] for i in range(n)],
        "cluster": [i % 27 for i in range(n)],
        "frequency": [None if i == 3 else float(i % 5) for i in range(n)],
    }
    points = rng.standard_normal((n, 3)).astype(np.float32)
    return Picture(
        points, (0.5, 0.2, 0.1), np.arange(n), {"model": "m", "state": state, "layer": 6, "task": "t", **about}, columns
    )


def pair(n: int = 40) -> CloudDisplay:
    (display,) = cloud_displays([picture(n, "fine-tuned", 1), picture(n)])
    return display


def test_pictures_without_points_have_no_display() -> None:
    assert list(cloud_displays([])) == [] and list(cloud_displays([picture(0)])) == []


def test_the_frame_has_every_point_of_both() -> None:
    frame = pair().frame()
    assert list(frame["state"]) == ["pre-trained"] * 40 + ["fine-tuned"] * 40
    assert (frame[["x", "y", "z"]].to_numpy(np.float32) == np.vstack([picture().points, picture(seed=1).points])).all()
    assert list(frame["token"][:40]) == picture().columns["token"]


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("color", [None, "frequency", "label", "cluster"])
def test_the_plot_has_every_point_once_whatever_its_colour(dimensions: Any, color: Any) -> None:
    figure = pair().plot(dimensions, color)
    kind = {"scattergl"} if dimensions == 2 else {"scatter3d"}
    assert {trace.type for trace in figure.data} == kind
    panels = {0: "x", 1: "x2"} if dimensions == 2 else {0: "scene", 1: "scene2"}
    for at, cloud in enumerate(pair().pictures):
        traces = [trace for trace in figure.data if (trace.xaxis if dimensions == 2 else trace.scene) == panels[at]]
        points = sorted((float(x), float(y)) for trace in traces for x, y in zip(trace.x, trace.y, strict=True))
        assert points == sorted((float(x), float(y)) for x, y, _ in cloud.points)
    assert figure.layout.legend.itemsizing == "constant"


def test_word_frequency_has_one_zipf_scale_for_both_panels() -> None:
    axis = pair().plot(color="frequency").layout.coloraxis
    assert (axis.cmin, axis.cmax, axis.colorbar.title.text) == (0.0, 4.0, "word frequency (Zipf scale)")


def test_of_many_clusters_twelve_have_a_colour_and_each_is_named_once() -> None:
    figure = pair().plot(color="cluster")
    assert [trace.name for trace in figure.data if trace.showlegend] == ["15 others", *map(str, range(12))]
    assert len({trace.marker.color for trace in figure.data}) == 13


def test_hover_texts_are_text() -> None:
    texts = [text for trace in pair().plot(color="label").data for text in trace.text]
    assert all("<a" not in text and "\x07" not in text for text in texts)
    assert any("&lt;a href" in text for text in texts)
    assert texts[0].startswith("<b>word0</b><br>The sentence with number 0.")


def test_an_unknown_colour_or_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match=r"color='pos' is not a column of these points; use frequency, label, cluster"):
        pair().plot(color="pos")
    with pytest.raises(ValueError, match="dimensions=4 must be 2 or 3"):
        pair().plot(4)  # type: ignore[arg-type]


def test_pictures_pair_with_the_pre_trained_state_of_their_own_layer() -> None:
    pictures = [picture(state=state, layer=layer) for state in ("fine-tuned", "pre-trained") for layer in (1, 6)]
    displays = list(cloud_displays(pictures))
    assert [[(each.about["state"], each.about["layer"]) for each in display.pictures] for display in displays] == [
        [("pre-trained", layer), ("fine-tuned", layer)] for layer in (1, 6)
    ]
    assert [display.name for display in displays] == ["cloud-m-t-1-fine-tuned", "cloud-m-t-6-fine-tuned"]
    assert [display.title for display in displays] == ["The cloud: m, t, layer 1", "The cloud: m, t, layer 6"]


def test_two_clouds_without_another_state_are_side_by_side_and_a_third_is_alone() -> None:
    displays = list(cloud_displays([picture(state="", model=model) for model in "abc"]))
    assert [len(display.pictures) for display in displays] == [2, 1]
    (alone,) = displays_of(Result(verb="survey", pictures=(picture(),)))
    assert isinstance(alone, CloudDisplay) and len(alone.plot().data) == 1
