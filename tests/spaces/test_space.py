"""The space in memory: layers are views, rows are columns of one length, and what does not fit is refused by name."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from theodolite.core.rows import Row
from theodolite.metrics.survey import survey
from theodolite.spaces import Origin, Space

rng = np.random.default_rng(5)
X = {layer: rng.normal(size=(10, 4)).astype(np.float32) for layer in (0, 6, 12)}
ORIGIN = Origin(model="m", revision="r", state="fine-tuned", step=3, task="t", split="s", pooling="mean")


def test_layers_are_views_and_negative_numbers_count_from_the_last() -> None:
    space = Space.of(X)
    assert (space.layers, space.n, space.d, space.dtype) == ((0, 6, 12), 10, 4, np.float32)
    for layer in X:
        assert np.shares_memory(space[layer], X[layer])
    assert [np.shares_memory(space[-i], X[layer]) for i, layer in ((1, 12), (2, 6), (3, 0))] == [True] * 3
    assert 6 in space and 5 not in space and -1 not in space


def test_order_of_the_layers_is_by_number() -> None:
    assert Space.of({12: X[12], 0: X[0], 6: X[6]}).layers == (0, 6, 12)


@pytest.mark.parametrize("layer", [5, 13, -4])
def test_a_layer_that_is_not_there(layer: int) -> None:
    with pytest.raises(ValueError, match=f"no layer {layer}; this space has 0, 6, 12"):
        Space.of(X)[layer]


def test_a_space_cannot_be_changed_through_its_views() -> None:
    space = Space.of(X, rows={"label": [1] * 10})
    with pytest.raises(ValueError, match="read-only"):
        space[0][0, 0] = 1
    with pytest.raises(TypeError):
        space.rows["label"] = [2] * 10  # type: ignore[index]
    assert X[0].flags.writeable  # the caller's own array stays as it was


def test_no_silent_iteration_over_layer_numbers() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        iter(Space.of({0: X[0]}))  # type: ignore[call-overload]


def test_a_space_of_one_layer_is_a_cloud_and_one_of_several_says_which() -> None:
    names = ["iso_score", "mean_cosine"]
    one = survey(Space.of({6: X[6]}), names)
    assert [row.value for row in one] == [row.value for row in survey(X[6], names)]
    with pytest.raises(TypeError, match=r"3 layers \(0, 6, 12\); say which: space\[12\]"):
        survey(Space.of(X), names)


def test_about_fills_a_row() -> None:
    about = Space.of(X, origin=ORIGIN).about(-1)
    row = Row(metric="iso_score", value=1.0, **about)
    assert (row.model, row.revision, row.state, row.step, row.layer) == ("m", "r", "fine-tuned", 3, 12)
    assert (row.task, row.split, row.setting) == ("t", "s", "mean")
    assert set(asdict(ORIGIN).values()) - {""} <= set(about.values())


def test_half_floats_stay_integers_become_floats_and_mixed_layers_the_wider() -> None:
    assert Space.of({0: X[0].astype(np.float16)}).dtype == np.float16
    assert Space.of({0: [[1, 2], [3, 4]]})[0].dtype == np.float64
    mixed = Space.of({0: X[0], 1: X[0].astype(np.float64)})
    assert mixed[0].dtype == mixed[1].dtype == np.float64
    np.testing.assert_array_equal(mixed[0], X[0])


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ({}, "at least one layer"),
        ({-1: X[0]}, "layer -1 is not a layer number"),
        ({"0": X[0]}, "layer '0' is not a layer number"),
        ({0: X[0], 1: X[0][:9]}, r"layer 1 has shape \(9, 4\), layer 0 has \(10, 4\)"),
        ({0: X[0], 1: X[0][:, :3]}, r"layer 1 has shape \(10, 3\)"),
        ({0: X[0][0]}, r"layer 0 has shape \(4,\)"),
        ({0: np.empty((0, 4))}, r"layer 0 has shape \(0, 4\)"),
    ],
)
def test_wrong_layers(layers: dict[int, np.ndarray], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Space.of(layers)


def test_rows_keep_their_values() -> None:
    rows = Space.of(
        {0: X[0][:3]},
        rows={
            "text": ["a", None, "ö\n"],
            "word": np.array(["x", "y", "z"]),
            "label": (1, 2, 3),
            "gap": [1, None, np.int32(3)],
            "score": [1, 2.5, np.float32(0.5)],
            "frequency": np.array([0.5, np.nan, 1], np.float32),
            "flag": [True, False, True],
            "nothing": [None] * 3,
        },
    ).rows
    assert list(rows["text"]) == ["a", None, "ö\n"] and list(rows["word"]) == ["x", "y", "z"]
    assert list(rows["label"]) == [1, 2, 3] and list(rows["gap"]) == [1, None, 3]
    assert list(rows["score"]) == [1.0, 2.5, 0.5] and list(rows["flag"]) == [1, 0, 1]
    np.testing.assert_array_equal(rows["frequency"], [0.5, np.nan, 1])
    assert list(rows["nothing"]) == [None] * 3


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"text": ["a"] * 9}, "column 'text' has 9 values, there are n=10 vectors"),
        ({"text": "a text of "}, "column 'text' is one string"),
        ({"label": ["a"] * 3 + [7] + ["b"] * 6}, "column 'label' holds row 0: 'a', row 3: 7"),
        ({"label": [0.5] * 9 + [b"x"]}, "column 'label' holds row 0: 0.5, row 9: b'x'"),
        ({"label": [[1]] * 10}, r"column 'label' holds row 0: \[1\]"),
        ({"label": [2**63] * 10}, "column 'label' holds an int that needs more than 64 bits"),
        ({"": [1] * 10}, "a column is called ''"),
    ],
)
def test_wrong_rows(rows: dict[str, list[object]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Space.of(X, rows=rows)
