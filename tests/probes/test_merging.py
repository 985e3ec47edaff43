"""The clusters are those of plain greedy merging."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hull_oracles import as_partition, cloud, greedy_partition, share_a_point

from theodolite.probes.cluster_forest import fewest_clusters, new_forest
from theodolite.probes.cluster_merging import _PairwiseMerger
from theodolite.probes.direct_probe import DirectProbe
from theodolite.probes.shared_planes import PlaneMerger


def corners(n: int, d: int = 2, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Exclusive or: four clouds at the corners of a square, opposite ones with the same label."""
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
def test_clusters_are_those_of_plain_greedy_merging(n: int, d: int, labels: int, apart: float, seed: int) -> None:
    X, y = cloud(n, d, labels, apart=apart, seed=seed)
    probe = DirectProbe().fit(X, y)
    assert as_partition(probe.clusters_) == set(greedy_partition(X, y))
    assert probe.is_linear_ == (probe.n_clusters_ == labels) and probe.n_overlaps_ == 0


def test_labels_with_the_same_mean_merge_in_high_dimensions_too() -> None:
    X = np.zeros((4, 70))
    X[:, :2] = [[0, 0], [1, 1], [0, 1], [1, 0]]
    y = np.array([0, 0, 1, 1])
    assert as_partition(DirectProbe().fit(X, y).clusters_) == set(greedy_partition(X, y))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "labels"), [(150, 65, 2), (200, 66, 3)])
