"""What a picture keeps of each row: tokens find their sentence, and frequencies stay on the Zipf scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from theodolite.spaces import Space
from theodolite.spaces.pictures import picture_columns


def space(**rows: list[Any]) -> Space:
    return Space.of({0: np.zeros((len(next(iter(rows.values()))), 1))}, rows=rows)


class Pairs:
    texts = ("a b", "c")
    second = ("d", "e f")


TOKENS = space(text=[0, 0, 1, 1], side=[0, 1, 0, 1], token=["b", "d", "c", "f"], frequency=[6.0, 0.0, None, 3.0])


def test_tokens_of_pairs_find_their_sentence() -> None:
    columns = picture_columns(TOKENS, Pairs())
    assert columns["text"] == ["a b", "d", "c", "e f"]
    assert list(columns["token"]) == ["b", "d", "c", "f"]


def test_frequencies_stay_on_the_zipf_scale_and_unknown_ones_are_none() -> None:
    assert picture_columns(TOKENS)["frequency"] == [6.0, None, None, 3.0]
    assert picture_columns(space(frequency=[float("nan"), 7.5]))["frequency"] == [None, 7.5]


def test_plain_texts_are_found_by_their_number() -> None:
    assert picture_columns(space(text=[1, 0]), ["x", "y"])["text"] == ["y", "x"]


@pytest.mark.parametrize("texts", [None, Pairs()])
def test_a_stored_sentence_needs_no_texts(texts: Any) -> None:
    columns = picture_columns(space(text=[1], sentence=["c"], word=["w"], label=["L"]), texts)
    assert {name: list(values) for name, values in columns.items()} == {"token": ["w"], "text": ["c"], "label": ["L"]}


def test_without_the_texts_tokens_have_none() -> None:
    assert "text" not in picture_columns(TOKENS)
