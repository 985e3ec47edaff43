"""Convex hulls of points: are two disjoint, how far apart, and where is the proof.

Every answer carries its certificate. Disjoint: a plane with all of one set on one side and all of the other on the other.
Overlapping: a point that is a convex combination of both. The distance lies between what the plane shows and what two points of
the hulls show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.vectors import array

Floats = NDArray[np.float64]

TOUCHING = 1e-7
"""Hulls closer than this share of the scale (the largest distance of a point from the middle) touch: that is overlap."""


@dataclass(frozen=True, eq=False)
class HullGap:
    """The distance between two hulls, in [`lower`, `upper`]; `overlap` where it is zero within `touching`.

    The plane {x : normal . x = offset} lies halfway between the hulls; `normal` points from B to A and has length 1 (0 where
    they overlap). `near_a` and `near_b` are the nearest points found, convex combinations of the rows with `weights_a` and
    `weights_b`.
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
        """Whether the hulls have a point in common, within rounding."""
        return self.lower <= 0.0


def hull_gap(A: ArrayLike, B: ArrayLike, *, tolerance: float = 1e-6, scale: float | None = None) -> HullGap:
    """The gap between the convex hulls of the rows of A and of B, at least 0, with both bounds and the proof of each.

    The bounds differ by at most `tolerance` of the distance, but where rounding forbids it; they hold in any case. `scale` is the
    length that `TOUCHING` is a share of; by default the largest distance of a point from the middle of all.

    >>> gap = hull_gap([[0.0, 0.0], [0.0, 2.0]], [[3.0, 1.0], [5.0, 1.0]])
    >>> round(gap.lower, 9), round(gap.upper, 9), gap.overlap
    (3.0, 3.0, False)
    """
    P, Q = _points(A), _points(B)
    if P.shape[1] != Q.shape[1]:
        raise ValueError(f"the sets lie in {P.shape[1]} and {Q.shape[1]} dimensions; both must have the same number of columns")
    origin = 0.5 * (P.mean(axis=0) + Q.mean(axis=0))
    P, Q = P - origin, Q - origin
    if scale is None:
        scale = float(np.sqrt(max(np.einsum("ij,ij->i", P, P).max(), np.einsum("ij,ij->i", Q, Q).max())))
    found = solve_gap(P, Q, touching=TOUCHING * scale, tolerance=tolerance)
    near_a, near_b = found.near_a + origin, found.near_b + origin
    shift = float(found.normal @ origin)
    return HullGap(
        lower=found.lower,
        upper=found.upper,
        normal=found.normal,
        offset=found.offset + shift,
        near_a=near_a,
        near_b=near_b,
        weights_a=found.weights_a,
        weights_b=found.weights_b,
        touching=found.touching,
    )


def _points(X: ArrayLike) -> Floats:
    return np.ascontiguousarray(array(X), dtype=np.float64)


def solve_gap(
    A: Floats, B: Floats, *, touching: float, tolerance: float = 1e-6, decide: bool = False, start: Floats | None = None
) -> HullGap:
    """The gap of two sets of float64 rows near the origin; with `decide`, only whether there is one.

    First active sets on the few points that matter. Where those stall, on thin gaps, least squares on the points themselves takes
    over from there; where neither plane nor common point has come out of it, Newton steps on all points decide.
    """
    from theodolite.probes.corral import UNDECIDED, nearest

    direction = A.mean(axis=0) - B.mean(axis=0) if start is None else start
    enough = 0.0 if decide else np.inf
    verdict, lower, _, normal, _, rows, weights = nearest(A, B, direction, touching, tolerance, enough=enough)
    weights_a, weights_b = spread(rows, weights, len(A), len(B))
    if verdict == UNDECIDED:
        # The working set's own upper bound may be that of an earlier round: what counts is what these weights show.
        best = _Best(lower, float(np.linalg.norm(weights_a @ A - weights_b @ B)), normal, weights_a, weights_b)
        # Least squares on a few points is quick and sharp; with the hundreds that carry weight in high dimensions it is slow.
        for solver in (_refined, _newton) if np.count_nonzero(weights) <= 100 else (_newton,):
            if not best.settles(touching, np.inf if decide else tolerance):
                best = solver(A, B, best, touching, np.inf if decide else tolerance)
        normal, weights_a, weights_b = best.normal, best.weights_a, best.weights_b
    return certified(A, B, normal, weights_a, weights_b, touching)


