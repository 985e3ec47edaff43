"""The search for a repair that helps: nested cross-validation over a grid, paired by item, and what compression costs.

An inner part of the data chooses among the grid, an outer fold that had no part in it scores the choice. So the gain that is
reported is corrected for having looked at the whole grid; the gains of the ranked list are not.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_
from typing import TypeAlias

import numpy as np

from theodolite.advice.changes import Change, Place, compression_grid, dimensions_to_try, fit_all, repair_grid, source_of
from theodolite.advice.folds import grouped_folds, resample_counts
from theodolite.advice.paired_scores import DRAWS, paired_gain
from theodolite.advice.scorers import LabelledRows, ScoredPairs, Signal, Transform, as_they_are
from theodolite.core.engines import in_parallel
from theodolite.core.intervals import percentile_interval
from theodolite.core.moments import Doubles, Moments
from theodolite.core.parallel import Stage
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import option
from theodolite.core.vectors import Indices, Source

WORTH = 0.02  # the least gain that is worth having
TOLERATED = 0.01  # what a recommended compression may cost, as a share of the score, at the lower limit of its interval
MOST_ITEMS = 10  # times the items there are: beyond that, no number of them is named that would settle it
NOTHING = Change()

Excluded: TypeAlias = frozenset[int]  # folds that a repair is not fitted on


@dataclass(frozen=True)
class Scored:
    """One change with its cross-validated score, and its gain over a reference: the vectors as they are, if nothing is said."""

    change: Change
    value: float
    gain: float = math.nan
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What the search found.

    `gain` is the nested one, of choosing among `candidates` on the inner folds; `chosen` is what each fold was scored with.
    `base_low` and `choice_low` are lower limits of the scores themselves, to compare with `chance`. `smaller` has the simplest
    compression of each size that costs at most `TOLERATED`, the largest first; its gains are over the recommended repair, if
    there is one.
    """

    metric: str
    noun: str
    n: int
    d: int
    base: float
    base_low: float
    chance: float
    ranked: tuple[Scored, ...]
    choice: Change
    gain: Scored
    choice_low: float
    chosen: tuple[Change, ...]
    candidates: frozenset[Change]
    worth: float = WORTH
    counts_items: bool = False
    compressed: tuple[Scored, ...] = ()
    smaller: tuple[Scored, ...] = ()

    @property
    def is_above_chance(self) -> bool:
        """Whether the vectors, as they are or with the choice, are shown to measure anything."""
        return max(self.base_low, self.choice_low) > self.chance

    @property
    def verdict(self) -> str:
        """`apply` if the gain is above 0; `leave it alone` if no candidate may gain what is worth having; else `not shown`."""
        if self.is_above_chance and self.gain.low is not None and self.gain.low > 0:
            return "apply"
        return "leave it alone" if self.is_above_chance and self.most_promising[1] < self.worth else "not shown"

    @property
    def is_recommended(self) -> bool:
        """Whether a repair is to be applied."""
        return self.verdict == "apply"

    @property
    def compression(self) -> Scored | None:
        """The smallest vectors whose cost is tolerable."""
        return self.smaller[-1] if self.smaller else None

    @property
    def most_promising(self) -> tuple[Scored, float]:
        """The candidate with the highest upper limit of the gain, and that limit."""
        return max(((scored, self._limit(scored)) for scored in self._tried), key=lambda pair: pair[1])

    @property
    def _tried(self) -> list[Scored]:
        return [scored for scored in self.ranked if scored.change in self.candidates and not scored.reason]

    def _limit(self, scored: Scored) -> float:
        """The upper limit of a gain, by the rule of three where a bootstrap of few differences is too sure.

        If none of n items changes, up to 3 in n may (95%): an interval of zero width is no certainty.
        """
        assert scored.high is not None
        is_flat = scored.low == scored.high
        return max(scored.high, scored.gain + (3 / self.n if self.counts_items or is_flat else 0.0))

    @property
    def items_to_settle(self) -> int | None:
        """About how many items would decide it if the gains are as observed; None if more than `MOST_ITEMS` times as many.

        An interval of n items shrinks with the square root of n, until its lower limit is above 0, or until no upper limit
        reaches what is worth having.
        """
        factors = []
        # If the choice by fold gained nothing, the best of the list is what may turn out to help.
        hopeful = self.gain if self.gain.gain > 0 else self.most_promising[0]
        if hopeful.low is not None and hopeful.gain > 0:
            factors.append((hopeful.gain - hopeful.low) / hopeful.gain)
        if all(scored.gain < self.worth for scored in self._tried):
            factors.append(max((self._limit(scored) - scored.gain) / (self.worth - scored.gain) for scored in self._tried))
        items: float = min(factors, default=math.inf) ** 2 * self.n
        if not self.is_above_chance or items > MOST_ITEMS * self.n:
            return None
        digits = int(10 ** max(0, math.floor(math.log10(items)) - 1))
        return math.ceil(max(items, self.n + 1) / digits) * digits


