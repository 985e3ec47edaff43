"""Bounds of measured numbers: how low or high a value may be, and how far it may be from a baseline."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from theodolite.core.intervals import Interval
from theodolite.core.measures import MEASURES
from theodolite.core.numbers import number_text
from theodolite.core.rows import Row
from theodolite.core.spelling import suggestion
from theodolite.metrics.registry import METRICS, label_of

# Metrics of judged queries.
RETRIEVAL = re.compile(r"(ndcg|recall)@[1-9]\d*|mrr")


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What a metric's values must keep to."""

    metric: str
    min: float | None = None
    max: float | None = None
    drop: float | str | None = None
    rise: float | str | None = None
    layer: int | None = None

    @classmethod
    def parse(cls, metric: str, values: Any) -> Self:
        """The bound that a table of a configuration states."""
        known = [entry.name for entry in fields(cls) if entry.name != "metric"]
        if metric not in METRICS and metric not in MEASURES and not RETRIEVAL.fullmatch(metric):
            raise ValueError(f"there is no metric {metric!r} to set a bound for; {suggestion(metric, [*METRICS, *MEASURES])}")
        if not isinstance(values, Mapping) or not set(values) - {"layer"}:
            raise ValueError(f"the bound of {metric} must be a table such as {{ max = 0.3, rise = 0.05 }}, not {values!r}")
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"the bound of {metric} has no {name!r}; {suggestion(name, known)}")
            _check(metric, name, value)
        return cls(metric=metric, **values)

    @property
    def needs_baseline(self) -> bool:
        """Whether the bound is relative to a baseline."""
        return self.drop is not None or self.rise is not None

    def limits(self, baseline: float | None) -> tuple[float, float]:
        """The lowest and the highest value that are allowed, infinite where there is no bound."""
        low = -math.inf if self.min is None else self.min
        high = math.inf if self.max is None else self.max
        if baseline is not None:
            low = low if self.drop is None else max(low, baseline - _distance(self.drop, baseline))
            high = high if self.rise is None else min(high, baseline + _distance(self.rise, baseline))
        return low, high

    def range_text(self, baseline: float | None) -> str:
        """The range that is allowed, in words."""
        low, high = self.limits(baseline)
        parts = [f"at least {number_text(low)}"] * (low > -math.inf) + [f"at most {number_text(high)}"] * (high < math.inf)
        return " and ".join(parts)

    def is_certain(self, row: Row, baseline: float | None, change: Interval) -> bool:
        """Whether a value outside the limits is there beyond sampling error: the interval lies outside, or there is none.

        `change` is the interval of the difference from the baseline.
        """
        tests = []
        if self.min is not None and row.value < self.min:
            tests.append(row.high is None or row.high < self.min)
        if self.max is not None and row.value > self.max:
            tests.append(row.low is None or row.low > self.max)
        if baseline is not None:
            if self.drop is not None and row.value < baseline - (limit := _distance(self.drop, baseline)):
                tests.append(change[1] is None or change[1] < -limit)
            if self.rise is not None and row.value > baseline + (limit := _distance(self.rise, baseline)):
                tests.append(change[0] is None or change[0] > limit)
        return any(tests)

    def breach(self, row: Row, baseline: float | None = None) -> str:
        """One sentence if a value breaks the bound; empty if it does not."""
        name = label_of(self.metric) + (f" in layer {row.layer}" if row.layer is not None else "")
        name += f" of {row.label}" if row.label else ""
        if math.isnan(row.value):
            return f"{name} is not defined: {row.reason}"
        low, high = self.limits(baseline)
        if low <= row.value <= high:
            return ""
        side, limit = ("below", low) if row.value < low else ("above", high)
        # The baseline is named only where it sets the limit.
        relative = baseline is not None and limit != (self.min if side == "below" else self.max)
        versus = f" (the baseline has {number_text(baseline)})" if relative and baseline is not None else ""
        return f"{name} {number_text(row.value)} is {side} the bound {number_text(limit)}{versus}"


def _check(metric: str, name: str, value: Any) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if name == "layer":
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} = {value!r} in the bound of {metric} must be the number of a layer")
        return
    if name in ("drop", "rise"):
        try:
            is_number = _distance(value, 1.0) >= 0
        except (ValueError, TypeError):
            is_number = False
        rule = 'must be a number that is not negative, or a share such as "5%"'
    else:
        rule = "must be a number"
    if not is_number:
        raise ValueError(f"{name} = {value!r} in the bound of {metric} {rule}")


def _distance(tolerance: float | str, baseline: float) -> float:
    if not isinstance(tolerance, str):
        return float(tolerance)
    if not tolerance.strip().endswith("%"):
        raise ValueError(tolerance)
    return float(tolerance.strip()[:-1]) / 100 * abs(baseline)
