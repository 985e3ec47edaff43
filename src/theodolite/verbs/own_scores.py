"""What the user's own items say about two inputs: the score of both and its paired difference, and how their queries lie."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.numbers import interval_text
from theodolite.core.rows import Row, current_versions
from theodolite.core.spelling import option
from theodolite.core.states import AFTER, BEFORE, DIFFERENCE
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.queries_among_documents import QueryMeasure, measured_difference, query_measures
from theodolite.metrics.registry import label_of
from theodolite.verbs.inputs import Reading
from theodolite.verbs.signals import SignalInput, Signals, open_signal

if TYPE_CHECKING:
    from theodolite.advice.paired_scores import ScoreDifference
    from theodolite.advice.scorers import Signal
    from theodolite.verbs.progress import Progress

# Signals of which each side may have its own file: a pair of them is one for A and one for B.
OF_EACH_SIDE = ("pairs", "queries")


@dataclass(frozen=True, eq=False)
class OwnItems:
    """Both inputs with what they are measured by; `asked` has the measures of A's and of B's queries."""

    sides: tuple[SignalInput, SignalInput]
    score: ScoreDifference | None = None
    asked: tuple[tuple[QueryMeasure, QueryMeasure], ...] = ()
    searched: int = 0  # documents that the queries search, at most

    @property
    def sentence(self) -> str:
        """The difference of the scores, to open an answer with; empty if there is no score."""
        score = self.score
        if score is None:
            return ""
        metric, items = label_of(score.metric), f"{score.n:,} {score.noun}"
        if not score.is_clear:
            interval = f" {interval_text(score.low, score.high)}" if score.low is not None else ""
            return f"no difference in {metric} is shown on {items} (B - A {score.difference:+.3f}{interval})"
        word = "better" if score.difference > 0 else "worse"
        ends = sorted(abs(end) for end in (score.low or 0.0, score.high or 0.0))
        return f"B is {word} by {abs(score.difference):.3f} [{ends[0]:.3f}, {ends[1]:.3f}] in {metric} on {items}"

    @property
    def conditions(self) -> Iterator[str]:
        """What the numbers stand on."""
        if self.score is not None:
            yield f"the score's interval resamples {self.score.noun}, the same ones on both sides"
        if self.asked and len(self.sides[0].vectors) > self.searched:
            yield f"the queries were measured on a sample of {self.searched:,} documents"

    def rows(self) -> Iterator[Row]:
        """Three rows for the score, and three for each measure of the queries: A, B, and B minus A."""
        if (score := self.score) is not None:
            difference = {"value": score.difference, "low": score.low, "high": score.high}
            yield from self._triple(score.metric, score.n, {"value": score.before}, {"value": score.after}, difference)
        for first, second in self.asked:
            low, high = measured_difference(first, second)[1]
            own = [{"value": side.value, "low": side.low, "high": side.high} for side in (first, second)]
            difference = {"value": second.value - first.value, "low": low, "high": high}
            reason = first.reason or second.reason
            yield from self._triple(first.metric, len(first.influence), *own, difference, reason=reason)

    def _triple(self, metric: str, n: int, *numbers: Mapping[str, Any], reason: str = "") -> Iterator[Row]:
        """The numbers of A, of B, and of their difference, which has the model and dimension of B."""
        shared: dict[str, Any] = {"metric": metric, "n": n, "reason": reason, "versions": current_versions()}
        sides = (*self.sides, self.sides[1])
        for state, side, values in zip((BEFORE, AFTER, DIFFERENCE), sides, numbers, strict=True):
            origin = {"model": side.about.get("model", side.name), "task": side.about.get("task", "")}
            yield Row(state=state, d=side.vectors.shape[1], **values, **shared, **origin)


def named_signals(**given: Any) -> tuple[Signals, Signals]:
    """The signals of A and of B: the same, but for files of which a tuple names one for each."""
    for name in OF_EACH_SIDE:
        if isinstance(given[name], tuple) and len(given[name]) != 2:
            times = f"{option(name, 'FILE')} is given {len(given[name])} times"
            raise ValueError(f"{times}; give it once for both, or once for each of A and B")
    first, second = (
        {name: value[side] if name in OF_EACH_SIDE and isinstance(value, tuple) else value for name, value in given.items()}
        for side in (0, 1)
    )
    return Signals(**first, needs_judgements=False), Signals(**second, needs_judgements=False)


def typed_signals(given: Mapping[str, Any]) -> dict[str, str | list[str]] | None:
    """The signals as they are typed on the command line; None if one is in memory."""
    typed: dict[str, str | list[str]] = {}
    for name, value in given.items():
        if value is None:
            continue
        paths = value if name in OF_EACH_SIDE and isinstance(value, tuple) else [value]
        if not all(isinstance(path, (str, os.PathLike)) for path in paths):
            return None
        typed[name] = [os.fspath(path) for path in paths]
    return typed


def open_own_items(
    sources: Sequence[Any], named: Sequence[Signals], readings: Sequence[Reading], *, sample: int, seed: int, progress: Progress
) -> OwnItems:
    """Both inputs with their signals, scored on the same items."""
    from theodolite.advice.nested_validation import sampled
    from theodolite.advice.paired_scores import score_difference

    # A score is that of one layer: the last, unless one was chosen.
    of_one = [replace(reading, layers="last" if reading.layers == "all" else reading.layers) for reading in readings]
    first, second = (
        open_signal(source, signals, reading, progress) for source, signals, reading in zip(sources, named, of_one, strict=True)
    )
    second = _in_order(first, second)
    own = OwnItems((first, second), searched=sample)
    if first.queries is not None and second.queries is not None:
        sides = [query_measures(Cloud(side.vectors, sample=sample, seed=seed), side.queries) for side in (first, second)]
        own = replace(own, asked=tuple(zip(*sides, strict=True)))
    signals: list[Signal] = [side.signal for side in (first, second) if side.signal is not None]
    if len(signals) == 2:
        own = replace(own, score=score_difference(*(sampled(signal, sample, seed=seed) for signal in signals), seed=seed))
    elif not own.asked:
        ways = f"{option('labels', 'NAME')}, {option('pairs', 'FILE')} with scores, or judged queries"
        raise ValueError(f"{option('metric', str(named[0].metric))} needs items to score on both sides: {ways}")
    return own


def _in_order(first: SignalInput, second: SignalInput) -> SignalInput:
    """B with its queries in the order of A's, if both have ids."""
    from theodolite.advice.scorers import JudgedQueries

    if first.queries is None or second.queries is None:
        return second
    if first.query_ids is None or second.query_ids is None or list(first.query_ids) == list(second.query_ids):
        if len(first.queries) != len(second.queries):
            raise ValueError(f"A has {len(first.queries):,} queries and B {len(second.queries):,}; both need the same queries")
        return second
    position = {name: row for row, name in enumerate(second.query_ids)}
    known = set(first.query_ids)
    missing = next((name for name in (*first.query_ids, *second.query_ids) if (name in position) != (name in known)), None)
    if missing is not None:
        have, lack = ("A", "B") if missing in known else ("B", "A")
        raise ValueError(f"query {missing!r} of {have} is not among the queries of {lack}; both need the same ids")
    order = np.array([position[name] for name in first.query_ids])
    signal = second.signal.take(order) if isinstance(second.signal, JudgedQueries) else second.signal
    return replace(second, queries=second.queries[order], query_ids=first.query_ids, signal=signal)


def leading(sentence: str, own: str) -> str:
    """One sentence that opens with what the user's own items say."""
    if not own:
        return sentence
    rest = sentence if sentence.startswith(("A ", "B ")) else sentence[:1].lower() + sentence[1:]
    return f"{own[:1].upper()}{own[1:]}; {rest}"
