"""The gap between two convex hulls, or between a point and a hull: whether there is one, how wide it is, and the proof of both.

Every answer has a certificate. Disjoint: a plane with all points of one set on one side and all points of the other set on the
other side. Overlapping: a point that is a convex combination of both sets. The distance is between what the plane proves (at
least this far) and what one point of each hull proves (at most this far).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.engines import in_parallel
from theodolite.core.parallel import Progress
from theodolite.core.vectors import array
from theodolite.probes.hulls.active_set import Floats, Ints, solve_by_blocks
from theodolite.probes.hulls.fallback_solvers import Proof, is_decided, mend_plane, solve_by_least_squares, solve_by_newton
from theodolite.probes.hulls.working_set import OVERLAPPING, UNDECIDED, nearest_points

Pair: TypeAlias = tuple[int, int]
_Products: TypeAlias = tuple[Floats, Floats, Floats]
# Hulls closer than this share of the scale (the largest distance of a point from the middle) touch, which counts as overlap.
TOUCHING = 1e-7

_BLOCK = 16_384  # pairs of points whose differences are in memory at a time

# Up to this many points with weight, least squares is quick; with the hundreds that high dimensions need, it is slow.
_FEW_POINTS = 100

# Up to this many points, the table of the products of all points with all is computed once for all pairs of hulls; up to this
# dimension, products cost so little that compiled code is faster without it.
_MAX_SHARED_POINTS, _MIN_SHARED_DIMENSION = 2_000, 256


@dataclass(frozen=True, eq=False)
class HullGap:
    """The distance between two hulls, with what proves it.

    Parameters
    ----------
    lower, upper
        Bounds of the distance, proved by the plane and by the two points; `lower` is 0 if the hulls overlap.
    normal, offset
        The plane {x : normal . x = offset}, halfway between the hulls. `normal` points from B to A and has length 1, or is all
        zeros if the hulls overlap.
    near_a, near_b
        The nearest points of the two hulls.
    weights_a, weights_b
        The convex weights of the rows of A and of B that give `near_a` and `near_b`.
    touching
        The distance up to which hulls count as overlapping.
    """

    lower: float
    upper: float
    normal: Floats
    offset: float
    near_a: Floats
    near_b: Floats
    weights_a: Floats
    weights_b: Floats
    touching: float

    @property
    def overlap(self) -> bool:
        """Whether the hulls have a point in common, within `touching`."""
        return self.lower <= 0.0


def hull_gap(A: ArrayLike, B: ArrayLike, *, tolerance: float = 1e-6, scale: float | None = None) -> HullGap:
    """The distance between the convex hulls of the rows of A and of B, at least 0, with both bounds and the proof of each.

    Parameters
    ----------
    A, B
        Two sets of points, (n, d) and (m, d), at least one point each.
    tolerance
        How far the bounds may differ, as a share of the distance. If rounding does not allow it, they differ by more; they hold
        in any case, up to the rounding of one product of the plane with the points.
    scale
        The length that `TOUCHING` is a share of; by default the largest distance of a point from the middle of all points.

    Returns
    -------
    HullGap
        The bounds, the separating plane, and the two nearest points with their weights.

    Raises
    ------
    ValueError
        A set is empty, is not finite, or has another number of columns than the other set.

    Examples
    --------
    >>> gap = hull_gap([[0.0, 0.0], [0.0, 2.0]], [[3.0, 1.0], [5.0, 1.0]])
    >>> round(gap.lower, 9), round(gap.upper, 9), gap.overlap
    (3.0, 3.0, False)
    """
    P, Q = (np.ascontiguousarray(array(points), dtype=np.float64) for points in (A, B))
    if P.shape[1] != Q.shape[1]:
        raise ValueError(f"the sets have {P.shape[1]} and {Q.shape[1]} dimensions; both must have the same number of columns")
    # Near the origin the products keep their digits, however far away the sets are.
    origin = 0.5 * (P.mean(axis=0) + Q.mean(axis=0))
    P, Q = P - origin, Q - origin
    if scale is None:
        scale = max(largest_norm(P), largest_norm(Q))
    gap = solve_gap(P, Q, touching=TOUCHING * scale, tolerance=tolerance)
    return replace(gap, offset=gap.offset + float(gap.normal @ origin), near_a=gap.near_a + origin, near_b=gap.near_b + origin)


def solve_gap(
    A: Floats, B: Floats, *, touching: float, tolerance: float = 1e-6, decide: bool = False, start: Floats | None = None
) -> HullGap:
    """The gap between two sets of float64 rows near the origin.

    Three solvers, each slower and surer than the one before. Active sets on the few points that matter solve nearly all cases.
    If their products run out of digits, which happens in thin gaps, least squares on the points themselves goes on from there.
    If there is still neither a plane nor a common point, Newton steps on all points decide.
    """
    direction = A.mean(axis=0) - B.mean(axis=0) if start is None else start
    nearest = nearest_points(A, B, direction, touching, tolerance, enough=0.0 if decide else np.inf)
    # The weights of the working set as weights of all rows, each set's summing to 1.
    weights = np.zeros(len(A) + len(B))
    weights[nearest.rows] = np.maximum(nearest.weights[: len(nearest.rows)], 0.0)
    weights_a, weights_b = weights[: len(A)] / weights[: len(A)].sum(), weights[len(A) :] / weights[len(A) :].sum()
    if nearest.verdict != UNDECIDED:
        return _certified_gap(A, B, nearest.normal, weights_a, weights_b, touching)
    if decide:
        tolerance = np.inf
    # The working set's own upper bound may be that of an earlier round: what counts is what these weights show.
    upper = float(np.linalg.norm(weights_a @ A - weights_b @ B))
    best = Proof(nearest.lower, upper, nearest.normal, weights_a, weights_b)
    if np.count_nonzero(nearest.weights) <= _FEW_POINTS and not is_decided(best.lower, best.upper, touching, tolerance):
        best = best.improved_by(solve_by_least_squares(A, B, weights_a, weights_b, touching=touching, tolerance=tolerance))
    if not is_decided(best.lower, best.upper, touching, tolerance):
        best = best.improved_by(solve_by_newton(A, B, touching=touching, start=best.normal, tolerance=tolerance))
    return _certified_gap(A, B, best.normal, best.weights_a, best.weights_b, touching)


def pair_bounds(
    hulls: Sequence[Floats],
    pairs: Ints,
    touching: float,
    tolerance: float,
    n_jobs: int | None,
    progress: Progress | None,
    deadline: float = np.inf,
) -> Floats:
    """(pairs, 2): lower and upper bound of the distance of each pair of hulls; a lower bound of 0 means that they overlap."""

    def bounds(task: tuple[Floats, Floats, _Products | None]) -> tuple[float, float]:
        A, B, products = task
        if time.time() > deadline:
            return np.nan, np.nan
        if products is not None:
            gap = _gap_by_products(A, B, products, touching)
            if gap is not None and gap.upper - gap.lower <= tolerance * gap.upper:
                return gap.lower, gap.upper
        gap = solve_gap(A, B, touching=touching, tolerance=tolerance)
        return gap.lower, gap.upper

    sizes = np.array([len(hull) for hull in hulls])
    is_single = (sizes[pairs] == 1).all(axis=1)
    solved = np.empty((len(pairs), 2))
    solved[is_single] = _distances_of_points(hulls, pairs[is_single], touching)
    wide = [(int(i), int(j)) for i, j in pairs[~is_single]]
    # A task is its two hulls and their products, so that no more than those travel to a worker.
    products = _products_of_pairs(hulls, wide)
    tasks = [(hulls[i], hulls[j], of_pair) for (i, j), of_pair in zip(wide, products, strict=True)]
    solved[~is_single] = list(in_parallel(bounds, tasks, n_jobs=n_jobs, progress=progress)) or np.empty((0, 2))
    return solved


def _distances_of_points(hulls: Sequence[Floats], pairs: Ints, touching: float) -> Floats:
    """(pairs, 2): the bounds of the distance of each pair of hulls of one point, which is exact."""
    points, places = np.unique(pairs, return_inverse=True)
    table = np.concatenate([hulls[point] for point in points]) if len(points) else np.empty((0, 1))
    places = places.reshape(pairs.shape)
    upper = np.empty(len(pairs))
    for start in range(0, len(pairs), _BLOCK):
        apart = table[places[start : start + _BLOCK, 0]] - table[places[start : start + _BLOCK, 1]]
        upper[start : start + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return np.stack([np.where(upper <= touching, 0.0, upper), upper], axis=1)


def _products_of_pairs(hulls: Sequence[Floats], pairs: Sequence[Pair]) -> list[_Products | None]:
    """The products of the points of each pair, computed once for all pairs; None where it is better to do without."""
    dimension, ends = hulls[0].shape[1], np.cumsum([0, *map(len, hulls)])
    is_small = [dimension > _MIN_SHARED_DIMENSION and len(hulls[i]) + len(hulls[j]) <= dimension for i, j in pairs]
    if not any(is_small) or ends[-1] > _MAX_SHARED_POINTS:
        return [None] * len(pairs)
    points = np.concatenate(hulls)
    table = points @ points.T
    parts = [slice(start, end) for start, end in pairwise(ends)]
    return [
        (table[parts[i], parts[i]], table[parts[i], parts[j]], table[parts[j], parts[j]]) if small else None
        for (i, j), small in zip(pairs, is_small, strict=True)
    ]


def _gap_by_products(A: Floats, B: Floats, products: _Products, touching: float) -> HullGap | None:
    """The gap between two sets of no more points than dimensions, from the products of all their points; None if not found."""
    n = len(A)
    K = np.empty((n + len(B), n + len(B)))
    # A constant of the size of the products inside each set, as in `active_set`; never 0, so that K can be inverted.
    ridge = float(np.trace(products[0]) + np.trace(products[2])) / len(K) + touching * touching
    K[:n, :n], K[:n, n:], K[n:, n:] = products[0] + ridge, -products[1], products[2] + ridge
    K[n:, :n] = K[:n, n:].T
    first = (np.arange(len(K)) < n).astype(np.float64)
    weights = np.zeros(len(K))
    if not solve_by_blocks(K, first, 1.0 - first, weights, np.ones(len(K), dtype=np.bool_)):
        return None
    weights_a, weights_b = weights[:n] / weights[:n].sum(), weights[n:] / weights[n:].sum()
    return _certified_gap(A, B, weights_a @ A - weights_b @ B, weights_a, weights_b, touching)


def largest_norm(rows: Floats) -> float:
    """The largest distance of a row from the origin."""
    return float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))


def separating_plane(A: Floats, B: Floats, touching: float, start: Floats | None) -> Floats | None:
    """The normal of a plane that separates two sets strictly, or None if their hulls overlap."""
    # Newton steps are fastest, unless there are fewer points than dimensions; but often a small change of the plane is enough.
    if len(A) + len(B) > A.shape[1]:
        direction = A.mean(axis=0) - B.mean(axis=0) if start is None else start
        mended = mend_plane(A, B, touching=touching, start=direction)
        if mended is not None:
            return mended
        proof = solve_by_newton(A, B, touching=touching, start=direction, is_close=start is not None)
        if proof.lower > touching or proof.upper <= touching:
            return proof.normal if proof.lower > touching else None
    gap = solve_gap(A, B, touching=touching, decide=True, start=start)
    return None if gap.overlap else gap.normal


def hull_distances(points: Floats, hulls: list[Floats], touching: float, *, n_jobs: int | None = None) -> Floats:
    """The distance of each point to each hull, (points, hulls); 0 inside or touching."""

    def distances_of(point: Floats) -> Floats:
        return np.array([_distance(point, hull, touching) for hull in hulls])

    return np.stack(list(in_parallel(distances_of, list(points), n_jobs=n_jobs)))


def nearest_hulls(points: Floats, hulls: list[Floats], touching: float, *, n_jobs: int | None = None) -> Ints:
    """The number of the nearest hull of each point; of equally near ones the first."""
    centres = np.stack([hull.mean(axis=0) for hull in hulls])
    radii = np.array([largest_norm(hull - centre) for hull, centre in zip(hulls, centres, strict=True)])

    def nearest_of(point: Floats) -> int:
        apart = np.linalg.norm(centres - point, axis=1)
        # A hull is inside its sphere, so a hull whose sphere is further than the best so far need not be solved.
        at_least = np.maximum(apart - radii, 0.0)
        best, nearest = np.inf, -1
        for hull in np.argsort(apart, kind="stable"):  # the nearest centre is the best guess
            if at_least[hull] > best:
                continue
            distance = _distance(point, hulls[hull], touching, beyond=best)
            if distance < best or (distance == best and hull < nearest):
                best, nearest = distance, int(hull)
        return nearest

    return np.array(list(in_parallel(nearest_of, list(points), n_jobs=n_jobs)), dtype=np.int64)


def _distance(point: Floats, hull: Floats, touching: float, *, beyond: float = np.inf) -> float:
    """The distance of a point to a hull; only a lower bound if that is above `beyond`."""
    single = point[None, :]
    start = point - hull.mean(axis=0)
    nearest = nearest_points(single, hull, start, touching, 1e-9, enough=beyond, max_rounds=400)
    lower, upper = nearest.lower, nearest.upper
    if nearest.verdict == OVERLAPPING:
        return 0.0
    if nearest.verdict == UNDECIDED and upper - lower > 1e-6 * upper:
        gap = solve_gap(single, hull, touching=touching, tolerance=1e-9)
        return 0.0 if gap.overlap else 0.5 * (gap.lower + gap.upper)
    return lower if lower > beyond else 0.5 * (lower + upper)


def _certified_gap(A: Floats, B: Floats, normal: Floats, weights_a: Floats, weights_b: Floats, touching: float) -> HullGap:
    """The gap that a normal and two sets of convex weights prove, computed again from all points."""
    near_a, near_b = weights_a @ A, weights_b @ B
    upper = float(np.linalg.norm(near_a - near_b))
    length = float(np.linalg.norm(normal))
    unit = normal / length if length > 0 else np.zeros_like(normal)
    low_a, high_b = float((A @ unit).min()), float((B @ unit).max())
    lower = min(low_a - high_b, upper)  # rounding can put the plane's bound above the points'
    if length == 0 or lower <= touching:
        lower, unit = 0.0, np.zeros_like(normal)
    return HullGap(lower, upper, unit, 0.5 * (low_a + high_b), near_a, near_b, weights_a, weights_b, touching)
