"""`compare`: before, after and the difference, of clouds and of layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.metrics import iso_score
from theodolite.spaces import Space

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((300, 8)).astype(np.float32)
Y = (X * np.linspace(1, 3, 8) + 1).astype(np.float32)


def test_the_difference_is_after_minus_before() -> None:
    result = th.compare(X, Y, metrics=["iso_score"], bootstrap=30)
    assert [row.state for row in result] == ["before", "after", "difference"]
    assert result.value("iso_score", state="difference") == iso_score(Y) - iso_score(X)
    assert result[2].high < 0  # type: ignore[operator]


def test_a_cloud_does_not_differ_from_itself() -> None:
    result = th.compare(X, X, metrics=["iso_score", "mean_cosine"], bootstrap=30)
    assert all(row.value == 0 and row.low == row.high == 0 for row in result if row.state == "difference")


def test_rows_are_paired_if_there_are_equally_many() -> None:
    assert th.compare(X, Y, metrics=["ev_1"], bootstrap=20).provenance["paired"] is True
    assert th.compare(X, Y[:100], metrics=["ev_1"], bootstrap=20).provenance["paired"] is False
    with pytest.raises(ValueError, match="300 and 100"):
        th.compare(X, Y[:100], metrics=["ev_1"], paired=True)


def test_layers_are_compared_one_by_one() -> None:
    result = th.compare(Space.of({0: X, 1: X}), Space.of({0: X, 1: Y}), metrics=["iso_score"])
    changes = result.where(state="difference")
    assert [row.layer for row in changes] == [0, 1]
    assert changes[0].value == 0 and changes[1].value == iso_score(Y) - iso_score(X)
    assert changes[1].low is None
    assert th.compare(Space.of({0: X}), Space.of({0: Y}), metrics=["ev_1"], bootstrap=20)[2].low is not None


def test_a_space_and_vectors_give_the_same_sentence_in_both_orders(tmp_path: Path) -> None:
    space = Space.of({0: X, 1: Y})
    np.save(tmp_path / "v.npy", Y)
    for pair in ((space, tmp_path / "v.npy"), (tmp_path / "v.npy", space)):
        with pytest.raises(ValueError, match=r"one input has several layers.*choose one layer with layers='last'"):
            th.compare(*pair)
    result = th.compare(space, tmp_path / "v.npy", layers="last", metrics=["iso_score"], bootstrap=20)
    assert result.value("iso_score", state="difference") == 0
    assert th.compare(tmp_path / "v.npy", Space.of({3: Y}), metrics=["iso_score"], bootstrap=20)[2].value == 0


def test_two_encoders_read_the_same_texts(tiny: Any, vector_texts: list[str]) -> None:
    result = th.compare(tiny("bert"), tiny("bert"), texts=vector_texts, metrics=["mean_cosine"])
    assert {row.value for row in result if row.state == "difference"} == {0.0}
    assert len(result.pictures) == 2


def test_an_encoder_and_a_file_each_take_their_own_options(tiny: Any, vector_texts: list[str], tmp_path: Path) -> None:
    vectors = th.extract(tiny("bert"), vector_texts, layers="last")[-1]
    np.savez(tmp_path / "v.npz", a=vectors, b=vectors[:2])
    result = th.compare(
        tiny("bert"), tmp_path / "v.npz", texts=vector_texts, key="a", layers="last", metrics=["mean_cosine"], bootstrap=0
    )
    assert result.value("mean_cosine", state="difference") == pytest.approx(0, abs=1e-7)


def test_spaces_without_a_common_layer_are_refused() -> None:
    with pytest.raises(ValueError, match="none is in both"):
        th.compare(Space.of({0: X, 1: X}), Space.of({2: Y, 3: Y}))
