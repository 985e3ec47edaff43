"""What every claim's rules promise: few false verdicts at the boundary and with a true effect, none by scale alone or one run.

`benchmarks/rule_error_rates.py` runs the same simulation for longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
from rule_simulation import NOISE, Scenario, simulate

from theodolite.core.intervals import LEVEL
from theodolite.core.rows import Row
from theodolite.studies import study_names
from theodolite.studies.claims import RULES
from theodolite.studies.claims.evidence import Evidence, ModelOrigin, Records
from theodolite.studies.claims.premises import unlearned
from theodolite.studies.claims.rules import judge
from theodolite.studies.spec import Claim, StudySpec, load_spec

# Repetitions, and the share of false verdicts that three standard deviations of Monte Carlo error allow above 5%: 6 of 40, which
# a rule that errs in 5% exceeds with probability 0.003, and one that errs in 30% with 0.98. The benchmark repeats more often.
COUNT = 40
MOST = 0.05 + 3 * np.sqrt(0.05 * 0.95 / COUNT)


def small(claim: Claim) -> Claim:
    """The claim on one task if its rules look at labels, which take long."""
    return replace(claim, tasks=claim.tasks[:1]) if any(effect.rule != "difference" for effect in claim.primary) else claim


SPECS = [load_spec(name) for name in study_names()]
CLAIMS = [pytest.param(spec, small(claim), id=claim.id) for spec in SPECS for claim in spec.claims]
LONG = ("ZS22-f",)  # whose repetitions take more than two seconds
REPEATED = [pytest.param(*each.values, id=each.id, marks=[pytest.mark.slow] if each.id in LONG else []) for each in CLAIMS]


def outcomes(
    spec: StudySpec, claim: Claim, scenario: Scenario, numbers: Iterable[int], *, seeds: int = 5, heavy: bool = False
) -> Counter[str]:
    """How often each outcome comes in repetitions, each of which is seeded by its number."""
    seen: Counter[str] = Counter()
    for number in numbers:
        evidence = simulate(spec, claim, scenario, np.random.default_rng([number, seeds]), seeds=seeds, heavy=heavy)
        seen[judge(evidence, claim.primary, tasks=claim.tasks, premises=claim.premises).outcome] += 1
    return seen


@pytest.mark.parametrize("seeds", [2, 5])
@pytest.mark.parametrize(("spec", "claim"), REPEATED)
def test_at_the_boundary_both_verdicts_are_rare(spec: StudySpec, claim: Claim, seeds: int) -> None:
    seen = outcomes(spec, claim, "boundary", range(COUNT), seeds=seeds, heavy=seeds == 2)
    assert seen["not measured"] <= 1  # with heavy tails a premise may fail by chance
    assert seen["supported"] <= MOST * COUNT and seen["contradicted"] <= MOST * COUNT


@pytest.mark.parametrize(("spec", "claim"), REPEATED)
def test_a_true_effect_is_rarely_contradicted_and_scale_never_supports(spec: StudySpec, claim: Claim) -> None:
    seen = outcomes(spec, claim, "true", range(COUNT))
    assert seen["contradicted"] <= MOST * COUNT
    assert seen["supported"] > 0 or claim.primary[0].side == "inside"
    # On par, or below a threshold of its own, is what a space of another scale may be.
    compares = claim.primary[0].boundary == 0
    assert outcomes(spec, claim, "scaling", range(COUNT // 4))["supported"] == 0 or not compares


@pytest.mark.parametrize(("spec", "claim"), CLAIMS)
def test_one_run_and_a_quick_run_decide_nothing_and_say_which_way_they_lean(spec: StudySpec, claim: Claim) -> None:
    one = simulate(spec, claim, "true", np.random.default_rng(0), seeds=1)
    three = replace(simulate(spec, claim, "true", np.random.default_rng(0), seeds=3), quick=True)
    for evidence, words in ((one, "one run"), (three, "quick run")):
        judged = judge(evidence, claim.primary, tasks=claim.tasks, premises=claim.premises)
        assert judged.outcome == "inconclusive" and judged.lean in ("for", "against")
        way = "pointing the claimed way" if judged.lean == "for" else "pointing against the claim"
        assert judged.why.startswith(f"{words}, {way}: ") or {effect.place for effect in judged.effects} <= {
            "scale",
            "no interval",
        }


@pytest.mark.parametrize(("spec", "claim"), CLAIMS)
def test_a_premise_that_fails_leaves_nothing_to_judge(spec: StudySpec, claim: Claim) -> None:
    evidence = simulate(spec, claim, "true", np.random.default_rng(0), seeds=3)
    learned, origin = bool(claim.premises.learned), claim.premises.origin
    assert learned or origin
    if origin:
        tuned = replace(evidence, origins={name: ModelOrigin("tuned", "a tuned encoder") for name in evidence.origins})
        judged = judge(tuned, claim.primary, tasks=claim.tasks, premises=claim.premises)
        part = next((effect.part for effect in claim.primary if effect.part), "")
        assert judged.unmet == "pre-trained" and judged.part == part
        assert (judged.outcome == "not measured") == (not part)
        undeclared = judge(replace(evidence, origins={}), claim.primary, tasks=claim.tasks, premises=claim.premises)
        assert undeclared.unmet == "pre-trained" and (part or "undeclared" in undeclared.why)


def predictions(rng: np.random.Generator, *, accuracy: float, share: float, seeds: int, n: int = 300) -> Evidence:
    """Answers to n examples of two classes, right as often as said, whatever the class."""
    rows, tables = [], []
    for seed in range(seeds):
        truth = (rng.random(n) < share).astype(float)
        answer = np.where(rng.random(n) < accuracy, truth, 1 - truth)
        place = {"model": "m", "state": "fine-tuned", "task": "t", "seed": seed}
        rows.append(Row(metric="accuracy", value=float((truth == answer).mean()), **place))
        columns = {name: [value] * n for name, value in place.items()}
        tables.append(pyarrow.table({**columns, "truth": truth, "answer": answer}))
    return Evidence(source="simulated", rows=tuple(rows), records=Records({"predictions": pyarrow.concat_tables(tables)}))


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_what_was_not_learned_rarely_counts_as_learned(seeds: int) -> None:
    rng, count = np.random.default_rng(seeds), 200
    passed = {
        accuracy: sum(
            not unlearned(predictions(rng, accuracy=accuracy, share=0.6, seeds=seeds), "t", {"metric": "accuracy"})
            for _ in range(count)
        )
        for accuracy in (0.6, 0.75)
    }
    assert passed[0.6] <= (0.05 + 3 * np.sqrt(0.05 * 0.95 / count)) * count
    assert passed[0.75] >= 0.95 * count  # far above: learned


def test_every_rule_that_decides_is_simulated() -> None:
    deciding = {effect.rule for name in study_names() for claim in load_spec(name).claims for effect in claim.primary}
    shown = {effect.rule for name in study_names() for claim in load_spec(name).claims for effect in claim.secondary}
    assert set(RULES) == deciding | shown
    only_shown = {"number", "share of labels that grew", "similarity where tuning helps least", "movement against height"}
    assert shown - deciding == only_shown  # which decide nothing
    assert LEVEL == 0.95 and all(len(noise) == 4 for noise in NOISE.values())
