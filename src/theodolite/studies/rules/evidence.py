"""What a rule sees: the rows of one source, and how numbers are taken from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from theodolite.core.rows import Row
from theodolite.studies.rules.estimate import Estimate, over, student

LOGS = {"log_partition_isotropy": "partition_isotropy"}
"""Metrics that are the logarithm of another, which tables print."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Rows of one source: measured ones of a model, or what one or more tables print of it.

    `score` gives the metric that the word "score" stands for in each task; `repeats` how many repetitions are behind a metric's
    `_sd` row; `halves` half a unit of the last printed digit; `widths` the dimension of each model that tables name.
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

    def find(self, metric: str, **where: Any) -> list[Row]:
        """Rows of a metric whose fields are as given; "score" is the task's own metric."""
        metric = self._metric(metric, where.get("task"))
        rows = [row for row in self.rows if row.metric == metric and all(getattr(row, k) == v for k, v in where.items())]
        if not rows and metric in LOGS:
            rows = [_log(row, metric) for row in self.find(LOGS[metric], **where)]
        return rows

    def last(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of a state as it is: without a layer or else of the deepest one, without a step or else of the last one."""
        found = list(rows)
        whole = [row for row in found if row.layer is None]
        found = whole or [row for row in found if row.layer == self._depth(row.task)]
        ends: dict[tuple[Any, ...], Row] = {}
        for row in found:
            key = (row.model, row.state, row.task, row.setting, row.seed, row.label)
            if key not in ends or _order(row) >= _order(ends[key]):
                ends[key] = row
        return list(ends.values())

    def estimate(self, metric: str, **where: Any) -> Estimate | None:
        """One number at the last layer (or at `layer`): the mean over seeds where there are several; None where there is none."""
        rows = [row for row in self.last(self._at(metric, **where)) if math.isfinite(row.value)]
        by_seed = {row.seed: row for row in rows}
        if not by_seed:
            return None
        if len(by_seed) == 1:
            return self._single(next(iter(by_seed.values())))
        seeds = {seed: row.value for seed, row in by_seed.items() if seed is not None}
        return replace(over(list(seeds.values()), "seeds"), by_seed=seeds)

    def _at(self, metric: str, **where: Any) -> list[Row]:
        rows = self.find(metric, **where)
        # A layer that was asked for is not to be taken for a shallow one.
        return [replace(row, layer=None) for row in rows] if where.get("layer") is not None else rows

    def undefined(self, metric: str, **where: Any) -> str:
        """Why a number that was asked for is nan, or nothing where it was not asked for."""
        return next((row.reason for row in self.last(self.find(metric, **where)) if math.isnan(row.value)), "")

    def _single(self, row: Row) -> Estimate:
        seeds = {} if row.seed is None else {row.seed: row.value}
        if row.low is not None and row.high is not None:
            return Estimate(value=row.value, low=row.low, high=row.high, n=row.n, how="as measured", by_seed=seeds)
        times = 0 if self.printed else self.repeats.get(row.metric, 0)
        spread = [other.value for other in self.find(f"{row.metric}_sd", **_same(row)) if math.isfinite(other.value)]
        if times > 1 and spread:
            half = student(times - 1) * spread[-1] / math.sqrt(times)
            how = f"{times} initialisations, t-interval"
            return Estimate(value=row.value, low=row.value - half, high=row.value + half, n=times, how=how, by_seed=seeds)
        return Estimate(value=row.value, n=row.n, how="as printed, no interval" if self.printed else "no interval", by_seed=seeds)

    def _metric(self, metric: str, task: str | None) -> str:
        head, _, rest = metric.partition("_")
        named = self.score.get(task or "", head) if head == "score" else head
        return f"{named}_{rest}" if rest else named

    def _depth(self, task: str) -> int | None:
        return max((row.layer for row in self.rows if row.layer is not None and row.task == task), default=None)


def _order(row: Row) -> float:
    return math.inf if row.step is None else row.step


def _same(row: Row) -> dict[str, Any]:
    names = ("state", "task", "setting", "seed", "label", "model", *(() if row.layer is None else ("layer",)))
    return {name: getattr(row, name) for name in names}


def _log(row: Row, metric: str) -> Row:
    value, low, high = (
        None if end is None else math.log(end) if end > 0 else -math.inf for end in (row.value, row.low, row.high)
    )
    return replace(row, metric=metric, value=-math.inf if value is None else value, low=low, high=high)
