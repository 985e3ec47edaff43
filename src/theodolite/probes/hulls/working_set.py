"""The nearest points of the hulls of many points, found by growing the hulls of a few: each round adds the points outside.

Few points carry the nearest ones, so the small problem stays small, and all points are only multiplied by one vector per round.
Signs and Gram matrix are those of `active_set`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from theodolite.probes.hulls.active_set import Flags, Floats, Ints, inverse_on_support, jit, solve_by_blocks, solve_by_points

SEPARATED, OVERLAPPING, UNDECIDED = 1, -1, 0

# Two hulls are solved in compiled code up to this dimension, and above it if all their points have no more numbers than this:
# beyond, products of whole arrays take most of the time anyway, and exchanging many points at a time is faster.
_MAX_COMPILED_DIMENSION = 256
_MAX_COMPILED_NUMBERS = 200_000

# Points of each hull that may enter the working set in a round; in high dimensions, in the first round.
_POINTS_PER_ROUND = 4


class NearestPoints(NamedTuple):
    """What is known of the nearest points of two hulls."""

    verdict: int
    lower: float
    upper: float
    normal: Floats
    rows: Ints
    weights: Floats


def nearest_points(
    A: Floats, B: Floats, direction: Floats, touching: float, tolerance: float, *, enough: float = np.inf, max_rounds: int = 200
) -> NearestPoints:
    """The nearest points of the hulls of A and B, computed in the way that suits the dimension."""
    is_small = A.shape[1] <= _MAX_COMPILED_DIMENSION or A.size + B.size <= _MAX_COMPILED_NUMBERS
    solve = grow_working_set if is_small else _grow_in_arrays
    return NearestPoints(*solve(A, B, direction, touching, tolerance, enough, max_rounds, None))


def _grow_working_set(
    A: Floats, B: Floats, direction: Floats, touching: float, tolerance: float, enough: float, rounds: int, in_blocks: bool | None
) -> tuple[int, float, float, Floats, Ints, Floats]:
    """The fields of `NearestPoints`. Each round solves a working set exactly and adds the points beyond its plane.

    `in_blocks` is True to exchange many points at a time, or None: a None that numba can see removes that branch from the
    compiled code.
    """
    na, at_once = len(A), _POINTS_PER_ROUND
    i, j = np.argmin(A @ direction), np.argmax(B @ direction)
    in_set_a, in_set_b = np.zeros(na, dtype=np.bool_), np.zeros(len(B), dtype=np.bool_)
    in_set_a[i] = True
    in_set_b[j] = True
    origin = 0.5 * (A[i] + B[j])
    rows = np.array([i, na + j])
    apart = A[i] - B[j]
    if np.sqrt(apart @ apart) <= touching:
        return OVERLAPPING, -np.inf, np.sqrt(apart @ apart), apart, rows, np.ones(2)
    # P: signed points; first: 1.0 for those of A; K, H: Gram matrix and its inverse on the points with weight.
    P, first, weights, K, H, ridge = _first_pair(A[i], B[j], touching * touching)
    verdict, lower, upper, idle = UNDECIDED, -np.inf, np.inf, 0
    normal = P[0] + P[1]
    for _ in range(rounds):
        # Weights that sum to 1 within each hull give points of the hulls, whatever rounding did to them.
        weights = np.maximum(weights, 0.0)
        weights /= np.where(first > 0, (weights * first).sum(), (weights * (1.0 - first)).sum())
        w = weights @ P
        square = w @ w
        along_a, along_b = A @ w, -(B @ w)
        # The plane across w proves this distance, from all points and not only from the working set.
        bound = (along_a.min() + along_b.min()) / max(np.sqrt(square), 1e-300)
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
        # A point that is further outside than a quarter of the tolerance must enter: the solve is as exact as that.
        along_set = P @ w
        shift = origin @ w
        slack = float(0.25 * tolerance * square)
        level_a = (weights * first) @ along_set + shift - slack
        level_b = (weights * (1.0 - first)) @ along_set - shift - slack
        if in_blocks is not None:
            # Near the number of points that d dimensions can separate, every solve is ill-posed: Newton steps do that better.
            room = int(0.9 * len(w)) - np.count_nonzero(weights)
            if room < 0.1 * len(w):
                break
            at_once = min(2 * at_once, int(room // 2))
        new_a = _outside(along_a, in_set_a, level_a, at_once)
        new_b = _outside(along_b, in_set_b, level_b, at_once)
        if len(new_a) + len(new_b) == 0:
            break
        # Points that lost their weight are dropped from time to time, because every step of a solve goes over all of them.
        if len(weights) > 48 and len(weights) > 3 * np.count_nonzero(weights):
            support = np.flatnonzero(weights > 0)
            in_set_a[:] = False
            in_set_b[:] = False
            P, first, weights, K, H = _restricted(P, first, weights, K, H, support)
            rows = rows[support]
            in_set_a[rows[rows < na]] = True
            in_set_b[rows[rows >= na] - na] = True
        in_set_a[new_a] = True
        in_set_b[new_b] = True
        new, new_first = np.empty((len(new_a) + len(new_b), A.shape[1])), np.zeros(len(new_a) + len(new_b))
        new[: len(new_a)] = A[new_a] - origin
        new[len(new_a) :] = origin - B[new_b]
        new_first[: len(new_a)] = 1.0
        rows = np.concatenate((rows, new_a, na + new_b))
        P, first, weights, K, H = _extended(P, first, weights, K, H, new, new_first, ridge)
        if in_blocks is not None:
            free = (weights > 0) | (np.arange(len(weights)) >= len(weights) - len(new))
            if solve_by_blocks(K, first, 1.0 - first, weights, free):
                continue
            # It gave up: one point at a time always comes to an end.
            H = inverse_on_support(K, weights)
        solve_by_points(K, first, 1.0 - first, weights, H, slack, 50 + 5 * len(weights))
    return verdict, lower, upper, normal, rows, weights


def _first_pair(a: Floats, b: Floats, minimum: float) -> tuple[Floats, Floats, Floats, Floats, Floats, float]:
    """The working set of one point of each hull (points, groups, weights, Gram matrix, inverse), and the constant in the groups.

    The points are taken relative to the middle between the two: hulls far from the origin lose no digits.
    """
    P = np.empty((2, len(a)))
    P[0] = 0.5 * (a - b)
    P[1] = P[0]
    square = P[0] @ P[0]
    # Of the size of the products, so that they lose no digits to it; never 0, so that K can be inverted.
    ridge = 2.0 * square + minimum
    K, H = np.full((2, 2), square), np.full((2, 2), -square)
    K[0, 0] += ridge
    K[1, 1] += ridge
    H[0, 0] = K[1, 1]
    H[1, 1] = K[0, 0]
    return P, np.array([1.0, 0.0]), np.ones(2), K, H / (K[0, 0] * K[1, 1] - square * square), ridge


def _outside(along: Floats, in_set: Flags, level: float, at_most: int) -> Ints:
    """Places of the smallest values below `level`, at most `at_most`, without those that are in the working set."""
    below = np.flatnonzero((along < level) & ~in_set)
    if len(below) <= at_most:
        return below
    smallest = np.empty(at_most, dtype=np.int64)
    values = along[below]
    for place in range(at_most):  # one by one and not by a sort, which takes numba long to compile
        smallest[place] = below[np.argmin(values)]
        values[np.argmin(values)] = np.inf
    return smallest


def _extended(
    P: Floats, first: Floats, weights: Floats, K: Floats, H: Floats, new: Floats, new_first: Floats, ridge: float
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """A working set with new signed points of weight 0 appended: its points, groups, weights, Gram matrix and inverse."""
    m, t = len(P), len(new)
    points, groups, all_weights = np.empty((m + t, P.shape[1])), np.empty(m + t), np.zeros(m + t)
    points[:m] = P
    points[m:] = new
    groups[:m] = first
    groups[m:] = new_first
    all_weights[:m] = weights
    strip = points @ new.T
    for column in range(t):
        strip[:, column] += ridge * (groups == new_first[column])
    gram, inverse = np.empty((m + t, m + t)), np.zeros((m + t, m + t))
    gram[:m, :m] = K
    gram[:, m:] = strip
    gram[m:, :m] = strip[:m].T
    inverse[:m, :m] = H
    return points, groups, all_weights, gram, inverse


def _restricted(
    P: Floats, first: Floats, weights: Floats, K: Floats, H: Floats, support: Ints
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """A working set without the points that have no weight."""
    return P[support], first[support], weights[support], K[support][:, support].copy(), H[support][:, support].copy()


def _grow_in_arrays(
    A: Floats, B: Floats, direction: Floats, touching: float, tolerance: float, enough: float, rounds: int, in_blocks: bool | None
) -> tuple[int, float, float, Floats, Ints, Floats]:
    """`_grow_working_set`, uncompiled: in many dimensions it exchanges many points at a time."""
    if A.shape[1] > _MAX_COMPILED_DIMENSION:
        rounds, in_blocks = min(rounds, 60), True
    return _grow_working_set(A, B, direction, touching, tolerance, enough, rounds, in_blocks)


# Compiled for low dimensions, where most of the time is spent between the products; `in_blocks` must be None.
grow_working_set = jit(
    _grow_working_set,
    plain=_grow_in_arrays,
    _first_pair=jit(_first_pair),
    _outside=jit(_outside),
    _restricted=jit(_restricted),
    _extended=jit(_extended),
)
