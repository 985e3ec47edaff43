"""Spectral measures: singular values as the oracle, both ends, and what centring does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.moments import Moments
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.registry import UndefinedMetricWarning
from theodolite.metrics.spectral import (
    condition_number,
    dimensions_95,
    effective_rank,
    effective_rank_singular,
    ev_1,
    ev_1_centered,
    ev_3,
    explained_variance,
    explained_variance_curve,
)

CROSS = np.concatenate([np.eye(6), -np.eye(6)])
LINE = np.outer(np.arange(1.0, 9), np.ones(6))


@given(n=st.integers(2, 40), d=st.integers(1, 12), seed=st.integers(0, 99), centered=st.booleans())
def test_explained_variance_is_that_of_the_singular_values(n: int, d: int, seed: int, centered: bool) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d)) + 1
    squares = np.zeros(d)
    singular = np.linalg.svd(X - X.mean(0) if centered else X, compute_uv=False) ** 2
    squares[: len(singular)] = singular
    curve = explained_variance_curve(X, d, centered=centered)
    np.testing.assert_allclose(curve, np.cumsum(squares) / squares.sum(), atol=1e-9)
    assert explained_variance(X, 1, centered=centered) == pytest.approx(curve[0])
    np.testing.assert_allclose(explained_variance_curve(Moments.of(X), d, centered=centered), curve, atol=1e-12)
    np.testing.assert_allclose(explained_variance_curve(Cloud(X), d, centered=centered), curve, atol=1e-12)


def test_both_ends() -> None:
    assert ev_1(CROSS) == pytest.approx(1 / 6)
    assert ev_3(CROSS) == pytest.approx(3 / 6)
    assert ev_1(LINE) == pytest.approx(1)
    for rank in (effective_rank, effective_rank_singular, dimensions_95):
        assert rank(CROSS) == pytest.approx(6)
        assert rank(LINE) == pytest.approx(1, abs=1e-6)
    assert condition_number(CROSS) == pytest.approx(1)


def test_a_mean_fills_the_uncentred_share_only() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6)) + 50
    assert ev_1(X) > 0.99
    assert ev_1_centered(X) < 0.25


@given(seed=st.integers(0, 50), scale=st.floats(0.01, 100))
def test_ranks_do_not_depend_on_rotation_scale_or_shift(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 5)) * [5, 4, 3, 2, 1]
    moved = scale * X @ np.linalg.qr(rng.standard_normal((5, 5)))[0] - 7
    for measure in (effective_rank, effective_rank_singular, dimensions_95, condition_number, ev_1_centered):
        assert measure(moved) == pytest.approx(measure(X), rel=1e-6)


@given(seed=st.integers(0, 50))
def test_the_two_effective_ranks_are_ordered(seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((60, 7)) * np.arange(1, 8)
    assert 1 <= effective_rank(X) <= effective_rank_singular(X) <= 7 + 1e-9


def test_rounding_noise_does_not_count_as_a_dimension() -> None:
    """A matrix of rank 3 in 64 dimensions: empty directions add nothing, neither do they make a condition number."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 64))
    assert effective_rank_singular(X) <= 3 + 1e-9
    assert dimensions_95(X) <= 3
    assert condition_number(X) < 100


def test_the_number_of_components_for_most_of_the_variance() -> None:
    X = CROSS[:, :4] * np.sqrt([90, 4, 4, 2])
    assert dimensions_95(X) == 3


def test_undefined_values_have_a_reason() -> None:
    with pytest.raises(ValueError, match="k=7 must be between 1 and the dimension d=6"):
        explained_variance(CROSS, 7)
    with pytest.warns(UndefinedMetricWarning, match="only 2 dimensions"):
        assert np.isnan(ev_3(np.eye(2)))
    for X, reason in [(np.ones((1, 3)), "one row"), (np.ones((5, 3)), "same point")]:
        with pytest.warns(UndefinedMetricWarning, match=reason):
            assert np.isnan(effective_rank(X))
    with pytest.warns(UndefinedMetricWarning, match="zero"):
        assert np.isnan(ev_1(np.zeros((4, 3))))
    with pytest.warns(UndefinedMetricWarning, match="same point"):
        assert np.isnan(ev_1_centered(np.ones((4, 3))))
    assert np.isnan(explained_variance(np.zeros((4, 3)), 2))


@pytest.mark.parametrize("measure", [ev_1, ev_1_centered, effective_rank, condition_number])
def test_a_stream_that_can_be_read_once_is_read_once(measure: object) -> None:
    X = np.random.default_rng(0).standard_normal((50, 4))
    assert measure(iter([X[:20], X[20:]])) == pytest.approx(measure(X))  # type: ignore[operator]
