"""Item-level records: how every number of a step varies over its items, drawn alike in all steps, so that effects can be paired.

A step keeps the table `draws` next to its rows: one record per number, with its value in every resample of the items. All steps
resample the same items in the same way (`DRAW_SEED`), so the difference of two numbers in resample b is that of the same items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import standard_error_interval
from theodolite.core.moments import Doubles, Moments
from theodolite.core.rows import Row
from theodolite.core.vectors import Floats
from theodolite.metrics.cloud import Cloud
from theodolite.spaces.space import Space
from theodolite.studies.steps import Work

# Of the resamples of all steps: the same items must be drawn whatever the seed of a fine-tuning is.
DRAW_SEED = 0
# Resamples of items in steps whose settings do not say how many.
DRAWS = 500
# Groups of items of a jackknife, for spectra, which the repeated items of a bootstrap would bias.
GROUPS = 40
TABLE = "draws"
# The fields of a row that say what a record is of.
FIELDS = ("model", "state", "task", "split", "setting", "layer", "label", "seed", "metric")


@dataclass(frozen=True, eq=False)
class Draws:
    """A number, how it varies over items, and how over what is random besides.

    Parameters
    ----------
    value
        The number itself.
    items
        Its value in every resample of the items; their variance is that of the number. Empty if items were not resampled.
    n
        Number of items.
    units
        What the items are, such as "sentence pairs".
    repeats
        Its value in every repetition, such as k-means starts; `value` is their mean. Empty if nothing was repeated.
    repeated
        What the repetitions are, such as "k-means starts".
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
        return float(np.sqrt((float(np.var(self.items)) if len(self.items) else 0.0) + among))

    def row(self, row: Row) -> Row:
        """The row with this number's interval."""
        if not len(self.items) or not np.isfinite(self.items).all():
            return row
        low, high = standard_error_interval(row.value, self.error, np.inf)
        return replace(row, low=low, high=high)


@dataclass
class Recorder:
    """Gathers the records of a step."""

    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: Row, draws: Draws) -> Row:
        """Keep the draws of a row's number, and return the row with its interval."""
        if np.isfinite(row.value) and np.isfinite(draws.items).all():
            about = {name: getattr(row, name) for name in FIELDS}
            items = draws.items.astype(np.float32).tolist()  # six digits are more than a resample is worth
            repeats = {"repeats": list(map(float, draws.repeats)), "repeated": draws.repeated}
            self.records.append({**about, "value": row.value, "n": draws.n, "units": draws.units, "items": items, **repeats})
        return draws.row(row)

    def write(self, work: Work, name: str = TABLE) -> None:
        """Write what was gathered, if anything was."""
        import pyarrow

        if self.records:
            columns = {key: [record[key] for record in self.records] for key in self.records[0]}
            kinds: dict[str, Any] = {"items": pyarrow.list_(pyarrow.float32()), "repeats": pyarrow.list_(pyarrow.float64())}
            whole = {"layer": pyarrow.int64(), "seed": pyarrow.int64()}
            arrays = {key: pyarrow.array(column, {**kinds, **whole}.get(key)) for key, column in columns.items()}
            work.write_records(name, pyarrow.table(arrays))


def resample_counts(n: int, count: int) -> NDArray[np.float64]:
    """(count, n): how often each of n items is in each bootstrap resample, the same for the same n in all steps."""
    generator = np.random.default_rng(DRAW_SEED)
    drawn = generator.integers(0, n, (count, n))
    return np.stack([np.bincount(row, minlength=n) for row in drawn]).astype(np.float64)


def resampled_items(n: int, count: int) -> NDArray[np.intp]:
    """(count, n): the items of the same resamples by number."""
    return np.random.default_rng(DRAW_SEED).integers(0, n, (count, n))


def pair_numbers(space: Space) -> NDArray[np.intp]:
    """The number of the sentence pair, from 0, that each row of a space of scored pairs is from."""
    return np.unique(np.asarray(space.rows["text"]), return_inverse=True)[1].reshape(-1)


