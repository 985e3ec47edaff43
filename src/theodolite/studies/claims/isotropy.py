"""Rules on isotropy: by layer, between families of models, and after removing more and more directions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from theodolite.core.result import Effect, Judged, Outcome
from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Estimate, Evidence, difference, mean_estimate
from theodolite.studies.claims.rules import Part, conclude, judgement, outcome_of, rule


@rule("far below the ceiling")
def far_below_the_ceiling(
    evidence: Evidence,
    *,
    metric: str,
    printed_metric: str,
    state: str,
    settings: Sequence[str],
    share: float,
    secondary: Sequence[str],
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
    for other in secondary:
        others = _finite_rows(evidence, other, state, settings)
        if others:
            effects.append(_effect(max(others, key=lambda row: row.value), f"largest {other}", "shown, does not decide"))
    return judgement(evidence, "holds" if holds else "does not hold", why, effects)


@rule("less isotropic in most layers")
def less_isotropic_in_most_layers(
    evidence: Evidence, *, setting: str, against: str, metrics: Sequence[str], state: str
) -> Judged:
    """By every metric, `setting` is below `against` in more than half of the layers that have both.

    A layer whose difference has an interval that contains 0 does not count for the claim.
    """
    phrases: list[str] = []
    effects: list[Effect] = []
    outcomes: list[Outcome] = []
    for metric in metrics:
        parts = list(_layer_parts(evidence, metric, state, (setting, against)))
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
    outcome: Outcome = "holds" if outcomes and set(outcomes) == {"holds"} else "not decidable here"
    return judgement(evidence, "does not hold" if "does not hold" in outcomes else outcome, "; ".join(phrases), effects)


@rule("family less isotropic", scope="models")
def family_less_isotropic(
    evidence: Evidence, *, families: Mapping[str, str], less: str, metric: str, states: Sequence[str], settings: Sequence[str]
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


@rule("more elongated directions")
def more_elongated(
    evidence: Evidence,
    *,
    states: Sequence[str],
    metric: str,
    removals: Sequence[str],
    sweep: str,
    levels: Sequence[float],
    secondary: str,
) -> Judged:
    """After equal removals the second state is less isotropic than the first, and it takes more directions to reach a level.

    `metric` is a logarithm, `levels` are not. A level that the first state does not reach within the sweep is left out. Tables
    print no sweep and are judged by their removals. `secondary` is a metric that does not depend on scale; it does not decide.
    """
    parts = [_removal_part(evidence, metric, states, setting) for setting in removals]
    curves = [_sweep_curve(evidence, metric, state, sweep) for state in states]
    parts += list(_level_parts(curves, levels)) or [
        Part(name="sweep", missing=f"a sweep that reaches isotropy {min(levels):g} in {states[0]}")
    ]
    others = [part for part in (_removal_part(evidence, secondary, states, setting) for setting in removals) if part.estimate]
    opinion = {"for": "agrees", "against": "disagrees"}
    phrases = [f"{part} ({opinion.get(part.support, 'unclear')})" for part in others]
    remark = f"; by {secondary}, which does not decide: {', '.join(phrases)}" if others else ""
    if both := [count for count in curves[0] if count and count in curves[1]]:
        less = sum(curves[1][count] < curves[0][count] for count in both)
        remark += f"; at {less} of {len(both)} numbers of removed directions the tuned space is the less isotropic"
    effects = [part.estimate.effect(f"{part.name} (does not decide)") for part in others if part.estimate is not None]
    return conclude(evidence, parts, remark=remark, secondary=effects)


def _finite_rows(evidence: Evidence, metric: str, state: str, settings: Sequence[str]) -> list[Row]:
    """Finite rows of the first of the settings that has any."""
    for setting in settings:
        rows = [row for row in evidence.find(metric, state=state, setting=setting) if math.isfinite(row.value)]
        if rows:
            return rows
    return []


def _effect(row: Row, name: str, how: str) -> Effect:
    return Effect(name=name, value=row.value, low=row.low, high=row.high, n=row.n, how=how)


def _upper(row: Row) -> float:
    return row.value if row.high is None else row.high


def _ceiling(row: Row, metric: str) -> float:
    if not metric.startswith("iso_score") or row.n is None or row.d is None or row.n > row.d:
        return 1.0
    # n centred points span n - 1 directions, so that even an isotropic sample cannot have a larger IsoScore.
    return max(row.n - 2, 1) / (row.d - 1)


def _layer_parts(evidence: Evidence, metric: str, state: str, settings: tuple[str, str]) -> Iterator[Part]:
    layers = sorted({row.layer for row in evidence.find(metric, state=state, setting=settings[0]) if row.layer is not None})
    for layer in layers:
        first, second = (evidence.estimate(metric, state=state, setting=setting, layer=layer) for setting in settings)
        if first is not None and second is not None:
            yield Part(name=f"layer {layer}", estimate=difference(first, second), rises=False)


def _family_part(evidence: Evidence, models: tuple[str, str], metric: str, state: str, settings: Sequence[str]) -> Part:
    name = f"{metric}, {state}, {models[0]} minus {models[1]}"
    low, high = (_by_layer(evidence.of_model(model), metric, state, settings) for model in models)
    if not low or not high:
        absent = [model for model, layers in zip(models, (low, high), strict=True) if not layers]
        return Part(name=name, missing=f"{metric} of {', '.join(absent)}, {state}")
    if low.keys() == high.keys() and len(low) > 1:
        mean = mean_estimate([low[layer].value - high[layer].value for layer in low], "layers")
        return Part(name=name, estimate=mean, rises=False)
    # Layers of models with different depths do not correspond.
    return Part(name=f"{name}, last layer", estimate=difference(low[max(low)], high[max(high)]), rises=False)


def _by_layer(evidence: Evidence, metric: str, state: str, settings: Sequence[str]) -> dict[int, Estimate]:
    """The metric of every layer; the one number of a table without layers is under -1."""
    for setting in settings:
        layers = {row.layer for row in evidence.find(metric, state=state, setting=setting)}
        numbers = {layer: evidence.estimate(metric, state=state, setting=setting, layer=layer) for layer in layers}
        estimates = {-1 if layer is None else layer: number for layer, number in numbers.items() if number is not None}
        if estimates:
            return dict(sorted(estimates.items()))
    return {}


def _removal_part(evidence: Evidence, metric: str, states: Sequence[str], setting: str) -> Part:
    first, second = (evidence.estimate(metric, state=state, setting=setting) for state in states)
    name = f"{metric} after {setting}, {states[1]} minus {states[0]}"
    if first is None or second is None:
        return Part(name=name, missing=f"{metric} after {setting}")
    return Part(name=name, estimate=difference(second, first), rises=False)


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
        yield Part(name=f"further directions to reach {level:g}", estimate=Estimate(value=float(more), how=how))
