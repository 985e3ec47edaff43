"""How alike two representations are: in their layout of labels (spatial similarity), and in their pairs of rows (CKA)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import LEVEL, deviation_interval, half_samples, jackknife_interval, require_level
from theodolite.core.moments import Doubles
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Floats, Source, Vectors, source
from theodolite.metrics.evaluation import FEWEST_REPLICATES, FEWEST_ROWS

_MIN_LABELS = 4  # for an interval: one left out must leave three, which have three distances
_MIN_ROWS = {True: 4, False: 2}  # of the debiased and of the plug-in estimate
_MAX_RESAMPLED = 2048  # rows that half-samples are drawn from: two Gram matrices of them take 64 MB
_ROUNDING = 1e-12  # share of |X'X|² below which a HSIC cannot be distinguished from zero


@dataclass(frozen=True)
class Similarity:
    """How alike two representations are, with an interval if there is one.

    Parameters
    ----------
    value
        The similarity; nan if it is not defined.
    low, high
        Its interval; None if there is none.
    n
        What was compared: the number of labels, or of rows.
    dropped
        Labels that only one side has.
    reason
        Why the value is nan, or, if there is a value, why there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    dropped: tuple[Any, ...] = ()
    reason: str = ""


def spatial_similarity(a: Any, b: Any, *, force: bool = False, level: float = LEVEL) -> Similarity:
    """Pearson of the label distances of two representations, in [-1, 1]; 1 is the same layout up to scale (Zhou & Srikumar 2022).

    Distances are compared over the labels that both have; the others are listed as dropped. The interval is a jackknife that
    leaves out one label at a time, on Fisher's z. Pairs of labels are not independent: a label far from all has a part in L - 1
    of them, and resampling pairs would count it as L - 1 observations. Leaving out labels is right if labels make the difference,
    and too wide, by up to sqrt(2), if every pair goes its own way.

    Parameters
    ----------
    a, b
        Fitted `DirectProbe`s, or anything with their attributes `classes_`, `label_distances_`, `is_linear_` and `n_clusters_`.
    force
        Whether to compare mean distances between clusters if a label has several, and to count overlaps of given clusters as a
        distance of 0; without it the similarity is then not defined.
    level
        Coverage of the interval, between 0 and 1.

    Raises
    ------
    TypeError
        One of the two has no label distances.
    """
    require_level(level)
    names, measured = [], []
    for probe in (a, b):
        if not hasattr(probe, "label_distances_"):
            raise TypeError(f"{type(probe).__name__} has no distances between labels; give a fitted DirectProbe")
        names.append(probe.classes_.tolist())
        # Labels with a distance to at least one other label.
        measured.append([name for name, row in zip(names[-1], probe.label_distances_, strict=True) if np.isfinite(row).any()])
    common = [label for label in measured[0] if label in measured[1]]
    dropped = tuple(label for label in dict.fromkeys(names[0] + names[1]) if label not in common)
    numbers = [[labels.index(label) for label in common] for labels in names]
    old, new = (probe.label_distances_[np.ix_(at, at)] for probe, at in zip((a, b), numbers, strict=True))
    reason = _undefined(a, b, len(common), force)
    value, reason = (math.nan, reason) if reason else _correlation(old, new)
    low = high = None
    if not reason and len(common) < _MIN_LABELS:
        reason = f"an interval needs at least {_MIN_LABELS} labels; there are {len(common)}"
    elif not reason:
        keep = [np.delete(np.arange(len(common)), label) for label in range(len(common))]
        correlations, reasons = zip(*(_correlation(old[np.ix_(at, at)], new[np.ix_(at, at)]) for at in keep), strict=True)
        if any(reasons):
            reason = f"no interval: without one label, {next(filter(None, reasons))}"
        else:
            low, high = jackknife_interval(value, correlations, correlation=True, level=level)
    return Similarity(value, low, high, len(common), dropped, reason)


def _undefined(first: Any, second: Any, common: int, force: bool) -> str:
    """Why there is nothing to compare, or ""."""
    for name, probe in (("first", first), ("second", second)):
        if not probe.is_linear_ and not force:
            return (
                f"it is defined only if every label is one cluster; the {name} has {probe.n_clusters_} clusters of "
                f"{len(probe.classes_)} labels: force=True compares mean distances between labels"
            )
        overlaps = getattr(probe, "n_overlaps_", 0)
        if overlaps and not force:
            return f"it is defined only if no labels overlap; in the {name} {overlaps} pairs do: force=True counts them as 0"
    return f"{common} labels are in both; a correlation needs the distances of at least 3" if common < 3 else ""


