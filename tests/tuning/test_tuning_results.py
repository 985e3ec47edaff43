"""Median and standard deviation over the seeds of several runs."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from theodolite.core.rows import Row
from theodolite.tuning.results import _tuned_answer, over_seeds


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


def answered(metric: str, value: float, *, n: int = 200, before: float = 0.0, labels: tuple[str, ...] = ("a", "b")) -> str:
    ends = [
        Row(metric=metric, value=each, state=state, split="dev", n=n)
        for each, state in ((before, "pre-trained"), (value, "fine-tuned"))
    ]
    return _tuned_answer(ends, *ends, labels).verdict


def test_a_score_that_ignores_the_texts_is_called_learned_in_at_most_five_of_a_hundred_runs() -> None:
    rng = np.random.default_rng(5)
    guesses = rng.binomial(200, 0.5, 2_000) / 200
    assert np.mean([answered("accuracy", value) == "learned" for value in guesses]) <= 0.06
    correlations = [np.corrcoef(rng.integers(0, 2, (2, 200)))[0, 1] for _ in range(500)]
    assert np.mean([answered("matthews", value) == "learned" for value in correlations]) <= 0.075
    normal = [np.corrcoef(rng.standard_normal((2, 200)))[0, 1] for _ in range(1_000)]
    pairs = zip(normal[::2], normal[1::2], strict=True)
    assert np.mean([answered("spearman", after, before=first, labels=()) == "learned" for first, after in pairs]) <= 0.075


def test_a_clear_score_is_learned_against_its_own_baseline() -> None:
    assert answered("accuracy", 0.7) == "learned" and answered("accuracy", 0.7, labels=("a",) * 3 + ("b",)) == "not learned"
    assert answered("spearman", 0.8, before=0.5, labels=()) == "learned"
    assert answered("spearman", 0.8, before=0.79, labels=()) == "not learned"


def test_vectors_that_are_not_finite_or_one_point_are_collapsed() -> None:
    shape = Row(metric="ev_1_centered", value=math.nan, reason="all rows are the same point", state="fine-tuned")
    ends = [Row(metric="accuracy", value=0.9, state=state, split="dev", n=200) for state in ("pre-trained", "fine-tuned")]
    answer = _tuned_answer([*ends, shape], *ends, ("a", "b"))
    assert answer.verdict == "collapsed" and "all rows are the same point" in answer.sentence
