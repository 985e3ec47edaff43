"""Mean cosine: all pairs as the oracle, its bounds, and the dimensions it comes from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.moments import Moments
from theodolite.metrics.cosine import (
    dimension_contributions,
    largest_variance_ratio,
    mean_cosine,
    mean_cosine_centered,
    mean_norm,
    norm_variation,
    rogue_share,
    zero_rows,
)
from theodolite.metrics.registry import UndefinedMetricWarning


def over_all_pairs(X: np.ndarray) -> float:
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    return float(np.mean([units[i] @ units[j] for i in range(len(X)) for j in range(len(X)) if i != j]))


@given(n=st.integers(2, 20), d=st.integers(1, 8), seed=st.integers(0, 99), mean=st.sampled_from([0.0, 2.0]))
def test_it_is_the_mean_over_all_pairs(n: int, d: int, seed: int, mean: float) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d)) + mean
    assert mean_cosine(X) == pytest.approx(over_all_pairs(X), abs=1e-10)
    assert mean_cosine(Moments.of(X)) == pytest.approx(mean_cosine(X), abs=1e-14)
    assert dimension_contributions(X).sum() == pytest.approx(mean_cosine(X))
    assert -1 / (n - 1) - 1e-12 <= mean_cosine(X) <= 1 + 1e-12


@given(seed=st.integers(0, 50))
def test_lengths_do_not_matter_and_rotation_moves_contributions_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 5)) + [4, 0, 0, 0, 0]
    lengths = rng.uniform(0.1, 10, (30, 1))
    turned = X @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    assert mean_cosine(X * lengths) == pytest.approx(mean_cosine(X))
    np.testing.assert_allclose(dimension_contributions(X * lengths), dimension_contributions(X), atol=1e-12)
    assert mean_cosine(turned) == pytest.approx(mean_cosine(X))
    assert dimension_contributions(X)[0] > 0.9 * mean_cosine(X)
    assert dimension_contributions(turned).max() < dimension_contributions(X)[0]


def test_the_bounds_are_reached() -> None:
    assert mean_cosine(np.ones((9, 3))) == pytest.approx(1)
    simplex = np.eye(4) - 0.25
    assert mean_cosine(simplex) == pytest.approx(-1 / 3)


def test_zero_rows_are_left_out_and_counted() -> None:
    X = np.array([[1.0, 0], [0, 0], [1, 1], [0, 0]])
    assert mean_cosine(X) == pytest.approx(np.sqrt(0.5))
    assert zero_rows(X) == 0.5
    with pytest.warns(UndefinedMetricWarning, match="two rows that are not zero"):
        assert np.isnan(mean_cosine(np.array([[1.0, 0], [0, 0]])))


def test_centring_takes_the_cone_away() -> None:
    X = np.random.default_rng(0).standard_normal((400, 16)) + 4
    assert mean_cosine(X) > 0.9
    assert abs(mean_cosine_centered(X)) < 0.01
    assert mean_cosine_centered(X) == pytest.approx(over_all_pairs(X - X.mean(0)), abs=1e-10)


def test_rogue_dimensions_stand_out() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 50))
    X[:, 7] += 30
    assert rogue_share(X) > 0.95
    assert dimension_contributions(X).argmax() == 7
    wide = np.random.default_rng(0).standard_normal((2000, 50)) * np.where(np.arange(50) == 3, 7, 1)
    assert largest_variance_ratio(wide) == pytest.approx(49 * 50 / (49 + 49), rel=0.1)
    assert largest_variance_ratio(np.concatenate([np.eye(5), -np.eye(5)])) == pytest.approx(1)


def test_lengths_are_measured() -> None:
    X = np.array([[3.0, 4], [0, 5], [0, 10]])
    assert mean_norm(X) == pytest.approx(20 / 3)
    assert norm_variation(X) == pytest.approx(np.std([5, 5, 10]) / np.mean([5, 5, 10]))
    assert norm_variation(X / np.linalg.norm(X, axis=1, keepdims=True)) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("measure", [mean_cosine_centered, largest_variance_ratio])
def test_one_point_many_times_has_no_spread(measure: object) -> None:
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(measure(np.ones((5, 3))))  # type: ignore[operator]
