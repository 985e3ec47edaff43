"""Confidence intervals of every kind: SciPy's if it has the one that is needed, and the few that it lacks."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Default coverage: the share of repetitions in which an interval contains the true value.
LEVEL = 0.95
# Lower and upper bound; (None, None) if there is no interval.
Interval: TypeAlias = tuple[float, float] | tuple[None, None]
NO_INTERVAL: Interval = (None, None)
# The smallest and the largest value that a number can have.
Limits: TypeAlias = tuple[float, float]
UNLIMITED: Limits = (-math.inf, math.inf)


def require_level(level: float) -> float:
    """The level, if it is strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level={level} must be between 0 and 1, such as {LEVEL}")
    return level


def percentile_interval(draws: ArrayLike, *, level: float = LEVEL) -> Interval:
    """The central share `level` of bootstrap draws; none if there are no draws or one of them is not finite."""
    values = np.asarray(draws, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        return NO_INTERVAL
    low, high = np.quantile(values, [(1 - require_level(level)) / 2, (1 + level) / 2])
    return float(low), float(high)


def deviation_interval(estimate: float, deviations: ArrayLike | None, *, level: float = LEVEL) -> Interval:
    """An interval around the estimate, from deviations of resampled values around their own mean.

    A statistic of fewer rows may be larger or smaller on average than that of all rows, so quantiles of the resampled values
    themselves would be in the wrong place.
    """
    require_level(level)
    if deviations is None or not math.isfinite(estimate):
        return NO_INTERVAL
    low, high = percentile_interval(deviations, level=level)
    return NO_INTERVAL if low is None or high is None else (estimate + low, estimate + high)


def replicate_interval(
    estimate: float, deviations: ArrayLike | None, *, level: float = LEVEL, limits: Limits = UNLIMITED
) -> Interval:
    """Student's interval of an estimate from the variance of replicates that have the variance of the estimate.

    40 replicates give bounds about as steady as the quantiles of 200 (`deviation_interval`), as the tails need not be drawn.
    """
    require_level(level)
    values = np.asarray([] if deviations is None else deviations, dtype=np.float64)
    if len(values) < 2 or not (math.isfinite(estimate) and np.isfinite(values).all()):
        return NO_INTERVAL
    bounds = standard_error_interval(estimate, float(values.std(ddof=1)), len(values) - 1, level=level)
    return limited_interval(estimate, bounds, limits)


def limited_interval(estimate: float, interval: tuple[float, float], limits: Limits) -> tuple[float, float]:
    """A symmetric interval, bent so that it stays inside what the number can be.

    It is formed on a scale where the limits are infinitely far away: the logarithm of the distance to a limit, or its difference
    between both (the logit of a share), with the slope at the estimate.
    """
    low, high = limits
    below, above = estimate - low, high - estimate
    if (math.isinf(below) and math.isinf(above)) or min(below, above) <= 0:
        return max(low, interval[0]), min(high, interval[1])
    ends = []
    for end in interval:
        if math.isinf(below):
            ends.append(high - above * math.exp((estimate - end) / above))
        elif math.isinf(above):
            ends.append(low + below * math.exp((end - estimate) / below))
        else:
            odds = below / above * math.exp(min(700.0, (end - estimate) * (high - low) / (below * above)))
            ends.append(low + (high - low) * odds / (1 + odds))
    return ends[0], ends[1]


def student_interval(values: ArrayLike, *, level: float = LEVEL) -> Interval:
    """Student's interval of the mean of independent values; none for fewer than two, or if one is not finite."""
    sample = np.asarray(values, dtype=np.float64)
    n = len(sample)
    if n < 2 or not np.isfinite(sample).all():
        return NO_INTERVAL
    return standard_error_interval(float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(n), n - 1, level=level)


def standard_error_interval(estimate: float, error: float, degrees: float, *, level: float = LEVEL) -> tuple[float, float]:
    """The interval of an estimate from its standard error (Student's t)."""
    from scipy.special import stdtrit  # what scipy.stats.t.ppf calls; scipy.stats takes half a second to import

    half = float(stdtrit(degrees, (1 + require_level(level)) / 2)) * error
    return estimate - half, estimate + half


def share_interval(count: int, n: int, *, method: str = "wilson", level: float = LEVEL) -> tuple[float, float]:
    """The interval of a binomial share."""
    if method == "wilson":  # in closed form: scipy.stats takes half a second to import
        from scipy.special import ndtri

        z = float(ndtri((1 + require_level(level)) / 2))
        centre, half = (count + z * z / 2) / (n + z * z), z / (n + z * z) * math.sqrt(count * (n - count) / n + z * z / 4)
        return max(0.0, centre - half), min(1.0, centre + half)
    from scipy.stats import binomtest

    bounds = binomtest(count, n).proportion_ci(confidence_level=require_level(level), method=method)
    return float(bounds.low), float(bounds.high)


def quantile_interval(values: ArrayLike, quantile: float, *, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a quantile, from order statistics: the number of values below the quantile is binomial."""
    from scipy.stats import binom

    ordered = np.asarray(values, dtype=np.float64)
    n, tail = len(ordered), (1 - require_level(level)) / 2
    # Of n values, between `low` and `high` are below the quantile with probability `level`.
    low, high = int(binom.ppf(tail, n, quantile)), int(binom.ppf(1 - tail, n, quantile))
    return float(ordered[max(low - 1, 0)]), float(ordered[min(high, n - 1)])


def jackknife_interval(
    estimate: float, leave_one_out: Sequence[float], *, correlation: bool = False, level: float = LEVEL
) -> tuple[float, float]:
    """Tukey's jackknife: an interval from the estimates without each unit in turn."""
    n = len(leave_one_out)
    if n < 2:
        raise ValueError(f"a jackknife over {n} units has no spread; it needs at least 2")

    def scale(value: float) -> float:
        # Fisher's z is infinite at ±1.
        return math.atanh(min(max(value, -1 + 1e-12), 1 - 1e-12)) if correlation else value

    values = np.array([scale(value) for value in leave_one_out])
    error = math.sqrt((n - 1) / n * float(np.square(values - values.mean()).sum()))
    low, high = standard_error_interval(scale(estimate), error, n - 1, level=level)
    return (math.tanh(low), math.tanh(high)) if correlation else (low, high)


def half_samples(n: int, count: int, *, seed: int, groups: NDArray[np.generic] | None = None) -> list[NDArray[np.intp]]:
    """Seeded random halves of n rows, or of the groups they come in, drawn without replacement, each in ascending order.

    Half-samples have the variance of the sample they are drawn from (McCarthy 1969), without the repeated rows of a bootstrap,
    which would bias a spectrum.
    """
    generator = np.random.default_rng(seed)
    if groups is None:
        return [np.sort(generator.permutation(n)[: n // 2]) for _ in range(count)]
    names, codes = np.unique(groups, return_inverse=True)
    halves = []
    for _ in range(count):
        is_drawn = np.zeros(len(names), bool)
        is_drawn[generator.permutation(len(names))[: len(names) // 2]] = True
        halves.append(np.flatnonzero(is_drawn[codes]))
    return halves


@dataclass(frozen=True)
class Component:
    """One source of chance in an estimate."""

    source: str
    variance: float
    degrees: float
    n: int


def component_interval(estimate: float, components: Sequence[Component], *, level: float = LEVEL) -> Interval:
    """Student's interval of an estimate with several sources of chance; degrees of freedom by Satterthwaite (1946)."""
    if not components or not math.isfinite(estimate):
        return NO_INTERVAL
    total = sum(component.variance for component in components)
    if total <= 0:
        return estimate, estimate
    within = sum(component.variance**2 / component.degrees for component in components if math.isfinite(component.degrees))
    return standard_error_interval(estimate, math.sqrt(total), total**2 / within if within else math.inf, level=level)


def jackknife_variance(leave_one_out: ArrayLike) -> float:
    """Tukey's variance of a statistic, from its values without each unit in turn."""
    values = np.asarray(leave_one_out, dtype=np.float64)
    return float((len(values) - 1) / len(values) * np.square(values - values.mean()).sum())


def units_needed(
    distance: float, components: Sequence[Component], *, level: float = LEVEL, most: int = 10
) -> tuple[str, int] | None:
    """How many more units of the largest source of chance would bring an interval to one side, at the size observed."""
    if not components or distance <= 0:
        return None
    largest = max(components, key=lambda component: component.variance)
    rest = [component for component in components if component is not largest]

    def decides(n: int) -> bool:
        # Degrees of freedom grow with the units, one for one.
        more = replace(largest, variance=largest.variance * largest.n / n, degrees=largest.degrees + n - largest.n, n=n)
        high = component_interval(0.0, [*rest, more], level=level)[1]
        return high is not None and high < distance

    n = bisect_left(range(most * largest.n + 1), True, lo=largest.n + 1, key=decides)
    return (largest.source, n - largest.n) if n <= most * largest.n else None
