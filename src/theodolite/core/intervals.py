"""Confidence intervals, all of them: SciPy's where it has the one that is needed, and the few it does not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
"""The share of repetitions in which an interval is to cover the truth, unless a caller asks for another."""

Interval: TypeAlias = tuple[float, float] | tuple[None, None]
"""Lower and upper bound; (None, None) if there is no interval."""

NO_INTERVAL: Interval = (None, None)
ONE_SIGN = 1 - 1e-12
"""Correlations are kept this far from ±1, where Fisher's z is infinite."""


def require_level(level: float) -> float:
    """The level, which must lie strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1")
    return level


def percentile_interval(draws: ArrayLike, *, level: float = LEVEL) -> Interval:
    """The central share `level` of bootstrap draws; none if there are no draws or one of them is not finite.

    Parameters
    ----------
    draws
        The statistic in every resample.
    level
        Coverage, between 0 and 1.
    """
    values = np.asarray(draws, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        return NO_INTERVAL
    low, high = np.quantile(values, [(1 - require_level(level)) / 2, (1 + level) / 2])
    return float(low), float(high)


def deviation_interval(estimate: float, deviations: ArrayLike | None, *, level: float = LEVEL) -> Interval:
    """An interval from deviations of resamples around their own mean, laid around the estimate.

    A statistic of fewer rows may sit at another level than that of all rows, so its resampled values themselves would bound the
    wrong place.

    Parameters
    ----------
    estimate
        The statistic on all rows.
    deviations
        Resampled values minus their mean; None if it was not resampled.
    level
        Coverage, between 0 and 1.
    """
    require_level(level)
    if deviations is None or not math.isfinite(estimate):
        return NO_INTERVAL
    low, high = percentile_interval(deviations, level=level)
    return NO_INTERVAL if low is None or high is None else (estimate + low, estimate + high)


def student_interval(values: ArrayLike, *, level: float = LEVEL) -> Interval:
    """Student's interval of the mean of independent values; none for fewer than two."""
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2 or not np.isfinite(sample).all():
        return NO_INTERVAL
    return standard_error_interval(
        float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(len(sample)), len(sample) - 1, level=level
    )


def standard_error_interval(estimate: float, error: float, degrees: float, *, level: float = LEVEL) -> tuple[float, float]:
    """The interval of an estimate with a standard error known from `degrees` degrees of freedom (Student's t)."""
    from scipy.stats import t

    half = float(t.ppf((1 + require_level(level)) / 2, degrees)) * error
    return estimate - half, estimate + half


def share_interval(count: int, n: int, *, method: str = "wilson", level: float = LEVEL) -> tuple[float, float]:
    """The interval of a share, `count` of `n`: Wilson's score interval, or Clopper and Pearson's (`method="exact"`)."""
    from scipy.stats import binomtest

    bounds = binomtest(count, n).proportion_ci(confidence_level=require_level(level), method=method)
    return float(bounds.low), float(bounds.high)


def quantile_interval(values: ArrayLike, quantile: float, *, level: float = LEVEL) -> tuple[float, float]:
    """The order statistics between which a quantile lies: the number of values below it is binomial.

    Parameters
    ----------
    values
        Independent draws, sorted in ascending order.
    quantile
        Which quantile, between 0 and 1.
    level
        Coverage, between 0 and 1; the interval covers at least that much.
    """
    from scipy.stats import binom

    ordered = np.asarray(values, dtype=np.float64)
    n, tail = len(ordered), (1 - require_level(level)) / 2
    low, high = int(binom.ppf(tail, n, quantile)), int(binom.ppf(1 - tail, n, quantile))
    return float(ordered[max(low - 1, 0)]), float(ordered[min(high, n - 1)])


def spearman_interval(correlation: float, n: int, *, level: float = LEVEL) -> Interval:
    """Fisher's interval of Spearman's correlation over n pairs, with variance 1.06 / (n - 3); none for fewer than five."""
    from scipy.stats import norm

    if n < 5:
        return NO_INTERVAL
    # A perfect order has an infinite z: half of the smallest step that ranks can take keeps it finite.
    furthest = 1 - 6 / (n * (n * n - 1))
    centre = math.atanh(max(-furthest, min(furthest, correlation)))
    half = float(norm.ppf((1 + require_level(level)) / 2)) * math.sqrt(1.06 / (n - 3))
    return min(correlation, math.tanh(centre - half)), max(correlation, math.tanh(centre + half))


def jackknife_interval(
    estimate: float, leave_one_out: Sequence[float], *, correlation: bool = False, level: float = LEVEL
) -> tuple[float, float]:
    """Tukey's jackknife: an interval from the estimates without each unit in turn.

    Parameters
    ----------
    estimate
        The statistic on all units.
    leave_one_out
        The statistic without unit i, for every i.
    correlation
        Whether the statistic is a correlation; the interval is then formed on Fisher's z.
    level
        Coverage, between 0 and 1.
    """
    there: Callable[[float], float] = _fisher if correlation else float
    back: Callable[[float], float] = math.tanh if correlation else float
    values = np.array([there(value) for value in leave_one_out])
    n = len(values)
    error = math.sqrt((n - 1) / n * float(np.square(values - values.mean()).sum()))
    low, high = standard_error_interval(there(estimate), error, n - 1, level=level)
    return back(low), back(high)


def half_samples(n: int, count: int, *, seed: int) -> list[NDArray[np.intp]]:
    """`count` seeded halves of n rows, drawn without replacement, each in ascending order.

    Half-samples have the variance of the sample they are drawn from (McCarthy 1969), without the repeated rows of a bootstrap,
    which would bias a spectrum.
    """
    generator = np.random.default_rng(seed)
    return [np.sort(generator.permutation(n)[: n // 2]) for _ in range(count)]


def _fisher(correlation: float) -> float:
    return math.atanh(min(max(correlation, -ONE_SIGN), ONE_SIGN))
