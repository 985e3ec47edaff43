"""A number a rule rests on, with its 95 % interval: over seeds, from the rows themselves, or none, and always said which."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from theodolite.core.result import Effect

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value and its interval, None where there is none; `how` says of what. `by_seed` are the values behind a mean."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    how: str = ""
    by_seed: Mapping[int, float] = field(default_factory=dict)

    @property
    def bounds(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    def effect(self, name: str) -> Effect:
        return Effect(name=name, value=self.value, low=self.low, high=self.high, n=self.n, how=self.how)

    def __str__(self) -> str:
        interval = "" if self.bounds is None else f" [{self.bounds[0]:+.3g}, {self.bounds[1]:+.3g}]"
        return f"{self.value:+.3g}{interval}"


def over(values: Sequence[float], of: str) -> Estimate:
    """The mean of a few values with Student's interval; of one value, no interval. `of` names them: seeds, layers."""
    found = np.asarray(values, dtype=float)
    mean, n = float(found.mean()), len(found)
    if n < 2:
        return Estimate(value=mean, n=n, how=f"one of the {of}: no interval")
    half = student(n - 1) * float(found.std(ddof=1)) / math.sqrt(n)
    return Estimate(value=mean, low=mean - half, high=mean + half, n=n, how=f"mean over {n} {of}, t-interval")


def student(free: int) -> float:
    """The quantile of Student's t that bounds 95 %."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, free))


def difference(after: Estimate, before: Estimate) -> Estimate:
    """`after` minus `before`: paired where both have the same seeds, otherwise from the two intervals.

    Two intervals are squared and added (Zou & Donner 2008), which takes them as independent: wider than need be where the same
    sentences are behind both.
    """
    both = sorted(set(after.by_seed) & set(before.by_seed))
    if len(both) > 1:
        paired = over([after.by_seed[seed] - before.by_seed[seed] for seed in both], "paired seeds")
        return Estimate(**{**vars(paired), "by_seed": {s: after.by_seed[s] - before.by_seed[s] for s in both}})
    value = after.value - before.value
    if after.bounds is None and before.bounds is None:
        return Estimate(value=value, how="point values, no interval")
    a, b = after.bounds or (after.value, after.value), before.bounds or (before.value, before.value)
    one = "" if after.bounds and before.bounds else "; one of them has none"
    return Estimate(
        value=value,
        low=value - math.hypot(after.value - a[0], b[1] - before.value),
        high=value + math.hypot(a[1] - after.value, before.value - b[0]),
        n=after.n,
        how=f"both intervals, squared and added{one} ({after.how or before.how})",
    )


def size(estimate: Estimate) -> Estimate:
    """The absolute value of an estimate and of its interval."""
    bounds = None
    if estimate.bounds is not None:
        ends = sorted(map(abs, estimate.bounds))
        bounds = (0.0 if estimate.bounds[0] <= 0 <= estimate.bounds[1] else ends[0], ends[1])
    return Estimate(
        value=abs(estimate.value),
        low=bounds and bounds[0],
        high=bounds and bounds[1],
        n=estimate.n,
        how=estimate.how,
        by_seed={seed: abs(value) for seed, value in estimate.by_seed.items()},
    )


def share(count: int, n: int, of: str) -> Estimate:
    """A share of n with Wilson's interval."""
    from scipy.stats import norm

    z, p = float(norm.ppf((1 + LEVEL) / 2)), count / n
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return Estimate(
        value=p,
        low=max(0.0, (centre - half) / scale),
        high=min(1.0, (centre + half) / scale),
        n=n,
        how=f"{count} of {n} {of}, Wilson",
    )


def rank_correlation(first: Sequence[float], second: Sequence[float], of: str) -> Estimate | None:
    """Spearman's correlation with the interval of Fisher's z (variance 1.06/(n - 3)); None of fewer than three or constants."""
    from scipy.stats import norm, spearmanr

    n = len(first)
    if n < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    value = float(spearmanr(first, second).statistic)
    how = f"Spearman over {n} {of}"
    if n < 5:
        return Estimate(value=value, n=n, how=f"{how}: too few for an interval")
    # A perfect order has an infinite z: half of the smallest step that ranks can take keeps it finite.
    furthest = 1 - 6 / (n * (n * n - 1))
    centre = math.atanh(max(-furthest, min(furthest, value)))
    half = float(norm.ppf((1 + LEVEL) / 2)) * math.sqrt(1.06 / (n - 3))
    low, high = min(value, math.tanh(centre - half)), max(value, math.tanh(centre + half))
    return Estimate(value=value, low=low, high=high, n=n, how=f"{how}, Fisher's z")
