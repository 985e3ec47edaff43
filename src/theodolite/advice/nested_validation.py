"""The search for a repair that helps: nested cross-validation over a grid, paired by item, and what compression costs.

An inner part of the data chooses among the grid, an outer fold that had no part in it scores the choice. So the gain that is
reported has paid for having looked at the whole grid; the gains of the ranked list have not.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from typing import TypeAlias

import numpy as np

from theodolite.advice.changes import Change, compression_grid, fit_all, repair_grid, source_of
from theodolite.advice.folds import grouped_folds, resample_counts
from theodolite.advice.scorers import Signal, Transform
from theodolite.core.engines import in_parallel
from theodolite.core.intervals import Interval, percentile_interval
from theodolite.core.moments import Doubles, Moments
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import option
from theodolite.core.vectors import Indices, Source

DRAWS = 1000  # bootstrap resamples behind an interval
TOLERATED = 0.01  # what a recommended compression may cost at most, at the lower limit of its interval
NOTHING = Change()

Stages: TypeAlias = Callable[[str, int, int], None]
Excluded: TypeAlias = frozenset[int]  # folds that a repair is not fitted on


@dataclass(frozen=True)
class Scored:
    """One change with its cross-validated score."""

    change: Change
    value: float
    gain: float = math.nan
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What the search found."""

    metric: str
    noun: str
    n: int
    d: int
    base: float
    ranked: tuple[Scored, ...]
    compressed: tuple[Scored, ...]
    choice: Change
    gain: Scored
    chosen: tuple[Change, ...]

    @property
    def is_recommended(self) -> bool:
        """Whether the lower limit of the gain is above 0."""
        return self.gain.low is not None and self.gain.low > 0

    @property
    def compression(self) -> Scored | None:
        """The smallest vectors whose cost is tolerable even at the lower limit; of equal size the least cost."""
        fits = [each for each in self.compressed if each.low is not None and each.low >= -TOLERATED]
        return min(fits, key=lambda each: (each.change.size(self.d), -each.gain), default=None)


def search(signal: Signal, *, folds: int = 5, seed: int = 0, draws: int = DRAWS, progress: Stages | None = None) -> Advice:
    """Try every repair of the grid, and every compression, on one signal."""
    run = _Run(signal, folds, seed, draws, progress or (lambda *_: None))
    grid = repair_grid(len(signal.rows_of(run.outside([0]))) if signal.refits else len(signal.rows), run.d, pairs=run.has_pairs)
    singles = [frozenset([fold]) for fold in range(folds)]
    doubles = [frozenset(pair) for pair in itertools.combinations(range(folds), 2)]
    run.measure([NOTHING, *grid], [*singles, *doubles], "trying repairs")
    # Where only cosines count, unit length changes nothing: it is listed, but as a choice it would say nothing.
    idle = set() if signal.metric == "linear_accuracy" else {Change("unit-length")}
    usable = [change for change in grid if change not in run.failed and change not in idle]
    if not usable:
        raise ValueError(f"no repair could be fitted: {next(iter(run.failed.values()))}")
    chosen = tuple(run.best(usable, fold) for fold in range(folds))
    ranked = sorted((run.scored(change) for change in [NOTHING, *grid]), key=_worst_last)
    choice = next(each.change for each in ranked if each.change in usable)
    compressions = compression_grid(run.d, choice)
    run.measure(compressions, singles, "trying compression")
    return Advice(
        metric=signal.metric,
        noun=signal.noun,
        n=len(signal),
        d=run.d,
        base=run.scored(NOTHING).value,
        ranked=tuple(ranked),
        compressed=tuple(sorted((run.scored(change) for change in compressions), key=_worst_last)),
        choice=choice,
        gain=run.compared(choice, chosen),
        chosen=chosen,
    )


