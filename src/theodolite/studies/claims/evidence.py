"""What a rule sees: the rows of one source, and the numbers with 95 % intervals that are taken from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from theodolite.core.intervals import spearman_interval, standard_error_interval, student_interval
from theodolite.core.result import Effect
from theodolite.core.rows import Row

# Metrics that are the logarithm of another one, which tables print.
LOGARITHMS = {"log_partition_isotropy": "partition_isotropy"}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its 95 % interval.

    Parameters
    ----------
    value
        The number.
    low, high
        Its interval; None if it has none.
    n
        How many units it comes from.
    how
        What the interval covers, or that there is none.
    by_seed
        The values behind a mean over seeds, for differences that are paired by seed.
    """

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
        """The same under a name, as a verdict keeps it."""
        return Effect(name=name, value=self.value, low=self.low, high=self.high, n=self.n, how=self.how)

    def __str__(self) -> str:
        interval = "" if self.bounds is None else f" [{self.bounds[0]:+.3g}, {self.bounds[1]:+.3g}]"
        return f"{self.value:+.3g}{interval}"


def mean_estimate(values: Sequence[float] | Mapping[int, float], units: str) -> Estimate:
    """The mean of a few values with Student's interval; a single value has none.

    Parameters
    ----------
    values
        The values, or the values by seed, which the estimate then keeps.
    units
        What they are of, in the plural: seeds, layers, labels.
    """
    by_seed = values if isinstance(values, Mapping) else {}
    sample = list(values.values()) if isinstance(values, Mapping) else list(values)
    low, high = student_interval(sample)
    how = f"one of the {units}: no interval" if len(sample) < 2 else f"mean over {len(sample)} {units}, t-interval"
    return Estimate(value=float(np.mean(sample)), low=low, high=high, n=len(sample), how=how, by_seed=by_seed)


def difference(after: Estimate | None, before: Estimate | None) -> Estimate | None:
    """`after` minus `before`: paired if both have the same seeds, otherwise from the two intervals; None if one is missing.

    Two intervals are squared and added (Zou & Donner 2008), as if they were independent: wider than necessary if the same
    sentences are behind both.
    """
    if after is None or before is None:
        return None
    seeds = sorted(set(after.by_seed) & set(before.by_seed))
    if len(seeds) > 1:
        return mean_estimate({seed: after.by_seed[seed] - before.by_seed[seed] for seed in seeds}, "paired seeds")
    value = after.value - before.value
    if after.bounds is None and before.bounds is None:
        return Estimate(value=value, how="point values, no interval")
    a, b = after.bounds or (after.value, after.value), before.bounds or (before.value, before.value)
    caveat = "" if after.bounds and before.bounds else "; one of them has none"
    return Estimate(
        value=value,
        low=value - math.hypot(after.value - a[0], b[1] - before.value),
        high=value + math.hypot(a[1] - after.value, before.value - b[0]),
        n=after.n,
        how=f"both intervals, squared and added{caveat} ({after.how or before.how})",
    )


def magnitude(estimate: Estimate) -> Estimate:
    """The absolute value of an estimate and of its interval."""
    low = high = None
    if estimate.bounds is not None:
        near, high = sorted(map(abs, estimate.bounds))
        # An interval around 0 has its smallest size in the middle and not at one of its ends.
        low = 0.0 if estimate.bounds[0] <= 0 <= estimate.bounds[1] else near
    by_seed = {seed: abs(value) for seed, value in estimate.by_seed.items()}
    return replace(estimate, value=abs(estimate.value), low=low, high=high, by_seed=by_seed)


