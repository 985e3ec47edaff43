"""Weighted removal: the gradient, the optimum, and what no signal means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.stats import pearsonr

from theodolite.repairs import WeightedRemoval
from theodolite.repairs.weighted import _Pairs

Array = np.ndarray[Any, Any]


def scored_pairs(seed: int = 0, n: int = 200, d: int = 10) -> tuple[Array, Array, Array]:
    """Pairs whose score is their cosine without the first dimension, which swamps the others."""
    random = np.random.default_rng(seed)
    A = random.standard_normal((n, d))
    B = A * random.uniform(0, 1, (n, 1)) + random.standard_normal((n, d)) * 0.5
    scores = cosines(A, B)
    A[:, 0], B[:, 0] = random.normal(8, 3, n), random.normal(8, 3, n)
    return A, B, scores


def cosines(A: Array, B: Array) -> Array:
    return np.sum(A * B, axis=1) / np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)


def correlation(repair: WeightedRemoval, A: Array, B: Array, scores: Array) -> float:
    return float(pearsonr(cosines(repair.transform(A), repair.transform(B)), scores).statistic)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), m=st.integers(1, 9))
def test_the_gradient_is_the_slope(seed: int, m: int) -> None:
    A, B, scores = scored_pairs(seed, n=40)
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((10, m)))[0]
    pairs = _Pairs(A, B, scores, basis)
    remaining = np.random.default_rng(seed).uniform(0.1, 0.9, m)
    assert check_grad(lambda x: pairs.loss(x)[0], lambda x: pairs.loss(x)[1], remaining) < 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_learned_weights_beat_none_and_all(seed: int) -> None:
    A, B, scores = scored_pairs(seed)
    repair = WeightedRemoval(4).fit_pairs(A, B, scores)
    assert ((repair.weights_ >= 0) & (repair.weights_ <= 1)).all()
    assert repair.pearson_ == pytest.approx(correlation(repair, A, B, scores), abs=1e-6)
    plain = WeightedRemoval(4).fit([A, B])
    assert repair.pearson_ >= correlation(plain, A, B, scores) - 1e-9
    assert repair.pearson_before_ == pytest.approx(float(pearsonr(cosines(A, B), scores).statistic), abs=1e-9)
    assert repair.pearson_ > repair.pearson_before_ + 0.2


def test_harmful_directions_are_removed_and_helpful_ones_stay() -> None:
    A, B, scores = scored_pairs(n=2000)
    repair = WeightedRemoval(9).fit_pairs(A, B, scores)
    assert abs(repair.directions_[0, 0]) > 0.99
    assert repair.weights_[0] > 0.9
    assert repair.weights_[1:].max() < 0.5


def test_without_scores_whole_directions_are_removed() -> None:
    X = np.random.default_rng(0).standard_normal((300, 8)) * np.arange(1, 9) + 5
    repair = WeightedRemoval(3).fit(X)
    _, vectors = np.linalg.eigh(X.T @ X)
    top = vectors[:, -3:]
    np.testing.assert_array_equal(repair.weights_, 1)
    np.testing.assert_allclose(repair.transform(X), X - X @ top @ top.T, atol=1e-9)
    np.testing.assert_allclose(repair.transform(repair.transform(X)), repair.transform(X), atol=1e-9)


def test_directions_may_come_from_other_rows() -> None:
    A, B, scores = scored_pairs()
    X = np.random.default_rng(1).standard_normal((500, 10)) * np.arange(1, 11)
    repair = WeightedRemoval(3).fit_pairs(A, B, scores, X=X)
    np.testing.assert_allclose(repair.directions_, WeightedRemoval(3).fit(X).directions_)


def test_zero_rows_are_left_out() -> None:
    A, B, scores = scored_pairs()
    padded = np.concatenate([A, np.zeros((3, 10))]), np.concatenate([B, np.ones((3, 10))]), np.append(scores, [9, 9, 9])
    X = np.concatenate([A, B])
    first, second = WeightedRemoval(3).fit_pairs(A, B, scores, X=X), WeightedRemoval(3).fit_pairs(*padded, X=X)
    np.testing.assert_allclose(first.weights_, second.weights_, atol=1e-9)


def test_pairs_that_do_not_match() -> None:
    A, B, scores = scored_pairs()
    for pairs, message in (
        ((A, B[:-1], scores), "do not match"),
        ((A, B, scores[:-1]), "do not match"),
        ((A, B, np.ones(len(A))), "1 distinct scores"),
        ((A, B, np.where(np.arange(len(A)) == 5, np.nan, scores)), "score 5 is not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            WeightedRemoval(2).fit_pairs(*pairs)
