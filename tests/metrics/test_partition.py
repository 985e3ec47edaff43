"""Partition isotropy: the plain formula, streams, overflow, and what it depends on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.partition import (
    CENTERED,
    RAW,
    UNIT_NORM,
    Variant,
    eigen_gap,
    log_mean_exp_bound,
    log_partition_isotropy,
    log_partition_isotropy_centered,
    log_partition_isotropy_unit_norm,
    log_partitions,
    partition_isotropy,
)
from theodolite.metrics.registry import UndefinedMetricWarning


def by_definition(X: np.ndarray) -> float:
    """log(min F / max F) over all eigenvectors of X^T X and both their signs."""
    vectors = np.linalg.svd(X, full_matrices=True)[2]
    sums = [logsumexp(sign * X @ u) for u in vectors for sign in (1, -1)]
    return float(min(sums) - max(sums))


@given(n=st.integers(1, 40), d=st.integers(1, 12), seed=st.integers(0, 99), mean=st.sampled_from([0.0, 3.0]))
def test_it_equals_its_definition(n: int, d: int, seed: int, mean: float) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d)) * np.linspace(0.5, 2, d) + mean
    assert log_partition_isotropy(X) == pytest.approx(by_definition(X), abs=1e-9)
    assert log_partition_isotropy(X, centered=True) == pytest.approx(by_definition(X - X.mean(0)), abs=1e-6)
    assert partition_isotropy(X) == pytest.approx(np.exp(by_definition(X)), rel=1e-9)


@given(seed=st.integers(0, 99))
def test_rotation_changes_nothing_and_scale_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 5)) * np.arange(1, 6)
    turned = X @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    assert log_partition_isotropy(turned) == pytest.approx(log_partition_isotropy(X), abs=1e-8)
    assert log_partition_isotropy(2 * X) < log_partition_isotropy(X)
    assert log_partition_isotropy_unit_norm(2 * X) == pytest.approx(log_partition_isotropy_unit_norm(X), abs=1e-9)


def test_both_signs_are_never_above_one_sign() -> None:
    X = np.random.default_rng(0).gamma(1.0, size=(200, 8))
    assert log_partition_isotropy(X) <= log_partition_isotropy(X, sign="fixed")
    assert log_partition_isotropy(X) < log_partition_isotropy(X - X.mean(0)) - 1


def test_both_extremes() -> None:
    cross = np.concatenate([np.eye(6), -np.eye(6)])
    assert partition_isotropy(cross) == pytest.approx(1, abs=1e-12)
    far = np.ones((50, 6)) * 400
    assert partition_isotropy(far) == 0.0
    assert log_partition_isotropy(far) == pytest.approx(-2 * 400 * np.sqrt(6))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 30.0, 3000.0])
def test_long_vectors_do_not_overflow(size: float, dtype: type) -> None:
    X = (np.random.default_rng(0).standard_normal((300, 4)) * [4, 3, 2, 1] * size).astype(dtype)
    assert log_partition_isotropy(X) == pytest.approx(by_definition(X.astype(np.float64)), rel=1e-5)


def test_blocks_streams_and_threads_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    X = (np.random.default_rng(0).standard_normal((3000, 8)) * np.arange(1, 9) / 3 + 1).astype(np.float32)
    expected = log_partition_isotropy(X), log_partition_isotropy_centered(X)
    monkeypatch.setattr("theodolite.core.vectors.BLOCK_BYTES", 64 * 8 * 4)
    for cores in (1, 3):
        monkeypatch.setattr("theodolite.core.parallel.available_cores", lambda cores=cores: cores)
        got = log_partition_isotropy([X[:100], X[100:]]), log_partition_isotropy_centered(lambda: iter([X]))
        assert got == pytest.approx(expected, abs=1e-5)


def test_a_large_mean_in_single_precision_is_subtracted_exactly() -> None:
    X = (np.random.default_rng(0).standard_normal((2000, 6)) * np.arange(1, 7) / 3 + 1000).astype(np.float32)
    assert log_partition_isotropy_centered(X) == pytest.approx(by_definition(X.astype(float) - X.astype(float).mean(0)), abs=2e-4)


def test_all_variants_come_from_one_pass() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6)) + 0.5
    rows_read = 0

    def count(rows: int) -> None:
        nonlocal rows_read
        rows_read += rows

    cloud = Cloud(Cloud(X).source.watched(count))
    log_partitions(cloud, {RAW, UNIT_NORM, CENTERED})
    log_partition_isotropy(cloud), log_partition_isotropy_unit_norm(cloud), partition_isotropy(cloud)
    assert rows_read == 2 * len(X)
    assert log_partition_isotropy_unit_norm(cloud) == pytest.approx(by_definition(X / np.linalg.norm(X, axis=1).mean()), abs=1e-9)


def test_the_centred_cloud_can_be_scaled_too() -> None:
    X = np.random.default_rng(0).standard_normal((100, 4)) + 5
    centred = X - X.mean(0)
    expected = by_definition(centred / np.linalg.norm(centred, axis=1).mean())
    assert log_partition_isotropy(X, centered=True, unit_norm=True) == pytest.approx(expected, abs=1e-9)


def test_a_stream_that_can_be_read_once_has_a_reason() -> None:
    X = np.random.default_rng(0).standard_normal((300, 4))
    with pytest.warns(UndefinedMetricWarning, match="second pass"):
        assert np.isnan(log_partition_isotropy(Cloud(iter([X]), sample=100)))
    assert log_partition_isotropy(iter([X])) == pytest.approx(by_definition(X), abs=1e-9)


def test_zero_rows_are_isotropic_but_cannot_be_scaled() -> None:
    assert partition_isotropy(np.zeros((5, 3))) == 1.0
    with pytest.warns(UndefinedMetricWarning, match="zero"):
        assert np.isnan(log_partition_isotropy_unit_norm(np.zeros((5, 3))))


def test_a_degenerate_spectrum_shows_in_the_gap() -> None:
    rng = np.random.default_rng(0)
    assert eigen_gap(np.concatenate([np.eye(4), -np.eye(4)])) == pytest.approx(0, abs=1e-12)
    assert eigen_gap(rng.standard_normal((500, 3)) * [1, 2, 4]) > 0.05
    with pytest.warns(UndefinedMetricWarning, match="two eigenvalues"):
        assert np.isnan(eigen_gap(np.ones((5, 1))))


def test_an_unknown_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="'both' or 'fixed'"):
        log_partition_isotropy(np.eye(3), sign="plus")  # type: ignore[arg-type]


def cloud_of_many_directions(mean: float, outliers: float = 1.0) -> np.ndarray:
    X = np.random.default_rng(0).standard_normal((4000, 160)) / np.sqrt(np.arange(1, 161)) + mean / np.sqrt(160)
    X[:5] *= outliers
    return X.astype(np.float32)


@pytest.mark.parametrize("sign", ["both", "fixed"])
@pytest.mark.parametrize(("mean", "outliers"), [(0.0, 1.0), (0.3, 1.0), (3.0, 1.0), (3.0, 10.0)])
def test_directions_that_are_left_out_change_nothing(
    monkeypatch: pytest.MonkeyPatch, mean: float, outliers: float, sign: Any
) -> None:
    X = cloud_of_many_directions(mean, outliers)
    variants = {Variant(centered, unit_norm, sign) for centered in (False, True) for unit_norm in (False, True)}
    monkeypatch.setattr("theodolite.metrics.partition.PROBED_ENTRIES", X.size)
    everywhere = log_partitions(X, variants)
    monkeypatch.setattr("theodolite.metrics.partition.PROBED_ENTRIES", 0)
    somewhere = log_partitions(X, variants)
    for variant, logs in somewhere.items():
        expected, values = everywhere[variant].values(sign), logs.values(sign)
        assert len(values) < len(expected)
        np.testing.assert_allclose([values.min(), values.max()], [expected.min(), expected.max()], atol=2e-6)


def test_of_a_cloud_off_the_origin_only_the_ends_of_the_spectrum_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.metrics.partition.PROBED_ENTRIES", 0)
    logs = log_partitions(cloud_of_many_directions(3.0), {RAW, UNIT_NORM, CENTERED})
    assert len(logs[RAW].plus) == len(logs[UNIT_NORM].plus) == 32
    assert 32 < len(logs[CENTERED].plus) < 160  # its smallest value is along any direction of small variance


def test_squares_that_overflow_exclude_no_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.metrics.partition.PROBED_ENTRIES", 0)
    X = cloud_of_many_directions(1.0)
    logs = log_partitions(X * np.float32(1e25), {UNIT_NORM})[UNIT_NORM]
    assert len(logs.plus) == X.shape[1]
    assert np.ptp(logs.values("both")) == pytest.approx(-log_partition_isotropy_unit_norm(X), abs=2e-6)


def test_fewer_rows_than_directions_are_all_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.metrics.partition.PROBED_ENTRIES", 0)
    X = cloud_of_many_directions(1.0)[:150].astype(np.float64)
    assert log_partition_isotropy(X) == pytest.approx(by_definition(X), abs=1e-9)


def test_rows_that_a_function_makes_are_made_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.metrics.partition.PROBED_ENTRIES", 0)
    X, passes = cloud_of_many_directions(0.0), []
    cloud = Cloud(lambda: passes.append(1) or iter([X]))
    passes.clear()  # opened once for its shape
    assert log_partition_isotropy(cloud) == pytest.approx(log_partition_isotropy(X), abs=2e-6)
    assert len(passes) == 2


@given(seed=st.integers(0, 999), n=st.integers(2, 50), skew=st.sampled_from([0.1, 1.0, 5.0]), sign=st.sampled_from([1, -1]))
def test_mean_and_variance_bound_the_mean_of_exp(seed: int, n: int, skew: float, sign: int) -> None:
    p = sign * np.random.default_rng(seed).gamma(skew, size=n)
    value = logsumexp(p) - np.log(n)
    mean, variance = np.array([p.mean()]), np.array([p.var()])
    assert log_mean_exp_bound(mean, variance, p.max() + 1e-9)[0] >= value - 1e-6
    assert log_mean_exp_bound(mean, variance, p.min() - 1e-9)[0] <= value + 1e-6
    pair = np.array([0.0, 0.0, 3.0])  # two values, one of them the end: the bound is reached
    exact = logsumexp(pair) - np.log(3)
    assert log_mean_exp_bound(np.array([1.0]), np.array([2.0]), 3.0)[0] == pytest.approx(exact)