def _correlation(old: Doubles, new: Doubles) -> tuple[float, str]:
    """Pearson over the pairs above the diagonal, or (nan, why not)."""
    above = np.triu_indices(len(old), 1)
    x, y = old[above], new[above]
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return math.nan, "some pairs of labels have no distance on one side"
    x, y = x - x.mean(), y - y.mean()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    # Distances that differ by rounding alone have no correlation.
    rounding = 1e-12 * float(np.abs(old[above]).max() * np.abs(new[above]).max()) * len(x)
    if size <= rounding:
        return math.nan, "all labels are equally far apart on one side, so there is nothing to correlate"
    return float(np.clip(x @ y / size, -1.0, 1.0)), ""


def cka(X: Vectors, Y: Vectors, *, debiased: bool = True) -> float:
    """Linear CKA of the same rows in two representations: 1 if they differ by rotation, scale and shift alone; 0 unrelated.

    The debiased estimate (Nguyen, Raghu & Kornblith 2021) is centred on the truth, and so may be a little below 0. The plug-in
    estimate (Kornblith et al. 2019), in [0, 1], is far too high unless n is well above d. Neither is invariant to other linear
    maps.

    The authors average the unbiased HSIC_1 over mini-batches, because it is quadratic in n. With linear kernels it need not be.
    For centred rows with squared norms k and l, n(n - 3) HSIC_1 = |X'Y|² - n/(n - 2) Σ k_i l_i + Σk Σl / ((n - 1)(n - 2)): all
    rows at once, in O(n d²).

    Parameters
    ----------
    X, Y
        (n, d) and (n, e) vectors of the same rows.
    debiased
        Which of the two estimates.

    Returns
    -------
    float
        nan if one side has no spread or there are too few rows; `cka_similarity` returns the reason.
    """
    return cka_similarity(X, Y, debiased=debiased, bootstrap=0).value


def cka_similarity(
    X: Vectors, Y: Vectors, *, debiased: bool = True, bootstrap: int = 200, level: float = LEVEL, seed: int = 0
) -> Similarity:
    """`cka` with an interval from half-samples of the rows, the same rows on both sides.

    Above 2,048 rows the half-samples are drawn from a sample of that size, and sqrt(sampled / all) converts the spread. If the
    two sides are unrelated, the estimate varies by 1/n instead of 1/sqrt(n), and the interval is wider than necessary.

    Parameters
    ----------
    X, Y, debiased
        As in `cka`.
    bootstrap
        Number of half-samples, at least 20; 0 for no interval.
    level
        Coverage of the interval, between 0 and 1.
    seed
        Of the sample and of the half-samples.
    """
    x, y = source(X), source(Y)
    if x.n is not None and y.n is not None and x.n != y.n:
        raise ValueError(f"there are {x.n} and {y.n} rows; CKA compares the same rows in two representations: pair them first")
    value, n, reason = _value(x, y, debiased)
    if not bootstrap or reason:
        return Similarity(value, n=n, reason=reason)
    if bootstrap < FEWEST_REPLICATES:
        raise ValueError(f"bootstrap={bootstrap} is too few for an interval; use at least {FEWEST_REPLICATES}, or 0 for none")
    if n < FEWEST_ROWS:
        return Similarity(value, n=n, reason=f"an interval needs at least {FEWEST_ROWS} rows; there are {n}")
    deviations = _deviations(x, y, n, debiased=debiased, count=bootstrap, seed=seed)
    low, high = deviation_interval(value, deviations, level=level)
    if high is None:
        return Similarity(value, n=n, reason="no interval: some half-samples have no spread")
    return Similarity(value, low, min(1.0, high), n)


@dataclass(frozen=True)
class CkaNull:
    """Debiased CKA next to what it is if rows do not correspond.

    Parameters
    ----------
    value
        Debiased CKA; nan if one side has no spread or there are too few rows.
    null
        Its mean over permutations of the rows of one side.
    p
        Share of permutations, the observed order counted as one, that reach the value.
    calibrated
        (value - null) / (1 - null): 0 is chance, 1 is the same up to rotation, scale and shift.
    n
        Number of rows.
    """

    value: float
    null: float
    p: float
    calibrated: float
    n: int


def cka_null(X: Floats, Y: Floats, *, permutations: int = 200, seed: int = 0) -> CkaNull:
    """Debiased CKA of a few thousand rows at most, with its null from permutations of the rows of Y."""
    return cka_of_layers([X], [Y], permutations=permutations, seed=seed)[0][0]


