"""Removal of directions and rogue dimensions: ranks, idempotence, orthogonality, and the dimensions that are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from theodolite.core.moments import Moments
from theodolite.repairs import DropRogueDimensions, KeepDirections, RemoveDirections, Truncate, ZeroMean, scaled_count
from theodolite.repairs.directions import leading_directions

Array = np.ndarray[Any, Any]


def cloud(n: int, d: int, *, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    return random.standard_normal((n, d)) * np.arange(1, d + 1) + 10 * random.standard_normal(d)


def rank(X: Array) -> int:
    singular = np.linalg.svd(X, compute_uv=False)
    return int((singular > 1e-9 * max(singular.max(initial=0.0), 1.0)).sum())


shapes = {
    "seed": st.integers(0, 1000),
    "n": st.integers(2, 60),
    "d": st.integers(2, 12),
    "which": st.sampled_from(["top", "bottom"]),
}


@given(**shapes, share=st.floats(0, 0.999))
def test_rank_falls_by_what_was_removed(seed: int, n: int, d: int, which: Any, share: float) -> None:
    X = cloud(n, d, seed=seed)
    count = int(share * d)
    before = rank(X - X.mean(axis=0))
    repair = RemoveDirections(count, which=which).fit(X)
    after = rank(repair.transform(X))
    if which == "top":
        assert after == before - min(count, before)
        assert repair.n_removed_ == min(count, before)
    else:  # directions without variance go first
        assert after == min(before, d - count)
        assert repair.n_removed_ == count


@given(**shapes)
def test_removing_twice_is_removing_once(seed: int, n: int, d: int, which: Any) -> None:
    X = cloud(n, d, seed=seed)
    repair = RemoveDirections(d // 2, which=which).fit(X)
    once = repair.transform(X)
    np.testing.assert_allclose(repair.transform(once + repair.mean_), once, atol=1e-8)
    np.testing.assert_allclose(ZeroMean().fit(once).mean_, 0, atol=1e-8)
    matrix, _ = repair.affine()
    np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-10)
    assert np.trace(matrix) == pytest.approx(d - repair.n_removed_)


@given(seed=st.integers(0, 1000), d=st.integers(2, 12), data=st.data())
def test_top_and_bottom_share_the_space(seed: int, d: int, data: Any) -> None:
    X = cloud(50, d, seed=seed)
    count = data.draw(st.integers(1, d - 1))
    top, bottom = RemoveDirections(count).fit(X), RemoveDirections(d - count, which="bottom").fit(X)
    np.testing.assert_allclose(top.transform(X) + bottom.transform(X), X - X.mean(axis=0), atol=1e-8)
    np.testing.assert_allclose(top.affine()[0] @ bottom.affine()[0], 0, atol=1e-10)


@pytest.mark.parametrize("shape", [(3000, 300), (280, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fast_way_to_few_directions_is_pca(shape: tuple[int, int], dtype: type) -> None:
    X = cloud(*shape).astype(dtype)
    repair = RemoveDirections(12).fit(X)
    directions = PCA(12, svd_solver="full").fit(X.astype(np.float64)).components_
    np.testing.assert_allclose(
        repair.basis_ @ repair.basis_.T, directions.T @ directions, atol=1e-5 if dtype == np.float32 else 1e-9
    )
    np.testing.assert_allclose(repair.basis_.T @ repair.basis_, np.eye(12), atol=1e-10)


def test_new_rows_lose_the_mean_and_directions_of_the_fit() -> None:
    X, new = cloud(200, 8), cloud(3, 8, seed=1)
    values, vectors = np.linalg.eigh(np.cov(X.T))
    top = vectors[:, np.argsort(-values)[:2]]
    moved = new - X.mean(axis=0)
    np.testing.assert_allclose(RemoveDirections(2).fit(X).transform(new), moved - moved @ top @ top.T, atol=1e-9)


@given(seed=st.integers(0, 1000), which=st.sampled_from(["top", "bottom"]))
def test_row_order_does_not_matter(seed: int, which: Any) -> None:
    X = cloud(40, 6, seed=seed)
    order = np.random.default_rng(seed).permutation(40)
    first, second = (RemoveDirections(2, which=which).fit(rows) for rows in (X, X[order]))
    np.testing.assert_allclose(first.affine()[0], second.affine()[0], atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_data_have_no_direction(dtype: type) -> None:
    X = np.full((500, 6), 0.1, dtype) * np.arange(1, 7, dtype=dtype)
    repair = RemoveDirections(3).fit(X)
    assert repair.n_removed_ == 0
    np.testing.assert_allclose(repair.transform(X), 0, atol=1e-6)


def test_float32_data_of_low_rank_lose_only_as_many_directions() -> None:
    X = (cloud(2000, 2) @ np.random.default_rng(1).standard_normal((2, 20))).astype(np.float32)
    assert leading_directions(Moments.of(X), 5, X.dtype).shape == (20, 2)


def test_default_and_scaled_counts() -> None:
    assert [scaled_count(count, 384) for count in (12, 100, 700)] == [6, 50, 350]
    assert scaled_count(12, 768) == 12
    assert RemoveDirections().fit(cloud(100, 40)).n_removed_ == 12
    assert RemoveDirections().fit(cloud(100, 5)).n_removed_ == 4
    np.testing.assert_allclose(RemoveDirections(0).fit_transform(cloud(30, 4)), ZeroMean().fit_transform(cloud(30, 4)))


def test_too_many_directions_are_an_error_that_names_the_limit() -> None:
    with pytest.raises(ValueError, match=r"n_directions=12 must be .* at most d - 1 = 7.*scaled_count\(12, 8\)"):
        RemoveDirections(12).fit(cloud(100, 8))
    with pytest.raises(ValueError, match="which='middle'"):
        RemoveDirections(1, which="middle").fit(cloud(100, 8))  # type: ignore[arg-type]


def pair_products(X: Array) -> Array:
    """(d,) mean over i != j of the products of unit vectors, by a plain loop."""
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    pairs = [units[i] * units[j] for i in range(len(X)) for j in range(len(X)) if i != j]
    return np.mean(pairs, axis=0)


@given(seed=st.integers(0, 1000), n=st.integers(2, 15), d=st.integers(2, 8))
def test_contributions_are_those_of_all_pairs(seed: int, n: int, d: int) -> None:
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) + random.standard_normal(d)
    np.testing.assert_allclose(DropRogueDimensions(1).fit(X).contributions_, pair_products(X), atol=1e-10)


def test_planted_dimensions_are_dropped() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 20))
    X[:, 7] += 30
    X[:, 3] -= 20
    repair = DropRogueDimensions(2).fit(X)
    assert repair.dropped_.tolist() == [7, 3]
    np.testing.assert_array_equal(repair.transform(X), np.delete(X, [3, 7], axis=1))
    assert pair_products(X[:60]).sum() > 0.9
    assert abs(pair_products(repair.transform(X)[:60]).sum()) < 0.05
    assert list(repair.get_feature_names_out()) == [f"x{i}" for i in range(20) if i not in (3, 7)]


def test_zero_rows_do_not_change_the_contributions() -> None:
    X = np.random.default_rng(0).standard_normal((30, 5)) + 1
    padded = np.concatenate([X, np.zeros((10, 5))])
    np.testing.assert_allclose(
        DropRogueDimensions().fit(padded).contributions_, DropRogueDimensions().fit(X).contributions_, atol=1e-12
    )


def test_how_many_dimensions_may_be_dropped() -> None:
    X = np.random.default_rng(0).standard_normal((30, 5))
    assert DropRogueDimensions().fit_transform(X).shape == (30, 2)
    assert DropRogueDimensions().fit_transform(X[:, :2]).shape == (30, 1)
    np.testing.assert_array_equal(DropRogueDimensions(0).fit_transform(X), X)
    with pytest.raises(ValueError, match=r"n_dimensions=5 must be .* at most d - 1 = 4"):
        DropRogueDimensions(5).fit(X)
    with pytest.raises(ValueError, match="two rows that are not zero"):
        DropRogueDimensions().fit(np.zeros((4, 5)))


def test_pca_is_scikit_learns_and_keeps_what_directions_allow() -> None:
    X = cloud(80, 10)
    ours, peer = KeepDirections(4).fit(X), PCA(4).fit(X)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(peer.transform(X)), atol=1e-9)
    # No scaling: distances among rows that lie in the directions it keeps are what they were.
    flat = X[:, :3] @ np.random.default_rng(1).standard_normal((3, 10))
    kept = KeepDirections(3).fit_transform(flat)
    np.testing.assert_allclose(np.linalg.norm(kept[0] - kept[1:], axis=1), np.linalg.norm(flat[0] - flat[1:], axis=1))
    assert KeepDirections(8).fit_transform(flat).shape == (80, 3)  # the rank is 3
    with pytest.raises(ValueError, match="n_components=11 must be at least 1 and at most the dimension d=10"):
        KeepDirections(11).fit(X)


def test_truncation_keeps_the_first_dimensions() -> None:
    X = cloud(20, 6)
    np.testing.assert_array_equal(Truncate(2).fit_transform(X), X[:, :2])
    np.testing.assert_array_equal(Truncate().fit_transform(X), X)
    matrix, bias = Truncate(2).fit(X).affine()
    np.testing.assert_array_equal(X @ matrix + bias, X[:, :2])
