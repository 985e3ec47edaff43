"""Moments: a stream, a batch and any split and merge of the same rows agree with the textbook formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core import moments as module
from theodolite.core.moments import Moments, centred, column_sums, row_cosines, row_norms


def cloud(n: int, d: int, seed: int, mean: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * rng.uniform(0.1, 3, d) + mean


def assert_same(a: Moments, b: Moments, rtol: float = 1e-10) -> None:
    assert (a.n, a.d, a.zero_rows) == (b.n, b.d, b.zero_rows)
    scale = np.abs(b.full_scatter()).max()
    np.testing.assert_allclose(a.full_scatter(), b.full_scatter(), atol=rtol * scale, rtol=rtol)
    for name in ("mean", "unit_sum", "unit_squares"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=rtol * max(1, np.abs(b.mean).max()))
    for name in ("norm_sum", "norm_squares", "norm_min", "norm_max"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=rtol)


@given(n=st.integers(1, 60), d=st.integers(1, 12), seed=st.integers(0, 99), mean=st.sampled_from([0.0, 1000.0]))
def test_moments_are_the_textbook_formulas(n: int, d: int, seed: int, mean: float) -> None:
    X = cloud(n, d, seed, mean)
    X[::7] *= 0
    moments = Moments.of(X)
    norms = np.linalg.norm(X, axis=1)
    units = X[norms > 0] / norms[norms > 0, None]
    np.testing.assert_allclose(moments.mean, X.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(moments.full_scatter(), (X - X.mean(0)).T @ (X - X.mean(0)), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(moments.unit_sum, units.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(moments.unit_squares, np.square(units).sum(axis=0), atol=1e-9)
    assert moments.zero_rows == np.sum(norms == 0)
    assert moments.norm_sum == pytest.approx(norms.sum())
    assert (moments.norm_min, moments.norm_max) == pytest.approx((norms.min(), norms.max()))
    assert (moments.rows is not None) == (n <= d)
    assert moments.trace == pytest.approx(np.trace(moments.full_scatter()), abs=1e-6)
    assert moments.trace_of_square == pytest.approx(np.square(moments.full_scatter()).sum(), rel=1e-6, abs=1e-6)


@given(cuts=st.lists(st.integers(1, 99), max_size=6, unique=True), d=st.sampled_from([3, 40, 120]), seed=st.integers(0, 9))
def test_any_split_and_merge_is_the_batch(cuts: list[int], d: int, seed: int) -> None:
    X = cloud(100, d, seed, mean=5.0)
    pieces = np.split(X, sorted(cuts))
    merged = Moments.of(pieces[0])
    for piece in pieces[1:]:
        merged = merged | Moments.of(piece)
    assert_same(merged, Moments.of(X))
    assert_same(Moments.of(iter(pieces)), Moments.of(X))
    assert_same(Moments.of(pieces[-1]) | Moments.of(X), Moments.of(X) | Moments.of(pieces[-1]))


def test_row_order_does_not_matter() -> None:
    X = cloud(5000, 9, 1)
    assert_same(Moments.of(X[::-1]), Moments.of(X))


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_many_blocks_and_groups_are_one_cloud(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = cloud(3000, 7, 2, mean=100.0)
    expected = Moments.of(X)
    monkeypatch.setattr("theodolite.core.vectors.BLOCK_BYTES", 64 * 7 * 8)
    monkeypatch.setattr("theodolite.core.parallel.available_cores", lambda: cores)
    monkeypatch.setattr(module, "GROUP", 5)
    assert_same(Moments.of(X), expected)


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    X = cloud(4000, 16, 3).astype(np.float32)
    monkeypatch.setattr("theodolite.core.vectors.BLOCK_BYTES", 64 * 16 * 4)
    scatters = []
    for cores in (1, 4):
        monkeypatch.setattr("theodolite.core.parallel.available_cores", lambda cores=cores: cores)
        scatters.append(Moments.of(X).full_scatter())
    np.testing.assert_array_equal(*scatters)


def test_a_large_mean_does_not_hurt_single_precision() -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((20_000, 16)) + 1000).astype(np.float32)
    exact = np.cov(X.astype(np.float64).T)
    np.testing.assert_allclose(Moments.of(X).covariance(), exact, atol=2e-6)
    naive = X.T @ X / len(X) - np.outer(X.mean(0), X.mean(0))
    assert np.abs(naive - exact).max() > 0.01


def test_drifting_data_is_centred_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.core.vectors.BLOCK_BYTES", 64 * 4 * 4)
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((6400, 4)) + np.linspace(0, 3000, 6400)[:, None]).astype(np.float32)
    exact = np.cov(X.astype(np.float64).T)
    np.testing.assert_allclose(Moments.of(X).covariance(), exact, rtol=1e-7)


@pytest.mark.parametrize("size", [1e-30, 1e-15, 1.0, 1e15, 1e25])
def test_norms_survive_sizes_whose_squares_do_not(size: float) -> None:
    rows = np.array([[3.0, 4.0], [0.0, 0.0]], np.float32) * np.float32(size)
    np.testing.assert_allclose(row_norms(rows), [5 * size, 0], rtol=1e-6)


@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_spread_survives_sizes_whose_squares_leave_single_precision(size: float) -> None:
    X = cloud(300, 4, 5)
    small = Moments.of((X * size).astype(np.float32))
    np.testing.assert_allclose(small.covariance() / size**2, np.cov(X.T), rtol=1e-5, atol=1e-5)


def test_lengths_whose_squares_overflow_are_an_error() -> None:
    with pytest.raises(ValueError, match="divide them all"):
        Moments.of(np.array([[1e200], [-1e200], [1e200]]))


def test_saved_moments_come_back_bit_by_bit(tmp_path: Path) -> None:
    for n in (5, 50):
        moments = Moments.of(cloud(n, 8, 4))
        moments.save(tmp_path / "m.npz")
        back = Moments.load(tmp_path / "m.npz")
        np.testing.assert_array_equal(back.full_scatter(), moments.full_scatter())
        np.testing.assert_array_equal(back.unit_sum, moments.unit_sum)
        assert (back.n, back.norm_sum, back.norm_max) == (moments.n, moments.norm_sum, moments.norm_max)


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match=r"Moments\.save"):
        Moments.load(tmp_path / "x.npz")


def test_spaces_of_different_width_do_not_merge() -> None:
    with pytest.raises(ValueError, match="d=2 and d=3"):
        Moments.of(np.eye(2)) | Moments.of(np.eye(3))


def test_one_row_has_no_covariance() -> None:
    with pytest.raises(ValueError, match="at least 2 rows"):
        Moments.of(np.ones((1, 3))).covariance()


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8])
def test_a_constant_cloud_has_no_spread(value: float) -> None:
    assert not Moments.of(np.full((40, 3), value)).has_spread
    assert not Moments.of(np.full((40, 3), value, np.float32)).has_spread
    assert Moments.of(np.full((40, 3), value) + np.eye(40, 3) * max(1e-6, value * 1e-6)).has_spread


def test_column_sums_are_exact_to_float64() -> None:
    block = np.full((1000, 2), 0.1, np.float32)
    np.testing.assert_allclose(column_sums(block), 1000 * np.float64(np.float32(0.1)), rtol=1e-6)


def test_centring_float32_rows_is_exact_to_float32() -> None:
    random = np.random.default_rng(0)
    rows = (1000 + random.standard_normal((200, 4))).astype(np.float32)
    point = np.full(4, 1000.00001)
    exact = rows.astype(np.float64) - point
    np.testing.assert_allclose(centred(rows, point), exact, atol=3e-7)
    assert centred(rows, point).dtype == np.float32
    assert np.abs((rows - point.astype(np.float32)) - exact).max() > 5e-6  # plain float32 subtraction fails


def test_row_cosines_equal_a_plain_loop_and_are_zero_for_zero_rows() -> None:
    random = np.random.default_rng(0)
    A, B = random.standard_normal((20, 5)), random.standard_normal((20, 5))
    A[3], B[7] = 0, 0
    expected = [0 if i in (3, 7) else A[i] @ B[i] / np.linalg.norm(A[i]) / np.linalg.norm(B[i]) for i in range(20)]
    np.testing.assert_allclose(row_cosines(A, B), expected, atol=1e-12)
