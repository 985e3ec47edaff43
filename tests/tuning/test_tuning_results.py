"""Median and standard deviation over the seeds of several runs."""

from __future__ import annotations

import math
import statistics

import pytest

from theodolite.core.rows import Row
from theodolite.tuning.results import over_seeds


def rows(values: list[float], metric: str = "accuracy", state: str = "fine-tuned") -> list[Row]:
    reason = "why not"
    return [
        Row(metric=metric, value=v, reason=reason if math.isnan(v) else "", state=state, seed=i, step=10 * i, task="t", n=5)
        for i, v in enumerate(values)
    ]


def test_median_and_deviation_of_every_number_apart() -> None:
    one, other = [0.7, 0.9, 0.6], [0.1, 0.2, 0.6]
    summary = over_seeds([*rows(one), *rows(other, state="isolayer")])
    assert [(row.state, row.setting, row.value, row.seed) for row in summary] == [
        (state, f"{name} of 3 seeds", pytest.approx(function(values)), None)
        for state, values in (("fine-tuned", one), ("isolayer", other))
        for name, function in (("median", statistics.median), ("standard deviation", statistics.stdev))
    ]


def test_what_some_seed_lacks_has_no_median() -> None:
    assert over_seeds([*rows([0.7, 0.9]), *rows([0.5], metric="early")])[0].metric == "accuracy"
    assert {row.metric for row in over_seeds([*rows([0.7, 0.9]), *rows([0.5], metric="early")])} == {"accuracy"}
    undefined = over_seeds(rows([0.7, math.nan]))
    assert all(math.isnan(row.value) and "not defined for every seed" in row.reason for row in undefined)


def test_one_seed_has_no_spread() -> None:
    median, spread = over_seeds(rows([0.4]))
    assert median.value == 0.4 and math.isnan(spread.value) and "one seed" in spread.reason
