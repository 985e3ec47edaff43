"""The estimated cost of DirectProbe: what is measured, what is guessed, and how it is extrapolated."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hull_oracles import cloud

from theodolite.probes import cost
from theodolite.probes.cost import estimate_cost
from theodolite.probes.direct_probe import NoSpread
from theodolite.probes.merging import label_bounds


def cross(n: int, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """XOR: the label is whether the first two signs agree."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.2, 1, (n, d)) * rng.choice([-1, 1], (n, d))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


class Clock:
    """A clock that others set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(cost, "time", SimpleNamespace(process_time=lambda: self.now))


@pytest.mark.parametrize("n", [2, 3, 40, 700])
def test_separable_labels_have_a_positive_cost(n: int) -> None:
    estimate = estimate_cost(*cloud(n, 8, 2, apart=20.0, seed=0))
    assert 0 < estimate.seconds < np.inf and 0 < estimate.megabytes < np.inf
    assert estimate.is_linear


def test_labels_that_cross_are_not_linear_and_need_more_memory() -> None:
    crossed, apart = estimate_cost(*cross(80)), estimate_cost(*cloud(80, 2, 2, apart=20.0, seed=0))
    assert not crossed.is_linear and apart.is_linear and crossed.megabytes > apart.megabytes


def test_labels_that_overlap_in_many_dimensions_have_a_cost() -> None:
    estimate = estimate_cost(*cloud(300, 70, 2, apart=0.0, seed=0))
    assert not estimate.is_linear and 0 < estimate.seconds < np.inf


def test_a_point_with_two_labels_is_an_overlap() -> None:
    X, y = cloud(40, 5, 3, apart=20.0, seed=0)
    X[np.flatnonzero(y == 2)[0]] = X[np.flatnonzero(y == 0)[0]]
    shared, is_shared = cost._shared_points(X, y)
    assert np.argwhere(shared).tolist() == [[0, 2], [2, 0]] and is_shared.sum() == 2
    assert not estimate_cost(X, y).is_linear


def test_wrong_sides_are_those_of_the_plane_between_two_means() -> None:
    X, y = cloud(90, 4, 3, apart=2.0, seed=3)
    wrong = cost._wrong_sides(X, y)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        A, B = X[y == i], X[y == j]
        within = sum((P - P.mean(axis=0)).T @ (P - P.mean(axis=0)) for P in (X[y == label] for label in range(3)))
        normal = np.linalg.solve(within, A.mean(axis=0) - B.mean(axis=0))
        middle = 0.5 * normal @ (A.mean(axis=0) + B.mean(axis=0))
        assert wrong[i, j] == wrong[j, i] == (A @ normal < middle).sum() + (B @ normal > middle).sum() > 0


@pytest.mark.parametrize("apart", [0.0, 30.0])
def test_likely_overlaps_are_those_that_are_solved(apart: float) -> None:
    X, y = cloud(120, 3, 4, apart=apart, seed=0)
    order = np.argsort(y, kind="stable")
    X, y = X[order] - X.mean(axis=0), y[order]
    hulls = [X[y == label] for label in range(4)]
    found = cost._likely_overlaps(hulls, cost._wrong_sides(X, y), np.zeros((4, 4), dtype=bool), 1e-7)
    np.testing.assert_array_equal(found, label_bounds(X, y, 1e-7, 1e-6, 1, None)[:, :, 0] <= 0)


def test_without_time_overlaps_are_guessed_from_the_rows_on_the_wrong_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "PART_SECONDS", 0.0)
    wrong = np.array([[0.0, 4.0, 2.0], [4.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    found = cost._likely_overlaps([np.eye(4)] * 3, wrong, np.zeros((3, 3), dtype=bool), 1e-7)
    assert np.argwhere(np.triu(found)).tolist() == [[0, 1]]


def test_the_pairs_that_are_timed_stand_for_small_labels_and_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    hulls = [np.zeros((size, 1)) for size in np.random.default_rng(0).integers(1, 500, 40)]

    def solve(hulls: list[np.ndarray], pairs: np.ndarray, *_: object) -> None:
        clock.now += 1e-5 * sum(len(hulls[i]) + len(hulls[j]) for i, j in pairs)

    monkeypatch.setattr(cost, "pair_bounds", solve)
    total = 1e-5 * sum(len(A) + len(B) for i, A in enumerate(hulls) for B in hulls[:i])
    assert cost._pair_seconds(hulls, 1e-7) == pytest.approx(total, rel=0.05)
    assert clock.now < 0.2 * total


def test_a_miniature_has_the_same_rows_per_dimension_and_equal_points_stay_equal() -> None:
    X, y = cloud(400, 40, 4, apart=1.0, seed=0)
    X[200:] = X[:200]
    points, numbers = cost._distinct(X)
    np.testing.assert_array_equal(points[numbers], X)
    small, labels = cost._miniature(points, numbers, y, 0.25)
    assert small.shape == (100, 10) and set(labels) == set(y)
    assert len(np.unique(small, axis=0)) == 50


def test_merging_is_extrapolated_from_the_first_long_miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    X, y = cross(4000, 100)

    def merge(rows: np.ndarray, *_: object, **__: object) -> None:
        clock.now += (len(rows) / 1000) ** 2

    monkeypatch.setattr(cost, "find_clusters", merge)
    assert cost._merge_seconds(X, y, ~np.eye(2, dtype=bool), 1e-7, 0.5) == pytest.approx(16, rel=0.01)
    assert clock.now < 4


def test_a_merging_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    progress = cost._Clock(1.0)
    progress("merging points", 1, 10)
    clock.now = 1.5
    with pytest.raises(cost._EnoughError):
        progress("merging points", 3, 10)
    assert progress.seconds() / progress.share == pytest.approx(5.0)


def test_an_estimate_leaves_the_vectors_alone() -> None:
    X, y = cross(400)
    before = X.copy()
    estimate_cost(X, y)
    np.testing.assert_array_equal(X, before)


def test_no_spread_and_wrong_input_of_an_estimate_are_named() -> None:
    with pytest.raises(NoSpread, match="all 30 rows are the same point"):
        estimate_cost(np.ones((30, 4)), np.arange(30) % 2)
    with pytest.raises(ValueError, match="3 labels for 4 rows"):
        estimate_cost(np.eye(4), [0, 1, 0])
    with pytest.raises(ValueError, match="at least two classes"):
        estimate_cost(np.eye(4), [1, 1, 1, 1])
