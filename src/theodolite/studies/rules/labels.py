"""Rules on how labels lie: in how many clusters, and how far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from theodolite.core.result import Effect, Judged
from theodolite.studies.rules.estimate import Estimate, difference, over, rank_correlation, share
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, conclude
from theodolite.studies.rules.registry import rule


@rule("fewer clusters")
def fewer_clusters(evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], metric: str, labels: str) -> Judged:
    """From the first state to the second the clusters become fewer in every task that has more of them than labels at first.

    A task with one cluster a label has nothing to lose, and does not count unless it gains some. Counts are exact for the rows
    they were made of; over several seeds they have an interval.
    """
    parts = [_fewer(evidence, task, states, metric, labels) for task in tasks]
    return conclude(evidence, parts)


@rule("labels move apart")
def labels_move_apart(
    evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], metric: str, most: float, accuracy: str
) -> Judged:
    """In every task labels get farther from their nearest neighbour on average, and more than the share `most` of them does.

    The interval of the mean is over labels. How the mean distance goes with `accuracy` over tasks and states is told beside.
    """
    parts: list[Part] = []
    for task in tasks:
        before, after = (by_label(evidence, metric, task, state) for state in states)
        both = sorted(set(before) & set(after))
        if not both:
            parts.append(Part(name=f"{task} {metric}", missing=f"{metric} of {task}, {' and '.join(states)}"))
            continue
        grown = share(sum(after[label] > before[label] for label in both), len(both), "labels grew")
        parts.append(Part(name=f"{task} mean change of {metric}", estimate=over([after[x] - before[x] for x in both], "labels")))
        above = Estimate(value=grown.value - most, n=grown.n, how=f"{grown.how}; {grown.value:.3g} of the labels less {most:g}")
        parts.append(Part(name=f"{task} share of labels that grew, over {most:g}", estimate=above))
    told, effects = _with_accuracy(evidence, tasks, states, metric, accuracy)
    return conclude(evidence, parts, after=told, beside=effects)


def _fewer(evidence: Evidence, task: str, states: Sequence[str], metric: str, labels: str) -> Part:
    name = f"{task} {metric}"
    before, after = (evidence.estimate(metric, task=task, state=state, setting="") for state in states)
    if before is None or after is None:
        lacking = [state for state, one in zip(states, (before, after), strict=True) if one is None]
        reasons = [evidence.undefined(metric, task=task, state=state, setting="") for state in lacking]
        return Part(name=name, undefined="; ".join(filter(None, reasons)), missing=f"{name}, {' and '.join(lacking)}")
    fewest = evidence.estimate(labels, task=task, state=states[0], setting="")
    how = f"{before.value:g} to {after.value:g}" + (f", {fewest.value:g} labels" if fewest else "")
    if before.value == after.value and fewest is not None and before.value == fewest.value:
        return Part(name=name, undefined=f"one cluster a label before and after, {how}")
    change = difference(after, before)
    exact = change.how if change.bounds else "a count, exact for these rows"
    return Part(name=f"{name} ({how})", estimate=Estimate(**{**vars(change), "how": exact}), rises=False)


def by_label(evidence: Evidence, metric: str, task: str, state: str, setting: str = "") -> dict[str, float]:
    """Each label's number, the mean over seeds."""
    rows = evidence.last(evidence.find(metric, task=task, state=state, setting=setting))
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.label and math.isfinite(row.value):
            found.setdefault(row.label, []).append(row.value)
    return {label: sum(values) / len(values) for label, values in found.items()}


def _with_accuracy(
    evidence: Evidence, tasks: Sequence[str], states: Sequence[str], metric: str, accuracy: str
) -> tuple[str, list[Effect]]:
    cells = []
    for task in tasks:
        for state in states:
            distances = list(by_label(evidence, metric, task, state).values())
            score = evidence.estimate(accuracy, task=task, state=state, setting="")
            if distances and score is not None:
                cells.append((sum(distances) / len(distances), score.value))
    found = rank_correlation([one for one, _ in cells], [score for _, score in cells], "cells of task and state")
    if found is None:
        return "", []
    return f"; over {len(cells)} cells the mean distance goes with {accuracy} by {found}", [
        found.effect(f"mean {metric} against {accuracy}")
    ]
