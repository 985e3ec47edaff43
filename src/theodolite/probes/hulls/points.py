"""Points and hulls: how far points are from hulls, which hull is nearest, and how far the points of a cluster are apart."""

from __future__ import annotations

import numpy as np

from theodolite.core.parallel import in_parallel
from theodolite.probes.compiled import Floats, Ints
from theodolite.probes.hulls.gap import solve_gap
from theodolite.probes.hulls.working_set import OVERLAPPING, UNDECIDED, nearest_points

_BLOCK = 1024  # rows of a block of pairwise distances, the most that is in memory at a time


def hull_distances(points: Floats, hulls: list[Floats], touching: float, *, n_jobs: int | None = None) -> Floats:
    """The distance of each point to each hull, (points, hulls); 0 inside or touching.

    Parameters
    ----------
    points
        (m, d) points in the coordinates of the hulls.
    hulls
        The points of each hull, (n_i, d).
    touching
        The distance up to which a point counts as inside.
    n_jobs
        Threads, as in `theodolite.core.parallel.in_parallel`.
    """
    if not len(points):
        return np.empty((0, len(hulls)))

    def distances_of(point: Floats) -> Floats:
        return np.array([_distance(point, hull, touching) for hull in hulls])

    return np.stack(in_parallel(distances_of, list(points), n_jobs=n_jobs))


def nearest_hulls(points: Floats, hulls: list[Floats], touching: float, *, n_jobs: int | None = None) -> Ints:
    """The number of the nearest hull of each point; of equally near ones the first.

    Parameters
    ----------
    points, hulls, touching, n_jobs
        As in `hull_distances`.
    """
    centres = np.stack([hull.mean(axis=0) for hull in hulls])
    radii = np.array(
        [np.sqrt(np.einsum("ij,ij->i", hull - centre, hull - centre).max()) for hull, centre in zip(hulls, centres, strict=True)]
    )

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

    return np.array(in_parallel(nearest_of, list(points), n_jobs=n_jobs), dtype=np.int64)


def inside_distances(points: Floats) -> tuple[float, float]:
    """Mean and largest Euclidean distance of two different points; both 0 for a single point.

    Parameters
    ----------
    points
        The points of a cluster, (n, d).
    """
    n = len(points)
    if n == 1:
        return 0.0, 0.0
    points = points - points.mean(axis=0)  # a cluster far from the origin loses no digits
    norms = np.einsum("ij,ij->i", points, points)
    total = largest = 0.0
    for start in range(0, n, _BLOCK):
        block = points[start : start + _BLOCK]
        squares = norms[start : start + _BLOCK, None] + norms[start:] - 2.0 * (block @ points[start:].T)
        squares[np.tril_indices(len(block), m=squares.shape[1])] = 0.0  # each pair once
        distances = np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
        total += float(distances.sum())
        largest = max(largest, float(distances.max()))
    return 2.0 * total / (n * (n - 1)), largest


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
