"""Uniformity and alignment on the unit sphere: the two halves of what a contrastive loss asks for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from theodolite.core.moments import Doubles, row_norms
from theodolite.core.vectors import Floats, Source, Vectors, source
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest import each_tile
from theodolite.metrics.registry import metric
from theodolite.metrics.units import units_of


@metric(range="[-8, 0]", direction="lower is isotropic", paper="Wang & Isola 2020", needs="sample")
def uniformity(X: Vectors | Cloud, *, t: float = 2.0) -> float:
    """Uniformity loss (Wang & Isola 2020), in [-4t, 0]; 0 is one direction, about -2t fills a sphere of high dimension.

    log of the mean of exp(-t |u_i - u_j|^2) over all pairs i < j of unit vectors; rows of zeros are left out. Above the cloud's
    sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    if not t > 0:
        raise ValueError(f"t={t} must be positive")
    units = units_of(Cloud.of(X))
    points = units.shifted
    squares = np.einsum("ij,ij->i", points, points)

    def log_sum(rows: slice, columns: slice, products: Floats) -> float:
        products *= 2
        products -= squares[rows, None]
        products -= squares[columns]
        products *= t
        if rows == columns:
            products[np.tri(len(products), dtype=bool)] = -np.inf
        peak = products.max()
        if np.isneginf(peak):  # a tile of a single row holds no pair
            return -np.inf
        products -= peak
        np.exp(products, out=products)
        return float(peak) + float(np.log(products.sum(axis=1).sum(dtype=np.float64)))

    total = float(np.logaddexp.reduce(each_tile(points, log_sum)))
    return min(0.0, total - float(np.log(units.m * (units.m - 1) / 2)))


@metric(range="[0, 2^alpha]", direction="neither", paper="Wang & Isola 2020", needs="pairs", default=False)
def alignment(X: Vectors | Cloud, Y: Vectors | Cloud, *, alpha: float = 2.0) -> float:
    """Alignment loss (Wang & Isola 2020), in [0, 2^alpha]; 0 is every pair on one direction: mean of |u_i - v_i|^alpha.

    Row i of X and row i of Y are a pair, scaled to unit length; pairs with a row of zeros are left out. All rows are read.
    """
    if not alpha > 0:
        raise ValueError(f"alpha={alpha} must be positive")
    left, right = (Z.source if isinstance(Z, Cloud) else source(Z) for Z in (X, Y))
    if left.d != right.d:
        raise ValueError(f"X has d={left.d} and Y has d={right.d}; a pair lies in one space")
    total, count = 0.0, 0
    for a, b in _paired(left, right):
        norm_a, norm_b = row_norms(a), row_norms(b)
        live = (norm_a > 0) & (norm_b > 0)
        gaps = a[live].astype(np.float64) / norm_a[live, None] - b[live].astype(np.float64) / norm_b[live, None]
        lengths: Doubles = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
        total += float((lengths**alpha).sum())
        count += int(live.sum())
    if not count:
        raise Undefined("every pair has a row of zeros, which has no direction")
    return total / count


def _paired(left: Source, right: Source) -> Iterator[tuple[Floats, Floats]]:
    """Blocks of equal length from both, whatever their own blocks; an error where one ends before the other."""
    if left.n is not None and right.n is not None and left.n != right.n:
        raise _unpaired(left.n, right.n)
    streams = left.blocks(), right.blocks()
    held: list[Floats] = [np.empty((0, left.d)), np.empty((0, right.d))]
    read = [0, 0]
    while True:
        for side in (0, 1):
            if not len(held[side]):
                held[side] = next(streams[side], held[side])
                read[side] += len(held[side])
        size = min(map(len, held))
        if not size:
            break
        yield held[0][:size], held[1][:size]
        held = [block[size:] for block in held]
    if any(map(len, held)):
        read = [count + sum(map(len, stream)) for count, stream in zip(read, streams, strict=True)]
        raise _unpaired(*read)


def _unpaired(n: int, other: int) -> ValueError:
    return ValueError(f"X has {n} rows and Y has {other}; row i of one is paired with row i of the other")
