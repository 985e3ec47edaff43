"""Repairs inside clusters: each cluster on its own, tiny and empty ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theodolite.core.kmeans import nearest_centroids
from theodolite.repairs import ClusterRemoveDirections, ClusterZeroMean, RemoveDirections, ZeroMean
from theodolite.repairs import clusterwise as module

Array = np.ndarray[Any, Any]


def islands(n: int = 600, d: int = 8, k: int = 4, *, seed: int = 0) -> tuple[Array, Array]:
    """Rows in k clusters far apart, and the cluster of each."""
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), random.integers(k, size=n - k)])
    return random.standard_normal((k, d))[labels] * 50 + random.standard_normal((n, d)) * np.arange(1, d + 1) / d, labels


def one_by_one(X: Array, labels: Array, make: Any) -> Array:
    """A plain loop: each cluster repaired as a cloud of its own."""
    out = np.empty_like(X)
    for label in np.unique(labels):
        out[labels == label] = make().fit_transform(X[labels == label])
    return out


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), which=st.sampled_from(["top", "bottom"]), count=st.integers(0, 7))
def test_each_cluster_is_repaired_as_a_cloud_of_its_own(seed: int, which: Any, count: int) -> None:
    X, labels = islands(300, seed=seed)
    repair = ClusterRemoveDirections(4, count, which=which)
    expected = one_by_one(X, labels, lambda: RemoveDirections(count, which=which))
    np.testing.assert_allclose(repair.fit_transform(X, labels=labels), expected, atol=1e-8)
    np.testing.assert_allclose(ClusterRemoveDirections(4, count, which=which).fit_transform(X), expected, atol=1e-8)


def test_cluster_means_are_subtracted() -> None:
    X, labels = islands()
    expected = one_by_one(X, labels, ZeroMean)
    np.testing.assert_allclose(ClusterZeroMean(4).fit_transform(X), expected, atol=1e-9)
    np.testing.assert_allclose(ClusterZeroMean(4).fit_transform(X, labels=labels), expected, atol=1e-9)
    assert ClusterZeroMean(4).fit(X).counts_.sum() == len(X)


def test_one_cluster_is_the_global_repair() -> None:
    X, _ = islands()
    np.testing.assert_allclose(ClusterRemoveDirections(1, 3).fit_transform(X), RemoveDirections(3).fit_transform(X), atol=1e-9)
    np.testing.assert_allclose(ClusterZeroMean(1).fit_transform(X), ZeroMean().fit_transform(X), atol=1e-9)


def test_removing_twice_is_removing_once() -> None:
    X, labels = islands()
    repair = ClusterRemoveDirections(4, 3).fit(X, labels=labels)
    once = repair.transform(X, labels=labels)
    again = repair.transform(once + repair.means_[labels], labels=labels)
    np.testing.assert_allclose(again, once, atol=1e-9)
    for label in range(4):
        assert np.linalg.matrix_rank(once[labels == label], tol=1e-8) == 5
        np.testing.assert_allclose(once[labels == label].mean(axis=0), 0, atol=1e-9)


def test_new_rows_go_to_the_nearest_centroid_of_the_fit() -> None:
    X, _ = islands()
    repair = ClusterRemoveDirections(4, 2).fit(X)
    new = X[:50] + 0.1
    index = nearest_centroids(new, repair.centroids_)
    for row, cluster in zip(new, index, strict=True):
        moved = row - repair.means_[cluster]
        basis = repair.bases_[cluster]
        np.testing.assert_allclose(repair.transform(row[None])[0], moved - basis @ (basis.T @ moved), atol=1e-9)


def test_merging_many_runs_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = islands(3000)
    expected = ClusterRemoveDirections(4, 2).fit(X, labels=labels)
    monkeypatch.setattr(module, "FOLD_ROWS", 1)
    monkeypatch.setattr("theodolite.core.vectors.BLOCK_BYTES", 64 * 64)
    merged = ClusterRemoveDirections(4, 2).fit(X, labels=labels)
    np.testing.assert_allclose(merged.means_, expected.means_, atol=1e-12)
    np.testing.assert_allclose(
        merged.bases_ @ merged.bases_.transpose(0, 2, 1), expected.bases_ @ expected.bases_.transpose(0, 2, 1), atol=1e-8
    )


@pytest.mark.parametrize("which", ["top", "bottom"])
def test_clusters_smaller_than_their_directions(which: Any) -> None:
    X, _ = islands(100, 8, 2)
    labels = np.r_[0, 1, 1, np.full(97, 2)]  # of 1, 2 and 97 rows
    repair = ClusterRemoveDirections(3, 4, which=which).fit(X, labels=labels)
    repaired = repair.transform(X, labels=labels)
    np.testing.assert_array_equal(repair.counts_, [1, 2, 97])
    np.testing.assert_allclose(repaired[0], 0, atol=1e-9)
    np.testing.assert_allclose(repaired[1:3], X[1:3] - X[1:3].mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(repaired[3:], RemoveDirections(4, which=which).fit_transform(X[3:]), atol=1e-8)
    if which == "top":  # the others are zeros
        np.testing.assert_array_equal(np.abs(repair.bases_).sum(axis=1).astype(bool).sum(axis=1), [0, 0, 4])


@pytest.mark.parametrize(("rows", "copies", "removed"), [(3, 1, 1), (5, 1, 3), (14, 1, 12), (20, 1, 12), (3, 10, 1)])
def test_a_small_cluster_keeps_a_direction(rows: int, copies: int, removed: int) -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(rows, 30)), copies, axis=0)
    repaired = ClusterRemoveDirections(1).fit_transform(X)
    rank = np.linalg.matrix_rank(X - X.mean(axis=0), tol=1e-8)
    assert rank == rows - 1
    assert np.linalg.matrix_rank(repaired, tol=1e-8) == rank - removed >= 1
    assert np.linalg.norm(repaired, axis=1).min() > 1e-3


def test_constant_data_are_one_cluster_at_the_origin() -> None:
    X = np.full((40, 5), 3.0, np.float32)
    for repair in (ClusterZeroMean(), ClusterRemoveDirections()):
        np.testing.assert_allclose(repair.fit_transform(X), 0, atol=1e-6)
        assert len(repair.centroids_) == 1


def test_a_centroid_nearest_to_no_row_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.core.kmeans import Clusters

    X, labels = islands(200, 5, 2)
    ends = np.stack([X[labels == 0].mean(axis=0), np.full(5, 1e6), X[labels == 1].mean(axis=0)])
    stub = Clusters(centroids=ends, counts=np.ones(3, np.int64), inertia=0.0, n_passes=1, converged=True)
    monkeypatch.setattr("theodolite.repairs.clusterwise.k_means", lambda *_, **__: stub)
    repair = ClusterRemoveDirections(3, 2).fit(X)
    assert len(repair.centroids_) == len(repair.means_) == len(repair.bases_) == len(repair.classes_) == 2
    np.testing.assert_allclose(repair.transform(X), one_by_one(X, labels, lambda: RemoveDirections(2)), atol=1e-8)


def test_labels_may_be_any_integers() -> None:
    X, labels = islands()
    names = np.array([40, -3, 7, 1000])[labels]
    repair = ClusterRemoveDirections(4, 2)
    np.testing.assert_allclose(
        repair.fit_transform(X, labels=names), one_by_one(X, labels, lambda: RemoveDirections(2)), atol=1e-8
    )
    np.testing.assert_array_equal(repair.classes_, [-3, 7, 40, 1000])
    with pytest.raises(ValueError, match="label 8 did not occur in the fit"):
        repair.transform(X, labels=np.full(len(X), 8))
    with pytest.raises(ValueError, match="599 labels for 600 rows"):
        repair.fit(X, labels=labels[:-1])
    with pytest.raises(ValueError, match="one integer for each row"):
        repair.fit(X, labels=labels + 0.5)


def test_the_seed_determines_the_clusters() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6))
    first, same, other = (ClusterZeroMean(9, seed=seed).fit_transform(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)


def test_too_many_directions_or_no_cluster() -> None:
    X, _ = islands()
    with pytest.raises(ValueError, match="n_directions=8 must be"):
        ClusterRemoveDirections(2, 8).fit(X)
    with pytest.raises(ValueError, match="k=0"):
        ClusterRemoveDirections(0).fit(X)
