"""The same run with several seeds: median and standard deviation, and the seed in the middle."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from theodolite.core.rows import Row


def over_seeds(rows: Sequence[Row]) -> list[Row]:
    """Median and standard deviation (n - 1) over the seeds of every number that is there for each seed, told in `setting`.

    A number that is not defined for some seed has neither. `step` is left out: runs may stop at different ones.
    """
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        # What two rows of different seeds have in common.
        same = replace(row, value=0.0, low=None, high=None, reason="", seed=None, step=None, n=row.n)
        groups.setdefault(same, []).append(row)
    seeds = {row.seed for row in rows}
    found = []
    for same, group in groups.items():
        if {row.seed for row in group} != seeds or len(group) != len(seeds):
            continue
        values = [row.value for row in group]
        for name, value, reason in _statistics(values):
            setting = " ".join(filter(None, [same.setting, f"{name} of {len(values)} seeds"]))
            found.append(replace(same, value=value, reason=reason, setting=setting))
    return found


def median_seed(rows: Sequence[Row], metric: str) -> int | None:
    """The seed whose value of a metric is the median one, the lower of two in the middle; None where no value is defined."""
    defined = sorted((row.value, row.seed) for row in rows if row.metric == metric and not math.isnan(row.value))
    return defined[(len(defined) - 1) // 2][1] if defined else None


def _statistics(values: Sequence[float]) -> list[tuple[str, float, str]]:
    if any(math.isnan(value) for value in values):
        reason = "the number is not defined for every seed"
        return [("median", math.nan, reason), ("standard deviation", math.nan, reason)]
    spread = statistics.stdev(values) if len(values) > 1 else math.nan
    reason = "" if len(values) > 1 else "one seed has no spread"
    return [("median", statistics.median(values), ""), ("standard deviation", spread, reason)]
