"""The nearest points of the hulls of a few points, by two active-set methods, and how their kernels are compiled.

`solve_by_points` exchanges one point at a time, `solve_by_blocks` many at once (for high dimensions); both work on the Gram
matrix of the points.

The Gram matrix K is signed: points of the first hull count as +1, of the second as -1, so that the difference of the nearest
points is one signed combination of all points, and the squared distance is weights' K weights. A constant is added inside each of
the two groups: it changes nothing as long as the weights of a group sum to 1, and it makes the matrix of an affinely independent
set invertible.

Kernels are written in NumPy that numba compiles, if it is installed and the work is long; otherwise the same code runs as it is.
If loops are faster compiled, a version with whole arrays is next to them for that case, and both give the same answers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Function = TypeVar("Function", bound=Callable[..., Any])

# Share added to a diagonal: repeated points would make a Gram matrix singular.
_JITTER = 1e-12

# Seconds of a processor that kernels run uncompiled before they are compiled, which takes 30 to 70 of them.
WORTH_COMPILING = 10.0


class Kernel:
    """A function that runs as it is until it is worth compiling, or at once compiled if that is on disk already.

    Compiling takes up to a minute of a processor, so a small input is done long before. Both versions give the same answers.
    """

    seconds = 0.0  # of a processor, that all kernels of this process took uncompiled

    def __init__(self, plain: Callable[..., Any], compiled: Any) -> None:
        self.plain = plain
        self.compiled = compiled

    @cached_property
    def is_on_disk(self) -> bool:
        """Whether numba's cache has the compiled version, and has it from this source file."""
        source = Path(self.compiled.py_func.__code__.co_filename)
        files = Path(self.compiled.stats.cache_path).glob(f"*.{self.compiled.__name__}-*.nbi")
        return any(file.stat().st_mtime > source.stat().st_mtime for file in files)

    def __call__(self, *arguments: Any) -> Any:
        if self.is_on_disk:
            return self.compiled(*arguments)
        if Kernel.seconds > WORTH_COMPILING:
            _say_compiling()
            return self.compiled(*arguments)
        before, start = Kernel.seconds, time.thread_time()
        result = self.plain(*arguments)
        Kernel.seconds = before + time.thread_time() - start  # not a sum: kernels inside this one have added theirs
        return result


@cache  # once in a process
def _say_compiling() -> None:
    # A program that is silent for a minute looks as if it hung, and no caller knows when this happens.
    print("theodolite: compiling, only once on this machine (about a minute)", file=sys.stderr)  # noqa: T201


def jit(kernel: Function, *, plain: Function | None = None, **callees: Callable[..., Any]) -> Function:
    """A kernel that numba can compile, to machine code that releases the interpreter's lock and is cached on disk.

    `plain` are the same loops with whole arrays, for as long as they are not compiled; `callees` replace functions that it calls.
    """
    plain = plain or kernel
    try:
        from numba import njit
    except ImportError:
        return plain
    source: Any = kernel
    # Compiled code calls compiled code.
    names = {**source.__globals__, **callees}
    names |= {name: names[name].compiled for name in source.__code__.co_names if isinstance(names.get(name), Kernel)}
    source = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    # Sums may be reordered, as NumPy's are too; infinities must keep their meaning, so full fastmath is out.
    freedom = {"reassoc", "contract", "nsz"}
    return cast(Function, Kernel(plain, njit(cache=True, nogil=True, error_model="numpy", fastmath=freedom)(source)))


def solve_by_points_in_arrays(
    K: Floats, first: Floats, second: Floats, weights: Floats, H: Floats, tolerance: float, max_steps: int
) -> int:
    """`solve_by_points` with whole arrays, for when it is not compiled."""
    for step in range(max_steps):
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
        pivot = column[entering] - change @ column
        # The point is in the flat of those with weight, within rounding: it cannot enter.
        if pivot <= 1e-13 * column[entering] or H[entering, entering] > 0:
            return -step - 1
        # The inverse of the bordered matrix, by a rank-one change.
        change[entering] = -1.0
        H += np.outer(change, change / pivot)
        while True:
            row_first, row_second = H @ first, H @ second
            a, b, c = row_first @ first, row_first @ second, row_second @ second
            det = a * c - b * b
            if not det > 0:  # the digits are used up; the weights are still those of two points
                return -step - 1
            target = ((c - b) / det) * row_first + ((a - b) / det) * row_second
            in_set = np.diag(H) > 0
            negative = in_set & (target <= 0)
            if not negative.any():
                weights[:] = np.where(in_set, target, 0.0)
                break
            # How far towards the target before the first weight becomes 0; 1e-300 keeps 0 / 0 away.
            ratio = np.where(negative, weights / (weights - np.minimum(target, 0.0) + 1e-300), np.inf)
            leaving = np.argmin(ratio)
            weights += ratio[leaving] * (target - weights)
            weights[leaving] = 0.0
            row = H[leaving].copy()
            H -= np.outer(row, row / row[leaving])
            H[leaving, :] = 0.0
            H[:, leaving] = 0.0
            if leaving == entering:
                return -step - 1
    return max_steps


