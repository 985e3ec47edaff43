"""Zero mean and unit variance, and what constant dimensions become."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from theodolite.repairs import Standardize, ZeroMean


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


def test_data_that_drift_from_block_to_block() -> None:
    steps = [np.full((70_000, 16), float(i), np.float32) for i in range(4)]
    repair = Standardize().fit(steps)
    np.testing.assert_allclose(repair.mean_, 1.5)
    np.testing.assert_allclose(repair.scale_, np.sqrt(1.25), rtol=1e-6)


def test_one_row_becomes_the_origin() -> None:
    np.testing.assert_array_equal(Standardize().fit_transform(np.array([[3.0, 4.0]])), [[0.0, 0.0]])