def test_clusters_in_many_dimensions(n: int, d: int, labels: int) -> None:
    """More points than planes can separate, in dimensions in which the merging uses shared planes."""
    X, y = cloud(n, d, labels, apart=0.05, seed=n)
    y[: n * 3 // 4] = np.arange(n * 3 // 4) % 2  # two labels of many points each
    probe = DirectProbe().fit(X, y)
    assert as_partition(probe.clusters_) == set(greedy_partition(X, y))
    assert not probe.is_linear_ and probe.n_overlaps_ == 0


@pytest.mark.parametrize("seed", range(6))
def test_clusters_with_copies_and_with_points_that_two_labels_share(seed: int) -> None:
    X, y = cloud(24, 2, 2, apart=0.8, seed=seed)
    X = np.concatenate([X, X[:4], X[4:7]])
    y = np.concatenate([y, y[:4], 1 - y[4:7]])
    probe = DirectProbe().fit(X, y)
    assert as_partition(probe.clusters_) == set(greedy_partition(X, y))
    for row, copy in zip(range(4, 7), range(28, 31), strict=True):
        # A point that another label has too cannot be in a hull with anything else.
        assert (probe.clusters_ == probe.clusters_[row]).sum() == (probe.clusters_ == probe.clusters_[copy]).sum() == 1
    assert probe.n_overlaps_ == 3


@pytest.mark.parametrize(("n", "d"), [(60, 2), (40, 5), (150, 65)])
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_merging_that_is_stopped_has_bounds_around_the_number_of_clusters(n: int, d: int, steps: int) -> None:
    X, y = cloud(n, d, 3, apart=0.3 if d < 10 else 0.0, seed=n)
    X[:2], y[:2] = X[0], (0, 1)  # a point of two labels
    if d > 10:
        y[: n * 3 // 4] = np.arange(n * 3 // 4) % 2
    overlaps = ~np.eye(3, dtype=bool)
    order = np.argsort(y, kind="stable")
    forest = new_forest(X[order] - X.mean(axis=0), y[order], overlaps)
    merger = (PlaneMerger if d > 10 else _PairwiseMerger)(forest, 1e-9)
    for _ in range(steps):
        merger.go_on()
    whole = DirectProbe().fit(X, y)
    states = int(merger.forest.alive.sum())
    assert fewest_clusters(merger.forest) <= whole.n_clusters_ <= states


def test_a_budget_of_zero_leaves_the_answer_to_linearity_exact() -> None:
    X, y = cloud(60, 3, 4, apart=6.0, seed=1)
    X[y == 1] = X[y == 0][:1] + 0.1 * X[y == 1]  # one label inside another, two that are apart
    whole, stopped = DirectProbe().fit(X, y), DirectProbe(budget=0.0).fit(X, y)
    assert not stopped.is_linear_ and not whole.is_linear_ and stopped.unfinished_.tolist() == [0, 1]
    assert 5 <= stopped.fewest_clusters_ <= whole.n_clusters_ == whole.fewest_clusters_ < stopped.n_clusters_
    # What does not depend on the merging is as it was; what does is not there.
    np.testing.assert_allclose(stopped.label_distances_[2, 3], whole.label_distances_[2, 3], rtol=2e-6)
    assert np.isnan(stopped.label_distances_[0]).all() and not len(whole.unfinished_)
    assert "between 5 and" in stopped.verdict() and "stopped after 0 s" in stopped.verdict()


@pytest.mark.parametrize("d", [3, 70])
def test_time_that_is_over_stops_before_the_next_solve(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cloud(150, d, 2, apart=0.0, seed=1)
    looks = itertools.count()

    def fitted(budget: float) -> DirectProbe:
        """With a clock that goes one second further at every look."""
        nonlocal looks
        looks = itertools.count()
        clock = SimpleNamespace(time=lambda: float(next(looks)))
        for module in ("direct_probe", "cluster_merging", "shared_planes", "hulls.gap"):
            monkeypatch.setattr(f"theodolite.probes.{module}.time", clock)
        return DirectProbe(budget=budget, n_jobs=1).fit(X, y)

    whole = fitted(1e9)
    last = next(looks)
    seen = set()
    for budget in (*range(0, last, last // 8 + 1), last - 3, last + 1):
        stopped = fitted(budget)
        assert stopped.fewest_clusters_ <= whole.n_clusters_ <= stopped.n_clusters_ and not stopped.is_linear_
        seen.add((len(stopped.unfinished_), len(stopped.unmeasured_)))
        if not len(stopped.unfinished_):
            assert as_partition(stopped.clusters_) == as_partition(whole.clusters_)
            # What was measured is what it is without a budget; of the rest nothing is said.
            pairs = {(i, j): (lower, upper) for i, j, lower, upper in whole.cluster_distances_.tolist()}
            assert all(pairs[i, j] == (lower, upper) for i, j, lower, upper in stopped.cluster_distances_.tolist())
            assert np.isnan(stopped.minimum_distances_).all() == (len(stopped.cluster_distances_) < len(pairs))
    assert {(2, 2), (0, 2), (0, 0)} <= seen  # stopped while merging, while measuring, and not at all


def test_equal_points_of_two_labels_have_the_distances_of_each_pair() -> None:
    rng = np.random.default_rng(0)
    words = rng.standard_normal((9, 5))
    at, y = rng.integers(9, size=60), rng.integers(3, size=60)
    probe = DirectProbe().fit(words[at], y)
    table = probe.cluster_distances_
    rows = [np.flatnonzero(probe.clusters_ == cluster) for cluster in range(probe.n_clusters_)]
    labels = probe.cluster_labels_
    assert len(table) == sum(labels[i] != labels[j] for i, j in itertools.combinations(range(len(rows)), 2))
    for i, j, lower, upper in table.tolist():
        if len(rows[i]) == len(rows[j]) == 1:
            assert lower == upper == pytest.approx(np.linalg.norm(words[at[rows[i][0]]] - words[at[rows[j][0]]]), abs=1e-12)
    assert probe.n_overlaps_ == int((table["upper"] == 0).sum()) > 100


def test_the_clouds_are_of_both_kinds() -> None:
    """Otherwise the tests above would cover only one half of the program."""
    linear = [DirectProbe().fit(*cloud(n, d, k, apart=apart, seed=seed)).is_linear_ for n, d, k, apart, seed in CLOUDS]
    assert 5 <= sum(linear) <= len(linear) - 5


@pytest.mark.parametrize(("n", "d"), [(60, 2), (200, 6), (120, 70)])
def test_exclusive_or_takes_three_clusters(n: int, d: int) -> None:
    X, y = corners(n, d)
    probe = DirectProbe().fit(X, y)
    sides = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    clusters = as_partition(probe.clusters_)
    if d == 2:
        assert probe.n_clusters_ == 3 and not probe.is_linear_
        assert sum(len({sides[row] for row in cluster}) == 1 for cluster in clusters) == 2  # one label whole, the other in halves
    assert all(
        not share_a_point(X[sorted(first)], X[sorted(second)])
        for first, second in itertools.combinations(clusters, 2)
        if y[min(first)] != y[min(second)]
    )
    assert probe.score(X, y) == 1.0


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
    shuffled = DirectProbe().fit(X[order], y[order])
    assert as_partition(probe.clusters_[order]) == as_partition(shuffled.clusters_)
    np.testing.assert_allclose(shuffled.label_distances_, probe.label_distances_, rtol=2e-6)