def cka_of_layers(
    first: Sequence[Floats], second: Sequence[Floats], *, permutations: int = 200, seed: int = 0
) -> list[list[CkaNull]]:
    """Debiased CKA of every layer of A (outer list) with every layer of B, for a few thousand rows at most.

    Of many pairs the largest is large by chance alone: each p counts the permutations in which any pair reaches the value.
    """
    n = len(first[0])
    undefined = CkaNull(math.nan, math.nan, math.nan, math.nan, n)
    if n < _MIN_ROWS[True]:
        return [[undefined for _ in second] for _ in first]
    grams = [
        np.stack([_gram(rows, np.asarray(rows).mean(axis=0, dtype=np.float64), True) for rows in side])
        for side in (first, second)
    ]
    own = [[_products(K, K, np.ones(n), n) for K in side] for side in grams]
    # One matrix of all pairs of layers: the products of flattened Gram matrices.
    sums, sizes = [side.sum(axis=2) for side in grams], [np.array([float(p.hsic(True)) for p in side]) for side in own]
    traces = [np.array([float(p.trace) for p in side]) for side in own]
    is_flat = [hsic <= _ROUNDING * trace / n**2 for hsic, trace in zip(sizes, traces, strict=True)]
    size = np.sqrt(np.outer(*(np.where(flat, 1.0, hsic) for flat, hsic in zip(is_flat, sizes, strict=True))))
    totals = np.outer(sums[0].sum(axis=1), sums[1].sum(axis=1))
    flattened = grams[0].reshape(len(first), -1)

    def values(order: NDArray[np.intp]) -> Doubles:
        trace = flattened @ grams[1][:, order[:, None], order].reshape(len(second), -1).T
        hsic = _Products(n, trace, sums[0] @ sums[1][:, order].T, totals).hsic(True)
        return np.where(is_flat[0][:, None] | is_flat[1], np.nan, hsic / size)

    generator = np.random.default_rng(seed)
    observed = values(np.arange(n))
    if np.isnan(observed).all():
        return [[undefined for _ in second] for _ in first]
    draws = np.stack([values(generator.permutation(n)) for _ in range(permutations)])
    largest, null = np.nanmax(draws.reshape(permutations, -1), axis=1), draws.mean(axis=0)
    p = (1 + (largest[:, None, None] >= observed).sum(axis=0)) / (1 + permutations)

    def cell(i: int, j: int) -> CkaNull:
        value, chance = float(observed[i, j]), float(null[i, j])
        return undefined if math.isnan(value) else CkaNull(value, chance, float(p[i, j]), (value - chance) / (1 - chance), n)

    return [[cell(i, j) for j in range(len(second))] for i in range(len(first))]


class _Products(NamedTuple):
    """Sums over the Gram matrices K and L of the same n rows, for one or for many samples, of which both estimates are made.

    For the debiased estimate, K and L have no diagonals.
    """

    n: int
    trace: Any  # tr KL
    rows: Any  # 1'KL1
    sums: Any  # 1'K1 · 1'L1

    def hsic(self, debiased: bool) -> Any:
        """HSIC_1 of Song et al. (2012), unbiased; or HSIC_0 of Gretton et al. (2005), tr KHLH / (n - 1)²."""
        n = self.n
        if debiased:
            return (self.trace + self.sums / ((n - 1) * (n - 2)) - 2 * self.rows / (n - 2)) / (n * (n - 3))
        return (self.trace - 2 * self.rows / n + self.sums / n**2) / (n - 1) ** 2


def _value(x: Source, y: Source, debiased: bool) -> tuple[float, int, str]:
    """(value, rows, why there is none)."""
    means, n, constant = _means(x, y)
    if n < _MIN_ROWS[debiased]:
        name = "debiased" if debiased else "plug-in"
        return math.nan, n, f"{name} CKA needs at least {_MIN_ROWS[debiased]} rows, there are {n}"
    if constant:
        return math.nan, n, "all rows of one side are the same point, so there is nothing to align"
    # n × n matrices or d × d ones, whichever are smaller.
    products = (_from_grams if n <= max(x.d, y.d) else _from_features)(x, y, means, n, debiased)
    cross, first, second = (float(product.hsic(debiased)) for product in products)
    # If all pairs of rows are equally alike, the debiased estimate cancels to its rounding.
    if first <= _ROUNDING * products[1].trace / n**2 or second <= _ROUNDING * products[2].trace / n**2:
        return math.nan, n, "on one side no pair of rows is more alike than another, so there is nothing to align"
    return cross / math.sqrt(first * second), n, ""


def _means(x: Source, y: Source) -> tuple[list[Doubles], int, bool]:
    """The means of both sides, the number of rows, and whether one side is a single point."""
    sums: list[Doubles] = [np.zeros(x.d), np.zeros(y.d)]
    firsts: list[Doubles] = []
    differs = [False, False]
    n = 0
    for blocks in _aligned(x, y):
        firsts = firsts or [block[0] for block in blocks]
        n += len(blocks[0])
        for side, block in enumerate(blocks):
            sums[side] += block.sum(axis=0)
            differs[side] = differs[side] or bool((block != firsts[side]).any())
    return [total / n for total in sums], n, not all(differs)


