"""Item-level records: how every number of a step varies over its items, drawn alike in all steps, so that effects can be paired.

A step keeps the table `draws` next to its rows: one record per number, with its value in every resample of the items. All steps
resample the same items in the same way (`DRAW_SEED`), so the difference of two numbers in resample b is that of the same items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from theodolite.core.intervals import UNLIMITED, half_samples, limited_interval, standard_error_interval
from theodolite.core.moments import Doubles
from theodolite.core.rows import Row
from theodolite.core.vectors import Floats, Indices
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import REPLICATES, measure
from theodolite.metrics.registry import METRICS
from theodolite.studies.steps import Work

# Of the resamples of all steps: the same items must be drawn whatever the seed of a fine-tuning is.
DRAW_SEED = 0
# Bootstrap resamples of items in steps whose settings do not say how many.
DRAWS = 500
TABLE = "draws"
# The fields of a row that say what a record is of.
FIELDS = ("model", "state", "task", "split", "setting", "layer", "label", "seed", "metric")


@dataclass(frozen=True, eq=False)
class Draws:
    """A number, how it varies over items, and how over what is random besides.

    `items` has its value in every resample of the n items, which are called `units`; it is empty if items were not resampled.
    `repeats` has its value in every repetition of what is random, such as k-means starts; `value` is their mean.
    """

    value: float
    items: Doubles
    n: int
    units: str
    repeats: Sequence[float] = ()
    repeated: str = ""

    @property
    def error(self) -> float:
        """The standard error: of the items, and of the repetitions."""
        among = float(np.var(self.repeats, ddof=1)) / len(self.repeats) if len(self.repeats) > 1 else 0.0
        return float(np.sqrt((float(np.var(self.items, ddof=1)) if len(self.items) > 1 else 0.0) + among))

    def row(self, row: Row) -> Row:
        """The row with this number's interval, which stays inside what the metric can be."""
        if not len(self.items) or not np.isfinite(self.items).all():
            return row
        limits = METRICS[row.metric].limits if row.metric in METRICS else UNLIMITED
        interval = standard_error_interval(row.value, self.error, len(self.items) - 1)
        low, high = limited_interval(row.value, interval, limits)
        return replace(row, low=low, high=high)


@dataclass
class Recorder:
    """Gathers the records of a step."""

    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: Row, draws: Draws) -> Row:
        """Keep the draws of a row's number, and return the row with its interval."""
        if np.isfinite(row.value) and np.isfinite(draws.items).all():
            fields = {name: getattr(row, name) for name in FIELDS}
            items = draws.items.astype(np.float32).tolist()  # six digits are more than a resample is worth
            repeats = {"repeats": list(map(float, draws.repeats)), "repeated": draws.repeated}
            self.records.append({**fields, "value": row.value, "n": draws.n, "units": draws.units, "items": items, **repeats})
        return draws.row(row)

    def shape(self, X: Floats, metrics: Sequence[str], groups: Indices, units: str, fields: Mapping[str, Any]) -> list[Row]:
        """The rows that a survey has for these metrics, with their intervals over half-samples of groups, which are kept."""
        if not metrics:
            return []
        cloud, count = Cloud(X, sample=max(2, len(X)), seed=DRAW_SEED), len(np.unique(groups))
        rows = []
        for row, deviations in measure(cloud, metrics, bootstrap=REPLICATES, groups=groups, about=fields):
            draws = None if deviations is None else Draws(row.value, row.value + deviations, count, units)
            rows.append(row if draws is None else self.add(row, draws))
        return rows

    def write(self, work: Work, name: str = TABLE) -> None:
        """Write what was gathered, if anything was."""
        import pyarrow

        if self.records:
            types: dict[str, Any] = {"items": pyarrow.list_(pyarrow.float32()), "repeats": pyarrow.list_(pyarrow.float64())}
            types |= {"layer": pyarrow.int64(), "seed": pyarrow.int64()}
            keys = list(self.records[0])
            columns = {key: pyarrow.array([record[key] for record in self.records], types.get(key)) for key in keys}
            work.write_records(name, pyarrow.table(columns))


def half_draws(groups: Indices, statistics: Callable[[Indices], Mapping[str, float]]) -> dict[str, Doubles]:
    """Statistics of rows, by name, in each of the half-samples of groups that `Recorder.shape` draws."""
    values = [statistics(rows) for rows in half_samples(len(groups), REPLICATES, seed=DRAW_SEED, groups=groups)]
    return {name: np.array([of_half[name] for of_half in values]) for name in values[0]}
