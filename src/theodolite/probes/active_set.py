"""The nearest points of the hulls of a few points, by active sets on their Gram matrix: point by point, or block by block.

Written in NumPy that numba compiles; where loops are faster compiled, a version in whole arrays stands beside them, and both
give the same answers. Points of the first hull carry the sign +1, of the second -1, so that the difference w of the nearest
points is one signed combination of all, and the squared distance is weights' K weights with K the signed Gram matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.compiled import compiled_or

Floats = NDArray[np.float64]

SLIGHT = 1e-12
"""Share added to a diagonal: repeated points make a Gram matrix singular otherwise."""


def settle_arrays(K: Floats, first: Floats, second: Floats, weights: Floats, H: Floats, tolerance: float, most: int) -> int:
    for step in range(most):
        gradient = K @ weights
        level_first, level_second = (gradient * first) @ weights, (gradient * second) @ weights
        away_first = level_first - np.where(first > 0, gradient, np.inf)
        away_second = level_second - np.where(second > 0, gradient, np.inf)
        i, j = np.argmax(away_first), np.argmax(away_second)
        if away_first[i] + away_second[j] <= tolerance:
            return step
        entering = i if away_first[i] >= away_second[j] else j
        column = K[entering].copy()
        change = H @ column
        left = column[entering] - change @ column
        # Nothing new to lean on: the point lies in the flat of those that carry weight, within rounding.
        if left <= 1e-13 * column[entering] or H[entering, entering] > 0:
            return -step - 1
        change[entering] = -1.0
        H += np.outer(change, change / left)
        while True:
            ones, twos = H @ first, H @ second
            a, b, c = ones @ first, ones @ second, twos @ second
            det = a * c - b * b
            if not det > 0:  # rounding has the last word; the weights are still those of two points
                return -step - 1
            target = ((c - b) / det) * ones + ((a - b) / det) * twos
            carried = np.diag(H) > 0
            out = carried & (target <= 0)
            if not out.any():
                weights[:] = np.where(carried, target, 0.0)
                break
            ratio = np.where(out, weights / (weights - np.minimum(target, 0.0) + 1e-300), np.inf)
            leaving = np.argmin(ratio)
            weights += ratio[leaving] * (target - weights)
            weights[leaving] = 0.0
            row = H[leaving].copy()
            H -= np.outer(row, row / row[leaving])
            H[leaving, :] = 0.0
            H[:, leaving] = 0.0
            if leaving == entering:
                return -step - 1
    return most


@compiled_or(settle_arrays)
def settle(K: Floats, first: Floats, second: Floats, weights: Floats, H: Floats, tolerance: float, most: int) -> int:
    """Move `weights` to the nearest points of the hulls of a working set, in place; the number of steps taken.

    `K` is the signed Gram matrix with a constant added inside each of the two groups, which changes nothing where the weights of
    a group sum to 1 and makes the matrix of an affinely independent set invertible. `H` is its inverse on the points with weight
    and zero elsewhere: entering and leaving points are rank-one changes of it.
    """
    m = len(weights)
    gradient, change, target, ones, twos = np.empty(m), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)
    carried = np.flatnonzero(np.diag(H) > 0)
    places = np.empty(m, dtype=np.int64)
    k = len(carried)
    places[:k] = carried
    for step in range(most):
        level_first = level_second = 0.0
        for i in range(m):
            total = 0.0
            for at in range(k):
                total += K[i, places[at]] * weights[places[at]]
            gradient[i] = total
        for at in range(k):
            i = places[at]
            level_first += gradient[i] * first[i] * weights[i]
            level_second += gradient[i] * second[i] * weights[i]
        away_first = away_second = -np.inf
        out_first = out_second = 0
        for i in range(m):
            if first[i] > 0:
                if level_first - gradient[i] > away_first:
                    away_first, out_first = level_first - gradient[i], i
            elif level_second - gradient[i] > away_second:
                away_second, out_second = level_second - gradient[i], i
        if away_first + away_second <= tolerance:
            return step
        entering = out_first if away_first >= away_second else out_second
        left = K[entering, entering]
        for at in range(k):
            i = places[at]
            total = 0.0
            for also in range(k):
                total += H[i, places[also]] * K[entering, places[also]]
            change[i] = total
            left -= total * K[entering, i]
        if left <= 1e-13 * K[entering, entering] or H[entering, entering] > 0:
            return -step - 1
        change[entering] = -1.0
        places[k] = entering
        k += 1
        for at in range(k):
            i = places[at]
            for also in range(k):
                H[i, places[also]] += change[i] * change[places[also]] / left
        while True:
            a = b = c = 0.0
            for at in range(k):
                i = places[at]
                one = two = 0.0
                for also in range(k):
                    j = places[also]
                    one += H[i, j] * first[j]
                    two += H[i, j] * second[j]
                ones[i], twos[i] = one, two
                a += one * first[i]
                b += one * second[i]
                c += two * second[i]
            det = a * c - b * b
            if not det > 0:  # rounding has the last word; the weights are still those of two points
                return -step - 1
            ratio, leaving = np.inf, -1
            for at in range(k):
                i = places[at]
                target[i] = ((c - b) / det) * ones[i] + ((a - b) / det) * twos[i]
                if target[i] <= 0:
                    reach = weights[i] / (weights[i] - target[i] + 1e-300)
                    if reach < ratio:
                        ratio, leaving = reach, at
            if leaving < 0:
                for at in range(k):
                    weights[places[at]] = target[places[at]]
                break
            gone = places[leaving]
            for at in range(k):
                i = places[at]
                weights[i] += ratio * (target[i] - weights[i])
            weights[gone] = 0.0
            k -= 1
            places[leaving] = places[k]
            for at in range(k):
                i = places[at]
                for also in range(k):
                    j = places[also]
                    H[i, j] -= H[i, gone] * H[gone, j] / H[gone, gone]
            for i in range(m):
                H[i, gone] = 0.0
                H[gone, i] = 0.0
            if gone == entering:
                return -step - 1
    return most


def pivot(K: Floats, first: Floats, second: Floats, weights: Floats, free: NDArray[np.bool_]) -> bool:
    """Exchange whole blocks of points until the weights are those of the nearest points, in place; whether that came to an end.

    Block principal pivoting (Portugal, Judice & Vicente 1994): solve on the free points, then drop every negative weight and take
    in every point beyond the plane at once. Three rounds without fewer offenders, and it gives up; the weights then stay as they
    were.
    """
    fewest, patience = len(K) + 1, 3
    for _ in range(60):
        places = np.flatnonzero(free)
        block = np.empty((len(places), len(places)))
        for row in range(len(places)):
            block[row] = K[places[row]][places]
            block[row, row] *= 1.0 + SLIGHT
        sides = np.empty((len(places), 2))
        sides[:, 0] = first[places]
        sides[:, 1] = second[places]
        pulls = np.linalg.solve(block, sides)
        sums = sides.T @ pulls
        det = sums[0, 0] * sums[1, 1] - sums[0, 1] * sums[1, 0]
        level_first, level_second = (sums[1, 1] - sums[0, 1]) / det, (sums[0, 0] - sums[1, 0]) / det
        trial = np.zeros(len(K))
        trial[places] = level_first * pulls[:, 0] + level_second * pulls[:, 1]
        short = K @ trial - level_first * first - level_second * second
        scale = 1e-12 * (abs(level_first) + abs(level_second))
        wrong = np.where(free, trial < 0, short < -scale)
        offenders = np.count_nonzero(wrong)
        if not np.isfinite(det) or not np.isfinite(trial.sum()):
            return False
        if offenders == 0:
            weights[:] = trial
            return True
        if offenders < fewest:
            fewest, patience = int(offenders), 3
        else:
            patience -= 1
        if patience < 0:
            return False
        free = free ^ wrong
        if np.max(free * first) == 0 or np.max(free * second) == 0:
            return False
    return False


def invert(K: Floats, weights: Floats) -> Floats:
    """The inverse of the Gram matrix on the points with weight, zero elsewhere."""
    places = np.flatnonzero(weights > 0)
    block = np.empty((len(places), len(places)))
    for row in range(len(places)):
        block[row] = K[places[row]][places]
        block[row, row] *= 1.0 + SLIGHT
    inverse = np.linalg.inv(block)
    H = np.zeros(K.shape)
    for row in range(len(places)):
        H[places[row], places] = inverse[row]
    return H
