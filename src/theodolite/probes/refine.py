"""Thin gaps: Wolfe's active sets once more, on the points themselves, where Gram matrices have run out of digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def refine(
    A: Floats, B: Floats, weights_a: Floats, weights_b: Floats, *, touching: float, tolerance: float, most: int = 400
) -> tuple[float, float, Floats, Floats, Floats]:
    """Better nearest points from those given: lower and upper bound, normal, and the weights.

    A least-squares problem in the points loses half as many digits to rounding as one in their products does.
    """
    signed = np.concatenate([A, -B])
    in_a = np.arange(len(signed)) < len(A)
    weights = np.concatenate([weights_a, weights_b])
    # Far below rounding a weight means nothing, but each hull keeps its heaviest point.
    carried = weights > 1e-12 * np.where(in_a, weights_a.max(), weights_b.max())
    lower, upper, normal, best = -np.inf, np.inf, np.zeros(A.shape[1]), weights
    idle = 0
    for _ in range(most):
        if not (carried[in_a].any() and carried[~in_a].any()):
            break  # rounding took the last point of a hull
        weights = _normal(np.where(carried, weights, 0.0), in_a)
        weights, carried = _affine(signed, in_a, weights, carried)
        w = weights @ signed
        length = float(np.linalg.norm(w))
        idle = 0 if length < upper * (1 - 1e-12) else idle + 1
        if length < upper:
            upper, best = length, weights
        on = signed @ w
        first, second = np.where(in_a, on, np.inf), np.where(in_a, np.inf, on)
        if length > 0 and (bound := float(first.min() + second.min()) / length) > lower:
            lower, normal = bound, w
        if upper <= touching or (lower > touching and upper - lower <= tolerance * upper):
            break
        away_first, away_second = (weights * in_a) @ on - first.min(), (weights * ~in_a) @ on - second.min()
        entering = int(first.argmin() if away_first >= away_second else second.argmin())
        if carried[entering] or idle > 8:
            break  # rounding has the last word
        carried = carried.copy()
        carried[entering] = True
    return lower, upper, normal, best[: len(A)], best[len(A) :]


def _normal(weights: Floats, in_a: NDArray[np.bool_]) -> Floats:
    weights = np.maximum(weights, 0.0)
    return np.asarray(weights / np.where(in_a, weights[in_a].sum(), weights[~in_a].sum()))


def _affine(
    signed: Floats, in_a: NDArray[np.bool_], weights: Floats, carried: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Go to the nearest points of the two flats, leaving out on the way each point whose weight runs out."""
    while True:
        places = np.flatnonzero(carried)
        target = np.zeros_like(weights)
        target[places] = _flat_minimum(signed[places], in_a[places], weights[places])
        out = carried & (target <= 0)
        if not out.any():
            return target, carried
        steps = np.where(out, weights / np.maximum(weights - target, 1e-300), np.inf)
        leaving = int(steps.argmin())
        weights = weights + steps[leaving] * (target - weights)
        weights[leaving] = 0.0
        carried = carried.copy()
        carried[leaving] = False


def _flat_minimum(points: Floats, in_a: NDArray[np.bool_], weights: Floats) -> Floats:
    """Weights of the nearest points of two flats, each group's summing to 1: least squares in the differences to its heaviest."""
    target = weights.copy()
    columns, owners = [], []
    for group in (np.flatnonzero(in_a), np.flatnonzero(~in_a)):
        base = group[weights[group].argmax()]
        for place in group[group != base]:
            columns.append(points[place] - points[base])
            owners.append((place, base))
    if not columns:
        return target
    moves = np.linalg.lstsq(np.stack(columns, axis=1), -(weights @ points), rcond=1e-14)[0]
    for (place, base), move in zip(owners, moves, strict=True):
        target[place] += move
        target[base] -= move
    return target
