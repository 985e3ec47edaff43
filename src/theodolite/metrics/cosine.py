"""Cosines and lengths: the mean cosine and which dimensions it comes from, cosines of random pairs, and row lengths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from theodolite.core.intervals import quantile_interval, share_interval
from theodolite.core.moments import Doubles, Moments, row_norms, unit_sums
from theodolite.core.parallel import in_threads, map_blocks
from theodolite.core.vectors import Floats, Indices, Vectors, source
from theodolite.metrics.cloud import Cloud, Undefined, UnitRows, moments_with_spread, sums_of
from theodolite.metrics.registry import LOWER, NEITHER, metric

PAIRS = 200_000  # pairs of rows that are measured if there are more
LEVELS = (0.05, 0.5, 0.95)  # quantiles of the cosines of pairs
SIMILAR = 0.8  # cosine above which two random rows count as similar
PAIR_METRICS = frozenset({"pair_cosine_p05", "pair_cosine_median", "pair_cosine_p95", "similar_pairs"})


@metric("[-1/(n-1), 1]", LOWER, needs="sums", paper="Ethayarajh 2019", isotropic_at="0")
def mean_cosine(X: Vectors | Moments | Cloud) -> float:
    """Mean cosine over all pairs of different rows (Ethayarajh 2019), in [-1/(n-1), 1]; 0 is isotropic.

    Exact in one pass: the squared length of the summed unit vectors counts every pair. Zero rows have no direction and are
    left out. A mean near 0 does not imply isotropy.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return min(1.0, float(dimension_contributions(X).sum()))  # rounding may leave it a little above 1


def dimension_contributions(X: Vectors | Moments | Cloud) -> Doubles:
    """What each dimension adds to the mean cosine (Timkey & van Schijndel 2021): d numbers that sum to it.

    A few large ones among many small ones are rogue dimensions.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    moments = sums_of(X)
    if moments.directed_rows < 2:
        raise Undefined(f"a cosine needs two rows that are not zero, there are {moments.directed_rows}")
    return moments.cosine_contributions()


@metric("[0, 1]", LOWER, needs="sums", paper="Timkey & van Schijndel 2021")
def rogue_share(X: Vectors | Moments | Cloud) -> float:
    """Share of the three largest dimension contributions in the sum of all magnitudes, in [0, 1]; 3/d is even.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    # Magnitudes: the contribution of a dimension may be negative, and the sum of all may be near 0.
    sizes = np.sort(np.abs(dimension_contributions(X)))[::-1]
    total = float(sizes.sum())
    if total == 0:
        raise Undefined("no dimension contributes to the mean cosine")
    return float(sizes[:3].sum()) / total


@metric("[1, d]", LOWER, needs="moments", paper="Timkey & van Schijndel 2021")
def largest_variance_ratio(X: Vectors | Moments | Cloud) -> float:
    """Variance of the widest dimension over the mean variance of all dimensions, in [1, d]; 1 is even.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    moments = moments_with_spread(X)
    return float(moments.squared_deviations.max()) * moments.d / moments.trace


@metric("[-1/(n-1), 1]", LOWER, needs="sample", paper="Mu & Viswanath 2018", label="mean cosine, centred", isotropic_at="0")
def mean_cosine_centered(X: Vectors | Cloud) -> float:
    """Mean cosine after subtracting the mean, in [-1/(n-1), 1]: what centring alone would achieve.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    if not cloud.moments.has_spread:
        raise Undefined("all rows are the same point: nothing is left after centring")
    total, squares, directed = np.zeros(cloud.d), np.zeros(cloud.d), 0

    def sums(_: int, block: Floats) -> tuple[Doubles, Doubles, int]:
        rows = block - cloud.moments.mean  # in float64, one block at a time
        norms = row_norms(rows)
        return *unit_sums(rows, norms), int((norms > 0).sum())

    for unit_sum, unit_squares, count in map_blocks(sums, source(cloud.sample), check=False):
        total, squares, directed = total + unit_sum, squares + unit_squares, directed + count
    if directed < 2:
        raise Undefined(f"a cosine needs two rows that are not zero, there are {directed} after centring")
    return float((np.square(total) - squares).sum()) / (directed * (directed - 1))


@metric("[0, inf)", NEITHER, needs="sums")
def mean_norm(X: Vectors | Moments | Cloud) -> float:
    """Mean Euclidean length of the rows, at least 0.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return sums_of(X).mean_norm


@metric("[0, inf)", NEITHER, needs="sums")
def norm_variation(X: Vectors | Moments | Cloud) -> float:
    """Coefficient of variation of the rows' lengths, at least 0; at 0 cosine and inner product give the same ranking.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    moments = sums_of(X)
    if moments.mean_norm == 0:
        raise Undefined("all rows are zero")
    variance = moments.norm_squares / moments.n - moments.mean_norm**2
    return float(np.sqrt(max(0.0, variance))) / moments.mean_norm  # rounding may leave it a little below 0