def search(
    signal: Signal,
    *,
    folds: int = 5,
    seed: int = 0,
    draws: int = DRAWS,
    worth: float = WORTH,
    dimensions: str | Sequence[int] | None = None,
    progress: Stage | None = None,
) -> Advice:
    """Try every repair of the grid, and every compression, on one signal."""
    run = _Run(signal, folds, seed, draws, progress or (lambda *_: None))
    n = len(signal.rows_of(run.outside([0]))) if signal.refits else len(signal.rows)
    kept = dimensions_to_try(dimensions, run.d)
    grid = repair_grid(n, run.d, pairs=run.has_pairs, dimensions=kept)
    run.measure([NOTHING, *grid], "trying repairs")
    # Where only cosines count, unit length changes nothing: it is listed, but as a choice it would say nothing.
    idle = set() if signal.metric == "linear_accuracy" else {Change("unit-length")}
    usable = [change for change in grid if change not in run.failed and change not in idle]
    if not usable:
        raise ValueError(f"no repair could be fitted: {next(iter(run.failed.values()))}")
    advice = run.advice(usable, [NOTHING, *grid], worth)
    if not advice.is_above_chance:
        return advice
    chosen, choice = advice.chosen, advice.choice
    references = chosen if advice.is_recommended else (NOTHING,) * folds
    repairs = dict.fromkeys([*chosen, choice]) if advice.is_recommended else ()
    compressions = compression_grid(n, run.d, dimensions=kept, repairs=repairs)
    run.measure(compressions, "trying compression")
    usable = [change for change in compressions if change not in run.failed]
    # A repair that only another fold chose is not a candidate of this one.
    foreign = [set(repairs) - {reference} for reference in (*references, choice if advice.is_recommended else NOTHING)]
    return replace(
        advice,
        compressed=run.ranked(compressions),
        smaller=tuple(run.smaller(usable, references, foreign)),
    )


def search_places(
    places: Sequence[Place],
    signal_at: Callable[[Place], Signal],
    *,
    folds: int = 5,
    seed: int = 0,
    draws: int = DRAWS,
    worth: float = WORTH,
    progress: Stage | None = None,
) -> Advice:
    """Try every layer and pooling on one signal; the first place is the one in use, which the others are compared with.

    `signal_at` gives the same items, in the same order, with the vectors of a place; it is called once for each.
    """
    run = _Run(signal_at(places[0]), folds, seed, draws, progress or (lambda *_: None), reference=places[0])
    if run.signal.counts_items:
        # A classifier that learned from the rows that made the choice is lucky with them in the outer fold too. Resampling the
        # scored items does not show that; the correction of Nadeau and Bengio (2003) for shared training rows does.
        run.widening = math.sqrt(1 + folds / (folds - 1))
    run.measure_places(places, signal_at)
    return run.advice(places[1:], places, worth)