@partial(jit, plain=solve_by_points_in_arrays)
def solve_by_points(
    K: Floats, first: Floats, second: Floats, weights: Floats, H: Floats, tolerance: float, max_steps: int
) -> int:
    """Move `weights` to the nearest points of the two hulls, in place, one point in or out at a time (Wolfe 1976)."""
    m = len(weights)
    gradient, change, target, row_first, row_second = np.empty(m), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)
    # `places[:k]` are the points with weight, in no order: all loops run over them and not over all m points.
    support = np.flatnonzero(np.diag(H) > 0)
    places = np.empty(m, dtype=np.int64)
    k = len(support)
    places[:k] = support
    for step in range(max_steps):
        # 1. The point that is furthest beyond the plane of the present weights enters.
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
        furthest_first = furthest_second = 0
        for i in range(m):
            if first[i] > 0:
                if level_first - gradient[i] > away_first:
                    away_first, furthest_first = level_first - gradient[i], i
            elif level_second - gradient[i] > away_second:
                away_second, furthest_second = level_second - gradient[i], i
        if away_first + away_second <= tolerance:
            return step
        entering = furthest_first if away_first >= away_second else furthest_second
        # 2. Its row and column join the inverse, by a rank-one change.
        pivot = K[entering, entering]
        for at in range(k):
            i = places[at]
            total = 0.0
            for also in range(k):
                total += H[i, places[also]] * K[entering, places[also]]
            change[i] = total
            pivot -= total * K[entering, i]
        # The point is in the flat of those with weight, within rounding: it cannot enter.
        if pivot <= 1e-13 * K[entering, entering] or H[entering, entering] > 0:
            return -step - 1
        change[entering] = -1.0
        places[k] = entering
        k += 1
        for at in range(k):
            i = places[at]
            for also in range(k):
                H[i, places[also]] += change[i] * change[places[also]] / pivot
        # 3. Go to the nearest points of the two flats; a weight that would become negative stops the way there, and its point
        #    leaves.
        while True:
            a = b = c = 0.0
            for at in range(k):
                i = places[at]
                sum_first = sum_second = 0.0
                for also in range(k):
                    j = places[also]
                    sum_first += H[i, j] * first[j]
                    sum_second += H[i, j] * second[j]
                row_first[i], row_second[i] = sum_first, sum_second
                a += sum_first * first[i]
                b += sum_first * second[i]
                c += sum_second * second[i]
            det = a * c - b * b
            if not det > 0:  # the digits are used up; the weights are still those of two points
                return -step - 1
            ratio, leaving = np.inf, -1
            for at in range(k):
                i = places[at]
                target[i] = ((c - b) / det) * row_first[i] + ((a - b) / det) * row_second[i]
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
    return max_steps


def solve_by_blocks(K: Floats, first: Floats, second: Floats, weights: Floats, free: Flags) -> bool:
    """Move `weights` to the nearest points of the two hulls, in place, many points in or out at a time.

    Block principal pivoting (Portugal, Júdice & Vicente 1994): solve on the free points, then drop every negative weight and take
    in every point beyond the plane at once. It need not come to an end: after three rounds without fewer wrong points it stops.
    """
    fewest, patience = len(K) + 1, 3
    for _ in range(60):
        places = np.flatnonzero(free)
        sides = np.stack([first[places], second[places]], axis=1)
        block = _block(K, places)
        quick = solve_positive(block, sides)
        pulls = np.asarray(np.linalg.solve(block, sides) if quick is None else quick, dtype=np.float64)
        sums = sides.T @ pulls
        det = sums[0, 0] * sums[1, 1] - sums[0, 1] * sums[1, 0]
        level_first, level_second = (sums[1, 1] - sums[0, 1]) / det, (sums[0, 0] - sums[1, 0]) / det
        # Weights on the free points at which the gradient is the same within each hull, and each hull's sum is 1.
        trial = np.zeros(len(K))
        trial[places] = level_first * pulls[:, 0] + level_second * pulls[:, 1]
        short = K @ trial - level_first * first - level_second * second
        rounding = 1e-12 * (abs(level_first) + abs(level_second))
        wrong = np.where(free, trial < 0, short < -rounding)
        count = int(np.count_nonzero(wrong))
        if not np.isfinite(det) or not np.isfinite(trial.sum()):
            return False
        if count == 0:
            weights[:] = trial
            return True
        fewest, patience = (count, 3) if count < fewest else (fewest, patience - 1)
        if patience < 0:
            return False
        free = free ^ wrong
        # A hull without any free point has no solution.
        if np.max(free * first) == 0 or np.max(free * second) == 0:
            return False
    return False


def solve_positive(system: Floats, right: Floats) -> Floats | None:
    """The solution of a symmetric positive definite system; None if rounding has made it indefinite."""
    from scipy.linalg.lapack import dposv

    # LAPACK stores columns, and the transpose of a symmetric matrix is a view that needs no rearranging.
    _, solution, failure = dposv(system.T, right, lower=1)
    return None if failure else np.asarray(solution).reshape(right.shape)


def inverse_on_support(K: Floats, weights: Floats) -> Floats:
    """The inverse of the Gram matrix on the points with weight, zero elsewhere."""
    places = np.flatnonzero(weights > 0)
    H = np.zeros(K.shape)
    H[np.ix_(places, places)] = np.linalg.inv(_block(K, places))
    return H


def _block(K: Floats, places: Ints) -> Floats:
    """The Gram matrix of some points, with its diagonal slightly raised."""
    block = K[np.ix_(places, places)]
    block.flat[:: len(places) + 1] *= 1.0 + _JITTER
    return block
