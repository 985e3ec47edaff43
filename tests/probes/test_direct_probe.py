"""DirectProbe: the partition of the plain greedy, distances with proof, labels by the nearest hull."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hull_oracles import as_partition, cloud, greedy_partition, share_a_point
from scipy.spatial.distance import pdist

from theodolite.probes.direct import DirectProbe
from theodolite.probes.hulls import hull_gap


def corners(n: int, d: int = 2, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Exclusive or: four heaps at the corners of a square, opposite ones with the same label."""
    random = np.random.default_rng(seed)
    signs = random.choice([-1, 1], (n, 2))
    X = 0.3 * random.standard_normal((n, d))
    X[:, :2] += 2 * signs
    return X, (signs[:, 0] != signs[:, 1]).astype(int)


CLOUDS = [
    (n, d, labels, apart, seed)
    for seed, (n, d, labels, apart) in enumerate(
        itertools.chain(
            itertools.product((12, 30), (1, 2, 3, 4), (2, 3), (0.3, 1.5)),
            [(40, 2, 2, 1.0), (40, 2, 4, 1.0), (40, 3, 3, 0.0), (40, 4, 2, 0.0), (40, 1, 2, 2.0), (25, 2, 4, 4.0)],
        )
    )
]


@pytest.mark.parametrize(("n", "d", "labels", "apart", "seed"), CLOUDS)
def test_partition_is_that_of_the_plain_greedy(n: int, d: int, labels: int, apart: float, seed: int) -> None:
    X, y = cloud(n, d, labels, apart=apart, seed=seed)
    probe = DirectProbe().fit(X, y)
    assert as_partition(probe.clusters_) == set(greedy_partition(X, y))
    assert probe.is_linear_ == (probe.n_clusters_ == labels) and probe.n_overlaps_ == 0


@pytest.mark.parametrize(("n", "d", "labels"), [(150, 65, 2), (190, 80, 2), (200, 66, 3)])
def test_partition_in_many_dimensions(n: int, d: int, labels: int) -> None:
    """Above what planes can part, where the search takes other ways than in few dimensions."""
    X, y = cloud(n, d, labels, apart=0.05, seed=n)
    y[: n * 3 // 4] = np.arange(n * 3 // 4) % 2  # two labels of many points each
    probe = DirectProbe().fit(X, y)
    assert as_partition(probe.clusters_) == set(greedy_partition(X, y))
    assert not probe.is_linear_ and probe.n_overlaps_ == 0


@pytest.mark.parametrize("seed", range(6))
def test_partition_with_copies_and_with_points_that_two_labels_share(seed: int) -> None:
    X, y = cloud(24, 2, 2, apart=0.8, seed=seed)
    X = np.concatenate([X, X[:4], X[4:7]])
    y = np.concatenate([y, y[:4], 1 - y[4:7]])
    probe = DirectProbe().fit(X, y)
    assert as_partition(probe.clusters_) == set(greedy_partition(X, y))
    for one, two in zip(range(4, 7), range(28, 31), strict=True):
        # A point that another label has too cannot be in a hull with anything else.
        assert (probe.clusters_ == probe.clusters_[one]).sum() == (probe.clusters_ == probe.clusters_[two]).sum() == 1
    assert probe.n_overlaps_ == 3


def test_clouds_come_in_both_kinds() -> None:
    """Else the tests above would try one half of the program."""
    linear = [DirectProbe().fit(*cloud(n, d, k, apart=apart, seed=seed)).is_linear_ for n, d, k, apart, seed in CLOUDS]
    assert 5 <= sum(linear) <= len(linear) - 5


@pytest.mark.parametrize(("n", "d"), [(60, 2), (200, 6), (120, 70)])
def test_exclusive_or_takes_three_clusters(n: int, d: int) -> None:
    X, y = corners(n, d)
    probe = DirectProbe().fit(X, y)
    sides = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    found = as_partition(probe.clusters_)
    if d == 2:
        assert probe.n_clusters_ == 3 and not probe.is_linear_
        assert sum(len({sides[row] for row in cluster}) == 1 for cluster in found) == 2  # one label whole, the other in halves
    assert all(
        not share_a_point(X[sorted(one)], X[sorted(two)])
        for one, two in itertools.combinations(found, 2)
        if y[min(one)] != y[min(two)]
    )
    assert probe.score(X, y) == 1.0


@pytest.mark.parametrize(("n", "d", "labels"), [(60, 2, 3), (90, 80, 5), (40, 100, 2)])
def test_separable_labels_are_the_clusters(n: int, d: int, labels: int) -> None:
    X, y = cloud(n, d, labels, apart=20.0, seed=1)
    names = np.array(["ant", "bee", "cat", "dog", "eel"])[y]
    probe = DirectProbe().fit(X, names)
    assert probe.is_linear_ and probe.n_clusters_ == labels
    assert as_partition(probe.clusters_) == as_partition(y)
    assert probe.cluster_labels_.tolist() == probe.classes_.tolist() == sorted(set(names))
    assert (probe.predict(X) == names).all() and probe.score(X, names) == 1.0


def test_labels_of_one_point_and_two_points_with_one_place() -> None:
    probe = DirectProbe().fit([[0.0, 0.0], [3.0, 4.0], [10.0, 0.0]], ["a", "b", "c"])
    assert probe.is_linear_ and probe.label_distances_[0, 1] == pytest.approx(5)
    assert probe.inside_mean_.tolist() == probe.inside_max_.tolist() == [0, 0, 0]
    probe = DirectProbe().fit([[1.0, 2.0], [1.0, 2.0], [5.0, 2.0]], ["a", "b", "b"])
    assert probe.n_clusters_ == 3 and probe.n_overlaps_ == 1 and not probe.is_linear_
    assert probe.cluster_distances_["upper"].tolist() == pytest.approx([0, 4], abs=1e-6)
    with pytest.raises(ValueError, match="all 2 rows are the same point"):
        DirectProbe().fit([[1.0, 2.0], [1.0, 2.0]], ["a", "b"])


def test_a_lone_point_inside_another_label_splits_it() -> None:
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 24)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    X, y = np.concatenate([ring, [[0.0, 0.0]]]), np.array(["ring"] * 24 + ["lone"])
    probe = DirectProbe().fit(X, y)
    assert as_partition(probe.clusters_) == set(greedy_partition(X, y))
    assert not probe.is_linear_ and (probe.cluster_labels_ == "ring").sum() >= 2 and (probe.cluster_labels_ == "lone").sum() == 1


