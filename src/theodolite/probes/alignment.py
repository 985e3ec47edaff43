"""Centred kernel alignment: whether two representations see the same rows as alike (Kornblith et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.sample import sample_rows
from theodolite.core.vectors import Source, Vectors, source
from theodolite.metrics.resample import FEWEST_REPLICATES, FEWEST_ROWS, interval
from theodolite.probes.similarity import Similarity

FEWEST = {True: 4, False: 2}
"""Rows that the debiased and the plug-in estimate need."""
MOST_RESAMPLED = 2048
"""Rows that half-samples are drawn from: two Gram matrices of them take 64 MB."""
ROUNDING = 1e-12
"""Share of |X'X|² below which a HSIC cannot be told from zero."""


@dataclass(frozen=True, eq=False)
class Products:
    """What both estimates are made of: sums over the Gram matrices K and L of the same n rows, all for one or many samples.

    `trace` is tr KL, `rows` 1'KL1, `left` 1'K1 and `right` 1'L1; for the debiased estimate, of matrices without diagonals.
    """

    n: int
    trace: Any
    rows: Any
    left: Any
    right: Any

    def debiased(self) -> Any:
        """HSIC_1 of Song et al. (2012), unbiased; needs four rows."""
        n = self.n
        inside = self.trace + self.left * self.right / ((n - 1) * (n - 2)) - 2 * self.rows / (n - 2)
        return inside / (n * (n - 3))

    def plug_in(self) -> Any:
        """HSIC_0 of Gretton et al. (2005), tr KHLH / (n - 1)²."""
        n = self.n
        return (self.trace - 2 * self.rows / n + self.left * self.right / n**2) / (n - 1) ** 2


def cka(X: Vectors, Y: Vectors, *, debiased: bool = True) -> float:
    """Linear CKA of the same rows in two representations: 1 where they differ by rotation, scale and shift alone; 0 unrelated.

    The debiased estimate (Nguyen, Raghu & Kornblith 2021) is centred on the truth, and so may fall a little below 0. The plug-in
    (Kornblith et al. 2019), in [0, 1], is far too high unless n is well above d. Neither is invariant to other linear maps.

    They average the unbiased HSIC_1 over mini-batches, because it is quadratic in n. With linear kernels it need not be. Of
    centred rows with squared norms k and l, n(n - 3) HSIC_1 = |X'Y|² - n/(n - 2) Σ k_i l_i + Σk Σl / ((n - 1)(n - 2)): all rows
    at once, in O(n d²). nan where one side has no spread or there are fewer than four rows; `cka_similarity` says why.
    """
    return _value(*_opened(X, Y), debiased)[0]


def cka_similarity(
    X: Vectors, Y: Vectors, *, debiased: bool = True, bootstrap: int = 200, level: float = 0.95, seed: int = 0
) -> Similarity:
    """`cka` with an interval from seeded half-samples of the rows, the same on both sides (`bootstrap=0` leaves it out).

    Above 2,048 rows they are drawn from a seeded sample of so many, and sqrt(sampled / all) carries the spread over. Where the
    two sides are unrelated the estimate strays by 1/n instead of 1/sqrt(n), and the interval is wider than it need be.
    """
    left, right = _opened(X, Y)
    value, n, reason = _value(left, right, debiased)
    if not bootstrap or reason:
        return Similarity(value, n=n, reason=reason)
    if bootstrap < FEWEST_REPLICATES:
        raise ValueError(f"bootstrap={bootstrap} is too few for an interval; take at least {FEWEST_REPLICATES}, or 0 for none")
    if n < FEWEST_ROWS:
        return Similarity(value, n=n, reason=f"an interval needs at least {FEWEST_ROWS} rows, there are {n}")
    strayed = _strayed(left, right, n, debiased=debiased, count=bootstrap, seed=seed)
    if not np.isfinite(strayed).all():
        return Similarity(value, n=n, reason="no interval: some half-samples have no spread")
    low, high = interval(value, strayed, level=level)
    assert high is not None
    return Similarity(value, low, min(1.0, high), n)


def _opened(X: Vectors, Y: Vectors) -> tuple[Source, Source]:
    left, right = source(X), source(Y)
    if left.n is not None and right.n is not None and left.n != right.n:
        raise ValueError(
            f"there are {left.n} and {right.n} rows; CKA compares the same rows in two representations: pair them first"
        )
    return left, right


def _value(left: Source, right: Source, debiased: bool) -> tuple[float, int, str]:
    """(value, rows, why there is none)."""
    means, n, constant = _means(left, right)
    if n < FEWEST[debiased]:
        return math.nan, n, f"{'debiased' if debiased else 'plug-in'} CKA needs at least {FEWEST[debiased]} rows, there are {n}"
    if constant:
        return math.nan, n, "all rows of one side are the same point, so there is nothing to align"
    few = n <= max(left.d, right.d)
    products = (_from_grams if few else _from_features)(left, right, means, n, debiased)
    cross, first, second = (float(p.debiased() if debiased else p.plug_in()) for p in products)
    # Where all pairs of rows are equally alike, the debiased estimate cancels to its rounding.
    if first <= ROUNDING * products[1].trace / n**2 or second <= ROUNDING * products[2].trace / n**2:
        return math.nan, n, "on one side no pair of rows is more alike than another, so there is nothing to align"
    return cross / math.sqrt(first * second), n, ""


