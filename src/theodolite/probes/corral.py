"""The nearest points of the hulls of many points, found by growing the hulls of a few: each round adds what sticks out.

Few points carry the nearest ones, so the small problem stays small, and the points themselves are only multiplied by one vector a
round. Signs and Gram matrix are those of `active_set`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.active_set import invert, pivot, settle
from theodolite.probes.compiled import calling, compiled

SEPARATED, OVERLAPPING, UNDECIDED = 1, -1, 0

Floats = NDArray[np.float64]

NARROW = 256
"""Up to this dimension two hulls are solved in compiled code; above it products of whole arrays take most of the time anyway."""


def sticking_out(values: Floats, taken: NDArray[np.bool_], level: float, most: int) -> NDArray[np.int64]:
    """Places of at most `most` of the smallest values below `level`, those taken left out."""
    below = np.flatnonzero((values < level) & ~taken)
    if len(below) <= most:
        return below
    kept = np.empty(most, dtype=np.int64)
    left = values[below]
    for place in range(most):  # no sort: the few smallest one by one, which numba compiles in no time
        kept[place] = below[np.argmin(left)]
        left[np.argmin(left)] = np.inf
    return kept


def grow(
    P: Floats, first: Floats, weights: Floats, K: Floats, H: Floats, fresh: Floats, fresh_first: Floats, ridge: float
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """A working set with fresh signed points appended: its points, groups, weights, Gram matrix and inverse."""
    m, t = len(P), len(fresh)
    points, groups, carried = np.empty((m + t, P.shape[1])), np.empty(m + t), np.zeros(m + t)
    points[:m] = P
    points[m:] = fresh
    groups[:m] = first
    groups[m:] = fresh_first
    carried[:m] = weights
    strip = points @ fresh.T
    for column in range(t):
        strip[:, column] += ridge * (groups == fresh_first[column])
    gram, inverse = np.empty((m + t, m + t)), np.zeros((m + t, m + t))
    gram[:m, :m] = K
    gram[:, m:] = strip
    gram[m:, :m] = strip[:m].T
    inverse[:m, :m] = H
    return points, groups, carried, gram, inverse


def shrink(
    P: Floats, first: Floats, weights: Floats, K: Floats, H: Floats, kept: NDArray[np.int64]
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """A working set without the points that are not kept, none of which carries weight."""
    gram, inverse = np.empty((len(kept), len(kept))), np.empty((len(kept), len(kept)))
    for row in range(len(kept)):
        gram[row] = K[kept[row]][kept]
        inverse[row] = H[kept[row]][kept]
    return P[kept], first[kept], weights[kept], gram, inverse


def begin(a: Floats, b: Floats, least: float) -> tuple[Floats, Floats, Floats, Floats, Floats, float]:
    """The working set of one point of each hull, and the constant inside the groups of its Gram matrix.

    The points are taken relative to the middle between the two: hulls far from the origin lose no digits.
    """
    P = np.empty((2, len(a)))
    P[0] = 0.5 * (a - b)
    P[1] = P[0]
    square = P[0] @ P[0]
    ridge = 2.0 * square + least
    K, H = np.full((2, 2), square), np.full((2, 2), -square)
    K[0, 0] += ridge
    K[1, 1] += ridge
    H[0, 0] = K[1, 1]
    H[1, 1] = K[0, 0]
    return P, np.array([1.0, 0.0]), np.ones(2), K, H / (K[0, 0] * K[1, 1] - square * square), ridge


def nearest_points(
    A: Floats,
    B: Floats,
    direction: Floats,
    touching: float,
    tolerance: float,
    enough: float,
    rounds: int,
    at_once: int,
    blocks: bool | None,
) -> tuple[int, float, float, Floats, Floats, NDArray[np.int64], Floats]:
    """The nearest points of the hulls of A and B: verdict, bounds of the distance, plane normal, and who carries which weight.

    Each round solves a working set exactly and adds the points that stick out of its plane. A lower bound above `enough` ends it:
    0 where any separating plane will do, infinity where the distance is wanted. A distance up to `touching` counts as overlap.
    Rows of B are numbered after those of A. `blocks` exchanges whole blocks of points at a time, for high dimensions; None does
    not.
    """
    na = len(A)
    i, j = np.argmin(A @ direction), np.argmax(B @ direction)
    taken_a, taken_b = np.zeros(na, dtype=np.bool_), np.zeros(len(B), dtype=np.bool_)
    taken_a[i] = True
    taken_b[j] = True
    origin = 0.5 * (A[i] + B[j])
    rows = np.array([i, na + j])
    apart = A[i] - B[j]
    if np.sqrt(apart @ apart) <= touching:
        return OVERLAPPING, -np.inf, np.sqrt(apart @ apart), apart, apart, rows, np.ones(2)
    P, first, weights, K, H, ridge = begin(A[i], B[j], touching * touching)
    verdict, lower, upper, idle = UNDECIDED, -np.inf, np.inf, 0
    normal = P[0] + P[1]
    w = normal
    for _ in range(rounds):
        # Weights that sum to 1 within each hull make the points ones of the hulls, whatever rounding did to them.
        weights = np.maximum(weights, 0.0)
        weights /= np.where(first > 0, (weights * first).sum(), (weights * (1.0 - first)).sum())
        w = weights @ P
        square = w @ w
        on_a, on_b = A @ w, -(B @ w)
        bound = (on_a.min() + on_b.min()) / max(np.sqrt(square), 1e-300)
        idle = 0 if np.sqrt(square) < upper * (1 - 1e-9) or bound > lower else idle + 1
        upper = min(upper, float(np.sqrt(square)))
        if upper <= touching:
            verdict = OVERLAPPING
            break
        if bound > lower:
            lower = bound
            normal = w
        if idle > 4:  # the products have run out of digits
            break
        if lower > touching and (lower > enough or upper - lower <= tolerance * upper):
            verdict = SEPARATED
            break
        on_set = P @ w
        shift = origin @ w
        slack = float(0.25 * tolerance * square)
        level_a = (weights * first) @ on_set + shift - slack
        level_b = (weights * (1.0 - first)) @ on_set - shift - slack
        if blocks is not None:
            # Near the limit of what d dimensions can separate every solve is ill-posed: others do that better.
            room = int(0.9 * len(w)) - np.count_nonzero(weights)
            if room < 0.1 * len(w):
                break
            at_once = min(2 * at_once, int(room // 2))
        new_a = sticking_out(on_a, taken_a, level_a, at_once)
        new_b = sticking_out(on_b, taken_b, level_b, at_once)
        if len(new_a) + len(new_b) == 0:
            break
        if len(weights) > 48 and len(weights) > 3 * np.count_nonzero(weights):
            kept = np.flatnonzero(weights > 0)
            taken_a[:] = False
            taken_b[:] = False
            P, first, weights, K, H = shrink(P, first, weights, K, H, kept)
            rows = rows[kept]
            for row in rows:
                if row < na:
                    taken_a[row] = True
                else:
                    taken_b[row - na] = True
        taken_a[new_a] = True
        taken_b[new_b] = True
        fresh, fresh_first = np.empty((len(new_a) + len(new_b), A.shape[1])), np.zeros(len(new_a) + len(new_b))
        fresh[: len(new_a)] = A[new_a] - origin
        fresh[len(new_a) :] = origin - B[new_b]
        fresh_first[: len(new_a)] = 1.0
        rows = np.concatenate((rows, new_a, na + new_b))
        P, first, weights, K, H = grow(P, first, weights, K, H, fresh, fresh_first, ridge)
        if blocks is not None:
            free = (weights > 0) | (np.arange(len(weights)) >= len(weights) - len(fresh))
            if pivot(K, first, 1.0 - first, weights, free):
                continue
            H = invert(K, weights)
        settle(K, first, 1.0 - first, weights, H, slack, 50 + 5 * len(weights))
    return verdict, lower, upper, normal, w, rows, weights


nearest_compiled = compiled(
    calling(
        nearest_points,
        begin=compiled(begin),
        sticking_out=compiled(sticking_out),
        shrink=compiled(shrink),
        grow=compiled(grow),
    )
)
"""For low dimensions, where most of the time goes between the products; `blocks` must be None."""


def nearest(
    A: Floats, B: Floats, direction: Floats, touching: float, tolerance: float, *, enough: float = np.inf, rounds: int = 200
) -> tuple[int, float, float, Floats, Floats, NDArray[np.int64], Floats]:
    """`nearest_points` in the way that suits the dimension."""
    if A.shape[1] <= NARROW:
        found = nearest_compiled(A, B, direction, touching, tolerance, enough, rounds, 4, None)
    else:
        found = nearest_points(A, B, direction, touching, tolerance, enough, min(rounds, 60), 4, True)
    return found
