"""Rules on removing more and more directions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from theodolite.core.result import Judged
from theodolite.studies.rules.estimate import Estimate, difference
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, conclude
from theodolite.studies.rules.registry import rule


@rule("more elongated directions")
def more_elongated(
    evidence: Evidence,
    *,
    states: Sequence[str],
    metric: str,
    removals: Sequence[str],
    sweep: str,
    levels: Sequence[float],
    beside: str,
) -> Judged:
    """After equal removals the second state is less isotropic than the first, and it takes more directions to reach a level.

    `metric` is a logarithm, `levels` are not. A level that the first state does not reach within the sweep is left out. Tables
    print no sweep and are judged by their removals. `beside` is a metric that does not depend on scale: reported, not judged.
    """
    parts = [_after(evidence, metric, states, setting) for setting in removals]
    curves = [_curve(evidence, metric, state, sweep) for state in states]
    parts += list(_reaching(curves, levels)) or [
        Part(name="sweep", missing=f"a sweep that reaches isotropy {min(levels):g} in {states[0]}")
    ]
    others = [part for part in (_after(evidence, beside, states, setting) for setting in removals) if part.estimate is not None]
    after = f"; beside, by {beside}: {', '.join(f'{part} ({_agrees(part)})' for part in others)}" if others else ""
    effects = [part.estimate.effect(f"{part.name} (beside)") for part in others if part.estimate is not None]
    return conclude(evidence, parts, after=after + _equal_numbers(curves), beside=effects)


def _after(evidence: Evidence, metric: str, states: Sequence[str], setting: str) -> Part:
    first, second = (evidence.estimate(metric, state=state, setting=setting) for state in states)
    name = f"{metric} after {setting}, {states[1]} minus {states[0]}"
    if first is None or second is None:
        return Part(name=name, missing=f"{metric} after {setting}")
    return Part(name=name, estimate=difference(second, first), rises=False)


def _curve(evidence: Evidence, metric: str, state: str, sweep: str) -> dict[int, float]:
    labels = {row.label for row in evidence.find(metric, state=state, setting=sweep)}
    found = {int(label): evidence.estimate(metric, state=state, setting=sweep, label=label) for label in labels}
    return {removed: one.value for removed, one in sorted(found.items()) if one is not None}


def _reaching(curves: Sequence[dict[int, float]], levels: Sequence[float]) -> Iterator[Part]:
    if not all(curves):
        return
    for level in levels:
        first, second = (
            next((removed for removed, value in curve.items() if value >= math.log(level)), None) for curve in curves
        )
        if first is None:
            continue
        how = f"{first} directions before, {second} after"
        if second is None:
            how = f"{first} directions before, more than {max(curves[1])} after"
        more = (max(curves[1]) + 1 if second is None else second) - first
        yield Part(name=f"further directions to reach {level:g}", estimate=Estimate(value=float(more), how=how))


def _equal_numbers(curves: Sequence[dict[int, float]]) -> str:
    both = [removed for removed in curves[0] if removed and removed in curves[1]]
    less = sum(curves[1][removed] < curves[0][removed] for removed in both)
    return f"; at {less} of {len(both)} numbers of removed directions the tuned space is the less isotropic" if both else ""


def _agrees(part: Part) -> str:
    return {"for": "agrees", "against": "disagrees"}.get(part.support, "unclear")