@metric("[0, 1]", NEITHER, needs="sums", resample=False)
def zero_rows(X: Vectors | Moments | Cloud) -> float:
    """Share of rows that are exactly zero, in [0, 1]: empty texts or failed calls.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    moments = sums_of(X)
    return moments.zero_rows / moments.n


@dataclass(frozen=True, eq=False)
class PairCosines:
    """Cosines of pairs of different rows: quantiles and the share above a threshold, with 95% intervals.

    The intervals are for the sampling of the pairs, not for that of the rows. If all pairs were measured, they are the values
    themselves.
    """

    cosines: Doubles
    threshold: float
    is_sample: bool

    @property
    def pairs(self) -> int:
        """Number of pairs measured."""
        return len(self.cosines)

    @cached_property
    def quantiles(self) -> Doubles:
        """The 5%, 50% and 95% quantiles (`LEVELS`)."""
        return np.quantile(self.cosines, LEVELS)

    @cached_property
    def quantile_bounds(self) -> tuple[Doubles, Doubles]:
        """Lower and upper bounds of the quantiles."""
        if not self.is_sample:
            return self.quantiles, self.quantiles
        low, high = np.transpose([quantile_interval(self.cosines, level) for level in LEVELS])
        return low, high

    @property
    def share_above(self) -> float:
        """The share of pairs with a cosine above the threshold."""
        return self._count_above / self.pairs

    @property
    def share_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of that share."""
        if not self.is_sample:
            return self.share_above, self.share_above
        return share_interval(self._count_above, self.pairs, method="exact")

    @property
    def _count_above(self) -> int:
        return int(self.pairs - np.searchsorted(self.cosines, self.threshold, side="right"))


def pair_cosines(X: Vectors | Cloud, *, pairs: int = PAIRS, threshold: float = SIMILAR) -> PairCosines:
    """Quantiles (5%, 50%, 95%) of the cosines of random pairs of different rows, and the share above a threshold.

    Rows of zeros are left out.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    pairs
        Number of pairs, drawn with replacement by the cloud's seed; all pairs are measured if there are no more than this.
    threshold
        The cosine for `share_above`.
    """
    if pairs < 1:
        raise ValueError(f"pairs={pairs} must be at least 1")
    # Cached, as four metrics read the same cosines.
    cloud = Cloud.of(X)

    def measured() -> PairCosines:
        _, _, cosines, is_sample = draw_pairs(cloud, pairs)
        return PairCosines(np.sort(cosines), threshold, is_sample)

    return cloud.cached(("pair cosines", pairs, threshold), measured)


@metric("[-1, 1]", NEITHER, needs="sample", paper="Ethayarajh 2019", label="pair cosine, 5%")
def pair_cosine_p05(X: Vectors | Cloud) -> float:
    """5% quantile of the cosine of two random rows, in [-1, 1]; 19 of 20 pairs are more similar. See `pair_cosines`.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return float(pair_cosines(X).quantiles[0])


@metric("[-1, 1]", NEITHER, needs="sample", paper="Ethayarajh 2019")
def pair_cosine_median(X: Vectors | Cloud) -> float:
    """Median cosine of two random rows, in [-1, 1]; 0 for a cloud without a common direction. See `pair_cosines`.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return float(pair_cosines(X).quantiles[1])


@metric("[-1, 1]", LOWER, needs="sample", paper="Ethayarajh 2019", label="pair cosine, 95%")
def pair_cosine_p95(X: Vectors | Cloud) -> float:
    """95% quantile of the cosine of two random rows, in [-1, 1]; one pair of 20 is more similar. See `pair_cosines`.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return float(pair_cosines(X).quantiles[2])


@metric("[0, 1]", LOWER, needs="sample", paper="Ethayarajh 2019")
def similar_pairs(X: Vectors | Cloud) -> float:
    """Share of random pairs of rows with a cosine above 0.8, in [0, 1]; near 0 for a cloud that fills its space.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return pair_cosines(X).share_above


def draw_pairs(cloud: Cloud, pairs: int) -> tuple[Indices, Indices, Doubles, bool]:
    """Pairs of a cloud's unit rows: the first and the second of each, their cosines, and whether there are more pairs."""
    units = cloud.units
    is_sample = units.m * (units.m - 1) // 2 > pairs
    if is_sample:
        random = np.random.default_rng(cloud.seed)
        first = random.integers(units.m, size=pairs)  # with replacement: independent draws, as the intervals require
        second = (first + random.integers(1, units.m, size=pairs)) % units.m  # never the row itself
    else:
        first, second = np.triu_indices(units.m, 1)
    return first, second, _cosines(units, first, second), is_sample


def _cosines(units: UnitRows, first: Indices, second: Indices) -> Doubles:
    """1 - |u - v|^2 / 2, which has all digits also if cosines are near 1."""
    step = max(1, 2**19 // units.shifted.shape[1])

    def work(start: int) -> Doubles:
        gap = units.shifted.take(first[start : start + step], axis=0)
        gap -= units.shifted.take(second[start : start + step], axis=0)
        return np.asarray(1 - np.einsum("ij,ij->i", gap, gap).astype(np.float64) / 2, dtype=np.float64)

    cosines: Doubles = np.concatenate(in_threads(work, range(0, len(first), step)))
    return cosines.clip(-1, 1)  # rounding may leave one of opposite rows a little below -1
