"""How labels move: their centroids in several states of one space, how far each moves, and their paths in a common plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.intervals import LEVEL, deviation_interval
from theodolite.core.moments import Doubles
from theodolite.core.spectrum import fixed_signs
from theodolite.core.vectors import Indices, Vectors, array
from theodolite.metrics.evaluation import FEWEST_REPLICATES, FEWEST_ROWS
from theodolite.probes.label_codes import require_match

_MAX_CHOICES = 1_000_000  # sets of labels that `closest_labels` tries


@dataclass(frozen=True)
class Movement:
    """How far the centroid of one label moved."""

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
    """The principal directions in which the centroids move."""

    labels: tuple[Any, ...]
    shares: Doubles
    low: Doubles | None
    high: Doubles | None
    components: Doubles
    scores: Doubles


@dataclass(frozen=True, eq=False)
class Paths:
    """Centroids of labels over several states, in one plane: `points` are (states, labels, k), `shares` are of the variance.

    `components` (k, d) are the axes of the plane, and `mean` is its origin.
    """

    labels: tuple[Any, ...]
    points: Doubles
    shares: Doubles
    components: Doubles
    mean: Doubles


def centroid_movement(
    before: Vectors, after: Vectors, y: ArrayLike, *, bootstrap: int = 200, level: float = LEVEL, seed: int = 0
) -> tuple[Movement, ...]:
    """How far each label's centroid moves between two states of the same rows, at least 0 (Zhou & Srikumar 2022).

    A label that did not move still shows a distance from noise, of about the spread of its rows' movements over sqrt(n).

    Parameters
    ----------
    before, after
        (n, d) vectors of the same rows in two states.
    y
        The label of each row.
    bootstrap
        Half-samples of each label's rows, the same in both states, that the intervals come from; 0 for no intervals. A label of
        fewer than eight rows has none.
    level
        Coverage of the intervals, between 0 and 1.
    seed
        Of the half-samples.
    """
    moves, old, labels, codes = _row_moves(before, after, y)
    distances = np.linalg.norm(_means(moves, codes), axis=1)
    # Spread before the movement: the unit in which a movement is large or small.
    offsets = old - _means(old, codes)[codes]
    counts = np.bincount(codes)
    spreads = np.sqrt(np.bincount(codes, np.einsum("ij,ij->i", offsets, offsets)) / counts)
    halves = np.linalg.norm(_half_means(moves, codes, bootstrap, seed), axis=2)
    movements = []
    for code, label in enumerate(labels):
        has_interval = bootstrap > 0 and counts[code] >= FEWEST_ROWS
        deviations = halves[:, code] - halves[:, code].mean() if has_interval else None
        distance, spread = float(distances[code]), float(spreads[code])
        low, high = deviation_interval(distance, deviations, level=level)
        low = None if low is None else max(0.0, low)  # a distance is not negative
        relative = distance / spread if spread > 0 else math.nan
        reason = "" if spread > 0 else "the label's rows are one point before, so there is no spread to measure by"
        movements.append(Movement(label, distance, low, high, relative, spread, int(counts[code]), reason))
    return tuple(movements)


def movement_directions(
    before: Vectors,
    after: Vectors,
    y: ArrayLike,
    *,
    components: int = 2,
    bootstrap: int = 200,
    level: float = LEVEL,
    seed: int = 0,
) -> Directions:
    """PCA of the centroids' movements between two states: shares in (0, 1]; a first share near 1 is one common direction.

    The movements are not centred: all labels moving the same way is a direction too. If nothing moved, the shares are nan.

    Parameters
    ----------
    before, after, y, level, seed
        As in `centroid_movement`.
    components
        How many directions.
    bootstrap
        Half-samples of the rows of each label that has at least eight; 0 for no bounds.
    """
    moves, _, labels, codes = _row_moves(before, after, y)
    centroid_moves = _means(moves, codes)
    shares, axes = _principal(centroid_moves, components)
    low = high = None
    if bootstrap:
        draws = np.array([_principal(half, components)[0] for half in _half_means(moves, codes, bootstrap, seed)])
        bounds = [
            deviation_interval(float(share), draw - draw.mean(), level=level) for share, draw in zip(shares, draws.T, strict=True)
        ]
        if all(bound[0] is not None for bound in bounds):
            low, high = np.clip(np.array(bounds, dtype=np.float64).T, 0.0, 1.0)
    return Directions(labels, shares, low, high, axes, centroid_moves @ axes.T)


def centroid_paths(states: Sequence[Vectors], y: ArrayLike, *, labels: Sequence[Any] | None = None, components: int = 2) -> Paths:
    """The paths of centroids over states of the same rows (layers, steps), in the principal plane of all of them together.

    Parameters
    ----------
    states
        (n, d) vectors of the same rows in at least two states, in order.
    y
        The label of each row.
    labels
        Whose paths; all by default. `closest_labels` gives the three that are hardest to separate, as Zhou & Srikumar (2022)
        draw them.
    components
        Dimensions of the plane.

    Raises
    ------
    ValueError
        There are fewer than two states, their widths differ, or a label does not occur.
    """
    if len(states) < 2:
        raise ValueError(f"a path needs at least 2 states, but there are {len(states)}; give the vectors of every step in order")
    rows = [array(X) for X in states]
    names, codes = zip(*(_codes(X, y) for X in rows), strict=True)
    missing = [label for label in labels or () if label not in names[0]]
    if missing:
        raise ValueError(f"label {missing[0]!r} does not occur; choose among {', '.join(map(str, names[0]))}")
    whose = tuple(labels) if labels is not None else names[0]
    widths = {X.shape[1] for X in rows}
    if len(widths) > 1:
        raise ValueError(f"the states have {sorted(widths)} columns; a common plane needs states of one width")
    numbers = [names[0].index(label) for label in whose]
    stacked = np.stack([_means(X, codes[0])[numbers] for X in rows])
    mean = stacked.mean(axis=(0, 1))
    shares, axes = _principal((stacked - mean).reshape(-1, stacked.shape[-1]), components)
    return Paths(whose, (stacked - mean) @ axes.T, shares, axes, mean)


def closest_labels(labels: Sequence[Any], distances: ArrayLike, *, count: int = 3) -> tuple[Any, ...]:
    """The labels whose distances to each other have the smallest sum; of equal sums the first in the order of `labels`."""
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.shape != (len(labels), len(labels)):
        raise ValueError(f"the distances of {len(labels)} labels are a square matrix of that size, not {matrix.shape}")
    if not 2 <= count <= len(labels):
        raise ValueError(f"count={count} must be at least 2 and at most the {len(labels)} labels there are")
    if math.comb(len(labels), count) > _MAX_CHOICES:
        raise ValueError(f"count={count} of {len(labels)} labels gives more than {_MAX_CHOICES:,} choices; use a smaller count")
    sets = np.array(list(combinations(range(len(labels)), count)))
    sums = sum(matrix[sets[:, i], sets[:, j]] for i, j in combinations(range(count), 2))
    sums = np.where(np.isfinite(sums), sums, np.inf)  # a choice with an undefined distance never wins
    if not np.isfinite(sums).any():
        raise ValueError(f"no {count} labels have all their distances; some are nan in each choice")
    return tuple(labels[i] for i in sets[int(np.argmin(sums))])


def _row_moves(before: Vectors, after: Vectors, y: ArrayLike) -> tuple[Doubles, Doubles, tuple[Any, ...], Indices]:
    """How each row moved, where it was, the labels, and the number of each row's label."""
    old, new = (array(X).astype(np.float64) for X in (before, after))
    if old.shape != new.shape:
        raise ValueError(f"the states have shapes {old.shape} and {new.shape}; movement needs the same rows in the same width")
    return new - old, old, *_codes(old, y)


