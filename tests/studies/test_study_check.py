"""Measured beside printed, and never more said than is true."""

from __future__ import annotations

from dataclasses import replace
from statistics import median, stdev

import pytest

from theodolite.core.rows import Row
from theodolite.studies.check import Checked, check
from theodolite.studies.spec import load_study


def measured(model: str, value: float = 0.8, layer: int = 12) -> Row:
    fields = {"study": "rp21", "task": "stsb", "split": "dev", "state": "fine-tuned", "setting": "global", "n": 1500}
    return Row(metric="spearman", value=value, low=value - 0.01, high=value + 0.01, model=model, layer=layer, **fields)


def of_cell(found: list[Checked], source: str = "RP21 table 1", model: str = "BERT-base") -> list[Checked]:
    return [
        one
        for one in found
        if (one.source, one.printed_model, one.state, one.setting, one.metric)
        == (source, model, "fine-tuned", "global", "spearman")
    ]


def test_every_printed_number_stands_beside_every_model() -> None:
    study = load_study("rp21")
    found = check(study, [measured("a"), measured("b")])
    assert len(found) == 2 * len(study.printed)
    assert {one.measured_model for one in found} == {"a", "b"}
    assert {one.words for one in found if one.measured is None} == {"not measured"}


def test_another_model_is_never_called_a_reproduction() -> None:
    for model in ("minilm-mlm", "bert-base-uncased-finetuned", "someone/bert-base-uncased", "bert-large-uncased", ""):
        (one,) = of_cell(check(load_study("rp21"), [measured(model, 0.8214)]))
        assert not one.comparable and one.measured == 0.8214 == pytest.approx(one.printed)
        assert "no reproduction" in one.words and "is not the paper's BERT-base" in one.words


def test_the_papers_own_model_is_compared_with_its_own_cell_alone() -> None:
    found = check(load_study("rp21"), [measured("bert-base-uncased", 0.83)])
    (own,) = of_cell(found)
    assert own.comparable and own.printed_text == "82.14" and "+0.0086" in own.words and "trained anew" in own.words
    assert (own.low, own.high) == (0.82, 0.84)
    (other,) = of_cell(found, model="RoBERTa-base")
    assert not other.comparable and "no reproduction" in other.words
    (reported,) = of_cell(found, "PD22 table 1 (reported)")
    assert reported.standing == "reported" and "no target" in reported.words


def test_a_subsample_compares_with_nothing() -> None:
    (one,) = of_cell(check(load_study("rp21"), [measured("bert-base-uncased")], quick=True))
    assert not one.comparable and "subsample" in one.words and "no reproduction" in one.words


def test_the_last_layer_is_the_papers() -> None:
    (one,) = of_cell(check(load_study("rp21"), [measured("m", 0.1, layer=3), measured("m", 0.7, layer=12)]))
    assert one.measured == 0.7


def test_seeds_are_pooled_as_the_paper_pools_them() -> None:
    study, rows = load_study("il23"), []
    scores, first = [0.70, 0.71, 0.60, 0.75, 0.73], [0.5, 0.2, 0.9, 0.4, 0.3]
    for seed, (score, share) in enumerate(zip(scores, first, strict=True)):
        same = {"model": "m", "study": "il23", "task": "rte", "state": "isolayer", "seed": seed, "step": 9}
        rows += [Row(metric="accuracy", value=score, **same), Row(metric="ev_1", value=share, **same)]
        rows.append(Row(metric="ev_2", value=1 - share / 10, **same))
    found = {
        (one.source, one.metric): one
        for one in check(study, rows)
        if (one.task, one.state, one.printed_model) == ("rte", "isolayer", "BERT-base-cased")
    }
    assert found["IL23 table 3", "accuracy"].measured == median(scores) == found["IL23 table 2", "accuracy"].measured
    assert found["IL23 table 3", "accuracy_sd"].measured == pytest.approx(stdev(scores))
    # EV 2 is that of the seed with the median EV 1, not the median of EV 2 for its own sake.
    assert found["IL23 table 3", "ev_1"].measured == 0.4 and found["IL23 table 3", "ev_2"].measured == pytest.approx(0.96)
    assert not any("gain" in metric for _, metric in found)


def test_a_stated_bound_is_held_against_the_lowest() -> None:
    study = load_study("zs22")
    named = replace(study, models=tuple(replace(one, hub=("m",)) if "not at hand" in one.name else one for one in study.models))
    values = {0: 1.0, 5: 0.8, 9: 0.4}
    rows = [
        Row(metric="similarity_to_original", value=v, study="zs22", model="m", layer=2, step=s, state="fine-tuning")
        for s, v in values.items()
    ]
    (one,) = [one for one in check(named, rows) if one.metric == "similarity_to_original"]
    assert one.measured == 0.4 and one.relation == ">" and "not as stated (> 0.5)" in one.words
