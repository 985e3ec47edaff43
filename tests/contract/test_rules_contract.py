"""What every claim's rules promise: few false verdicts at the boundary and with a true effect, and none by scale alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from rule_simulation import NOISE, Scenario, simulate

from theodolite.core.intervals import LEVEL
from theodolite.studies import study_names
from theodolite.studies.claims import RULES
from theodolite.studies.claims.rules import judge
from theodolite.studies.spec import Claim, StudySpec, load_spec

# Repetitions, and the share of false verdicts that three standard deviations of Monte Carlo error allow above 5 %.
COUNT = 80
MOST = 0.05 + 3 * np.sqrt(0.05 * 0.95 / COUNT)


def small(claim: Claim) -> Claim:
    """The claim on one task if its rules look at labels, which take long."""
    effects = tuple(
        replace(effect, parameters={**effect.parameters, "tasks": effect.parameters["tasks"][:1]})
        if "tasks" in effect.parameters and effect.rule != "difference"
        else effect
        for effect in claim.primary
    )
    return replace(claim, primary=effects)


SPECS = [load_spec(name) for name in study_names()]
CLAIMS = [pytest.param(spec, small(claim), id=claim.id) for spec in SPECS for claim in spec.claims]


def outcomes(spec: StudySpec, claim: Claim, scenario: Scenario, count: int, *, seeds: int = 5) -> Counter[str]:
    rng = np.random.default_rng(len(claim.id) + seeds)
    return Counter(judge(simulate(spec, claim, scenario, rng, seeds=seeds), claim.primary).outcome for _ in range(count))


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "claim"), CLAIMS)
def test_at_the_boundary_both_verdicts_are_rare(spec: StudySpec, claim: Claim) -> None:
    seen = outcomes(spec, claim, "boundary", COUNT)
    assert seen["not measured"] == 0
    assert seen["supported"] <= MOST * COUNT and seen["contradicted"] <= MOST * COUNT


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "claim"), CLAIMS)
def test_a_true_effect_is_rarely_contradicted_and_scale_never_supports(spec: StudySpec, claim: Claim) -> None:
    assert outcomes(spec, claim, "true", COUNT)["contradicted"] <= MOST * COUNT
    assert outcomes(spec, claim, "true", COUNT // 4)["supported"] > 0 or claim.primary[0].side == "inside"
    # On par is what a space of another scale is.
    assert outcomes(spec, claim, "scaling", COUNT // 4)["supported"] == 0 or claim.primary[0].side == "inside"


def test_every_rule_that_decides_is_simulated() -> None:
    deciding = {effect.rule for name in study_names() for claim in load_spec(name).claims for effect in claim.primary}
    shown = {effect.rule for name in study_names() for claim in load_spec(name).claims for effect in claim.secondary}
    assert {name for name, rule in RULES.items() if not rule.is_audit} == deciding | shown
    assert shown - deciding == {"number", "share of labels that grew"}  # which decide nothing
    assert LEVEL == 0.95 and all(len(noise) == 4 for noise in NOISE.values())
