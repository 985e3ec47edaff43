"""The papers' numbers: all there, as printed, and saying what is known of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from theodolite.core.result import Judged
from theodolite.studies.judge import audit, judge, notes_of
from theodolite.studies.spec import Study, load_study
from theodolite.tasks.errors import DataError


@pytest.fixture(scope="module")
def rp21() -> Study:
    return load_study("rp21")


@pytest.fixture(scope="module")
def il23() -> Study:
    return load_study("il23")


@pytest.fixture(scope="module")
def zs22() -> Study:
    return load_study("zs22")


def value(study: Study, source: str, metric: str, **where: str) -> str:
    found = [
        one.text
        for one in study.printed
        if one.source == source
        and one.row.metric == metric
        and all(getattr(one.row, key) == wanted for key, wanted in where.items())
    ]
    assert len(found) == 1, found
    return found[0]


def on(study: Study, claim: str) -> dict[str, Judged]:
    (verdict,) = [one for one in judge(study, []) if one.claim == claim]
    return {one.source: one for one in verdict.printed}


def test_every_table_has_all_its_numbers(rp21: Study, il23: Study, zs22: Study) -> None:
    # cells × numbers a cell: 4 × 5 × 2; 2 × 5 × 2; 12 lines × 2; 6 × 2; 12 × 5
    assert Counter(one.source for one in rp21.printed) == {
        "RP21 table 1": 40,
        "RP21 table 2": 20,
        "PD22 table 1 (reported)": 40,
        "PD22 table 2 (reported)": 20,
    }
    assert Counter(one.source for one in il23.printed) == {
        "IL23 table 2": 24,
        "IL23 table 2, improvements": 12,
        "IL23 table 3": 60,
        "IL23 table 3, IsoBN columns (Zhou et al.)": 60,
    }
    assert Counter(one.source for one in zs22.printed) == {"ZS22 text": 3}


def test_spot_values_of_rp21(rp21: Study) -> None:
    bert, roberta = {"model": "BERT-base"}, {"model": "RoBERTa-base"}
    tuned, raw = {"state": "fine-tuned"}, {"state": "pre-trained"}
    table = "RP21 table 1"
    assert value(rp21, table, "spearman", **bert, **raw, setting="baseline") == "54.14"
    assert value(rp21, table, "partition_isotropy", **bert, **raw, setting="baseline") == "1.1e-5"
    assert value(rp21, table, "spearman", **bert, **tuned, setting="cluster-based") == "64.43"
    assert value(rp21, table, "partition_isotropy", **roberta, **raw, setting="cluster-based") == "0.95"
    assert value(rp21, table, "spearman", **roberta, **tuned, setting="global") == "79.71"
    assert value(rp21, "RP21 table 2", "spearman", **roberta, setting="least global 700") == "78.59"
    assert value(rp21, "RP21 table 2", "partition_isotropy", **bert, setting="least cluster-based 700") == "0.16"
    reported = "PD22 table 1 (reported)"
    assert value(rp21, reported, "spearman", **bert, **raw, setting="clustering+zero-mean") == "59.41"
    assert value(rp21, reported, "partition_isotropy", **bert, **raw, setting="baseline") == "1.7e-07"
    assert value(rp21, reported, "spearman", **roberta, **tuned, setting="cluster-based") == "57.62"
    assert value(rp21, "PD22 table 2 (reported)", "spearman", **roberta, setting="least global 700") == "76.25"
    assert value(rp21, "PD22 table 2 (reported)", "partition_isotropy", **roberta, setting="least global 100") == "3.10e-4"
    assert {one.standing for one in rp21.printed if one.source.startswith("PD22")} == {"reported"}
    assert {one.standing for one in rp21.printed if one.source.startswith("RP21")} == {"printed"}


def test_spot_values_of_il23_and_zs22(il23: Study, zs22: Study) -> None:
    bert, roberta = {"model": "BERT-base-cased"}, {"model": "RoBERTa-large"}
    assert value(il23, "IL23 table 2", "accuracy", task="rte", state="isolayer", **bert) == "71.84"
    assert value(il23, "IL23 table 2", "matthews", task="cola", state="fine-tuned", **roberta) == "67.23"
    assert value(il23, "IL23 table 2", "iso_score", task="mrpc", state="isolayer", **roberta) == "0.00245"
    assert value(il23, "IL23 table 2, improvements", "accuracy_gain", task="mrpc", **bert) == "221.2"
    assert value(il23, "IL23 table 2, improvements", "iso_score_gain", task="cola", **roberta) == "91.67"
    assert value(il23, "IL23 table 3", "accuracy", task="mrpc", state="isolayer", **bert) == "87.5"
    assert value(il23, "IL23 table 3", "matthews_sd", task="cola", state="isolayer", **bert) == "0.85"
    assert value(il23, "IL23 table 3", "ev_3", task="rte", state="isolayer", **roberta) == "0.39"
    isobn = "IL23 table 3, IsoBN columns (Zhou et al.)"
    assert value(il23, isobn, "ev_1", task="mrpc", state="isobn", **bert) == "0.37"
    assert value(il23, isobn, "accuracy", task="rte", state="fine-tuned", setting="median, IsoBN's own", **roberta) == "84.47"
    assert value(zs22, "ZS22 text", "train_test_similarity", model="BERT-small", task="ps-fxn") == "0.44"
    assert value(zs22, "ZS22 text", "mean_change", setting="tuned on pos") == "-1.68"
    assert [(one.text, one.relation) for one in zs22.printed if one.row.metric == "similarity_to_original"] == [("0.5", ">")]


def test_percentages_become_the_metrics_own_unit(rp21: Study, il23: Study) -> None:
    by_text = {one.text: one for one in (*rp21.printed, *il23.printed)}
    assert by_text["84.41"].row.value == pytest.approx(0.8441) and by_text["84.41"].half == pytest.approx(5e-5)
    assert by_text["1.1e-5"].row.value == pytest.approx(1.1e-5) and by_text["1.1e-5"].half == pytest.approx(5e-7)
    assert by_text["390.2"].row.value == pytest.approx(3.902)


def test_repair_hurts_in_rp21_though_zero_mean_raises_both_tuned_models(rp21: Study) -> None:
    found = on(rp21, "PD22-1")
    for model, rise in (("BERT-base", 0.0053), ("RoBERTa-base", 0.0026)):
        judged = found[f"RP21 table 1, {model}"]
        assert judged.outcome == "holds"
        (apart,) = [one for one in judged.effects if one.name == "zero-mean, fine-tuned (apart)"]
        assert apart.value == pytest.approx(rise) and apart.low is None
        assert "1 of 4 repairs raise the fine-tuned space" in judged.why and "without intervals" in judged.why


def test_pd22s_own_table_bends_its_claim(rp21: Study) -> None:
    found = on(rp21, "PD22-1")
    assert found["PD22 table 1 (reported), BERT-base"].outcome == "does not hold"
    assert "3 of 4 repairs raise the fine-tuned space" in found["PD22 table 1 (reported), BERT-base"].why
    assert found["PD22 table 1 (reported), RoBERTa-base"].outcome == "holds"
    clusters = on(rp21, "PD22-3")
    assert [one.outcome for one in clusters.values()] == ["holds", "holds", "does not hold", "holds"]


def test_removing_700_least_directions_costs_roberta_more(rp21: Study) -> None:
    found = on(rp21, "PD22-4")
    assert [one.outcome for one in found.values()] == ["holds", "does not hold", "holds", "does not hold"]
    (effect,) = [
        one
        for one in found["RP21 table 1 + RP21 table 2, RoBERTa-base"].effects
        if one.name == "spearman after least global 700 minus after global"
    ]
    assert effect.value == pytest.approx(0.7859 - 0.7971)


def test_the_other_claims_of_rp21_on_its_tables(rp21: Study) -> None:
    for claim in ("RP21-a", "PD22-2"):
        tables = [one for source, one in on(rp21, claim).items() if "table" in source]
        assert [one.outcome for one in tables] == ["holds"] * 4
    families = on(rp21, "RP21-c")
    assert families["RP21 table 1"].outcome == "holds"
    assert families["PD22 table 1 (reported)"].outcome == "does not hold"  # pre-trained BERT is the less isotropic there
    for claim in ("RP21-b", "RP21-d"):
        (only,) = on(rp21, claim).values()
        assert only.outcome == "not decidable here" and "figure" in only.why


def test_il23s_claims_on_its_tables(il23: Study) -> None:
    assert [one.outcome for one in on(il23, "IL23-a").values()] == ["holds", "does not hold"]
    layer = on(il23, "IL23-a")["IL23 table 2 + IL23 table 3, RoBERTa-large"].why
    assert "mrpc ev_2 +0, mrpc ev_3 +0" in layer
    gains = on(il23, "IL23-b")
    assert [one.outcome for one in gains.values()] == ["holds", "does not hold", "holds", "does not hold"]
    assert "above the claimed" in gains["IL23 table 2, BERT-base-cased"].why
    assert [one.outcome for one in on(il23, "IL23-c").values()] == ["holds", "holds"]


def test_the_slips_are_found_by_rules(il23: Study) -> None:
    found = {one.check: one.printed[0] for one in audit(il23)}
    gains = found["IL23 table 2, improvements"]
    assert gains.outcome == "does not hold"
    assert sorted(one.value for one in gains.effects) == [pytest.approx(0.03166, abs=1e-4), pytest.approx(2.1212, abs=1e-4)]
    assert "10 of 12" in gains.why and "+3.2%" in gains.why and "+212.1%" in gains.why
    better = found["IL23 table 3, explained variance"]
    assert better.outcome == "does not hold" and "8 of 9" in better.why
    assert [one.name for one in better.effects if one.value > 0] == ["mrpc BERT-base-cased ev_1"]
    centred, written = found["IL23 IsoScore against EV, centred"], found["IL23 IsoScore against EV, as written"]
    assert sum(one.value > 0 for one in centred.effects) == 9 and len(centred.effects) == 12
    # EV is uncentred as written: the mean may fill the first direction, and then only two are impossible.
    assert [one.name for one in written.effects if one.value > 0] == [
        "mrpc RoBERTa-large fine-tuned",
        "mrpc RoBERTa-large isolayer",
    ]
    assert sum("exceed" in note for note in notes_of(il23)) == 2


BROKEN = [
    ('name = "rp21"', "name = 3", "key 'name': 3 must be a text"),
    ('name = "rp21"\n', "", "key 'name': is missing"),
    ("[scale]", "[scala]", "key 'scala': is not known here .did you mean 'scale'"),
    ("[[models]]", "[[models]", "this is no TOML.*line"),
    ("[54.14, 1.1e-5], ", "", r"key 'printed\[0\].values\[0\]': a line has 7 entries"),
    ("[54.14, 1.1e-5]", "[54.14]", r"key 'printed\[0\].values\[0\]': a cell has 2 numbers"),
    ("[54.14, 1.1e-5]", '["54.14", 1.1e-5]', "'54.14' must be a number, the spearman"),
    ('["BERT-base", "pre-trained", [54', '["BERT-bass", "pre-trained", [54', "model 'BERT-bass' is none of"),
    ('table = "table 1"\nsource = "RP21', 'table = "table 11"\nsource = "RP21', "there is no table 'table 11' .did you mean"),
    ('rule = "changes"', 'rule = "change"', "there is no rule 'change' .did you mean 'changes'"),
    ("share = 0.1", "shares = 0.1", "the rule 'far below the ceiling' takes no parameter 'shares'"),
    ("share = 0.1", "", "needs the parameter 'share'"),
    ('printed = [["RP21 table 1"],', 'printed = [["RP21 table 9"],', "no table is from 'RP21 table 9'"),
    ('keys = ["model", "state"]', 'keys = ["model", "status"]', "'status' is no field of a row"),
    ('across = "setting"\n', "", "give both or neither"),
]


@pytest.mark.parametrize(("good", "bad", "message"), BROKEN)
def test_a_broken_file_is_explained(rp21: Study, tmp_path: Path, good: str, bad: str, message: str) -> None:
    text = Path(rp21.path).read_text(encoding="utf-8")
    assert good in text
    path = tmp_path / "own.toml"
    path.write_text(text.replace(good, bad, 1), encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        load_study(path)
    assert str(path) in str(caught.value)


def test_an_own_file_and_unknown_names(rp21: Study, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(Path(rp21.path).read_text(encoding="utf-8"), encoding="utf-8")
    assert load_study(path).printed == rp21.printed
    with pytest.raises(DataError, match=r"no study 'rp12' .did you mean 'rp21'.*il23, rp21, zs22"):
        load_study("rp12")
    with pytest.raises(DataError, match="there is no such file"):
        load_study(tmp_path / "none.toml")