def _means(left: Source, right: Source) -> tuple[list[Doubles], int, bool]:
    """The means of both sides, the number of rows, and whether one side is a single point."""
    sums: list[Doubles] = [np.zeros(left.d), np.zeros(right.d)]
    firsts: list[Doubles] = []
    differs = [False, False]
    n = 0
    for blocks in _aligned(left, right):
        firsts = firsts or [block[0] for block in blocks]
        n += len(blocks[0])
        for side, block in enumerate(blocks):
            sums[side] += block.sum(axis=0)
            differs[side] = differs[side] or bool((block != firsts[side]).any())
    return [total / n for total in sums], n, not all(differs)


def _from_features(left: Source, right: Source, means: list[Doubles], n: int, debiased: bool) -> list[Products]:
    """The products of X with Y, X with X and Y with Y from d × d matrices, block by block.

    Centred rows have K1 = 0. Without its diagonal k, K1 = -k, and so 1'KL1 = Σ k_i l_i and tr KL = |X'Y|² - Σ k_i l_i.
    """
    pairs = ((0, 1), (0, 0), (1, 1))
    sizes = (left.d, right.d)
    matrices: list[Doubles] = [np.zeros((sizes[i], sizes[j])) for i, j in pairs]
    norms, sums = np.zeros((2, 2)), np.zeros(2)
    for blocks in _aligned(left, right):
        centred = [block - mean for block, mean in zip(blocks, means, strict=True)]
        for (i, j), matrix in zip(pairs, matrices, strict=True):
            matrix += centred[i].T @ centred[j]
        both = np.stack([np.einsum("ij,ij->i", rows, rows) for rows in centred])
        norms += both @ both.T
        sums += both.sum(axis=1)
    squares = [float(np.vdot(matrix, matrix)) for matrix in matrices]
    if not debiased:
        return [Products(n, square, 0.0, 0.0, 0.0) for square in squares]
    return [
        Products(n, square - norms[i, j], norms[i, j], -sums[i], -sums[j]) for (i, j), square in zip(pairs, squares, strict=True)
    ]


def _from_grams(left: Source, right: Source, means: list[Doubles], n: int, debiased: bool) -> list[Products]:
    """The same from n × n matrices, for no more rows than dimensions."""
    every = np.arange(n)
    K, L = (_gram(data.take(every), mean, debiased) for data, mean in zip((left, right), means, strict=True))
    whole = np.ones(n)
    return [_products(A, B, whole, n) for A, B in ((K, L), (K, K), (L, L))]


def _strayed(left: Source, right: Source, n: int, *, debiased: bool, count: int, seed: int) -> Doubles:
    """How far CKA strays over half-samples: every sum is a form in the half's indicator, so all halves are one product."""
    rows = sample_rows(n, MOST_RESAMPLED, seed=seed)
    K, L = (_gram(part, part.mean(axis=0, dtype=np.float64), debiased) for part in (left.take(rows), right.take(rows)))
    generator = np.random.default_rng(seed)
    half = len(rows) // 2
    halves = np.zeros((len(rows), count))
    for number in range(count):
        halves[generator.permutation(len(rows))[:half], number] = 1.0
    found = (_products(A, B, halves, half) for A, B in ((K, L), (K, K), (L, L)))
    cross, first, second = ((p.debiased() if debiased else p.plug_in()) for p in found)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = cross / np.sqrt(first * second)
    return np.asarray((values - values.mean()) * math.sqrt(len(rows) / n))


def _products(K: Doubles, L: Doubles, halves: Doubles, n: int) -> Products:
    left, right = K @ halves, L @ halves
    return Products(
        n=n,
        trace=np.sum(halves * ((K * L) @ halves), axis=0),
        rows=np.sum(halves * left * right, axis=0),
        left=np.sum(halves * left, axis=0),
        right=np.sum(halves * right, axis=0),
    )


def _gram(rows: Any, mean: Doubles, debiased: bool) -> Doubles:
    centred = np.asarray(rows, dtype=np.float64) - mean
    gram = centred @ centred.T
    if debiased:
        np.fill_diagonal(gram, 0.0)
    return np.asarray(gram)


def _aligned(left: Source, right: Source) -> Iterator[tuple[Doubles, Doubles]]:
    """The same rows of both sides as float64: blocks of either are cut where the other's end."""
    others = right.blocks()
    waiting: Any = np.empty((0, right.d))
    for block in left.blocks():
        start = 0
        while start < len(block):
            if not len(waiting):
                waiting = next(others, None)
                if waiting is None:
                    raise ValueError("the second side has fewer rows than the first; CKA compares the same rows: pair them first")
            stop = start + min(len(waiting), len(block) - start)
            yield block[start:stop].astype(np.float64), waiting[: stop - start].astype(np.float64)
            waiting = waiting[stop - start :]
            start = stop
    if len(waiting) or next(others, None) is not None:
        raise ValueError("the second side has more rows than the first; CKA compares the same rows: pair them first")
