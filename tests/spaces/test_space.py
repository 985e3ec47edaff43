"""The space in memory: layers are views, rows are columns of one length, and what does not fit is named."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from theodolite.core.rows import Row
from theodolite.metrics.evaluation import metric_rows
from theodolite.spaces import Origin, Space
from theodolite.spaces.space import choose_layers, picture_columns

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
    with pytest.raises(ValueError, match=f"no layer {layer}; the layers are 0, 6, 12: give all, last, or numbers"):
        Space.of(X)[layer]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("all", (0, 6, 12)),
        ("last", (12,)),
        (6, (6,)),
        (np.int64(6), (6,)),
        (-1, (12,)),
        ([12, 0], (0, 12)),
        ((-1, 12, -3), (0, 12)),
        (range(0, 13, 6), (0, 6, 12)),
        ("0,6", (0, 6)),
        (" 12, -2 ", (6, 12)),
    ],
)
def test_layers_are_chosen_by_word_number_and_text(choice: object, expected: tuple[int, ...]) -> None:
    assert choose_layers(choice, (0, 6, 12)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choice", "fault"),
    [
        ("first", "layers='first' is not a choice of layers; the layers are 0–12: give all, last, or numbers such as 0,6,12"),
        ("0,,1", "layers='0,,1' is not a choice of layers"),
        ("", "layers='' is not a choice of layers"),
        (1.5, "layers=1.5 is not a choice of layers"),
        (None, "layers=None is not a choice of layers"),
        ([0, 13], "there is no layer 13; the layers are 0–12"),
        ("-14", "there is no layer -14"),
        ([], "no layer is chosen; the layers are 0–12"),
    ],
)
def test_layers_that_cannot_be_chosen(choice: object, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        choose_layers(choice, range(13))  # type: ignore[arg-type]


def test_a_space_cannot_be_changed_through_its_views() -> None:
    space = Space.of(X, rows={"label": [1] * 10})
    with pytest.raises(ValueError, match="read-only"):
        space[0][0, 0] = 1
    with pytest.raises(TypeError):
        space.rows["label"] = [2] * 10  # type: ignore[index]
    assert X[0].flags.writeable  # the caller's own array stays as it was


def test_a_space_cannot_be_iterated() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        iter(Space.of({0: X[0]}))  # type: ignore[call-overload]


def test_a_space_of_one_layer_is_a_cloud_and_one_of_several_needs_a_choice() -> None:
    names = ["iso_score", "mean_cosine"]
    one = metric_rows(Space.of({6: X[6]}), names)
    assert [row.value for row in one] == [row.value for row in metric_rows(X[6], names)]
    with pytest.raises(TypeError, match=r"3 layers \(0, 6, 12\); choose one: space\[12\]"):
        metric_rows(Space.of(X), names)


def test_about_fills_a_row() -> None:
    about = Space.of(X, origin=ORIGIN).about(-1)
    row = Row(metric="iso_score", value=1.0, **about)
    assert (row.model, row.revision, row.state, row.step, row.layer) == ("m", "r", "fine-tuned", 3, 12)
    assert (row.task, row.split, row.setting) == ("t", "s", "mean")
    known = {value for name, value in asdict(ORIGIN).items() if name not in ("description", "counts")}
    assert known - {"", None} <= set(about.values())


def test_half_floats_stay_integers_become_floats_and_mixed_layers_the_wider_type() -> None:
    assert Space.of({0: X[0].astype(np.float16)}).dtype == np.float16
    assert Space.of({0: [[1, 2], [3, 4]]})[0].dtype == np.float64
    mixed = Space.of({0: X[0], 1: X[0].astype(np.float64)})
    assert mixed[0].dtype == mixed[1].dtype == np.float64
    np.testing.assert_array_equal(mixed[0], X[0])


@pytest.mark.parametrize(
    ("layers", "fault"),
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
def test_wrong_layers(layers: dict[int, np.ndarray], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Space.of(layers)


def test_a_space_says_what_it_is_in_one_line() -> None:
    origin = Origin(model="bert-base-uncased", task="stsb", split="dev", pooling="tokens")
    tokens = Space.of({layer: np.zeros((42_709, 1), np.float16) for layer in range(13)}, origin=origin)
    assert repr(tokens) == "Space of bert-base-uncased, stsb dev: 42,709 tokens × 1, layers 0–12"
    assert repr(Space.of(X, origin=ORIGIN)) == "Space of m (fine-tuned, step 3), t s: 10 texts (mean) × 4, layers 0, 6, 12"
    assert repr(Space.of({3: X[0]}, origin=Origin(task="t", pooling="pairs"))) == "Space of t: 10 word pairs × 4, layer 3"
    assert repr(Space.of({3: X[0]})) == "Space: 10 vectors × 4, layer 3"
    assert (tokens.unit, Space.of(X).unit) == ("tokens", "")


def test_labels_are_a_column_as_text() -> None:
    space = Space.of(X, rows={"label": list(range(10)), "gap": [0.5] * 9 + [None]})
    assert space.labels() == [str(i) for i in range(10)]
    with pytest.raises(ValueError, match="row 9 of the space has no 'gap', but every row needs a label"):
        space.labels("gap")
    with pytest.raises(ValueError, match="no column 'pos' of labels; it has label, gap: name one with labels=COLUMN"):
        space.labels("pos")


# What a picture keeps of each row


def space_of(**rows: list[Any]) -> Space:
    return Space.of({0: np.zeros((len(next(iter(rows.values()))), 1))}, rows=rows)


class Pairs:
    texts = ("a b", "c")
    second = ("d", "e f")


TOKENS = space_of(text=[0, 0, 1, 1], side=[0, 1, 0, 1], token=["b", "d", "c", "f"], frequency=[6.0, 0.0, None, 3.0])


def test_tokens_of_pairs_find_their_sentence() -> None:
    columns = picture_columns(TOKENS, Pairs())
    assert columns["text"] == ["a b", "d", "c", "e f"]
    assert list(columns["token"]) == ["b", "d", "c", "f"]


def test_frequencies_stay_on_the_zipf_scale_and_unknown_ones_are_none() -> None:
    assert picture_columns(TOKENS)["frequency"] == [6.0, None, None, 3.0]
    assert picture_columns(space_of(frequency=[float("nan"), 7.5]))["frequency"] == [None, 7.5]


def test_plain_texts_are_found_by_their_number() -> None:
    assert picture_columns(space_of(text=[1, 0]), ["x", "y"])["text"] == ["y", "x"]


@pytest.mark.parametrize("texts", [None, Pairs()])
def test_a_stored_sentence_needs_no_texts(texts: Any) -> None:
    columns = picture_columns(space_of(text=[1], sentence=["c"], word=["w"], label=["L"]), texts)
    assert {name: list(values) for name, values in columns.items()} == {"token": ["w"], "text": ["c"], "label": ["L"]}


def test_without_the_texts_tokens_have_none() -> None:
    assert "text" not in picture_columns(TOKENS)
