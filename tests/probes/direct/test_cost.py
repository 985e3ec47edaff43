"""The estimated cost of a run: positive, extrapolated from trials, and larger for labels that must be split."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from theodolite.probes.direct import DirectProbe, NoSpread
from theodolite.probes.direct.cost import LARGE, SMALL, Cost, estimate_cost


def blobs(n: int, d: int, labels: int, *, gap: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """Linearly separable labels, in turns over the rows."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % labels
    return rng.standard_normal((n, d)) + gap * np.eye(labels, d)[y], y


def cross(n: int) -> tuple[np.ndarray, np.ndarray]:
    """XOR: the label is whether both signs agree."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.2, 1, (n, 2)) * rng.choice([-1, 1], (n, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("n", [2, 3, 20, SMALL - 1, SMALL, SMALL + 1, LARGE + 50])
def test_it_is_positive_with_fewer_rows_than_its_trials_and_with_more(n: int) -> None:
    cost = estimate_cost(*blobs(n, 8, 2))
    assert 0 < cost.seconds < np.inf and 0 < cost.megabytes < np.inf
    assert cost.is_linear


def test_a_small_cloud_is_estimated_to_be_quick_and_is() -> None:
    X, y = blobs(200, 16, 4)
    cost = estimate_cost(X, y)
    start = time.perf_counter()
    DirectProbe().fit(X, y)
    # Both are milliseconds; seconds would be a wrong order of magnitude, however busy the machine is.
    assert cost.seconds < 2 and time.perf_counter() - start < 2


def test_labels_that_cross_are_not_linear_and_take_long() -> None:
    crossed, apart = estimate_cost(*cross(40)), estimate_cost(*blobs(40, 2, 2))
    assert not crossed.is_linear and "not separable, which takes long" in str(crossed)
    assert apart.is_linear and "separable" not in str(apart)
    assert crossed.megabytes > apart.megabytes


@pytest.mark.parametrize(
    ("trial", "power"), [((1, 1), 2.0), ((1, 2**2.5), 2.5), ((1, 100), 3.0)], ids=["flat", "measured", "steep"]
)
def test_labels_that_cross_grow_with_the_square_to_the_cube(
    trial: tuple[float, float], power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = cross(2 * LARGE)
    clock(monkeypatch, trial)
    assert estimate_cost(X, y).seconds == pytest.approx(trial[1] * 2**power)


def test_separable_labels_grow_at_least_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = blobs(3 * LARGE, 4, 2)
    clock(monkeypatch, (5, 5))
    assert estimate_cost(X, y).seconds == pytest.approx(15)


def clock(monkeypatch: pytest.MonkeyPatch, trial: tuple[float, ...]) -> None:
    """A clock on which the trial runs take the given seconds."""
    ticks = iter([0.0, trial[0], 0.0, trial[1]])
    monkeypatch.setattr("theodolite.probes.direct.cost.time", SimpleNamespace(perf_counter=lambda: next(ticks)))


def test_memory_goes_with_the_size_of_the_cloud() -> None:
    narrow, wide = estimate_cost(*blobs(100, 8, 2)), estimate_cost(*blobs(100, 24, 2))
    assert wide.megabytes == pytest.approx(3 * narrow.megabytes)
    assert narrow.megabytes >= 100 * 8 * 8 / 2**20


def test_every_label_is_in_the_trials() -> None:
    X, y = blobs(5 * LARGE, 2, 2)
    y[7], X[7] = 2, X[y == 0].mean(axis=0)  # a label of one row, inside another
    assert not estimate_cost(X, y).is_linear


def test_the_trials_depend_on_the_seed_alone_and_leave_the_vectors_alone() -> None:
    X, y = cross(400)
    assert estimate_cost(X, y, seed=3).is_linear == estimate_cost(X, y, seed=3).is_linear
    before = X.copy()
    estimate_cost(X, y)
    np.testing.assert_array_equal(X, before)


def test_no_spread_passes_through() -> None:
    with pytest.raises(NoSpread, match="all 30 rows are the same point"):
        estimate_cost(np.ones((30, 4)), np.arange(30) % 2)


def test_wrong_input_is_named() -> None:
    with pytest.raises(ValueError, match="3 labels for 4 rows"):
        estimate_cost(np.eye(4), [0, 1, 0])
    with pytest.raises(ValueError, match="at least two classes"):
        estimate_cost(np.eye(4), [1, 1, 1, 1])


def test_it_reads_as_a_sentence() -> None:
    assert str(Cost(12.4, 100.2, True)) == "about 12 s and 100 MB"
    assert str(Cost(12.4, 100.2, False)) == "about 12 s and 100 MB; not separable, which takes long"
