"""Points and hulls: how far each point is from each hull, and which is nearest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.parallel import in_parallel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def hull_distances(
    points: Floats,
    hulls: list[Floats],
    touching: float,
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Floats:
    """The distance of each point to each hull, (points, hulls); 0 inside or touching."""

    def row(point: Floats) -> Floats:
        return np.array([_distance(point, hull, touching) for hull in hulls])

    if not len(points):
        return np.empty((0, len(hulls)))
    return np.stack(in_parallel(row, list(points), n_jobs=n_jobs, progress=progress))


def nearest_hulls(
    points: Floats,
    hulls: list[Floats],
    touching: float,
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ints:
    """The number of the nearest hull of each point; of equally near ones the first.

    A hull reaches no further towards a point than its sphere does, so most are never looked at.
    """
    centres = np.stack([hull.mean(axis=0) for hull in hulls])
    radii = np.array(
        [np.sqrt(np.einsum("ij,ij->i", hull - centre, hull - centre).max()) for hull, centre in zip(hulls, centres, strict=True)]
    )

    def nearest_of(point: Floats) -> int:
        apart = np.linalg.norm(centres - point, axis=1)
        least = np.maximum(apart - radii, 0.0)
        best, found = np.inf, -1
        for hull in np.argsort(apart, kind="stable"):  # the nearest centre is the best guess
            if least[hull] > best:
                continue
            distance = _distance(point, hulls[hull], touching, beyond=best)
            if distance < best or (distance == best and hull < found):
                best, found = distance, int(hull)
        return found

    return np.array(in_parallel(nearest_of, list(points), n_jobs=n_jobs, progress=progress), dtype=np.int64)


def _distance(point: Floats, hull: Floats, touching: float, *, beyond: float = np.inf) -> float:
    """The distance of a point to a hull; where it is above `beyond`, only a lower bound above it."""
    from theodolite.probes.corral import OVERLAPPING, UNDECIDED, nearest

    lone = point[None, :]
    start = point - hull.mean(axis=0)
    verdict, lower, upper, *_ = nearest(lone, hull, start, touching, 1e-9, enough=beyond, rounds=400)
    if verdict == OVERLAPPING:
        return 0.0
    if verdict == UNDECIDED and upper - lower > 1e-6 * upper:
        from theodolite.probes.hulls import solve_gap

        found = solve_gap(lone, hull, touching=touching, tolerance=1e-9)
        return 0.0 if found.overlap else 0.5 * (found.lower + found.upper)
    return lower if lower > beyond else 0.5 * (lower + upper)
