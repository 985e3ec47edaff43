"""Mean cosine, which dimensions it comes from, and the lengths it leaves out."""

from __future__ import annotations

import numpy as np

from theodolite.core.moments import Doubles, Moments
from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud, Undefined, moments_of
from theodolite.metrics.registry import metric


@metric(range="[-1/(n-1), 1]", direction="lower is isotropic", paper="Ethayarajh 2019", needs="moments", isotropic_at="0")
def mean_cosine(X: Vectors | Moments | Cloud) -> float:
    """Mean cosine over all pairs of different rows (Ethayarajh 2019), in [-1/(n-1), 1]; 0 is isotropic.

    Exact in one pass: the squared length of the summed unit vectors counts every pair. Zero rows have no direction and are
    left out. A mean near 0 does not imply isotropy.
    """
    return float(dimension_contributions(X).sum())


def dimension_contributions(X: Vectors | Moments | Cloud) -> Doubles:
    """What each dimension adds to the mean cosine (Timkey & van Schijndel 2021): d numbers that sum to it.

    A few large ones among many small ones are rogue dimensions.
    """
    moments = moments_of(X)
    if moments.directed_rows < 2:
        raise Undefined(f"a cosine needs two rows that are not zero, there are {moments.directed_rows}")
    return moments.cosine_contributions()


@metric(range="[0, 1]", direction="lower is isotropic", paper="Timkey & van Schijndel 2021", needs="moments")
def rogue_share(X: Vectors | Moments | Cloud) -> float:
    """Share of the three largest dimension contributions in the sum of all magnitudes, in [0, 1]; 3/d is even."""
    sizes = np.sort(np.abs(dimension_contributions(X)))[::-1]
    total = float(sizes.sum())
    if total == 0:
        raise Undefined("no dimension contributes to the mean cosine")
    return float(sizes[:3].sum()) / total


@metric(range="[1, d]", direction="lower is isotropic", paper="Timkey & van Schijndel 2021", needs="moments")
def largest_variance_ratio(X: Vectors | Moments | Cloud) -> float:
    """Variance of the widest dimension over the mean variance of all, in [1, d]; 1 is even."""
    moments = moments_of(X)
    if moments.n < 2 or not moments.has_spread:
        raise Undefined("there is no variance to compare")
    return float(moments.squared_deviations.max()) * moments.d / moments.trace


@metric(
    range="[-1/(n-1), 1]",
    direction="lower is isotropic",
    paper="Mu & Viswanath 2018",
    needs="sample",
    label="mean cosine, centred",
    isotropic_at="0",
)
def mean_cosine_centered(X: Vectors | Cloud) -> float:
    """Mean cosine after taking the mean off, in [-1/(n-1), 1]: what centring alone would bring. On the seeded sample."""
    cloud = Cloud.of(X)
    if not cloud.moments.has_spread:
        raise Undefined("all rows are the same point: nothing is left after centring")
    return float(dimension_contributions(cloud.sample - cloud.moments.mean).sum())


@metric(range="[0, inf)", direction="neither", paper="", needs="moments")
def mean_norm(X: Vectors | Moments | Cloud) -> float:
    """Mean Euclidean length of the rows, at least 0."""
    return moments_of(X).mean_norm


@metric(range="[0, inf)", direction="neither", paper="", needs="moments", label="norm variation")
def norm_variation(X: Vectors | Moments | Cloud) -> float:
    """Coefficient of variation of the rows' lengths, at least 0; at 0 cosine and inner product rank alike."""
    moments = moments_of(X)
    if moments.mean_norm == 0:
        raise Undefined("all rows are zero")
    variance = moments.norm_squares / moments.n - moments.mean_norm**2
    return float(np.sqrt(max(0.0, variance))) / moments.mean_norm


@metric(range="[0, 1]", direction="neither", paper="", needs="moments", resample=False)
def zero_rows(X: Vectors | Moments | Cloud) -> float:
    """Share of rows that are exactly zero, in [0, 1]: empty texts or failed calls."""
    moments = moments_of(X)
    return moments.zero_rows / moments.n
