"""Rules on isotropy by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from theodolite.core.result import Effect, Judged
from theodolite.core.rows import Row
from theodolite.studies.rules.estimate import Estimate, difference, over
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, judged, outcome_of
from theodolite.studies.rules.registry import rule


@rule("far below the ceiling")
def far_below_the_ceiling(
    evidence: Evidence,
    *,
    metric: str,
    printed_metric: str,
    state: str,
    settings: Sequence[str],
    share: float,
    beside: Sequence[str],
) -> Judged:
    """In every layer the metric, at the upper end of its interval, is below `share` of what an isotropic cloud would reach.

    The ceiling is 1, or (n - 2)/(d - 1) where there are no more rows than dimensions. Tables that do not print the metric are
    judged by `printed_metric`, whose ceiling is 1.
    """
    name = metric if not evidence.printed or evidence.find(metric) else printed_metric
    rows = _by_layer(evidence, name, state, settings)
    if not rows:
        return judged(evidence, "not decidable here", f"there are no rows of {name} in the state {state!r}")
    # The layer that comes closest to its ceiling decides.
    nearest = max(rows, key=lambda row: _upper(row) / _ceiling(row, name))
    bound = share * _ceiling(nearest, name)
    holds = _upper(nearest) < bound
    where = "" if nearest.layer is None else f" (layer {nearest.layer})"
    why = (
        f"the largest of {len(rows)} values of {name} is {nearest.value:.3g}{where}, "
        f"{'below' if holds else 'not below'} {bound:.3g}, which is {share:g} of the ceiling {_ceiling(nearest, name):.3g}"
    )
    effects = [
        Effect(
            name=f"largest {name}", value=nearest.value, low=nearest.low, high=nearest.high, n=nearest.n, how=f"bound {bound:.3g}"
        )
    ]
    for other in beside:
        found = _by_layer(evidence, other, state, settings)
        if found:
            top = max(found, key=lambda row: row.value)
            effects.append(
                Effect(name=f"largest {other}", value=top.value, low=top.low, high=top.high, n=top.n, how="reported beside")
            )
    return judged(evidence, "holds" if holds else "does not hold", why, effects)


@rule("less isotropic in most layers")
def less_isotropic_in_most_layers(
    evidence: Evidence, *, setting: str, against: str, metrics: Sequence[str], state: str
) -> Judged:
    """By every metric, `setting` lies below `against` in more than half of the layers that have both.

    A layer whose difference has an interval that contains 0 does not count for the claim.
    """
    said, effects, outcomes = [], [], []
    for metric in metrics:
        parts = [
            Part(name=f"layer {layer}", estimate=difference(one, other), rises=False)
            for layer, one, other in _paired(evidence, metric, state, (setting, against))
        ]
        if not parts:
            said.append(f"{metric} is missing for {setting!r} or {against!r}")
            outcomes.append("not decidable here")
            continue
        lower = sum(part.support == "for" for part in parts)
        mean = over([part.estimate.value for part in parts if part.estimate], "layers")
        outcomes.append(outcome_of([part.support for part in parts], need="most"))
        said.append(f"by {metric} {setting!r} is lower in {lower} of {len(parts)} layers, by {mean} on average")
        effects += [
            mean.effect(f"{metric}, {setting} minus {against}"),
            Effect(
                name=f"layers where {setting} is lower by {metric}",
                value=lower / len(parts),
                n=len(parts),
                how="all layers there are",
            ),
        ]
    known = [one for one in outcomes if one != "not decidable here"]
    if "does not hold" in known:
        return judged(evidence, "does not hold", "; ".join(said), effects)
    return judged(evidence, "holds" if known and len(known) == len(outcomes) else "not decidable here", "; ".join(said), effects)


def _by_layer(evidence: Evidence, metric: str, state: str, settings: Sequence[str]) -> list[Row]:
    """Finite rows of the first of the settings that has any."""
    for setting in settings:
        rows = [row for row in evidence.find(metric, state=state, setting=setting) if math.isfinite(row.value)]
        if rows:
            return rows
    return []


def _paired(evidence: Evidence, metric: str, state: str, settings: tuple[str, str]) -> list[tuple[int, Estimate, Estimate]]:
    layers = sorted({row.layer for row in evidence.find(metric, state=state, setting=settings[0]) if row.layer is not None})
    found = []
    for layer in layers:
        one, other = (evidence.estimate(metric, state=state, setting=setting, layer=layer) for setting in settings)
        if one is not None and other is not None:
            found.append((layer, one, other))
    return found


def _upper(row: Row) -> float:
    return row.value if row.high is None else row.high


def _ceiling(row: Row, metric: str) -> float:
    if not metric.startswith("iso_score") or row.n is None or row.d is None or row.n > row.d:
        return 1.0
    return max(row.n - 2, 1) / (row.d - 1)