def partition_draws(
    X: Floats, unit: NDArray[np.intp], counts: NDArray[np.float64], *, unit_norm: bool = False
) -> tuple[float, Doubles]:
    """log I(W) of a cloud, and of resamples of its units through their sums of exp(u.x), with the eigenvectors held.

    Parameters
    ----------
    X
        The vectors, (n, d).
    unit
        The number of the unit that each row is from.
    counts
        (resamples, units): how often each unit is drawn.
    unit_norm
        Whether the cloud is scaled to a mean norm of 1 first; resamples keep that scale.
    """
    cloud = Cloud(X)
    directions = cloud.uncentered_spectrum.vectors
    order = np.argsort(unit, kind="stable")
    present, starts = np.unique(unit[order], return_index=True)
    weights = counts[:, present]
    sizes = np.diff([*starts, len(order)]).astype(np.float64)
    scale = 1.0 / cloud.moments.mean_norm if unit_norm else 1.0
    projected = (np.asarray(X, dtype=np.float64)[order] * scale) @ directions
    logs, draws = [], []
    for sign in (1.0, -1.0):
        top = (sign * projected).max(axis=0)  # exp would overflow
        sums = np.add.reduceat(np.exp(sign * projected - top), starts, axis=0)
        logs.append(np.log(sums.sum(axis=0)) + top)
        draws.append(np.log(weights @ sums) + top)
    if directions.shape[1] < cloud.d:  # along a direction without spread F is the number of rows
        logs.append(np.log([sizes.sum()]))
        draws.append(np.log(weights @ sizes)[:, None])
    value, resampled = np.concatenate(logs), np.concatenate(draws, axis=1)
    return min(0.0, float(value.min() - value.max())), np.minimum(0.0, resampled.min(axis=1) - resampled.max(axis=1))


def jackknife_draws(
    X: Floats, unit: NDArray[np.intp], statistics: Mapping[str, Callable[[Moments], float]]
) -> dict[str, Doubles]:
    """Statistics of a cloud's moments as draws, from a jackknife that leaves out one group of units at a time.

    The deviations are stretched so that the variance of the draws is the jackknife's.

    Parameters
    ----------
    X, unit
        As in `partition_draws`.
    statistics
        Functions of the moments, by name; one that raises leaves nan.
    """
    parts = [Moments.of(X[rows]) for rows in _groups(unit)]
    before: list[Moments | None] = [None]
    after: list[Moments | None] = [None]
    for part in parts:
        before.append(_merged(before[-1], part))
    for part in reversed(parts):
        after.append(_merged(after[-1], part))
    values: dict[str, list[float]] = {name: [] for name in statistics}
    for g in range(len(parts)):
        rest = _merged(before[g], after[len(parts) - 1 - g])
        for name, statistic in statistics.items():
            try:
                values[name].append(float("nan") if rest is None else float(statistic(rest)))
            except ValueError:
                values[name].append(float("nan"))
    return {name: stretched(np.array(left)) for name, left in values.items()}


def group_draws(unit: NDArray[np.intp], statistic: Callable[[NDArray[np.intp]], float]) -> Doubles:
    """A statistic of rows as draws, from the same jackknife over groups of units as `jackknife_draws`.

    Parameters
    ----------
    unit
        The number of the unit that each row is from.
    statistic
        A function of the numbers of the rows that are left.
    """
    everything = np.arange(len(unit))
    return stretched(np.array([statistic(np.delete(everything, rows)) for rows in _groups(unit)]))


def _groups(unit: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The rows of each group of units; the groups are the same for the same number of units in all steps."""
    units = int(unit.max()) + 1
    group = np.empty(units, dtype=np.intp)
    group[np.random.default_rng(DRAW_SEED).permutation(units)] = np.arange(units) * min(GROUPS, units) // units
    return [rows for g in range(min(GROUPS, units)) if len(rows := np.flatnonzero(group[unit] == g))]


def stretched(leave_out: Doubles) -> Doubles:
    """Leave-one-group-out values as draws: with their mean, and with the jackknife's variance."""
    mean = leave_out.mean()
    return np.asarray(mean + np.sqrt(len(leave_out) - 1) * (leave_out - mean))


def _merged(first: Moments | None, second: Moments | None) -> Moments | None:
    return second if first is None else first if second is None else first | second
