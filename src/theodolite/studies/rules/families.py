"""Rules that need models of two families."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from theodolite.core.result import Judged
from theodolite.studies.rules.estimate import Estimate, difference, over
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, conclude, judged
from theodolite.studies.rules.registry import rule


@rule("family less isotropic", scope="models")
def family_less_isotropic(
    evidence: Evidence, *, families: Mapping[str, str], less: str, metric: str, states: Sequence[str], settings: Sequence[str]
) -> Judged:
    """In every state each model of the family `less` has a lower metric, on average over layers, than each of the others.

    `families` are patterns that a model's name is searched for. Models with different numbers of layers, and printed tables,
    are compared at the last layer alone.
    """
    members = {
        family: [name for name in evidence.models if re.search(pattern, name, re.IGNORECASE)]
        for family, pattern in families.items()
    }
    lacking = [family for family, names in members.items() if not names]
    if lacking:
        known = {name for names in members.values() for name in names}
        strangers = [name for name in evidence.models if name not in known]
        why = f"needs models of {' and '.join(families)}, and there is none of {' or '.join(lacking)}"
        if strangers:
            why += f" ({', '.join(strangers)}: of none of these families by name)"
        return judged(evidence, "not decidable here", why)
    parts = [
        _part(evidence, (low, high), metric, state, settings)
        for state in states
        for low in members[less]
        for family, others in members.items()
        if family != less
        for high in others
    ]
    return conclude(evidence, parts)


def _part(evidence: Evidence, models: tuple[str, str], metric: str, state: str, settings: Sequence[str]) -> Part:
    name = f"{metric}, {state}, {models[0]} minus {models[1]}"
    both = [_by_layer(evidence.of_model(model), metric, state, settings) for model in models]
    if not all(both):
        lacking = [model for model, found in zip(models, both, strict=True) if not found]
        return Part(name=name, missing=f"{metric} of {', '.join(lacking)}, {state}")
    if both[0].keys() == both[1].keys() and len(both[0]) > 1:
        mean = over([both[0][layer].value - both[1][layer].value for layer in both[0]], "layers")
        return Part(name=name, estimate=mean, rises=False)
    low, high = (found[max(found)] for found in both)
    return Part(name=f"{name}, last layer", estimate=difference(low, high), rises=False)


def _by_layer(evidence: Evidence, metric: str, state: str, settings: Sequence[str]) -> dict[int, Estimate]:
    for setting in settings:
        layers = {row.layer for row in evidence.find(metric, state=state, setting=setting)}
        found = {layer: evidence.estimate(metric, state=state, setting=setting, layer=layer) for layer in layers}
        known = {-1 if layer is None else layer: one for layer, one in found.items() if one is not None}
        if known:
            return dict(sorted(known.items()))
    return {}
