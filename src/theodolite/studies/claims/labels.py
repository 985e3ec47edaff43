"""Rules on labels: in how many clusters they are, how far apart, after which tuning, and how far they move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from theodolite.core.result import Effect, Judged
from theodolite.studies.claims.evidence import Estimate, Evidence, difference, mean_estimate, rank_correlation, share_estimate
from theodolite.studies.claims.rules import Part, conclude, judgement, rule


@rule("fewer clusters")
def fewer_clusters(evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], metric: str, labels: str) -> Judged:
    """From the first state to the second the clusters become fewer in every task that has more of them than labels at first.

    A task with one cluster per label has nothing to lose, and does not count unless it gains some. Counts are exact for the rows
    they were made of; over several seeds they have an interval.
    """
    return conclude(evidence, [_clusters_part(evidence, task, states, metric, labels) for task in tasks])


@rule("labels move apart")
def labels_move_apart(
    evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], metric: str, most: float, accuracy: str
) -> Judged:
    """In every task labels get farther from their nearest neighbour on average, and more than the share `most` of them does.

    The interval of the mean is over labels. How the mean distance goes with `accuracy` over tasks and states is shown as well.
    """
    parts: list[Part] = []
    for task in tasks:
        before, after = (_by_label(evidence, metric, task, state) for state in states)
        labels = sorted(set(before) & set(after))
        if not labels:
            parts.append(Part(name=f"{task} {metric}", missing=f"{metric} of {task}, {' and '.join(states)}"))
            continue
        mean = mean_estimate([after[label] - before[label] for label in labels], "labels")
        grown = share_estimate(sum(after[label] > before[label] for label in labels), len(labels), "labels grew")
        # Judged by its value: the labels of a task are all there are, and not a sample of labels.
        how = f"{grown.how}; {grown.value:.3g} of the labels minus {most:g}"
        above = Estimate(value=grown.value - most, n=grown.n, how=how)
        parts.append(Part(name=f"{task} mean change of {metric}", estimate=mean))
        parts.append(Part(name=f"{task} share of labels that grew, over {most:g}", estimate=above))
    remark, effects = _with_accuracy(evidence, tasks, states, metric, accuracy)
    return conclude(evidence, parts, remark=remark, secondary=effects)


@rule("transfer by closeness")
def transfer_by_closeness(
    evidence: Evidence,
    *,
    task: str,
    tuned_on: Sequence[str],
    metric: str,
    labels_metric: str,
    states: Sequence[str],
    accuracy: str,
) -> Judged:
    """Tuning on the task itself moves its labels apart, on the last of `tuned_on` together, and the change falls in that order.

    The mean change is the row of `metric`, or made from the labels' distances, with an interval over labels. The probe's accuracy
    in the same order is shown as well.
    """
    changes = {other: _transfer_change(evidence, task, other, metric, labels_metric, states) for other in tuned_on}
    measured = {other: change for other, change in changes.items() if change is not None}
    if evidence.printed and len(measured) < len(tuned_on):
        printed = ", ".join(f"tuned on {other} {change}" for other, change in measured.items()) or "nothing"
        why = f"of the mean changes, {printed} is printed, and the order needs all of {', '.join(tuned_on)}"
        effects = [change.effect(f"mean change, tuned on {other}") for other, change in measured.items()]
        return judgement(evidence, "not decidable here", why, effects)
    missing = {other: f"{metric} of {task} tuned on {other}" for other in tuned_on}
    parts = [
        Part(name=f"mean change, tuned on {other}", estimate=changes[other], rises=other == tuned_on[0], missing=missing[other])
        for other in (tuned_on[0], tuned_on[-1])
    ]
    for near, far in pairwise(tuned_on):
        pair = [measured[other] for other in (near, far) if other in measured]
        estimate = difference(*pair) if len(pair) == 2 else None
        name = f"tuned on {near} minus tuned on {far}"
        parts.append(Part(name=name, estimate=estimate, missing=missing[far if near in measured else near]))
    scores = {other: evidence.estimate(accuracy, task=task, state=states[1], setting=f"tuned on {other}") for other in tuned_on}
    listed = ", ".join(f"{other} {score.value:.3g}" for other, score in scores.items() if score is not None)
    return conclude(evidence, parts, remark=f"; {accuracy}: {listed}" if listed else "")


@rule("higher layers drift most")
def higher_layers_drift_most(
    evidence: Evidence, *, similarity: str, floor: float, movement: str, directions: str, fewest_layers: int = 3
) -> Judged:
    """In every tracked task higher layers change more than lower ones, and none changes beyond recognition.

    Similarity to the original falls with height and stays above `floor` in every layer at every step; centroids move less in the
    lower half of the layers than in the upper one, and there in fewer directions (a larger share on the first ones).
    """
    tasks = list(dict.fromkeys(row.task for row in evidence.find(similarity)))
    parts: list[Part] = []
    for task in tasks:
        name, by_layer = f"{task} {similarity}", _last_by_layer(evidence, similarity, task)
        values = [row.value for row in evidence.find(similarity, task=task) if math.isfinite(row.value)]
        if len(by_layer) < fewest_layers:
            missing = f"{similarity} of {task} in {fewest_layers} layers or more"
            parts.append(Part(name=f"{name} against height", missing=missing))
        else:
            height = rank_correlation(list(map(float, by_layer)), list(by_layer.values()), "layers")
            height = height or Estimate(value=0.0, how="the same in all layers")
            parts.append(Part(name=f"{name} against height", estimate=height, rises=False))
        if values:
            how = f"lowest is {min(values):.3g} of {len(values)} layers and steps"
            lowest = Estimate(value=min(values) - floor, n=len(values), how=how)
            parts.append(Part(name=f"{task} lowest {similarity} over {floor:g}", estimate=lowest))
        for metric, rises in ((movement, True), (directions, False)):
            parts.append(_halves_part(_last_by_layer(evidence, metric, task), f"{task} {metric}", rises))
    return conclude(evidence, parts or [Part(name=similarity, missing=f"{similarity} by layer and step")])


def _clusters_part(evidence: Evidence, task: str, states: Sequence[str], metric: str, labels: str) -> Part:
    name = f"{task} {metric}"
    before, after = (evidence.estimate(metric, task=task, state=state, setting="") for state in states)
    if before is None or after is None:
        absent = [state for state, number in zip(states, (before, after), strict=True) if number is None]
        reasons = [evidence.undefined(metric, task=task, state=state, setting="") for state in absent]
        return Part(name=name, undefined="; ".join(filter(None, reasons)), missing=f"{name}, {' and '.join(absent)}")
    fewest = evidence.estimate(labels, task=task, state=states[0], setting="")
    counts = f"{before.value:g} to {after.value:g}" + (f", {fewest.value:g} labels" if fewest else "")
    if before.value == after.value and fewest is not None and before.value == fewest.value:
        return Part(name=name, undefined=f"one cluster per label before and after, {counts}")
    change = difference(after, before)
    if change.bounds is None:
        change = replace(change, how="a count, exact for these rows")
    return Part(name=f"{name} ({counts})", estimate=change, rises=False)


def _by_label(evidence: Evidence, metric: str, task: str, state: str, setting: str = "") -> dict[str, float]:
    """The number of each label, as the mean over seeds."""
    values: dict[str, list[float]] = {}
    for row in evidence.final(evidence.find(metric, task=task, state=state, setting=setting)):
        if row.label and math.isfinite(row.value):
            values.setdefault(row.label, []).append(row.value)
    return {label: sum(numbers) / len(numbers) for label, numbers in values.items()}


def _with_accuracy(
    evidence: Evidence, tasks: Sequence[str], states: Sequence[str], metric: str, accuracy: str
) -> tuple[str, list[Effect]]:
    """How the mean distance goes with the accuracy over tasks and states, as a phrase and an effect."""
    cells = []
    for task, state in ((task, state) for task in tasks for state in states):
        distances = list(_by_label(evidence, metric, task, state).values())
        score = evidence.estimate(accuracy, task=task, state=state, setting="")
        if distances and score is not None:
            cells.append((sum(distances) / len(distances), score.value))
    correlation = rank_correlation([mean for mean, _ in cells], [score for _, score in cells], "cells of task and state")
    if correlation is None:
        return "", []
    phrase = f"; over {len(cells)} cells the mean distance goes with {accuracy} by {correlation}"
    return phrase, [correlation.effect(f"mean {metric} against {accuracy}")]


def _transfer_change(
    evidence: Evidence, task: str, other: str, metric: str, labels_metric: str, states: Sequence[str]
) -> Estimate | None:
    setting = f"tuned on {other}"
    direct = evidence.estimate(metric, task=task, setting=setting)
    if direct is not None and direct.bounds is not None:
        return direct
    # A mean without an interval says less than the distances of the single labels.
    before = _by_label(evidence, labels_metric, task, states[0])
    after = _by_label(evidence, labels_metric, task, states[1], setting)
    labels = sorted(set(before) & set(after))
    return mean_estimate([after[label] - before[label] for label in labels], "labels") if labels else direct


def _last_by_layer(evidence: Evidence, metric: str, task: str) -> dict[int, float]:
    """The number of each layer after the last step: the mean over labels and seeds."""
    means = {}
    for layer in sorted({row.layer for row in evidence.find(metric, task=task) if row.layer is not None}):
        rows = [row for row in evidence.find(metric, task=task, layer=layer) if math.isfinite(row.value)]
        last = {(row.seed, row.label): row.value for row in sorted(rows, key=lambda row: row.step or 0)}
        if last:
            means[layer] = sum(last.values()) / len(last)
    return means


def _halves_part(by_layer: dict[int, float], metric: str, rises: bool) -> Part:
    """The upper half of the layers minus the lower one; the middle layer of an odd number is in neither."""
    name, half = f"{metric}, upper minus lower layers", len(by_layer) // 2
    if not half:
        return Part(name=name, missing=name)
    values = list(by_layer.values())
    pairs = [upper - lower for lower, upper in zip(values[:half], values[-half:], strict=True)]
    return Part(name=name, estimate=mean_estimate(pairs, "pairs of a lower and an upper layer"), rises=rises)
