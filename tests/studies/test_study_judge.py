"""What the papers' own tables say of the papers' claims, and which rows a verdict is about."""

from __future__ import annotations

import pytest

from theodolite.core.result import Judged
from theodolite.studies.claims.judge import judge_claims
from theodolite.studies.spec import StudySpec, load_spec


@pytest.fixture(scope="module")
def rp21() -> StudySpec:
    return load_spec("rp21")


@pytest.fixture(scope="module")
def il23() -> StudySpec:
    return load_spec("il23")


def on(study: StudySpec, claim: str) -> dict[str, Judged]:
    (verdict,) = [one for one in judge_claims(study, []) if one.claim == claim]
    return {one.source: one for one in verdict.printed}


def test_repair_hurts_in_rp21_though_zero_mean_raises_both_tuned_models(rp21: StudySpec) -> None:
    found = on(rp21, "PD22-1")
    for model, rise in (("BERT-base", 0.0053), ("RoBERTa-base", 0.0026)):
        judged = found[f"RP21 table 1, {model}"]
        assert judged.outcome == "holds"
        (apart,) = [one for one in judged.effects if one.name == "zero-mean, fine-tuned (not counted)"]
        assert apart.value == pytest.approx(rise) and apart.low is None
        assert "1 of 4 repairs raise the fine-tuned space" in judged.why and "without intervals" in judged.why


def test_pd22s_own_table_contradicts_its_claim_for_bert(rp21: StudySpec) -> None:
    found = on(rp21, "PD22-1")
    assert found["PD22 table 1 (reported), BERT-base"].outcome == "does not hold"
    assert "3 of 4 repairs raise the fine-tuned space" in found["PD22 table 1 (reported), BERT-base"].why
    assert found["PD22 table 1 (reported), RoBERTa-base"].outcome == "holds"
    clusters = on(rp21, "PD22-3")
    assert [one.outcome for one in clusters.values()] == ["holds", "holds", "does not hold", "holds"]


def test_removing_700_least_directions_costs_roberta_more(rp21: StudySpec) -> None:
    found = on(rp21, "PD22-4")
    assert [one.outcome for one in found.values()] == ["holds", "does not hold", "holds", "does not hold"]
    (effect,) = [
        one
        for one in found["RP21 table 1 + RP21 table 2, RoBERTa-base"].effects
        if one.name == "spearman after least global 700 minus after global"
    ]
    assert effect.value == pytest.approx(0.7859 - 0.7971)


def test_the_other_claims_of_rp21_on_its_tables(rp21: StudySpec) -> None:
    for claim in ("RP21-a", "PD22-2"):
        tables = [one for source, one in on(rp21, claim).items() if "table" in source]
        assert [one.outcome for one in tables] == ["holds"] * 4
    families = on(rp21, "RP21-c")
    assert families["RP21 table 1"].outcome == "holds"
    assert families["PD22 table 1 (reported)"].outcome == "does not hold"  # pre-trained BERT is the less isotropic there
    for claim in ("RP21-b", "RP21-d"):
        (only,) = on(rp21, claim).values()
        assert only.outcome == "not decidable here" and "figure" in only.why


def test_il23s_claims_on_its_tables(il23: StudySpec) -> None:
    assert [one.outcome for one in on(il23, "IL23-a").values()] == ["holds", "does not hold"]
    layer = on(il23, "IL23-a")["IL23 table 2 + IL23 table 3, RoBERTa-large"].why
    assert "mrpc ev_2 +0, mrpc ev_3 +0" in layer
    gains = on(il23, "IL23-b")
    assert [one.outcome for one in gains.values()] == ["holds", "does not hold", "holds", "does not hold"]
    assert "above the claimed" in gains["IL23 table 2, BERT-base-cased"].why
    assert [one.outcome for one in on(il23, "IL23-c").values()] == ["holds", "holds"]
