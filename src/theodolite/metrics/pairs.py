"""Cosines of random pairs: not only their mean, but how they spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theodolite.core.blocks import in_threads
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.nearest import Indices
from theodolite.metrics.registry import metric
from theodolite.metrics.units import UnitRows, units_of

PAIRS = 200_000
LEVELS = (0.05, 0.5, 0.95)
SIMILAR = 0.8
"""Cosine above which two random rows count as similar."""
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class PairCosines:
    """Quantiles of the cosines of pairs of different rows, each with a 95 % interval for the drawing of the pairs.

    The intervals come from order statistics and the binomial distribution. They do not cover the drawing of the rows
    themselves. Where all pairs were measured (`drawn` is False), low and high equal the value.
    """

    levels: tuple[float, ...]
    quantiles: Doubles
    low: Doubles
    high: Doubles
    threshold: float
    share_above: float
    share_low: float
    share_high: float
    pairs: int
    drawn: bool


def pair_cosines(X: Vectors | Cloud, *, pairs: int = PAIRS, threshold: float = SIMILAR) -> PairCosines:
    """Quantiles (5 %, 50 %, 95 %) and the share above `threshold` of the cosines of `pairs` random pairs of different rows.

    All pairs are measured where there are no more than `pairs`; otherwise they are drawn with replacement by the cloud's seed.
    Rows of zeros are left out. Above the cloud's sample size (10,000 rows) the pairs are those of a seeded sample;
    `Cloud(X, sample=n)` widens it.
    """
    if pairs < 1:
        raise ValueError(f"pairs={pairs} must be at least 1")
    cloud = Cloud.of(X)
    return cloud.cached(f"pair cosines {pairs} {threshold}", lambda: _measure(cloud, pairs, threshold))


@metric(range="[-1, 1]", direction="neither", paper="Ethayarajh 2019", needs="sample", label="pair cosine, 5 %")
def pair_cosine_p05(X: Vectors | Cloud) -> float:
    """5 % quantile of the cosine of two random rows, in [-1, 1]; 19 of 20 pairs are more similar. See `pair_cosines`.

    From 200,000 seeded pairs. Above the cloud's sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)`
    widens it.
    """
    return float(pair_cosines(X).quantiles[0])


@metric(range="[-1, 1]", direction="neither", paper="Ethayarajh 2019", needs="sample")
def pair_cosine_median(X: Vectors | Cloud) -> float:
    """Median cosine of two random rows, in [-1, 1]; 0 for a cloud without a common direction. See `pair_cosines`.

    From 200,000 seeded pairs. Above the cloud's sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)`
    widens it.
    """
    return float(pair_cosines(X).quantiles[1])


@metric(range="[-1, 1]", direction="lower is isotropic", paper="Ethayarajh 2019", needs="sample", label="pair cosine, 95 %")
def pair_cosine_p95(X: Vectors | Cloud) -> float:
    """95 % quantile of the cosine of two random rows, in [-1, 1]; one pair of 20 is more similar. See `pair_cosines`.

    From 200,000 seeded pairs. Above the cloud's sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)`
    widens it.
    """
    return float(pair_cosines(X).quantiles[2])


@metric(range="[0, 1]", direction="lower is isotropic", paper="Ethayarajh 2019", needs="sample")
def similar_pairs(X: Vectors | Cloud) -> float:
    """Share of random pairs of rows with a cosine above 0.8, in [0, 1]; near 0 for a cloud that fills its space.

    From 200,000 seeded pairs. Above the cloud's sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)`
    widens it.
    """
    return pair_cosines(X).share_above


def _measure(cloud: Cloud, pairs: int, threshold: float) -> PairCosines:
    units = units_of(cloud)
    drawn = units.m * (units.m - 1) // 2 > pairs
    if drawn:
        random = np.random.default_rng(cloud.seed)
        left = random.integers(units.m, size=pairs)
        right = (left + random.integers(1, units.m, size=pairs)) % units.m  # never the row itself
    else:
        left, right = np.triu_indices(units.m, 1)
    cosines = np.sort(_cosines(units, left, right))
    quantiles = np.quantile(cosines, LEVELS)
    above = int(len(cosines) - np.searchsorted(cosines, threshold, side="right"))
    share = above / len(cosines)
    low, high = _order_interval(cosines) if drawn else (quantiles, quantiles)
    share_low, share_high = _share_interval(above, len(cosines)) if drawn else (share, share)
    return PairCosines(LEVELS, quantiles, low, high, threshold, share, share_low, share_high, len(cosines), drawn)


def _cosines(units: UnitRows, left: Indices, right: Indices) -> Doubles:
    """1 - |u - v|^2 / 2, which keeps the last digits where cosines are near 1."""
    step = max(1, 2**20 // units.shifted.shape[1])

    def work(start: int) -> Doubles:
        gap = units.shifted[left[start : start + step]]
        gap -= units.shifted[right[start : start + step]]
        return np.asarray(1 - np.einsum("ij,ij->i", gap, gap).astype(np.float64) / 2, dtype=np.float64)

    cosines: Doubles = np.concatenate(in_threads(work, range(0, len(left), step)))
    return cosines.clip(-1, 1)


def _order_interval(cosines: Doubles) -> tuple[Doubles, Doubles]:
    """The order statistics between which each quantile lies: the number of draws below it is binomial."""
    from scipy.special import bdtrik

    tail, count = (1 - CONFIDENCE) / 2, len(cosines)
    ranks = np.array([[bdtrik(p, count, level) for level in LEVELS] for p in (tail, 1 - tail)])
    low, high = np.clip([np.floor(ranks[0]) - 1, np.ceil(ranks[1])], 0, count - 1).astype(np.intp)
    return cosines[low], cosines[high]


def _share_interval(above: int, count: int) -> tuple[float, float]:
    """Clopper and Pearson's interval of a binomial share."""
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(above, count - above + 1, tail)) if above else 0.0
    high = float(betaincinv(above + 1, count - above, 1 - tail)) if above < count else 1.0
    return low, high
