"""The gap between two convex hulls: whether they are disjoint, how far apart they are, and the proof of both.

Every answer has a certificate. Disjoint: a plane with all points of one set on one side and all points of the other set on the
other side. Overlapping: a point that is a convex combination of both sets. The distance is between what the plane proves (at
least this far) and what one point of each hull proves (at most this far).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.vectors import array
from theodolite.probes.compiled import Floats, Ints

# Hulls closer than this share of the scale (the largest distance of a point from the middle) touch, which counts as overlap.
TOUCHING = 1e-7

# Up to this many points with weight, least squares is quick; with the hundreds that high dimensions need, it is slow.
_FEW_POINTS = 100


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
        scale = float(np.sqrt(max(np.einsum("ij,ij->i", P, P).max(), np.einsum("ij,ij->i", Q, Q).max())))
    gap = solve_gap(P, Q, touching=TOUCHING * scale, tolerance=tolerance)
    return replace(gap, offset=gap.offset + float(gap.normal @ origin), near_a=gap.near_a + origin, near_b=gap.near_b + origin)


def solve_gap(
    A: Floats, B: Floats, *, touching: float, tolerance: float = 1e-6, decide: bool = False, start: Floats | None = None
) -> HullGap:
    """The gap between two sets of float64 rows near the origin.

    Three solvers, each slower and surer than the one before. Active sets on the few points that matter solve nearly all cases.
    If their products run out of digits, which happens in thin gaps, least squares on the points themselves goes on from there.
    If there is still neither a plane nor a common point, Newton steps on all points decide.

    Parameters
    ----------
    A, B
        The two sets, (n, d) and (m, d).
    touching
        The distance up to which hulls count as overlapping.
    tolerance
        How far the bounds may differ, as a share of the distance.
    decide
        Whether any separating plane is enough, so that the bounds need not be close.
    start
        A direction from B to A that nearly separates them; by default from mean to mean.
    """
    from theodolite.probes.hulls.active_set import solve_by_least_squares
    from theodolite.probes.hulls.newton import newton_gap
    from theodolite.probes.hulls.working_set import UNDECIDED, nearest_points

    direction = A.mean(axis=0) - B.mean(axis=0) if start is None else start
    nearest = nearest_points(A, B, direction, touching, tolerance, enough=0.0 if decide else np.inf)
    weights_a, weights_b = _convex_weights(nearest.rows, nearest.weights, len(A), len(B))
    if nearest.verdict != UNDECIDED:
        return _certified_gap(A, B, nearest.normal, weights_a, weights_b, touching)
    if decide:
        tolerance = np.inf
    # The working set's own upper bound may be that of an earlier round: what counts is what these weights show.
    upper = float(np.linalg.norm(weights_a @ A - weights_b @ B))
    best = _Best(nearest.lower, upper, nearest.normal, weights_a, weights_b)
    if np.count_nonzero(nearest.weights) <= _FEW_POINTS and not best.is_enough(touching, tolerance):
        better = solve_by_least_squares(A, B, best.weights_a, best.weights_b, touching=touching, tolerance=tolerance)
        best = best.improved_by(*better)
    if not best.is_enough(touching, tolerance):
        better = newton_gap(A, B, touching=touching, start=best.normal, tolerance=tolerance)[1:]
        best = best.improved_by(*better)
    return _certified_gap(A, B, best.normal, best.weights_a, best.weights_b, touching)


def gap_bounds(A: Floats, B: Floats, touching: float, tolerance: float) -> tuple[float, float]:
    """Lower and upper bound of the distance between two hulls; a lower bound of 0 means that they overlap.

    Parameters
    ----------
    A, B, touching, tolerance
        As in `solve_gap`.
    """
    gap = solve_gap(A, B, touching=touching, tolerance=tolerance)
    return gap.lower, gap.upper


def separating_plane(A: Floats, B: Floats, touching: float, start: Floats | None) -> Floats | None:
    """The normal of a plane that separates two sets strictly, or None if their hulls overlap.

    Parameters
    ----------
    A, B, touching
        As in `solve_gap`.
    start
        The normal of a plane that nearly separates them, if one is known.
    """
    # From a plane that nearly separates, Newton steps are fastest, unless there are fewer points than dimensions.
    if start is not None and len(A) + len(B) > A.shape[1]:
        from theodolite.probes.hulls.newton import newton_gap

        verdict, _, _, normal, _, _ = newton_gap(A, B, touching=touching, start=start)
        if verdict != 0:
            return normal if verdict > 0 else None
    gap = solve_gap(A, B, touching=touching, decide=True, start=start)
    return None if gap.overlap else gap.normal


@dataclass(frozen=True, eq=False)
class _Best:
    """The best bounds so far, with the plane and the weights that prove them."""

    lower: float
    upper: float
    normal: Floats
    weights_a: Floats
    weights_b: Floats

    def is_enough(self, touching: float, tolerance: float) -> bool:
        return self.upper <= touching or (self.lower > touching and self.upper - self.lower <= tolerance * self.upper)

    def improved_by(self, lower: float, upper: float, normal: Floats, weights_a: Floats, weights_b: Floats) -> _Best:
        plane = (lower, normal) if lower > self.lower else (self.lower, self.normal)
        points = (upper, weights_a, weights_b) if upper < self.upper else (self.upper, self.weights_a, self.weights_b)
        return _Best(plane[0], points[0], plane[1], points[1], points[2])


def _convex_weights(rows: Ints, weights: Floats, n_a: int, n_b: int) -> tuple[Floats, Floats]:
    """Weights of a working set as weights of all rows of A and of B, each set's summing to 1."""
    all_weights = np.zeros(n_a + n_b)
    all_weights[rows] = np.maximum(weights[: len(rows)], 0.0)
    weights_a, weights_b = all_weights[:n_a], all_weights[n_a:]
    return weights_a / weights_a.sum(), weights_b / weights_b.sum()


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