@dataclass(frozen=True, eq=False)
class _Best:
    """The best bounds so far, with what proves them."""

    lower: float
    upper: float
    normal: Floats
    weights_a: Floats
    weights_b: Floats

    def settles(self, touching: float, tolerance: float) -> bool:
        return self.upper <= touching or (self.lower > touching and self.upper - self.lower <= tolerance * self.upper)

    def improved(self, lower: float, upper: float, normal: Floats, weights_a: Floats, weights_b: Floats) -> _Best:
        plane = (lower, normal) if lower > self.lower else (self.lower, self.normal)
        points = (upper, weights_a, weights_b) if upper < self.upper else (self.upper, self.weights_a, self.weights_b)
        return _Best(plane[0], points[0], plane[1], points[1], points[2])


def _refined(A: Floats, B: Floats, best: _Best, touching: float, tolerance: float) -> _Best:
    from theodolite.probes.refine import refine

    return best.improved(*refine(A, B, best.weights_a, best.weights_b, touching=touching, tolerance=tolerance))


def _newton(A: Floats, B: Floats, best: _Best, touching: float, tolerance: float) -> _Best:
    from theodolite.probes.newton import newton_verdict

    return best.improved(*newton_verdict(A, B, touching=touching, start=best.normal, tolerance=tolerance)[1:])


def gap_bounds(A: Floats, B: Floats, touching: float, tolerance: float) -> tuple[float, float]:
    """Lower and upper bound of the distance of two hulls; a lower bound of 0 says that they overlap."""
    found = solve_gap(A, B, touching=touching, tolerance=tolerance)
    return found.lower, found.upper


def parting_plane(A: Floats, B: Floats, touching: float, start: Floats | None) -> Floats | None:
    """The normal of a plane that separates two sets strictly, or None where their hulls overlap; `start` nearly does."""
    if start is not None and len(A) + len(B) > A.shape[1]:
        from theodolite.probes.newton import newton_verdict

        verdict, _, _, normal, _, _ = newton_verdict(A, B, touching=touching, start=start)
        if verdict != 0:
            return normal if verdict > 0 else None
    found = solve_gap(A, B, touching=touching, decide=True, start=start)
    return None if found.overlap else found.normal


def spread(rows: NDArray[np.int64], weights: Floats, n_a: int, n_b: int) -> tuple[Floats, Floats]:
    """Weights of a working set as weights of all rows of A and of B."""
    everywhere = np.zeros(n_a + n_b)
    everywhere[rows] = np.maximum(weights[: len(rows)], 0.0)
    one, two = everywhere[:n_a], everywhere[n_a:]
    return one / one.sum(), two / two.sum()


def certified(A: Floats, B: Floats, normal: Floats, weights_a: Floats, weights_b: Floats, touching: float) -> HullGap:
    """The gap that a normal and two sets of convex weights prove, computed from all points anew."""
    near_a, near_b = weights_a @ A, weights_b @ B
    upper = float(np.linalg.norm(near_a - near_b))
    length = float(np.linalg.norm(normal))
    unit = normal / length if length > 0 else np.zeros_like(normal)
    low_a, high_b = float((A @ unit).min()), float((B @ unit).max())
    lower = min(low_a - high_b, upper)
    if length == 0 or lower <= touching:
        lower, unit = 0.0, np.zeros_like(normal)
    return HullGap(lower, upper, unit, 0.5 * (low_a + high_b), near_a, near_b, weights_a, weights_b, touching)