def effect_elsewhere(
    change: Change, train: Signal, test: Signal, *, reference: Change = NOTHING, seed: int = 0, draws: int = DRAWS
) -> Scored:
    """What a change does, compared with another, to items other than those it was chosen and fitted on."""
    items, fitted_items = np.arange(len(test)), np.arange(len(train))
    signal = _joined(train, test) if train.refits else test
    asked = items + len(train) if train.refits else items
    values = []
    for tried in (reference, change):
        transform = tried.fit(source_of(train.rows), train.pairs(fitted_items), seed=seed)
        values.append(signal.evidence(transform, fitted_items, asked))
    (before, after), interval = paired_gain(test, values, test.groups, seed=seed, draws=draws)
    return Scored(change, after, after - before, *interval)


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
    progress: Stage
    reference: Change = NOTHING
    widening: float = 1.0  # of the intervals of gains
    failed: dict[Change, str] = field(default_factory=dict)
    evidence: dict[tuple[Change, Excluded, int], Doubles] = field(default_factory=dict)
    resampled: dict[tuple[Change, int], Doubles] = field(default_factory=dict)

    def __post_init__(self) -> None:
        signal = self.signal
        fold = grouped_folds(signal.groups, self.folds, strata=signal.strata, seed=self.seed)
        self.items: list[Indices] = [np.flatnonzero(fold == number) for number in range(self.folds)]
        self.weights = [len(items) / len(signal) for items in self.items]
        self.d = signal.rows.shape[1]
        self.has_pairs = signal.pairs(self.items[0]) is not None
        self.excluded = [frozenset(left) for size in (1, 2) for left in itertools.combinations(range(self.folds), size)]

    def advice(self, candidates: Sequence[Change], listed: Sequence[Change], worth: float) -> Advice:
        """The choice among candidates, nested, and the score of everything that is to be listed."""
        signal = self.signal
        chosen = tuple(self.best(candidates, fold) for fold in range(self.folds))
        ranked = self.ranked(listed)
        choice = next(scored.change for scored in ranked if scored.change in candidates)
        return Advice(
            metric=signal.metric,
            noun=signal.noun,
            n=len(signal),
            d=self.d,
            base=self.scored(self.reference).value,
            base_low=self.score_low([self.reference] * self.folds),
            chance=signal.chance,
            ranked=ranked,
            choice=choice,
            gain=self.compared(choice, chosen),
            choice_low=self.score_low(chosen),
            chosen=chosen,
            candidates=frozenset(candidates),
            worth=worth,
            counts_items=signal.counts_items,
        )

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

    def measure(self, changes: Sequence[Change], stage: str) -> None:
        """The numbers of every change, fitted without one or two folds, for the items of each of those."""
        excluded = self.excluded
        shared: dict[Change, list[Change]] = {}
        for change in changes:
            if (change, excluded[0], 0) not in self.evidence:
                shared.setdefault(change.before, []).append(change)
        # Counted with a thread-safe counter: the fits of one task are reported as they are done.
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

    def measure_places(self, places: Sequence[Place], signal_at: Callable[[Place], Signal]) -> None:
        """The numbers of every place for the items of each fold, as `measure` has them of every change."""
        everything = np.arange(len(self.signal))
        for done, place in enumerate(places, start=1):
            signal = self.signal if place == self.reference else signal_at(place)
            numbers = None if signal.refits else signal.evidence(as_they_are, everything, everything)
            for folds in self.excluded:
                for fold in folds:
                    items, train = self.items[fold], self.outside(folds)
                    of_fold = signal.evidence(as_they_are, train, items) if numbers is None else numbers[items]
                    self.evidence[place, folds, fold] = of_fold
            self.progress("trying layers", done, len(places))

    @cached_property
    def documents(self) -> Source:
        """All rows, with their moments, for a signal whose repairs are fitted on all of them."""
        return source_of(self.signal.rows, Moments.of(self.signal.rows.astype(np.float64)))

    def value(self, change: Change, excluded: Excluded, fold: int) -> float:
        """The metric on one fold, after a change that was fitted without some folds."""
        items = self.items[fold]
        value = float(self.signal.value(self.evidence[change, excluded, fold], items, np.ones((1, len(items))))[0])
        if math.isnan(value) and change == self.reference:
            raise ValueError(
                f"{self.signal.metric} is not defined on the {len(items)} {self.signal.noun} of fold {fold}: their scores or "
                f"cosines are all equal; give more {self.signal.noun}, or use fewer folds, such as {option('folds', '3')}"
            )
        return value

    def inner(self, change: Change, outer: int) -> float:
        """The score of a change on the folds other than the outer one, each fitted without both."""
        others = [fold for fold in range(self.folds) if fold != outer]
        return _or_lowest(sum(self.weights[fold] * self.value(change, frozenset([outer, fold]), fold) for fold in others))

    def best(self, changes: Sequence[Change], outer: int) -> Change:
        """The change that scores best on the inner folds."""
        return max(changes, key=lambda change: self.inner(change, outer))

    def smaller(
        self, changes: Sequence[Change], references: Sequence[Change], foreign: Sequence[Collection[Change]]
    ) -> Iterable[Scored]:
        """The compressions, from large to small, that cost at most `TOLERATED`: each the simplest that its size allows.

        For every size the inner folds choose, and the outer fold scores the choice against its reference. The first size whose
        cost may be larger ends the search, so that each further one is tested only if all larger ones have passed, and the whole
        sequence is wrong as rarely as one test. `foreign` has the repairs that are no candidates, by fold and for the whole.
        """
        base = sum(self.weights[fold] * self.value(references[fold], frozenset([fold]), fold) for fold in range(self.folds))
        scores = {change: self.scored(change).value for change in changes}
        rungs: dict[Change, Scored] = {}
        for size in sorted({change.size(self.d) for change in changes}, reverse=True):
            fits = [change for change in changes if change.size(self.d) <= size]
            own = [[change for change in fits if change.before not in repairs] for repairs in foreign]
            by_fold = [
                _simplest({change: self.inner(change, fold) for change in own[fold]}, self.inner(references[fold], fold))
                for fold in range(self.folds)
            ]
            choice = _simplest({change: _or_lowest(scores[change]) for change in own[-1]}, base)
            cost = self.compared(choice, by_fold, references)
            margin = 3 / len(self.signal) if self.signal.counts_items else 0.0
            if cost.low is None or min(cost.low, cost.gain - margin) < -TOLERATED * abs(base):
                break
            rungs.pop(choice, None)
            rungs[choice] = cost
        return rungs.values()

    def scored(self, change: Change) -> Scored:
        """The cross-validated score of one change, with its paired gain."""
        if change in self.failed:
            return Scored(change, math.nan, reason=self.failed[change])
        return self.compared(change, [change] * self.folds)

    def ranked(self, changes: Iterable[Change]) -> tuple[Scored, ...]:
        """The scores of some changes, the best first."""
        return tuple(sorted(map(self.scored, changes), key=lambda scored: -_or_lowest(scored.value)))

    def compared(self, change: Change, by_fold: Sequence[Change], references: Sequence[Change] | None = None) -> Scored:
        """The score with one change for each fold, and its gain over the reference of each, by default that of the run."""
        references = references or [self.reference] * self.folds
        values, base = (
            [self.value(new, frozenset([fold]), fold) for fold, new in enumerate(changes)] for changes in (by_fold, references)
        )
        value, before = (float(np.dot(self.weights, scores)) for scores in (values, base))
        if change == self.reference:
            return Scored(change, value, 0.0, 0.0, 0.0)
        if math.isnan(value):
            return Scored(change, math.nan, reason=f"{self.signal.metric} is not defined: the cosines of a fold are all equal")
        gains = np.zeros(self.draws)
        for fold, (new, old) in enumerate(zip(by_fold, references, strict=True)):
            gains += self.weights[fold] * (self._draws(new, fold) - self._draws(old, fold))
        gain = value - before
        return Scored(change, value, gain, *percentile_interval(gain + self.widening * (gains - gain)))

    def score_low(self, by_fold: Sequence[Change]) -> float:
        """The lower limit of the score itself, with one change for each fold."""
        draws = sum(self.weights[fold] * self._draws(change, fold) for fold, change in enumerate(by_fold))
        low = percentile_interval(np.asarray(draws))[0]
        return -math.inf if low is None else low

    def _draws(self, change: Change, fold: int) -> Doubles:
        """The metric in each resample of a fold, after a change fitted without it."""
        if (change, fold) not in self.resampled:
            evidence = self.evidence[change, frozenset([fold]), fold]
            self.resampled[change, fold] = self.signal.value(evidence, self.items[fold], self.counts[fold])
        return self.resampled[change, fold]


def _simplest(scores: Mapping[Change, float], reference: float) -> Change:
    """The first change that is tolerably as good as the reference; if none is, the best."""
    floor = reference - TOLERATED * abs(reference)
    return next((change for change, score in scores.items() if score >= floor), max(scores, key=scores.__getitem__))


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _joined(train: Signal, test: Signal) -> Signal:
    """The items of two signals of one kind as one, those of `train` first."""
    if isinstance(train, LabelledRows) and isinstance(test, LabelledRows):
        labels = np.concatenate([train.labels, test.labels])
        return LabelledRows(np.concatenate([train.rows, test.rows]), labels, metric=train.metric)
    assert isinstance(train, ScoredPairs)
    assert isinstance(test, ScoredPairs)
    sides = (np.concatenate([getattr(train, side), getattr(test, side)]) for side in ("first", "second", "scores"))
    return ScoredPairs(*sides, metric=train.metric)
