"""Zero mean and unit variance per dimension or principal direction; constant dimensions and rounding are not scaled up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from theodolite.repairs import PowerWhiten, Rotate, Standardize, UnitLength, Whiten, ZeroMean

Array = np.ndarray[Any, Any]


@given(seed=st.integers(0, 1000), n=st.integers(1, 200), d=st.integers(1, 9))
def test_zero_mean_leaves_nothing_to_remove(seed: int, n: int, d: int) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d)) * 3 + 7
    once = ZeroMean().fit_transform(X)
    np.testing.assert_allclose(once, X - X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(ZeroMean().fit(once).mean_, 0, atol=1e-12)


@pytest.mark.parametrize("mean", [0.0, 1000.0, -1e6])
def test_standardize_is_scikit_learns_scaler(mean: float) -> None:
    X = np.random.default_rng(0).standard_normal((5000, 6)) * np.arange(1, 7) + mean
    X[:, 2] = mean + 3
    peer = StandardScaler().fit(X)
    repair = Standardize().fit(X)
    np.testing.assert_allclose(repair.mean_, peer.mean_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(repair.scale_, peer.scale_, rtol=1e-8)
    np.testing.assert_allclose(repair.transform(X), peer.transform(X), atol=1e-7)


def test_float32_far_from_the_origin() -> None:
    X = (np.random.default_rng(0).standard_normal((300_000, 8)) + 1000).astype(np.float32)
    repair = Standardize().fit(X)
    exact = X.astype(np.float64)
    np.testing.assert_allclose(repair.mean_, exact.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(repair.scale_, exact.std(axis=0), rtol=1e-6)
    assert np.abs(ZeroMean().fit_transform(X).mean(axis=0, dtype=np.float64)).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_dimension_is_centred_and_not_scaled(dtype: type) -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3)).astype(dtype)
    X[:, 1] = 0.1
    repair = Standardize().fit(X)
    assert repair.scale_[1] == 1
    np.testing.assert_allclose(repair.transform(X)[:, 1], 0, atol=1e-6)


def test_a_dead_dimension_has_no_deviation_below_zero() -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3)).astype(np.float32)
    X[:, 1] = 1e-20  # as in all-MiniLM-L6-v2; the float32 mean of it is a little off, and the sum of squares comes out negative
    assert Standardize().fit(X).scale_[1] == 1  # and no warning about the root of a negative number


def test_data_that_drift_from_block_to_block() -> None:
    steps = [np.full((70_000, 16), float(i), np.float32) for i in range(4)]
    repair = Standardize().fit(steps)
    np.testing.assert_allclose(repair.mean_, 1.5)
    np.testing.assert_allclose(repair.scale_, np.sqrt(1.25), rtol=1e-6)


def test_one_row_becomes_the_origin() -> None:
    np.testing.assert_array_equal(Standardize().fit_transform(np.array([[3.0, 4.0]])), [[0.0, 0.0]])


def layer_norm(X: Array, random: np.random.Generator, dtype: type = np.float64) -> Array:
    """A LayerNorm with random gain and bias, computed in the given precision."""
    X = X.astype(dtype)
    gain = random.uniform(0.2, 3, X.shape[1]).astype(dtype)
    bias = random.standard_normal(X.shape[1]).astype(dtype) * 2
    return (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True) * gain + bias


def covariance(X: Array) -> Array:
    return np.atleast_2d(np.cov(X.astype(np.float64).T))


@given(seed=st.integers(0, 1000), n=st.integers(3, 200), d=st.integers(1, 12))
def test_covariance_becomes_the_identity_on_the_kept_rank(seed: int, n: int, d: int) -> None:
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) @ random.standard_normal((d, d)) + 100 * random.standard_normal(d)
    whitened = Whiten().fit_transform(X)
    assert whitened.shape[1] == min(n - 1, d)
    np.testing.assert_allclose(covariance(whitened), np.eye(whitened.shape[1]), atol=1e-5)
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), d=st.integers(4, 64), dtype=st.sampled_from([np.float32, np.float64]))
def test_a_layer_norm_costs_exactly_one_direction(seed: int, d: int, dtype: type) -> None:
    random = np.random.default_rng(seed)
    X = layer_norm(random.standard_normal((500, d)) * random.uniform(0.5, 2, d), random, dtype)
    repair = Whiten().fit(X)
    assert repair.n_components_ == d - 1
    np.testing.assert_allclose(covariance(repair.transform(X)), np.eye(d - 1), atol=1e-4)


def test_a_layer_norm_stored_in_half_precision() -> None:
    random = np.random.default_rng(0)
    X = layer_norm(random.standard_normal((4000, 32)), random)
    assert Whiten().fit(X.astype(np.float16)).n_components_ == 31
    assert Whiten(tolerance=0.0).fit(X.astype(np.float16)).n_components_ == 32  # the rounding taken for a dimension


def test_rounding_is_not_amplified() -> None:
    random = np.random.default_rng(0)
    X = layer_norm(random.standard_normal((3000, 48)), random, np.float32)
    kernel = Whiten().fit(X).kernel_
    assert np.linalg.norm(kernel, 2) < 100
    naive_values, _ = np.linalg.eigh(covariance(X))
    assert naive_values.min() < 1e-10  # one over its root is what a whitening without rank would scale by


def test_low_rank_and_constant_dimensions() -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 3)) @ random.standard_normal((3, 10))
    X = np.hstack([X, np.full((400, 2), 5.0)])
    whitened = Whiten().fit_transform(X)
    np.testing.assert_allclose(covariance(whitened), np.eye(3), atol=1e-8)


def test_components_are_those_of_most_variance() -> None:
    X = np.random.default_rng(0).standard_normal((1000, 8)) * np.arange(1, 9)
    full, few = Whiten().fit(X), Whiten(3).fit(X)
    np.testing.assert_allclose(few.transform(X), full.transform(X)[:, :3], atol=1e-10)
    assert (np.diff(full.variances_) < 0).all()
    assert list(few.get_feature_names_out()) == ["whiten0", "whiten1", "whiten2"]


@pytest.mark.parametrize("shape", [(300, 6), (5, 9)])
def test_full_shrinkage_scales_all_directions_alike(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).standard_normal(shape) * np.arange(1, shape[1] + 1)
    whitened = Whiten(shrinkage=1.0).fit_transform(X)
    assert whitened.shape == X.shape
    scale = np.sqrt(np.trace(covariance(X)) / shape[1])
    moved = X - X.mean(axis=0)
    np.testing.assert_allclose(whitened @ whitened.T, moved @ moved.T / scale**2, atol=1e-8)


def test_shrinkage_whitens_the_shrunk_covariance() -> None:
    X = np.random.default_rng(0).standard_normal((500, 5)) * np.arange(1, 6)
    kernel = Whiten(shrinkage=0.3).fit(X).kernel_
    shrunk = 0.7 * covariance(X) + 0.3 * np.trace(covariance(X)) / 5 * np.eye(5)
    np.testing.assert_allclose(kernel.T @ shrunk @ kernel, np.eye(5), atol=1e-10)


def test_whitening_what_is_white_is_a_rotation() -> None:
    X = np.random.default_rng(0).standard_normal((500, 5)) * np.arange(1, 6)
    once = Whiten().fit_transform(X)
    twice = Whiten().fit(once).kernel_
    np.testing.assert_allclose(twice.T @ twice, np.eye(5), atol=1e-8)


def test_no_variance_and_wrong_options() -> None:
    X = np.random.default_rng(0).standard_normal((20, 4))
    for constant in (np.full((20, 4), 0.1), np.full((20, 4), 0.1, np.float32)):
        with pytest.raises(ValueError, match="same point"):
            Whiten().fit(constant)
    with pytest.raises(ValueError, match="at least two rows"):
        Whiten().fit(X[:1])
    with pytest.raises(ValueError, match=r"n_components=5 must be .* at most the dimension d=4"):
        Whiten(5).fit(X)
    with pytest.raises(ValueError, match="shrinkage=2"):
        Whiten(shrinkage=2).fit(X)
    with pytest.raises(ValueError, match="tolerance=1"):
        Whiten(tolerance=1).fit(X)


@given(seed=st.integers(0, 1000), power=st.floats(0, 1), d=st.integers(1, 12))
def test_power_whitening_leaves_each_principal_variance_to_the_power_of_one_minus_p(seed: int, power: float, d: int) -> None:
    random = np.random.default_rng(seed)
    X = random.standard_normal((300, d)) @ random.standard_normal((d, d)) + 100 * random.standard_normal(d)
    values = np.linalg.eigvalsh(covariance(X))
    if values.min() < 1e-6 * values.max():
        return
    out = PowerWhiten(power).fit_transform(X)
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance(out)), np.sort(values ** (1 - power)), rtol=1e-5)


def test_power_whitening_runs_from_centring_to_whitening() -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((500, 6)) * np.arange(1, 7) + 3
    np.testing.assert_array_equal(PowerWhiten(0.0).fit_transform(X), ZeroMean().fit_transform(X))
    whitened, expected = PowerWhiten(1.0).fit_transform(X), Whiten().fit_transform(X)
    np.testing.assert_allclose(whitened @ whitened.T, expected @ expected.T, atol=1e-8)  # the same up to a rotation
    with pytest.raises(ValueError, match=r"power=1.5 must be in \[0, 1\]"):
        PowerWhiten(1.5).fit(X)


def test_power_whitening_does_not_scale_rounding_up() -> None:
    random = np.random.default_rng(0)
    X = layer_norm(random.standard_normal((3000, 48)), random, np.float32)
    repair = PowerWhiten(1.0).fit(X)
    assert np.linalg.matrix_rank(repair.kernel_, tol=1e-6) == 47
    assert np.linalg.norm(repair.kernel_, 2) < 100


def test_unit_length_keeps_directions_and_zeros() -> None:
    X = np.array([[3.0, 4.0], [0.0, 0.0], [-1e-30, 0.0], [1e30, 1e30]], np.float32)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(UnitLength().fit_transform(X), [[0.6, 0.8], [0, 0], [-1, 0], [half, half]], rtol=1e-6)


def test_rotation_keeps_distances_and_evens_variances_out() -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((2000, 64)) * np.where(np.arange(64) < 2, 30.0, 1.0) + 5
    out = Rotate().fit_transform(X)
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(out[:50] @ out[:50].T, centred[:50] @ centred[:50].T, rtol=1e-9)
    assert out.var(axis=0).max() / out.var(axis=0).mean() < 0.5 * X.var(axis=0).max() / X.var(axis=0).mean()
    assert not np.allclose(out, Rotate(seed=1).fit_transform(X))
