"""Which of two representations scores higher on the user's own items: the paired difference, item by item."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theodolite.advice.folds import grouped_folds, linked_groups, resample_counts
from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs, Signal, as_they_are
from theodolite.core.intervals import LEVEL, Interval, half_samples, percentile_interval, replicate_interval
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Indices
from theodolite.metrics.evaluation import REPLICATES

FOLDS = 5
DRAWS = 1000  # bootstrap resamples behind an interval


@dataclass(frozen=True, kw_only=True)
class ScoreDifference:
    """The score of A and of B on the same items, and B minus A with its 95% interval."""

    metric: str
    noun: str
    n: int
    before: float
    after: float
    difference: float
    low: float | None = None
    high: float | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def score_difference(
    before: Signal, after: Signal, *, seed: int = 0, draws: int = DRAWS, level: float = LEVEL
) -> ScoreDifference:
    """The paired difference of two signals of one kind whose items correspond: items are resampled, both sides at once.

    Queries and pairs are drawn with replacement. Labelled rows also predict each other, so that halves of them are scored anew.
    """
    _require_same_items(before, after)
    groups = linked_groups(before.groups.tolist(), after.groups.tolist())
    folds = np.zeros(len(groups), np.intp)
    if isinstance(before, LabelledRows):  # a label is predicted from other rows, the same ones on both sides
        try:
            folds = grouped_folds(groups, FOLDS, strata=before.strata, seed=seed)
        except ValueError:
            rule = f"in {len(np.unique(groups))} groups of equal rows are too few to predict labels of a fifth of them"
            raise ValueError(f"{len(groups)} rows {rule} from the others; give more rows") from None
    evidence = [_evidence(side, folds) for side in (before, after)]
    scores, interval = paired_gain(before, evidence, groups, seed=seed, draws=draws, level=_expanded(level, groups))
    if isinstance(before, LabelledRows):
        halves = half_samples(len(before), REPLICATES, seed=seed, groups=groups)
        gains = [float((_evidence(after, folds, half) - _evidence(before, folds, half)).mean()) for half in halves]
        interval = replicate_interval(scores[1] - scores[0], np.array(gains) - np.mean(gains), level=level)
        interval = _no_shorter(interval, _discordant_interval(*evidence, level=level))
    fields: dict[str, Any] = {"metric": before.metric, "noun": before.noun, "n": len(before), "before": scores[0]}
    return ScoreDifference(**fields, after=scores[1], difference=scores[1] - scores[0], low=interval[0], high=interval[1])


def paired_gain(
    signal: Signal, evidence: Sequence[Doubles], groups: Indices, *, seed: int, draws: int = DRAWS, level: float = LEVEL
) -> tuple[tuple[float, float], Interval]:
    """The metric of the first and of the second numbers of all items, and the interval of what the second gains."""
    items, counts = np.arange(len(signal)), resample_counts(groups, draws, seed=seed)
    first, second = (float(signal.value(numbers, items, np.ones((1, len(items))))[0]) for numbers in evidence)
    old, new = (signal.value(numbers, items, counts) for numbers in evidence)
    return (first, second), percentile_interval(new - old, level=level)


def _expanded(level: float, groups: Indices) -> float:
    """The level of percentiles that covers as Student's t does: those of few items are too narrow (Hesterberg 2015)."""
    from scipy.special import ndtr, stdtrit

    m = len(np.unique(groups))
    return level if m < 2 else 1 - 2 * float(ndtr(-math.sqrt(m / (m - 1)) * stdtrit(m - 1, (1 + level) / 2)))


def _evidence(signal: Signal, folds: Indices, items: Indices | None = None) -> Doubles:
    """One number for each of some items, of the vectors as they are; labels come from the items of the other folds."""
    items = np.arange(len(signal)) if items is None else items
    values = np.empty(len(items))
    for fold in np.unique(folds[items]):
        is_test = folds[items] == fold
        train = items if is_test.all() else items[~is_test]
        values[is_test] = signal.evidence(as_they_are, train, items[is_test])
    return values


def _discordant_interval(before: Doubles, after: Doubles, *, level: float) -> tuple[float, float]:
    """The interval of a difference of two shares of right items, paired (Bonett & Price 2012).

    A bootstrap of three items that all speak for one side is certain of it; one more item on either side is not.
    """
    from scipy.special import ndtri

    n = len(before) + 2
    gained, lost = ((float((a > b).sum()) + 1) / n for a, b in ((after, before), (before, after)))
    half = float(ndtri((1 + level) / 2)) * math.sqrt((gained + lost - (gained - lost) ** 2) / n)
    return gained - lost - half, gained - lost + half


def _no_shorter(interval: Interval, other: tuple[float, float]) -> Interval:
    low, high = interval
    return interval if low is None or high is None else (min(low, other[0]), max(high, other[1]))


def _require_same_items(before: Signal, after: Signal) -> None:
    if type(before) is not type(after):
        raise ValueError(f"A is scored by {before.noun} and B by {after.noun}; give the same signal for both")
    if len(before) != len(after):
        raise ValueError(f"A has {len(before):,} {before.noun} and B {len(after):,}; both must be scored on the same ones")
    own = {LabelledRows: "labels", ScoredPairs: "scores"}.get(type(before))
    if own is not None and not np.array_equal(getattr(before, own), getattr(after, own)):
        row = int(np.flatnonzero(getattr(before, own) != getattr(after, own))[0])
        raise ValueError(f"the {own} of A and B first differ in row {row}; row i of both must be the same text")
    if isinstance(before, JudgedQueries) and isinstance(after, JudgedQueries):
        counts = [np.bincount(side.judgements.query, minlength=len(side)) for side in (before, after)]
        if not np.array_equal(counts[0], counts[1]):
            query = int(np.flatnonzero(counts[0] != counts[1])[0])
            raise ValueError(f"query {query} has different judgements in A and B; query i of both must be the same")
