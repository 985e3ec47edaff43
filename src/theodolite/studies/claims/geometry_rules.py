"""Rules on the shape of a space: its isotropy by layer, family and removal; its labels' clusters, distances and movement."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from theodolite.core.result import Effect, Judged, Outcome
from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Estimate, Evidence, difference, mean_estimate, rank_correlation
from theodolite.studies.claims.rules import Names, Part, absent_part, conclude, judgement, outcome_of, rule

# Layers that a correlation with their height needs at least.
FEWEST_LAYERS = 3


@rule("far below the ceiling")
def far_below_the_ceiling(
    evidence: Evidence, *, metric: str, printed_metric: str, state: str, settings: Names, share: float, secondary: Names
) -> Judged:
    """In every layer the metric, at the upper end of its interval, is below `share` of what an isotropic cloud would reach.

    The ceiling is 1, or (n - 2)/(d - 1) if there are no more rows than dimensions. Tables that do not print the metric are judged
    by `printed_metric`, whose ceiling is 1. The `secondary` metrics are shown and do not decide.
    """
    name = metric if not evidence.printed or evidence.find(metric) else printed_metric
    rows = _finite_rows(evidence, name, state, settings)
    if not rows:
        return judgement(evidence, "not decidable here", f"there are no rows of {name} in the state {state!r}")
    # The layer that comes closest to its ceiling decides.
    top = max(rows, key=lambda row: _upper(row) / _ceiling(row, name))
    bound = share * _ceiling(top, name)
    holds = _upper(top) < bound
    layer = "" if top.layer is None else f" (layer {top.layer})"
    why = (
        f"the largest of {len(rows)} values of {name} is {top.value:.3g}{layer}, "
        f"{'below' if holds else 'not below'} {bound:.3g}, which is {share:g} of the ceiling {_ceiling(top, name):.3g}"
    )
    effects = [_effect(top, f"largest {name}", f"bound {bound:.3g}")]
    effects += [
        _effect(max(others, key=lambda row: row.value), f"largest {other}", "shown, does not decide")
        for other in secondary
        if (others := _finite_rows(evidence, other, state, settings))
    ]
    return judgement(evidence, "holds" if holds else "does not hold", why, effects)


def _finite_rows(evidence: Evidence, metric: str, state: str, settings: Names) -> list[Row]:
    """Finite rows of the first of the settings that has any."""
    by_setting = ([row for row in evidence.find(metric, state=state, setting=s) if math.isfinite(row.value)] for s in settings)
    return next(filter(None, by_setting), [])


def _effect(row: Row, name: str, how: str) -> Effect:
    return Effect(name=name, value=row.value, low=row.low, high=row.high, n=row.n, how=how)


def _upper(row: Row) -> float:
    return row.value if row.high is None else row.high


def _ceiling(row: Row, metric: str) -> float:
    if not metric.startswith("iso_score") or row.n is None or row.d is None or row.n > row.d:
        return 1.0
    # n centred points span n - 1 directions, so that even an isotropic sample cannot have a larger IsoScore.
    return max(row.n - 2, 1) / (row.d - 1)


@rule("less isotropic in most layers")
def less_isotropic_in_most_layers(evidence: Evidence, *, setting: str, against: str, metrics: Names, state: str) -> Judged:
    """By every metric, `setting` is below `against` in more than half of the layers that have both.

    A layer whose difference has an interval that contains 0 does not count for the claim.
    """
    phrases: list[str] = []
    effects: list[Effect] = []
    outcomes: list[Outcome] = []
    for metric in metrics:
        first, second = (_by_layer(evidence, metric, state, [name]) for name in (setting, against))
        layers = [layer for layer in first if layer in second and layer >= 0]
        parts = [Part(f"layer {layer}", difference(first[layer], second[layer]), rises=False) for layer in layers]
        if not parts:
            phrases.append(f"{metric} is missing for {setting!r} or {against!r}")
            outcomes.append("not decidable here")
            continue
        lower = sum(part.support == "for" for part in parts)
        mean = mean_estimate([part.estimate.value for part in parts if part.estimate], "layers")
        outcomes.append(outcome_of([part.support for part in parts], need="most"))
        phrases.append(f"by {metric} {setting!r} is lower in {lower} of {len(parts)} layers, by {mean} on average")
        effects.append(mean.effect(f"{metric}, {setting} minus {against}"))
        name = f"share of layers in which {setting} is lower by {metric}"
        effects.append(Effect(name=name, value=lower / len(parts), n=len(parts), how="all layers there are"))
    outcome: Outcome = "holds" if set(outcomes) == {"holds"} else "not decidable here"
    return judgement(evidence, "does not hold" if "does not hold" in outcomes else outcome, "; ".join(phrases), effects)


@rule("family less isotropic", scope="models")
def family_less_isotropic(
    evidence: Evidence, *, families: Mapping[str, str], less: str, metric: str, states: Names, settings: Names
) -> Judged:
    """In every state each model of the family `less` has a lower metric, on average over layers, than each of the others.

    `families` are patterns that a model's name is searched for. Models with different numbers of layers, and printed tables,
    are compared at the last layer only.
    """
    members = {
        family: [name for name in evidence.models if re.search(pattern, name, re.IGNORECASE)]
        for family, pattern in families.items()
    }
    if absent := [family for family, names in members.items() if not names]:
        others = [name for name in evidence.models if not any(name in names for names in members.values())]
        why = f"needs models of {' and '.join(families)}, and there is none of {' or '.join(absent)}"
        why += f" ({', '.join(others)}: by its name of none of these families)" if others else ""
        return judgement(evidence, "not decidable here", why)
    parts = [
        _family_part(evidence, (low, high), metric, state, settings)
        for state in states
        for low in members[less]
        for family, names in members.items()
        if family != less
        for high in names
    ]
    return conclude(evidence, parts)


def _family_part(evidence: Evidence, models: tuple[str, str], metric: str, state: str, settings: Names) -> Part:
    name = f"{metric}, {state}, {models[0]} minus {models[1]}"
    low, high = (_by_layer(evidence.of_model(model), metric, state, settings) for model in models)
    if not low or not high:
        absent = [model for model, layers in zip(models, (low, high), strict=True) if not layers]
        return Part(name, missing=f"{metric} of {', '.join(absent)}, {state}")
    if low.keys() == high.keys() and len(low) > 1:
        mean = mean_estimate([low[layer].value - high[layer].value for layer in low], "layers")
        return Part(name, mean, rises=False)
    # Differences by layer are averaged only if there are several. Layers of models with different depths do not correspond.
    return Part(f"{name}, last layer", difference(low[max(low)], high[max(high)]), rises=False)


def _by_layer(evidence: Evidence, metric: str, state: str, settings: Names) -> dict[int, Estimate]:
    """The metric of every layer; the one number of a table without layers is under -1."""
    for setting in settings:
        layers = {row.layer for row in evidence.find(metric, state=state, setting=setting)}
        numbers = {layer: evidence.estimate(metric, state=state, setting=setting, layer=layer) for layer in layers}
        estimates = {-1 if layer is None else layer: number for layer, number in numbers.items() if number is not None}
        if estimates:
            return dict(sorted(estimates.items()))
    return {}


@rule("more elongated directions")
def more_elongated(
    evidence: Evidence, *, states: Names, metric: str, removals: Names, sweep: str, levels: Sequence[float], secondary: str
) -> Judged:
    """After equal removals the second state is less isotropic than the first, and it takes more directions to reach a level.

    `metric` is a logarithm, `levels` are not. A level that the first state does not reach within the sweep is left out. Tables
    print no sweep and are judged by their removals. `secondary` is a metric that does not depend on scale; it does not decide.
    """
    parts = [_removal_part(evidence, metric, states, setting) for setting in removals]
    curves = [_sweep_curve(evidence, metric, state, sweep) for state in states]
    missing = f"a sweep that reaches isotropy {min(levels):g} in {states[0]}"
    parts += list(_level_parts(curves, levels)) or [Part("sweep", missing=missing)]
    others = [part for part in (_removal_part(evidence, secondary, states, setting) for setting in removals) if part.estimate]
    opinion = {"for": "agrees", "against": "disagrees"}
    phrases = [f"{part} ({opinion.get(part.support, 'unclear')})" for part in others]
    remark = f"; by {secondary}, which does not decide: {', '.join(phrases)}" if others else ""
    if both := [count for count in curves[0] if count and count in curves[1]]:
        less = sum(curves[1][count] < curves[0][count] for count in both)
        remark += f"; at {less} of {len(both)} numbers of removed directions the tuned space is the less isotropic"
    effects = [part.estimate.effect(f"{part.name} (does not decide)") for part in others if part.estimate is not None]
    return conclude(evidence, parts, remark=remark, secondary=effects)


def _removal_part(evidence: Evidence, metric: str, states: Names, setting: str) -> Part:
    first, second = (evidence.estimate(metric, state=state, setting=setting) for state in states)
    name = f"{metric} after {setting}, {states[1]} minus {states[0]}"
    return Part(name, difference(second, first), rises=False, missing=f"{metric} after {setting}")


def _sweep_curve(evidence: Evidence, metric: str, state: str, sweep: str) -> dict[int, float]:
    """The metric by the number of removed directions, ascending."""
    labels = {row.label for row in evidence.find(metric, state=state, setting=sweep)}
    numbers = {int(label): evidence.estimate(metric, state=state, setting=sweep, label=label) for label in labels}
    return {count: number.value for count, number in sorted(numbers.items()) if number is not None}


def _level_parts(curves: Sequence[dict[int, float]], levels: Sequence[float]) -> Iterator[Part]:
    """How many more directions the second state needs to reach each level."""
    if not all(curves):
        return
    for level in levels:
        first, second = (next((n for n, value in curve.items() if value >= math.log(level)), None) for curve in curves)
        if first is None:
            continue
        most = max(curves[1])
        how = f"{first} directions before, {second if second is not None else f'more than {most}'} after"
        more = (most + 1 if second is None else second) - first  # not reached: at least one more than the sweep has
        yield Part(f"further directions to reach {level:g}", Estimate(value=float(more), how=how))


@rule("fewer clusters")
def fewer_clusters(evidence: Evidence, *, tasks: Names, states: Names, metric: str, labels: str) -> Judged:
    """From the first state to the second the clusters become fewer in every task that has more of them than labels at first.

    A task with one cluster per label has nothing to lose, and does not count unless it gains some. Counts are exact for the rows
    they were made of; over several seeds they have an interval.
    """
    return conclude(evidence, [_clusters_part(evidence, task, states, metric, labels) for task in tasks])


def _clusters_part(evidence: Evidence, task: str, states: Names, metric: str, labels: str) -> Part:
    name, fields = f"{task} {metric}", {"task": task, "setting": ""}
    numbers = {state: evidence.estimate(metric, state=state, **fields) for state in states}
    before, after = numbers.values()
    change = difference(after, before)
    if before is None or after is None or change is None:
        return absent_part(evidence, name, metric, numbers, **fields)
    fewest = evidence.estimate(labels, state=states[0], **fields)
    counts = f"{before.value:g} to {after.value:g}" + (f", {fewest.value:g} labels" if fewest else "")
    if fewest is not None and before.value == after.value == fewest.value:
        return Part(name, undefined=f"one cluster per label before and after, {counts}")
    if change.bounds is None:
        change = replace(change, how="a count, exact for these rows")
    return Part(f"{name} ({counts})", change, rises=False)


@rule("labels move apart")
def labels_move_apart(evidence: Evidence, *, tasks: Names, states: Names, metric: str, most: float, accuracy: str) -> Judged:
    """In every task labels get farther from their nearest neighbour on average, and more than the share `most` of them does.

    The interval of the mean is over labels. How the mean distance goes with `accuracy` over tasks and states is shown as well.
    """
    parts: list[Part] = []
    cells: list[tuple[float, float]] = []
    for task in tasks:
        distances = [_by_label(evidence, metric, task, state) for state in states]
        for state, by_label in zip(states, distances, strict=True):
            score = evidence.estimate(accuracy, task=task, state=state, setting="")
            if by_label and score is not None:
                cells.append((sum(by_label.values()) / len(by_label), score.value))
        changes = _label_changes(*distances)
        if not changes:
            parts.append(Part(f"{task} {metric}", missing=f"{metric} of {task}, {' and '.join(states)}"))
            continue
        parts.append(Part(f"{task} mean change of {metric}", mean_estimate(changes, "labels")))
        # Judged by its value: the labels of a task are all there are, and not a sample of labels.
        count, n = sum(change > 0 for change in changes), len(changes)
        grown = Estimate(
            value=count / n - most, n=n, how=f"{count} of {n} labels grew; {count / n:.3g} of the labels minus {most:g}"
        )
        parts.append(Part(f"{task} share of labels that grew, over {most:g}", grown))
    correlation = rank_correlation([mean for mean, _ in cells], [score for _, score in cells], "cells of task and state")
    if correlation is None:
        return conclude(evidence, parts)
    remark = f"; over {len(cells)} cells the mean distance goes with {accuracy} by {correlation}"
    return conclude(evidence, parts, remark=remark, secondary=[correlation.effect(f"mean {metric} against {accuracy}")])


def _by_label(evidence: Evidence, metric: str, task: str, state: str, setting: str = "") -> dict[str, float]:
    """The number of each label, as the mean over seeds."""
    values: dict[str, list[float]] = {}
    for row in evidence.final(evidence.find(metric, task=task, state=state, setting=setting)):
        if row.label and math.isfinite(row.value):
            values.setdefault(row.label, []).append(row.value)
    return {label: sum(numbers) / len(numbers) for label, numbers in values.items()}


def _label_changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[float]:
    """The change of every label that is in both."""
    return [after[label] - before[label] for label in sorted(before.keys() & after.keys())]


@rule("transfer by closeness")
def transfer_by_closeness(
    evidence: Evidence, *, task: str, tuned_on: Names, metric: str, labels_metric: str, states: Names, accuracy: str
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
        Part(f"mean change, tuned on {other}", changes[other], rises=other == tuned_on[0], missing=missing[other])
        for other in (tuned_on[0], tuned_on[-1])
    ]
    for near, far in pairwise(tuned_on):
        absent = missing[far if near in measured else near]
        parts.append(Part(f"tuned on {near} minus tuned on {far}", difference(changes[near], changes[far]), missing=absent))
    scores = {other: evidence.estimate(accuracy, task=task, state=states[1], setting=f"tuned on {other}") for other in tuned_on}
    phrases = ", ".join(f"{other} {score.value:.3g}" for other, score in scores.items() if score is not None)
    return conclude(evidence, parts, remark=f"; {accuracy}: {phrases}" if phrases else "")


def _transfer_change(
    evidence: Evidence, task: str, other: str, metric: str, labels_metric: str, states: Names
) -> Estimate | None:
    setting = f"tuned on {other}"
    direct = evidence.estimate(metric, task=task, setting=setting)
    if direct is not None and direct.bounds is not None:
        return direct
    # A mean without an interval says less than the distances of the single labels.
    before = _by_label(evidence, labels_metric, task, states[0])
    changes = _label_changes(before, _by_label(evidence, labels_metric, task, states[1], setting))
    return mean_estimate(changes, "labels") if changes else direct


@rule("higher layers drift most")
def higher_layers_drift_most(evidence: Evidence, *, similarity: str, floor: float, movement: str, directions: str) -> Judged:
    """In every tracked task higher layers change more than lower ones, and none changes beyond recognition.

    Similarity to the original falls with height and stays above `floor` in every layer at every step; centroids move less in the
    lower half of the layers than in the upper one, and there in fewer directions (a larger share on the first ones).
    """
    parts: list[Part] = []
    for task in dict.fromkeys(row.task for row in evidence.find(similarity)):
        by_layer = _last_by_layer(evidence, similarity, task)
        height = None
        if len(by_layer) >= FEWEST_LAYERS:
            height = rank_correlation(list(map(float, by_layer)), list(by_layer.values()), "layers")
            height = height or Estimate(value=0.0, how="the same in all layers")
        missing = f"{similarity} of {task} in {FEWEST_LAYERS} layers or more"
        parts.append(Part(f"{task} {similarity} against height", height, rises=False, missing=missing))
        if values := [row.value for row in evidence.find(similarity, task=task) if math.isfinite(row.value)]:
            how = f"lowest is {min(values):.3g} of {len(values)} layers and steps"
            lowest = Estimate(value=min(values) - floor, n=len(values), how=how)
            parts.append(Part(f"{task} lowest {similarity} over {floor:g}", lowest))
        for metric, rises in ((movement, True), (directions, False)):
            parts.append(_halves_part(_last_by_layer(evidence, metric, task), f"{task} {metric}", rises))
    return conclude(evidence, parts or [Part(similarity, missing=f"{similarity} by layer and step")])


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
    half, values = len(by_layer) // 2, list(by_layer.values())
    pairs = [upper - lower for lower, upper in zip(values[:half], values[len(values) - half :], strict=True)]
    estimate = mean_estimate(pairs, "pairs of a lower and an upper layer") if pairs else None
    return Part(f"{metric}, upper minus lower layers", estimate, rises=rises)
