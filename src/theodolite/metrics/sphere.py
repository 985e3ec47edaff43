"""Uniformity and alignment on the unit sphere: the two parts of what a contrastive loss optimises."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles, row_norms
from theodolite.core.vectors import Floats, Source, Vectors, source
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest_rows import each_tile
from theodolite.metrics.registry import LOWER, NEITHER, metric

UNIFORMITY_T = 2.0  # the paper's temperature


@metric("[-8, 0]", LOWER, needs="sample", paper="Wang & Isola 2020")
def uniformity(X: Vectors | Cloud, *, t: float = UNIFORMITY_T) -> float:
    """Uniformity loss (Wang & Isola 2020), in [-4t, 0]: 0 if all rows point one way, about -2t if they cover the sphere.

    It is the log of the mean of exp(-t ‖u_i - u_j‖^2) over all pairs i < j of unit vectors. Rows of zeros are left out.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    t
        The paper's temperature, positive.
    """
    if not t > 0:
        raise ValueError(f"t={t} must be positive")
    cloud = Cloud.of(X)

    def compute() -> float:
        points = cloud.units.shifted
        sums = UniformitySums(len(points), t)
        each_tile(points, sums.add)
        return sums.value()

    return cloud.cached(("uniformity", t), compute)


class UniformitySums:
    """The uniformity of some unit vectors, gathered from tiles of -|u - v|^2 / 2; for callers who compute those themselves."""

    def __init__(self, m: int, t: float = UNIFORMITY_T) -> None:
        self._m = m
        self._t = t
        self._logs: dict[tuple[int, int], float] = {}

    def add(self, rows: slice, columns: slice, tile: Floats) -> None:
        """Add a tile, from any thread."""
        _exponents(tile, rows, columns, self._t)
        peak = tile.max()
        if np.isneginf(peak):  # a tile of a single row has no pair
            return
        tile -= peak  # so that the largest exponent is 0, and nothing overflows or vanishes
        np.exp(tile, out=tile)
        self._logs[rows.start, columns.start] = float(peak) + float(np.log(tile.sum(axis=1).sum(dtype=np.float64)))

    def value(self) -> float:
        """The uniformity, once all tiles were added; summed in their order, so that it does not depend on threads."""
        m = self._m
        total = float(np.logaddexp.reduce([self._logs[tile] for tile in sorted(self._logs)]))
        return min(0.0, total - float(np.log(m * (m - 1) / 2)))  # at most 0 by definition, but for rounding


def uniformity_of_parts(points: Floats, is_member: NDArray[np.bool_]) -> Doubles:
    """Uniformity at t = 2 of several parts of a cloud; each kernel of two rows is computed once for all parts."""
    members = np.ascontiguousarray(is_member.T, dtype=points.dtype)

    def sums(rows: slice, columns: slice, tile: Floats) -> Doubles:
        _exponents(tile, rows, columns, UNIFORMITY_T)
        np.exp(tile, out=tile)  # at least exp(-8): nothing vanishes
        sums_of_parts: Doubles = np.einsum("ij,ij->j", members[rows], tile @ members[columns], dtype=np.float64)
        return sums_of_parts

    counts = is_member.sum(axis=1)
    total = np.sum(each_tile(points, sums), axis=0)
    return np.asarray(np.minimum(0.0, np.log(total / (counts * (counts - 1) / 2))), dtype=np.float64)


def _exponents(tile: Floats, rows: slice, columns: slice, t: float) -> None:
    """Turn -|u - v|^2 / 2 into -t |u - v|^2, in place; on the diagonal every pair is left once, and no row with itself."""
    tile *= 2 * t
    if rows == columns:
        tile[np.tri(len(tile), dtype=bool)] = -np.inf


@metric("[0, 2^alpha]", NEITHER, needs="pairs", paper="Wang & Isola 2020", default=False)
def alignment(X: Vectors | Cloud, Y: Vectors | Cloud, *, alpha: float = 2.0) -> float:
    """Alignment loss (Wang & Isola 2020), the mean of ‖u_i - v_i‖^alpha over pairs; 0 if both rows of every pair point one way.

    Pairs with a row of zeros are left out. All rows are read, whatever the sample size.

    Parameters
    ----------
    X, Y
        Vectors or clouds: row i of X and row i of Y are a pair, and are scaled to unit length.
    alpha
        Power of the distance, positive.
    """
    if not alpha > 0:
        raise ValueError(f"alpha={alpha} must be positive")
    first, second = (Z.source if isinstance(Z, Cloud) else source(Z) for Z in (X, Y))
    if first.d != second.d:
        raise ValueError(f"X has d={first.d} and Y has d={second.d}; both rows of a pair must have the same width")
    total, count = 0.0, 0
    for a, b in _paired(first, second):
        norm_a, norm_b = row_norms(a), row_norms(b)
        rows = (norm_a > 0) & (norm_b > 0)
        gaps = a[rows].astype(np.float64) / norm_a[rows, None] - b[rows].astype(np.float64) / norm_b[rows, None]
        lengths: Doubles = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
        total += float((lengths**alpha).sum())
        count += int(rows.sum())
    if not count:
        raise Undefined("every pair has a row of zeros, which has no direction")
    return total / count


def _paired(first: Source, second: Source) -> Iterator[tuple[Floats, Floats]]:
    """Blocks of equal length from both sources; an error if one ends before the other."""
    if first.n is not None and second.n is not None and first.n != second.n:
        raise _unpaired(first.n, second.n)
    streams = first.blocks(), second.blocks()
    waiting: list[Floats] = [np.empty((0, first.d)), np.empty((0, second.d))]
    counts = [0, 0]
    while True:
        for side in (0, 1):
            if not len(waiting[side]):
                waiting[side] = next(streams[side], waiting[side])
                counts[side] += len(waiting[side])
        size = min(map(len, waiting))
        if not size:
            break
        yield waiting[0][:size], waiting[1][:size]
        waiting = [block[size:] for block in waiting]
    if any(map(len, waiting)):
        counts = [count + sum(map(len, stream)) for count, stream in zip(counts, streams, strict=True)]
        raise _unpaired(*counts)


def _unpaired(n: int, other: int) -> ValueError:
    return ValueError(f"X has {n} rows and Y has {other}; row i of one is paired with row i of the other")
