"""Cosines of scored pairs, pooled from one row per sentence or from many."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.advice.pair_scores import SentencePairs, row_cosines
from theodolite.spaces import Space

RNG = np.random.default_rng(0)


def test_row_cosines_equal_a_plain_loop_and_are_zero_for_zero_rows() -> None:
    A, B = RNG.standard_normal((20, 5)), RNG.standard_normal((20, 5))
    A[3], B[7] = 0, 0
    expected = [0 if i in (3, 7) else A[i] @ B[i] / np.linalg.norm(A[i]) / np.linalg.norm(B[i]) for i in range(20)]
    np.testing.assert_allclose(row_cosines(A, B), expected, atol=1e-12)


@pytest.fixture
def space() -> Space:
    """Eight tokens of each of three pairs, in random order, four in each sentence."""
    rng = np.random.default_rng(0)
    text = rng.permutation(np.repeat([3, 5, 9], 8))
    side = np.concatenate([np.tile([0, 1], 4)] * 3)[np.argsort(np.argsort(text, kind="stable"), kind="stable")]
    scores = {3: 1.0, 5: 2.5, 9: 4.0}
    rows = {"text": text.tolist(), "side": side.tolist(), "score": [scores[t] for t in text.tolist()]}
    return Space.of({6: rng.standard_normal((24, 5)).astype(np.float32)}, rows=rows)


def test_a_sentence_is_the_mean_of_its_tokens(space: Space) -> None:
    pairs, X = SentencePairs(space), np.asarray(space[6], dtype=float)
    text, side = np.asarray(space.rows["text"]), np.asarray(space.rows["side"])
    for number, pair in enumerate((3, 5, 9)):
        a, b = (X[(text == pair) & (side == which)].mean(axis=0) for which in (0, 1))
        assert pairs.cosines(X)[number] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert pairs.scores.tolist() == [1.0, 2.5, 4.0] and len(pairs) == 3
    assert (np.array([3, 5, 9])[pairs.pair] == text).all()


def test_one_row_per_sentence_is_its_own_mean() -> None:
    rows = {"text": [1, 0, 0, 1], "side": [1, 0, 1, 0], "score": [2.0, 1.0, 1.0, 2.0]}
    X = np.random.default_rng(1).standard_normal((4, 3))
    np.testing.assert_allclose(SentencePairs(Space.of({0: X}, rows=rows)).cosines(X), row_cosines(X[[1, 3]], X[[2, 0]]))


def test_a_sentence_without_tokens_and_rows_that_are_not_pairs_are_errors() -> None:
    rows = {"text": [0, 0, 1], "side": [0, 1, 0], "score": [1.0, 1.0, 2.0]}
    with pytest.raises(ValueError, match="no token"):
        SentencePairs(Space.of({0: np.ones((3, 2))}, rows=rows))
    with pytest.raises(ValueError, match="not pairs of texts with scores"):
        SentencePairs(Space.of({0: np.ones((3, 2))}, rows={}))