def effect_elsewhere(change: Change, train: Signal, test: Signal, *, seed: int = 0, draws: int = DRAWS) -> Scored:
    """What a change does to other items than those it was chosen and fitted on."""
    items, known = np.arange(len(test)), np.arange(len(train))
    whole = _joined(train, test) if train.refits else test
    asked = items + len(train) if train.refits else items
    values = []
    for each in (NOTHING, change):
        fitted = each.fit(source_of(train.rows), train.pairs(known), seed=seed)
        values.append(whole.evidence(fitted, known, asked))
    one, counts = np.ones((1, len(test))), resample_counts(test.groups, draws, seed=seed)
    before, after = (float(test.value(evidence, items, one)[0]) for evidence in values)
    differences = test.value(values[1], items, counts) - test.value(values[0], items, counts)
    return Scored(change, after, after - before, *percentile_interval(differences))


def sampled(signal: Signal, size: int, *, seed: int = 0) -> Signal:
    """The signal, or a random sample of its items if it has more than that."""
    return signal if len(signal) <= size else signal.take(sample_rows(len(signal), size, seed=seed))


@dataclass(eq=False)
class _Run:
    """One search: its folds, and the numbers that every change gave every item."""

    signal: Signal
    folds: int
    seed: int
    draws: int
    progress: Stages
    failed: dict[Change, str] = field(default_factory=dict)
    evidence: dict[tuple[Change, Excluded, int], Doubles] = field(default_factory=dict)

    def __post_init__(self) -> None:
        signal = self.signal
        fold = grouped_folds(signal.groups, self.folds, strata=signal.strata, seed=self.seed)
        self.items: list[Indices] = [np.flatnonzero(fold == each) for each in range(self.folds)]
        self.weights = [len(items) / len(signal) for items in self.items]
        self.d = signal.rows.shape[1]
        self.has_pairs = signal.pairs(self.items[0]) is not None

    @cached_property
    def moments(self) -> list[Moments]:
        """Moments of each fold's rows, in float64: those of several folds are merged from them."""
        return [Moments.of(self.signal.rows[self.signal.rows_of(items)].astype(np.float64)) for items in self.items]

    @cached_property
    def counts(self) -> list[Doubles]:
        """The same resamples for every change, fold by fold."""
        groups = self.signal.groups
        return [resample_counts(groups[items], self.draws, seed=self.seed + fold) for fold, items in enumerate(self.items)]

    def outside(self, folds: Iterable[int]) -> Indices:
        """The items of all other folds."""
        excluded = set(folds)
        return np.sort(np.concatenate([items for fold, items in enumerate(self.items) if fold not in excluded]))

    def measure(self, changes: Sequence[Change], excluded: Sequence[Excluded], stage: str) -> None:
        """The numbers of every change, fitted without some folds, for the items of each of those."""
        shared: dict[Change, list[Change]] = {}
        for change in changes:
            shared.setdefault(change.before, []).append(change)
        # Counted with a thread-safe counter: the parts of one task are reported as they are done.
        done, total = itertools.count(1), len(shared) * (len(excluded) if self.signal.refits else 1)

        def fitted(group: Sequence[Change], data: Source, train: Indices) -> dict[Change, Transform]:
            try:
                pairs = self.signal.pairs(train) if group[0].repair == "weighted" else None
                return fit_all(group, data, pairs, seed=self.seed) if group[0] not in self.failed else {}
            except ValueError as error:  # it cannot be made of these rows, such as whitening without variance
                self.failed |= dict.fromkeys(group, str(error))
                return {}
            finally:
                self.progress(stage, next(done), total)

        def refit(folds: Excluded) -> None:
            train = self.outside(folds)
            moments = reduce(or_, (self.moments[fold] for fold in range(self.folds) if fold not in folds))
            data = source_of(self.signal.rows[self.signal.rows_of(train)], moments)
            for group in shared.values():
                for change, transform in fitted(group, data, train).items():
                    for fold in folds:
                        self.evidence[change, folds, fold] = self.signal.evidence(transform, train, self.items[fold])

        def fit_once(group: Sequence[Change]) -> None:
            everything = np.arange(len(self.signal))
            for change, transform in fitted(group, self.documents, everything).items():
                numbers = self.signal.evidence(transform, everything, everything)
                for folds in excluded:
                    self.evidence |= {(change, folds, fold): numbers[self.items[fold]] for fold in folds}

        if self.signal.refits:
            deque(in_parallel(refit, excluded, shared_memory=True), maxlen=0)
        else:
            deque(in_parallel(fit_once, list(shared.values()), shared_memory=True), maxlen=0)

    @cached_property
    def documents(self) -> Source:
        """All rows, with their moments, for a signal whose repairs are fitted on all of them."""
        return source_of(self.signal.rows, Moments.of(self.signal.rows.astype(np.float64)))

    def value(self, change: Change, excluded: Excluded, fold: int) -> float:
        """The metric on one fold, after a change that was fitted without some folds."""
        items = self.items[fold]
        value = float(self.signal.value(self.evidence[change, excluded, fold], items, np.ones((1, len(items))))[0])
        if math.isnan(value) and change == NOTHING:
            raise ValueError(
                f"{self.signal.metric} is not defined on the {len(items)} {self.signal.noun} of fold {fold}: their scores or "
                f"cosines are all equal; give more {self.signal.noun}, or use fewer folds, such as {option('folds', '3')}"
            )
        return value

    def best(self, changes: Sequence[Change], outer: int) -> Change:
        """The change that scores best on the inner folds, each fitted without the outer fold."""

        def inner(change: Change) -> float:
            parts = [
                self.weights[fold] * self.value(change, frozenset([outer, fold]), fold)
                for fold in range(self.folds)
                if fold != outer
            ]
            return _or_lowest(sum(parts))

        return max(changes, key=inner)

    def scored(self, change: Change) -> Scored:
        """The cross-validated score of one change, with its paired gain."""
        if change in self.failed:
            return Scored(change, math.nan, reason=self.failed[change])
        return self.compared(change, [change] * self.folds)

    def compared(self, change: Change, by_fold: Sequence[Change]) -> Scored:
        """The score with one change for each fold, and its gain over leaving the vectors alone."""
        singles = [frozenset([fold]) for fold in range(self.folds)]
        values = [self.value(each, singles[fold], fold) for fold, each in enumerate(by_fold)]
        base = [self.value(NOTHING, singles[fold], fold) for fold in range(self.folds)]
        value, before = (float(np.dot(self.weights, part)) for part in (values, base))
        if change == NOTHING:
            return Scored(change, value, 0.0, 0.0, 0.0)
        if math.isnan(value):
            return Scored(change, math.nan, reason=f"{self.signal.metric} is not defined: the cosines of a fold are all equal")
        return Scored(change, value, value - before, *self._interval(by_fold))

    def _interval(self, by_fold: Sequence[Change]) -> Interval:
        gains = np.zeros(self.draws)
        for fold, change in enumerate(by_fold):
            after, before = (self.evidence[each, frozenset([fold]), fold] for each in (change, NOTHING))
            if change != NOTHING and not np.array_equal(after, before):
                items, counts = self.items[fold], self.counts[fold]
                gains += self.weights[fold] * (self.signal.value(after, items, counts) - self._base_draws[fold])
        return percentile_interval(gains)

    @cached_property
    def _base_draws(self) -> list[Doubles]:
        return [
            self.signal.value(self.evidence[NOTHING, frozenset([fold]), fold], items, self.counts[fold])
            for fold, items in enumerate(self.items)
        ]


def _worst_last(scored: Scored) -> float:
    return -_or_lowest(scored.value)


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _joined(train: Signal, test: Signal) -> Signal:
    """Two parts of one signal as one, the items of `train` first."""
    from theodolite.advice.scorers import LabelledRows, ScoredPairs

    if isinstance(train, LabelledRows) and isinstance(test, LabelledRows):
        labels = np.concatenate([train.labels, test.labels])
        return LabelledRows(np.concatenate([train.rows, test.rows]), labels, metric=train.metric)
    assert isinstance(train, ScoredPairs)
    assert isinstance(test, ScoredPairs)
    sides = (np.concatenate([getattr(train, side), getattr(test, side)]) for side in ("first", "second", "scores"))
    return ScoredPairs(*sides, metric=train.metric)