def _codes(rows: Any, y: ArrayLike) -> tuple[tuple[Any, ...], Indices]:
    """The labels, sorted, and the number of each row's label; a single label is enough."""
    names = np.asarray(y)
    require_match(rows, names)
    labels, codes = np.unique(names, return_inverse=True)
    return tuple(labels.tolist()), codes


def _means(rows: Any, codes: Indices) -> Doubles:
    """(labels, d): the mean of each label's rows."""
    counts = np.bincount(codes)
    sums = np.zeros((len(counts), rows.shape[1]))
    np.add.at(sums, codes, rows)
    return np.asarray(sums / counts[:, None])


def _half_means(moves: Doubles, codes: Indices, count: int, seed: int) -> Doubles:
    """(count, labels, d): each label's mean movement over random halves of its rows, over all of them if they are few."""
    if 0 < count < FEWEST_REPLICATES:
        raise ValueError(f"bootstrap={count} is too few for an interval; use at least {FEWEST_REPLICATES}, or 0 for none")
    generator = np.random.default_rng(seed)  # one for all labels, so that their halves are independent
    labels = int(codes.max()) + 1
    means = np.empty((count, labels, moves.shape[1]))
    for code in range(labels):
        rows = moves[codes == code]
        half = len(rows) // 2
        if len(rows) < FEWEST_ROWS:
            means[:, code] = rows.mean(axis=0)
            continue
        weights = np.zeros((count, len(rows)))
        for number in range(count):
            weights[number, generator.permutation(len(rows))[:half]] = 1 / half
        means[:, code] = weights @ rows
    return means


def _principal(points: Doubles, components: int) -> tuple[Doubles, Doubles]:
    """(shares, axes) of the leading directions through the origin; the shares are nan if all points are there."""
    if components < 1:
        raise ValueError(f"components={components} must be at least 1")
    _, singular, axes = np.linalg.svd(points, full_matrices=False)
    variances = np.square(singular)
    total = float(variances.sum())
    shares = variances[:components] / total if total > 0 else np.full(min(components, len(variances)), np.nan)
    return np.asarray(shares), fixed_signs(axes[:components].T).T
