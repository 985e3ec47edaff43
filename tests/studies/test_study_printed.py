"""The papers' numbers: all there, as printed, and saying what is known of them."""

from __future__ import annotations

from collections import Counter

import pytest

from theodolite.studies.spec import StudySpec, load_spec


@pytest.fixture(scope="module")
def rp21() -> StudySpec:
    return load_spec("rp21")


@pytest.fixture(scope="module")
def il23() -> StudySpec:
    return load_spec("il23")


@pytest.fixture(scope="module")
def zs22() -> StudySpec:
    return load_spec("zs22")


def value(study: StudySpec, source: str, metric: str, **where: str) -> str:
    found = [
        one.text
        for one in study.printed
        if one.source == source
        and one.row.metric == metric
        and all(getattr(one.row, key) == wanted for key, wanted in where.items())
    ]
    assert len(found) == 1, found
    return found[0]


def test_every_table_has_all_its_numbers(rp21: StudySpec, il23: StudySpec, zs22: StudySpec) -> None:
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


def test_spot_values_of_rp21(rp21: StudySpec) -> None:
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


def test_spot_values_of_il23_and_zs22(il23: StudySpec, zs22: StudySpec) -> None:
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


def test_percentages_become_the_metrics_own_unit(rp21: StudySpec, il23: StudySpec) -> None:
    by_text = {one.text: one for one in (*rp21.printed, *il23.printed)}
    assert by_text["84.41"].row.value == pytest.approx(0.8441) and by_text["84.41"].half == pytest.approx(5e-5)
    assert by_text["1.1e-5"].row.value == pytest.approx(1.1e-5) and by_text["1.1e-5"].half == pytest.approx(5e-7)
    assert by_text["390.2"].row.value == pytest.approx(3.902)