def rank_correlation(first: Sequence[float], second: Sequence[float], units: str) -> Estimate | None:
    """Spearman's correlation with the interval of Fisher's z; None for fewer than three pairs, or if one side is constant."""
    from scipy.stats import spearmanr

    n = len(first)
    if n < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    value = float(spearmanr(first, second).statistic)
    low, high = spearman_interval(value, n)
    how = f"Spearman over {n} {units}" + (": too few for an interval" if low is None else ", Fisher's z")
    return Estimate(value=value, low=low, high=high, n=n, how=how)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Rows of one source: the measured rows of a model, or what one or more tables print of it.

    Parameters
    ----------
    source
        What the source is called in a verdict.
    rows
        The rows.
    printed
        Whether they are printed ones, which have no intervals.
    decide
        The command that would decide a claim that these rows leave open.
    score
        The metric that the word "score" stands for in each task.
    repeats
        How many repetitions are behind a metric's `_sd` row.
    halves
        Half a unit of the last printed digit of each row.
    widths
        The dimension of each model that tables name.
    """

    source: str
    rows: tuple[Row, ...]
    printed: bool = False
    decide: str = ""
    score: Mapping[str, str] = field(default_factory=dict)
    repeats: Mapping[str, int] = field(default_factory=dict)
    halves: Mapping[Row, float] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """The models, in the order of the rows."""
        return list(dict.fromkeys(row.model for row in self.rows))

    def of_model(self, model: str) -> Evidence:
        """The same with the rows of one model."""
        return replace(self, rows=tuple(row for row in self.rows if row.model == model))

    def find(self, metric: str, **fields: Any) -> list[Row]:
        """Rows of a metric whose fields have these values; "score" is the task's own metric."""
        head, _, rest = metric.partition("_")
        if head == "score":
            metric = "_".join(filter(None, [self.score.get(fields.get("task") or "", head), rest]))
        rows = [row for row in self.rows if row.metric == metric and all(getattr(row, k) == v for k, v in fields.items())]
        if not rows and metric in LOGARITHMS:  # tables print I, and the rules compare log I
            rows = [_logarithm(row, metric) for row in self.find(LOGARITHMS[metric], **fields)]
        return rows

    def final(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of a state as it is: without a layer or else of the deepest one, without a step or else of the last one."""
        # A study measures many layers and training steps on the way; claims and tables are about the finished state.
        candidates = list(rows)
        whole = [row for row in candidates if row.layer is None]
        final: dict[tuple[Any, ...], Row] = {}
        for row in whole or [row for row in candidates if row.layer == self._depth(row.task)]:
            key = (row.model, row.state, row.task, row.setting, row.seed, row.label)
            if key not in final or _step(row) >= _step(final[key]):
                final[key] = row
        return list(final.values())

    def estimate(self, metric: str, **fields: Any) -> Estimate | None:
        """One number at the last layer, or at `layer`: the mean over seeds if there are several; None if there is no row."""
        rows = self.find(metric, **fields)
        if fields.get("layer") is not None:  # a layer that was asked for must not be dropped because there is a deeper one
            rows = [replace(row, layer=None) for row in rows]
        by_seed = {row.seed: row for row in self.final(rows) if math.isfinite(row.value)}
        if not by_seed:
            return None
        if len(by_seed) == 1:
            return self._single(next(iter(by_seed.values())))
        # A row without a seed among rows with one cannot be paired with anything.
        return mean_estimate({seed: row.value for seed, row in by_seed.items() if seed is not None}, "seeds")

    def undefined(self, metric: str, **fields: Any) -> str:
        """Why a number is nan; empty if it is not, or was not measured."""
        return next((row.reason for row in self.final(self.find(metric, **fields)) if math.isnan(row.value)), "")

    def _single(self, row: Row) -> Estimate:
        low, high, n, how = row.low, row.high, row.n, "as measured"
        if low is None or high is None:
            how = "as printed, no interval" if self.printed else "no interval"
            names = ("state", "task", "setting", "seed", "label", "model", *(() if row.layer is None else ("layer",)))
            spreads = self.find(f"{row.metric}_sd", **{name: getattr(row, name) for name in names})
            deviations = [spread.value for spread in spreads if math.isfinite(spread.value)]
            # How many repetitions are behind a printed deviation is not known, so it gives no interval.
            repeats = 0 if self.printed else self.repeats.get(row.metric, 0)
            if repeats > 1 and deviations:
                low, high = standard_error_interval(row.value, deviations[-1] / math.sqrt(repeats), repeats - 1)
                n, how = repeats, f"{repeats} initialisations, t-interval"
        by_seed = {} if row.seed is None else {row.seed: row.value}
        return Estimate(value=row.value, low=low, high=high, n=n, how=how, by_seed=by_seed)

    def _depth(self, task: str) -> int | None:
        return max((row.layer for row in self.rows if row.layer is not None and row.task == task), default=None)


def _step(row: Row) -> float:
    return math.inf if row.step is None else row.step


def _logarithm(row: Row, metric: str) -> Row:
    value, low, high = (None if x is None else math.log(x) if x > 0 else -math.inf for x in (row.value, row.low, row.high))
    return replace(row, metric=metric, value=cast("float", value), low=low, high=high)
