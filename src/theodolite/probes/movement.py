"""Where labels go: their centroids in two or more states of one space, how far each moves, and the paths in a common plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.moments import Doubles
from theodolite.core.spectrum import fixed_signs
from theodolite.core.vectors import Vectors, array
from theodolite.metrics.resample import FEWEST_REPLICATES, FEWEST_ROWS, interval

MOST_CHOICES = 1_000_000
"""Sets of labels that `closest_labels` looks through."""


@dataclass(frozen=True)
class Movement:
    """How far the centroid of one label moved, and the same over the label's spread before (`relative`).

    `spread` is the root of the mean squared distance of the label's rows to their centroid; `low` and `high` bound `distance`.
    """

    label: Any
    distance: float
    low: float | None
    high: float | None
    relative: float
    spread: float
    n: int
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Directions:
    """How many directions the movement of the centroids takes: shares of its variance, descending, each with bounds.

    `components` (k, d) are the directions, `scores` (L, k) each label's movement along them.
    """

    labels: tuple[Any, ...]
    shares: Doubles
    low: Doubles | None
    high: Doubles | None
    components: Doubles
    scores: Doubles


@dataclass(frozen=True, eq=False)
class Paths:
    """Centroids of labels over several states, in one plane: `points` (states, labels, k), `shares` of the variance (k,)."""

    labels: tuple[Any, ...]
    points: Doubles
    shares: Doubles
    components: Doubles
    mean: Doubles


def centroids(X: Vectors, y: ArrayLike) -> tuple[tuple[Any, ...], Doubles]:
    """The labels, sorted, and the mean of the rows of each (L, d)."""
    rows = array(X)
    labels, codes = _codes(y, len(rows))
    return labels, _means(rows, codes, len(labels))


def centroid_movement(
    before: Vectors, after: Vectors, y: ArrayLike, *, bootstrap: int = 200, level: float = 0.95, seed: int = 0
) -> tuple[Movement, ...]:
    """How far each label's centroid moves between two states of the same rows, at least 0 (Zhou & Srikumar 2022).

    The interval comes from seeded half-samples of the label's rows, the same in both states (`bootstrap=0` leaves it out); a
    label with fewer than eight rows has none. A label that did not move still shows a distance from noise, of about the spread of
    its rows' movements over sqrt(n).
    """
    moved, old, labels, codes = _moved(before, after, y)
    distances = np.linalg.norm(_means(moved, codes, len(labels)), axis=1)
    offsets = old - _means(old, codes, len(labels))[codes]
    counts = np.bincount(codes)
    spreads = np.sqrt(np.bincount(codes, np.einsum("ij,ij->i", offsets, offsets)) / counts)
    halves = np.linalg.norm(_half_means(moved, codes, bootstrap, seed), axis=2)
    found = []
    for code, label in enumerate(labels):
        enough = bootstrap > 0 and counts[code] >= FEWEST_ROWS
        strayed = halves[:, code] - halves[:, code].mean() if enough else None
        low, high = interval(float(distances[code]), strayed, level=level)
        size = float(spreads[code])
        found.append(
            Movement(
                label=label,
                distance=float(distances[code]),
                low=None if low is None else max(0.0, low),
                high=high,
                relative=float(distances[code]) / size if size > 0 else math.nan,
                spread=size,
                n=int(counts[code]),
                reason="" if size > 0 else "the label's rows are one point before, so there is no spread to measure by",
            )
        )
    return tuple(found)


def movement_directions(
    before: Vectors,
    after: Vectors,
    y: ArrayLike,
    *,
    components: int = 2,
    bootstrap: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> Directions:
    """PCA of the centroids' movements between two states: shares in (0, 1]; a first share near 1 is one common direction.

    The movements are not centred: all labels moving one way is a direction too. Bounds come from half-samples of the rows of each
    label that has at least eight; the others stay as they are. Where nothing moved, the shares are nan.
    """
    moved, _, labels, codes = _moved(before, after, y)
    moves = _means(moved, codes, len(labels))
    kept = _kept(components, *moves.shape)
    shares, axes = _principal(moves, kept)
    low = high = None
    if bootstrap:
        spread = np.array([_principal(half, kept)[0] for half in _half_means(moved, codes, bootstrap, seed)])
        bounds = [interval(float(share), spread[:, i] - spread[:, i].mean(), level=level) for i, share in enumerate(shares)]
        if all(bound[0] is not None for bound in bounds):
            low, high = np.clip(np.array(bounds, dtype=np.float64).T, 0.0, 1.0)
    return Directions(labels, shares, low, high, axes, moves @ axes.T)


def centroid_paths(states: Sequence[Vectors], y: ArrayLike, *, labels: Sequence[Any] | None = None, components: int = 2) -> Paths:
    """The paths of centroids over states of the same rows (layers, steps), in the principal plane of all of them together.

    `labels` chooses whose paths: `closest_labels` names the three that are hardest to tell apart, as Zhou & Srikumar (2022) draw.
    """
    if len(states) < 2:
        raise ValueError(f"a path needs at least 2 states, there are {len(states)}; give the vectors of every step in order")
    found = [centroids(X, y) for X in states]
    known = found[0][0]
    missing = [label for label in labels or () if label not in known]
    if missing:
        raise ValueError(f"label {missing[0]!r} is none of {', '.join(map(str, known))}; choose among those")
    chosen = tuple(labels) if labels is not None else known
    widths = {points.shape[1] for _, points in found}
    if len(widths) > 1:
        raise ValueError(f"the states have {sorted(widths)} columns; a common plane needs states of one width")
    stacked = np.stack([points[[known.index(label) for label in chosen]] for _, points in found])
    mean = stacked.mean(axis=(0, 1))
    flat = (stacked - mean).reshape(-1, stacked.shape[-1])
    shares, axes = _principal(flat, _kept(components, *flat.shape))
    return Paths(chosen, (stacked - mean) @ axes.T, shares, axes, mean)


def closest_labels(labels: Sequence[Any], distances: ArrayLike, *, count: int = 3) -> tuple[Any, ...]:
    """The `count` labels whose distances to each other sum to least; of equal sums the first in order of `labels`."""
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.shape != (len(labels), len(labels)):
        raise ValueError(f"the distances of {len(labels)} labels are a square matrix of that size, not {matrix.shape}")
    if not 2 <= count <= len(labels):
        raise ValueError(f"count={count} must be at least 2 and at most the {len(labels)} labels there are")
    if math.comb(len(labels), count) > MOST_CHOICES:
        raise ValueError(f"count={count} of {len(labels)} labels gives more than {MOST_CHOICES:,} choices; ask for fewer")
    sets = np.array(list(combinations(range(len(labels)), count)))
    sums = sum(matrix[sets[:, i], sets[:, j]] for i, j in combinations(range(count), 2))
    sums = np.where(np.isfinite(sums), sums, np.inf)
    if not np.isfinite(sums).any():
        raise ValueError(f"no {count} labels have all their distances; some are nan in each choice")
    return tuple(labels[i] for i in sets[int(np.argmin(sums))])


def _moved(before: Vectors, after: Vectors, y: ArrayLike) -> tuple[Doubles, Doubles, tuple[Any, ...], NDArray[np.intp]]:
    old, new = (array(X).astype(np.float64) for X in (before, after))
    if old.shape != new.shape:
        raise ValueError(f"the states have shapes {old.shape} and {new.shape}; movement needs the same rows in the same width")
    labels, codes = _codes(y, len(old))
    return new - old, old, labels, codes


def _codes(y: ArrayLike, n: int) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    given = np.asarray(y)
    if given.shape != (n,):
        raise ValueError(f"there are {n} rows and labels of shape {given.shape}; give one label a row")
    labels, codes = np.unique(given, return_inverse=True)
    return tuple(labels.tolist()), codes


def _means(rows: Any, codes: NDArray[np.intp], count: int) -> Doubles:
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, codes, rows)
    return np.asarray(sums / np.bincount(codes, minlength=count)[:, None])


def _half_means(moved: Doubles, codes: NDArray[np.intp], count: int, seed: int) -> Doubles:
    """(count, L, d): each label's mean movement over random halves of its rows, over all of them where they are few."""
    if 0 < count < FEWEST_REPLICATES:
        raise ValueError(f"bootstrap={count} is too few for an interval; take at least {FEWEST_REPLICATES}, or 0 for none")
    generator = np.random.default_rng(seed)
    labels = int(codes.max()) + 1
    found = np.empty((count, labels, moved.shape[1]))
    for code in range(labels):
        rows = moved[codes == code]
        half = len(rows) // 2
        if len(rows) < FEWEST_ROWS:
            found[:, code] = rows.mean(axis=0)
            continue
        weights = np.zeros((count, len(rows)))
        for number in range(count):
            weights[number, generator.permutation(len(rows))[:half]] = 1 / half
        found[:, code] = weights @ rows
    return found


def _principal(points: Doubles, kept: int) -> tuple[Doubles, Doubles]:
    """(shares, axes) of the leading directions through the origin; nan shares where all points are there."""
    _, singular, axes = np.linalg.svd(points, full_matrices=False)
    variances = np.square(singular)
    total = float(variances.sum())
    shares = variances[:kept] / total if total > 0 else np.full(kept, np.nan)
    return np.asarray(shares), fixed_signs(axes[:kept].T).T


def _kept(asked: int, points: int, d: int) -> int:
    if asked < 1:
        raise ValueError(f"components={asked} must be at least 1")
    return min(asked, points, d)
