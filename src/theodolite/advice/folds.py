"""Folds that keep what belongs together on one side, and paired resamples of their items."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.core.spelling import option
from theodolite.core.vectors import Indices
from theodolite.metrics.nearest_rows import first_connected


def linked_groups(first: Sequence[Hashable], second: Sequence[Hashable]) -> Indices:
    """The group of each pair: pairs that share an element, directly or through other pairs, are one group.

    Examples
    --------
    >>> linked_groups(["a", "c", "b"], ["b", "d", "e"]).tolist()
    [0, 1, 0]
    """
    codes: dict[Hashable, int] = {}
    left, right = (np.array([codes.setdefault(element, len(codes)) for element in side]) for side in (first, second))
    return np.unique(first_connected(left, right, len(codes))[left], return_inverse=True)[1]


def row_names(X: NDArray[Any]) -> list[bytes]:
    """A name for each row that equal rows share."""
    return [row.tobytes() for row in np.ascontiguousarray(X)]


def grouped_folds(groups: Indices, k: int, *, strata: NDArray[Any] | None = None, seed: int = 0) -> Indices:
    """The fold of each item: groups stay whole, folds are of similar size, and every stratum is spread over them."""
    _, first, codes, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    if k < 2 or len(sizes) < k:
        groups_text = "" if len(sizes) == len(groups) else f" in {len(sizes)} groups that share nothing"
        rule = f"{len(groups)} items{groups_text} are too few for {option('folds', str(k))}: each fold needs at least one"
        raise ValueError(f"{rule}; give more, or use fewer folds")
    if sizes.max() > 2 * len(groups) / k:
        raise ValueError(
            f"{sizes.max()} of {len(groups)} items are linked by sentences they share, so {option('folds', str(k))} of similar "
            "size are not possible; leave out the pairs of the most frequent sentences, or use fewer folds"
        )
    kinds = np.zeros(len(groups), np.intp) if strata is None else np.unique(strata, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]  # the largest first, so that small ones even the folds out
    fold_of_group = np.empty(len(sizes), np.intp)
    filled = np.zeros((kinds.max() + 1, k))
    for group in order:
        kind = kinds[first[group]]
        # The fold with the least of this stratum; of equal ones the smallest.
        fold = int(np.lexsort((filled.sum(axis=0), filled[kind]))[0])
        fold_of_group[group] = fold
        filled[kind, fold] += sizes[group]
    return fold_of_group[codes]


def resample_counts(groups: Indices, draws: int, *, seed: int) -> Doubles:
    """(draws, n) how often each item is in a bootstrap resample of whole groups."""
    _, codes = np.unique(groups, return_inverse=True)
    m = int(codes.max()) + 1
    return np.random.default_rng(seed).multinomial(m, np.full(m, 1 / m), size=draws)[:, codes].astype(np.float64)


def spearman_influence(truth: Doubles, predicted: Doubles) -> tuple[float, Doubles]:
    """Spearman's correlation, and what each item adds to it: resampled items change it by the sum of theirs, to first order.

    Mean ranks u and v, as shares of n, have rho = C / sqrt(A B) with C = mean(uv) - 1/4, A = mean(uu) - 1/4, B = mean(vv) - 1/4.
    An item moves each of the three by its own product, and by shifting the ranks of the items above it. Resampling the ranks
    themselves would cost a hundred times as much.
    """
    x, y = _Ranks(truth), _Ranks(predicted)

    def moment(first: _Ranks, second: _Ranks) -> tuple[float, Doubles]:
        mean = float(first.shares @ second.shares) / len(truth)
        own = first.shares * second.shares + first.above(second.shares) + second.above(first.shares)
        return mean - 0.25, own - 3 * mean

    (c, of_c), (a, of_a), (b, of_b) = moment(x, y), moment(x, x), moment(y, y)
    if not (a > 1e-12 and b > 1e-12):
        return float("nan"), np.full(len(truth), np.nan)
    rho = c / np.sqrt(a * b)
    return float(rho), of_c / np.sqrt(a * b) - rho / 2 * (of_a / a + of_b / b)


class _Ranks:
    """Mean ranks of numbers as shares of their count, and sums over the items with a larger number."""

    def __init__(self, values: Doubles) -> None:
        _, self.codes, sizes = np.unique(values, return_inverse=True, return_counts=True)
        self.shares: Doubles = ((np.cumsum(sizes) - sizes / 2) / len(values))[self.codes]

    def above(self, weights: Doubles) -> Doubles:
        """(n,) for each item the mean of the weights of items above it; items of the same number count half."""
        sums = np.bincount(self.codes, weights)
        means: Doubles = (sums[::-1].cumsum()[::-1] - sums / 2) / len(weights)
        return means[self.codes]
