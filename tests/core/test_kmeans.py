"""K-means: against scikit-learn and a plain loop, and with fewer rows than clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theodolite.core import kmeans as module
from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.spaces import read

Array = np.ndarray[Any, Any]


def mixture(n: int, d: int, k: int, *, seed: int = 0, spread: float = 1.0) -> Array:
    random = np.random.default_rng(seed)
    centres = random.standard_normal((k, d)) * 2
    return (centres[random.integers(k, size=n)] + spread * random.standard_normal((n, d))).astype(np.float32)


def slow_labels(X: Array, centroids: Array) -> Array:
    return np.array([np.argmin(((centroids - row) ** 2).sum(axis=1)) for row in X.astype(np.float64)])


def inertia(X: Array, centroids: Array) -> float:
    return float(((X.astype(np.float64) - centroids[slow_labels(X, centroids)]) ** 2).sum())


@given(seed=st.integers(0, 1000), n=st.integers(1, 60), d=st.integers(1, 8), k=st.integers(1, 6))
def test_nearest_centroids_equal_a_plain_loop(seed: int, n: int, d: int, k: int) -> None:
    random = np.random.default_rng(seed)
    X, centroids = random.standard_normal((n, d)) + 50, random.standard_normal((k, d)) + 50
    np.testing.assert_array_equal(nearest_centroids(X, centroids), slow_labels(X, centroids))


def test_inertia_is_at_most_half_a_percent_above_scikit_learn() -> None:
    from sklearn.cluster import KMeans

    X = mixture(60_000, 64, 40, spread=2.0)
    clusters = k_means(X, 27)
    peer = KMeans(27, n_init=1, algorithm="lloyd", random_state=0).fit(X)
    exact = float(((X - clusters.centroids[nearest_centroids(X, clusters.centroids)]) ** 2).sum())
    assert exact <= 1.005 * peer.inertia_
    assert exact <= clusters.inertia * (1 + 1e-6)
    assert clusters.n_passes <= 3
    assert clusters.counts.sum() == len(X)


@pytest.mark.parametrize("seed", range(5))
def test_clusters_far_apart_are_all_found(seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = random.integers(12, size=3000)
    X = random.standard_normal((12, 20))[truth] * 20 + random.standard_normal((3000, 20))
    labels = nearest_centroids(X, k_means(X, 12, seed=seed).centroids)
    assert len(set(zip(truth, labels, strict=True))) == 12


def test_centroids_are_means_and_counts_are_true() -> None:
    X = mixture(2000, 6, 5, spread=0.1).astype(np.float64)
    clusters = k_means(X, 5)
    assert clusters.converged
    labels = slow_labels(X, clusters.centroids)
    np.testing.assert_array_equal(clusters.counts, np.bincount(labels))
    for cluster in range(5):
        np.testing.assert_allclose(clusters.centroids[cluster], X[labels == cluster].mean(axis=0), atol=1e-10)
    assert clusters.inertia == pytest.approx(inertia(X, clusters.centroids), rel=1e-9)


def test_one_cluster_is_the_mean() -> None:
    X = mixture(500, 7, 3).astype(np.float64)
    clusters = k_means(X, 1)
    np.testing.assert_allclose(clusters.centroids[0], X.mean(axis=0), atol=1e-12)
    assert clusters.inertia == pytest.approx(((X - X.mean(axis=0)) ** 2).sum())


def test_seeded_and_independent_of_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLE", 400)
    monkeypatch.setattr(module, "SAMPLE_PER_CLUSTER", 10)
    X = mixture(3000, 5, 8)
    np.save(tmp_path / "rows.npy", X)
    cuts = [X[:11], X[11:1700], X[1700:]]
    first = k_means(X, 8, seed=3).centroids
    for same in (X, cuts, lambda: iter(cuts), np.load(tmp_path / "rows.npy", mmap_mode="r"), read(tmp_path)):
        np.testing.assert_array_equal(k_means(same, 8, seed=3).centroids, first)
    assert not np.array_equal(k_means(X, 8, seed=4).centroids, first)


def test_a_large_mean_costs_only_the_rounding_of_the_rows() -> None:
    X = mixture(4000, 10, 6, spread=0.3)
    near = np.round(X * 64) / 64  # exact in float32 at either place
    here, there = k_means(near, 6), k_means(near + np.float32(4096), 6)
    np.testing.assert_allclose(there.centroids - 4096, here.centroids, atol=1e-4)
    assert there.inertia == pytest.approx(here.inertia, rel=1e-4)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000), distinct=st.integers(1, 6), k=st.integers(1, 9), dtype=st.sampled_from([np.float32, np.float64])
)
def test_fewer_distinct_rows_than_clusters(seed: int, distinct: int, k: int, dtype: type) -> None:
    random = np.random.default_rng(seed)
    points = (random.standard_normal((distinct, 3)) * 10).astype(dtype)
    X = points[np.concatenate([np.arange(distinct), random.integers(distinct, size=40)])]
    clusters = k_means(X, k, seed=seed)
    assert 1 <= len(clusters.centroids) <= min(k, distinct)
    assert (clusters.counts > 0).all()
    assert clusters.counts.sum() == len(X)
    if k >= distinct:
        assert len(clusters.centroids) == distinct
        np.testing.assert_allclose(np.sort(clusters.centroids, axis=0), np.sort(points, axis=0), rtol=1e-5, atol=1e-5)


def test_an_empty_cluster_starts_again_at_the_farthest_row() -> None:
    from theodolite.core.vectors import source

    X = np.concatenate([np.zeros((50, 2)), np.full((50, 2), 10.0), [[100.0, 0.0]]])
    start = np.array([[0.0, 0.0], [10.0, 10.0], [-500.0, -500.0]])  # the third is nearest to no row
    state = module._lloyd(source(X), np.zeros(2), start, passes=5)
    assert sorted(state.counts.tolist()) == [1, 50, 50]
    assert state.inertia == pytest.approx(0, abs=1e-9)


def test_a_single_row_and_more_clusters_than_rows() -> None:
    np.testing.assert_allclose(k_means(np.array([[1.0, 2.0]]), 27).centroids, [[1.0, 2.0]])
    assert len(k_means(np.arange(10.0).reshape(5, 2), 27).centroids) == 5


def test_wrong_arguments_are_errors() -> None:
    X = mixture(50, 3, 2)
    with pytest.raises(ValueError, match="k=0"):
        k_means(X, 0)
    with pytest.raises(ValueError, match="can be read only once"):
        k_means(iter([X]), 2)