@pytest.mark.parametrize(("apart", "d"), [(0.5, 3), (4.0, 3), (0.3, 8)])
def test_order_of_rows_changes_nothing(apart: float, d: int) -> None:
    X, y = cloud(120, d, 3, apart=apart, seed=3)
    probe = DirectProbe().fit(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    mixed = DirectProbe().fit(X[order], y[order])
    assert as_partition(probe.clusters_[order]) == as_partition(mixed.clusters_)
    np.testing.assert_allclose(mixed.label_distances_, probe.label_distances_, rtol=2e-6)


@pytest.mark.parametrize(("apart", "d"), [(0.5, 3), (4.0, 3), (0.3, 8)])
def test_motion_keeps_clusters_and_scale_scales_distances(apart: float, d: int) -> None:
    X, y = cloud(120, d, 3, apart=apart, seed=3)
    Q = np.linalg.qr(np.random.default_rng(2).standard_normal((d, d)))[0]
    probe, moved = DirectProbe().fit(X, y), DirectProbe().fit(50 * X @ Q - 7, y)
    np.testing.assert_array_equal(moved.clusters_, probe.clusters_)
    np.testing.assert_array_equal(moved.cluster_distances_["i"], probe.cluster_distances_["i"])
    np.testing.assert_allclose(moved.cluster_distances_["upper"], 50 * probe.cluster_distances_["upper"], rtol=3e-6)
    np.testing.assert_allclose(moved.label_distances_, 50 * probe.label_distances_, rtol=3e-6)
    np.testing.assert_allclose(moved.inside_max_, 50 * probe.inside_max_, rtol=1e-9)


def test_single_precision_gives_the_clusters_of_its_double() -> None:
    X, y = cloud(100, 4, 3, apart=0.5, seed=4)
    one, two = DirectProbe().fit(X.astype(np.float32), y), DirectProbe().fit(X.astype(np.float32).astype(np.float64), y)
    np.testing.assert_array_equal(one.clusters_, two.clusters_)
    np.testing.assert_array_equal(one.cluster_distances_, two.cluster_distances_)


@pytest.mark.parametrize(("apart", "d"), [(0.6, 3), (6.0, 80)])
def test_cluster_distances_are_those_of_the_hulls(apart: float, d: int) -> None:
    X, y = cloud(80, d, 3, apart=apart, seed=5)
    probe = DirectProbe().fit(X, y)
    table = probe.cluster_distances_
    different = [(i, j) for i, j in itertools.combinations(range(probe.n_clusters_), 2) if differ(probe, i, j)]
    assert list(zip(table["i"].tolist(), table["j"].tolist(), strict=True)) == different
    for i, j, lower, upper in table.tolist():
        gap = hull_gap(X[probe.clusters_ == i], X[probe.clusters_ == j])
        assert 0 < lower <= upper <= lower * (1 + 2e-6)
        assert max(lower, gap.lower) <= min(upper, gap.upper) * (1 + 1e-9)  # both hold the one distance


def differ(probe: DirectProbe, i: int, j: int) -> bool:
    return bool(probe.cluster_labels_[i] != probe.cluster_labels_[j])


@pytest.mark.parametrize(("how", "summary"), [("mean", np.mean), ("minimum", np.min)])
def test_label_distances_from_cluster_distances(how: Any, summary: Any) -> None:
    X, y = cloud(90, 3, 3, apart=0.6, seed=6)
    probe = DirectProbe(label_distance=how).fit(X, y)
    assert not probe.is_linear_
    table = probe.cluster_distances_
    for name, matrix in (("lower", probe.label_lower_), ("upper", probe.label_upper_)):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.isnan(np.diag(matrix)).all()
        for a, b in itertools.combinations(range(3), 2):
            pairs = [one[name] for one in table if {probe.cluster_labels_[one["i"]], probe.cluster_labels_[one["j"]]} == {a, b}]
            assert matrix[a, b] == pytest.approx(summary(pairs), rel=1e-12)
    np.testing.assert_allclose(probe.minimum_distances_, np.nanmin(probe.label_distances_, axis=1))
    assert (probe.label_lower_ <= probe.label_upper_)[~np.eye(3, dtype=bool)].all()


def test_given_clusters_are_measured_as_they_are() -> None:
    X, y = cloud(90, 3, 3, apart=0.6, seed=7)
    probe = DirectProbe().fit(X, y)
    again = DirectProbe().fit(X, y, clusters=[f"c{number}" for number in probe.clusters_])
    assert as_partition(again.clusters_) == as_partition(probe.clusters_)
    np.testing.assert_allclose(again.label_distances_, probe.label_distances_, rtol=2e-6)
    # Followed to another state: the same clusters, other distances.
    moved = DirectProbe().fit(X + 30 * np.eye(3)[y], y, clusters=probe.clusters_)
    np.testing.assert_array_equal(moved.clusters_, probe.clusters_)
    assert (moved.minimum_distances_ > probe.minimum_distances_ + 5).all()


def test_given_clusters_that_overlap_have_distance_zero_and_are_counted() -> None:
    X, y = cloud(90, 2, 3, apart=0.1, seed=8)
    probe = DirectProbe().fit(X, y, clusters=y)
    assert probe.n_overlaps_ == sum(share_a_point(X[y == a], X[y == b]) for a, b in itertools.combinations(range(3), 2)) == 3
    assert (probe.cluster_distances_["lower"] == 0).all()
    np.testing.assert_allclose(probe.cluster_distances_["upper"], 0, atol=1e-6)
    assert "3 pairs of clusters overlap" in probe.verdict()
    assert DirectProbe().fit(X, y).n_overlaps_ == 0


def test_small_clusters_can_be_left_out_of_the_distances() -> None:
    X = np.array([[0.0], [1.0], [2.0], [10.0], [20.0], [21.0], [30.0]])
    y = ["a", "a", "a", "b", "c", "c", "b"]
    every, large = DirectProbe().fit(X, y), DirectProbe(min_cluster_size=2).fit(X, y)
    np.testing.assert_array_equal(every.clusters_, large.clusters_)
    assert every.cluster_sizes_.tolist() == [3, 1, 1, 2]
    assert len(every.cluster_distances_) == 5 and len(large.cluster_distances_) == 1
    assert large.label_distances_[0, 2] == pytest.approx(18)
    assert np.isnan(large.label_distances_[1]).all() and np.isnan(large.minimum_distances_[1])
    assert large.minimum_distances_[0] == pytest.approx(18)


@pytest.mark.parametrize(("apart", "d"), [(0.6, 3), (0.2, 2), (2.0, 80)])
def test_prediction_is_the_nearest_hull(apart: float, d: int) -> None:
    X, y = cloud(100, d, 3, apart=apart, seed=9)
    probe = DirectProbe().fit(X, y)
    asked = np.concatenate([1.5 * np.random.default_rng(10).standard_normal((40, d)), X[:10]])
    table = probe.distances(asked)
    assert table.shape == (50, probe.n_clusters_) and (table >= 0).all()
    np.testing.assert_array_equal(probe.predict(asked), probe.cluster_labels_[table.argmin(axis=1)])
    for row, cluster in itertools.product(range(0, 50, 7), range(min(probe.n_clusters_, 6))):
        gap = hull_gap(asked[row : row + 1], X[probe.clusters_ == cluster])
        assert gap.lower * (1 - 1e-6) - 1e-7 <= table[row, cluster] <= gap.upper * (1 + 1e-6) + 1e-7
    assert probe.score(X, y) == 1.0
    assert (table[40:][np.arange(10), probe.clusters_[:10]] == 0).all()  # its own points lie in a hull


def test_inside_distances_are_those_of_all_pairs() -> None:
    X, y = cloud(150, 3, 3, apart=0.8, seed=11)
    probe = DirectProbe().fit(X + 1000, y)
    for cluster in range(probe.n_clusters_):
        rows = X[probe.clusters_ == cluster]
        between = pdist(rows) if len(rows) > 1 else np.zeros(1)
        assert probe.inside_mean_[cluster] == pytest.approx(between.mean(), rel=1e-9, abs=1e-12)
        assert probe.inside_max_[cluster] == pytest.approx(between.max(), rel=1e-9, abs=1e-12)
    refitted = probe.fit(X, np.zeros(150, dtype=int) + (X[:, 0] > 0))
    assert len(refitted.inside_max_) == refitted.n_clusters_ == 2  # nothing is left of the first fit