def _from_features(x: Source, y: Source, means: list[Doubles], n: int, debiased: bool) -> list[_Products]:
    """The products of X with Y, X with X and Y with Y from d × d matrices, block by block.

    Centred rows have K1 = 0. Without its diagonal k, K1 = -k, and so 1'KL1 = Σ k_i l_i and tr KL = |X'Y|² - Σ k_i l_i.
    """
    pairs = ((0, 1), (0, 0), (1, 1))
    sizes = (x.d, y.d)
    matrices: list[Doubles] = [np.zeros((sizes[i], sizes[j])) for i, j in pairs]
    norms, sums = np.zeros((2, 2)), np.zeros(2)
    for blocks in _aligned(x, y):
        centred = [block - mean for block, mean in zip(blocks, means, strict=True)]
        for (i, j), matrix in zip(pairs, matrices, strict=True):
            matrix += centred[i].T @ centred[j]
        both = np.stack([np.einsum("ij,ij->i", rows, rows) for rows in centred])
        norms += both @ both.T
        sums += both.sum(axis=1)
    squares = [float(np.vdot(matrix, matrix)) for matrix in matrices]
    if not debiased:
        return [_Products(n, square, 0.0, 0.0) for square in squares]
    cross = [(square, norms[i, j], sums[i] * sums[j]) for (i, j), square in zip(pairs, squares, strict=True)]
    return [_Products(n, square - norm, norm, total) for square, norm, total in cross]


def _from_grams(x: Source, y: Source, means: list[Doubles], n: int, debiased: bool) -> list[_Products]:
    """The same from n × n matrices, if there are no more rows than dimensions."""
    K, L = (_gram(data.take(np.arange(n)), mean, debiased) for data, mean in zip((x, y), means, strict=True))
    return [_products(A, B, np.ones(n), n) for A, B in ((K, L), (K, K), (L, L))]


def _deviations(x: Source, y: Source, n: int, *, debiased: bool, count: int, seed: int) -> Doubles:
    """CKA over half-samples minus its mean: every sum is a form in the half's indicator, so all halves are one product."""
    rows = sample_rows(n, _MAX_RESAMPLED, seed=seed)
    K, L = (_gram(side, side.mean(axis=0, dtype=np.float64), debiased) for side in (x.take(rows), y.take(rows)))
    halves = np.zeros((len(rows), count))
    for number, half in enumerate(half_samples(len(rows), count, seed=seed)):
        halves[half, number] = 1.0
    products = (_products(A, B, halves, len(rows) // 2) for A, B in ((K, L), (K, K), (L, L)))
    cross, first, second = (product.hsic(debiased) for product in products)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = cross / np.sqrt(first * second)
    return np.asarray((values - values.mean()) * math.sqrt(len(rows) / n))


def _products(K: Doubles, L: Doubles, halves: Doubles, n: int) -> _Products:
    K_halves, L_halves = K @ halves, L @ halves
    trace = np.sum(halves * ((K * L) @ halves), axis=0)
    rows = np.sum(halves * K_halves * L_halves, axis=0)
    sums = np.sum(halves * K_halves, axis=0) * np.sum(halves * L_halves, axis=0)
    return _Products(n, trace, rows, sums)


def _gram(rows: Any, mean: Doubles, debiased: bool) -> Doubles:
    centred = np.asarray(rows, dtype=np.float64) - mean
    gram = centred @ centred.T
    if debiased:
        np.fill_diagonal(gram, 0.0)
    return np.asarray(gram)


def _aligned(x: Source, y: Source) -> Iterator[tuple[Doubles, Doubles]]:
    """The same rows of both sides as float64: a block of either is cut at the end of the other's block."""
    y_blocks = y.blocks()
    waiting: Any = np.empty((0, y.d))
    for block in x.blocks():
        start = 0
        while start < len(block):
            if not len(waiting):
                waiting = next(y_blocks, None)
                if waiting is None:
                    raise ValueError("the second side has fewer rows than the first; CKA compares the same rows: pair them first")
            stop = start + min(len(waiting), len(block) - start)
            yield block[start:stop].astype(np.float64), waiting[: stop - start].astype(np.float64)
            waiting = waiting[stop - start :]
            start = stop
    if len(waiting) or next(y_blocks, None) is not None:
        raise ValueError("the second side has more rows than the first; CKA compares the same rows: pair them first")
