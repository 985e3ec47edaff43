"""What the papers' own tables say of the papers' claims, and measured numbers next to printed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median, stdev
from typing import Any

import numpy as np
import pytest

from theodolite.core.result import Judged
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, FINE_TUNING, ISOLAYER
from theodolite.studies.claims.judging import PrintedComparison, Rerun, compare_printed, judge_claims
from theodolite.studies.spec import StudySpec, load_spec


@pytest.fixture(scope="module")
def rp21() -> StudySpec:
    return load_spec("rp21")


@pytest.fixture(scope="module")
def il23() -> StudySpec:
    return load_spec("il23")


def on(study: StudySpec, claim: str) -> dict[str, Judged]:
    (verdict,) = [verdict for verdict in judge_claims(study, []) if verdict.claim == claim]
    return {judged.source: judged for judged in verdict.printed}


def test_repair_hurts_in_rp21_though_zero_mean_raises_both_tuned_models(rp21: StudySpec) -> None:
    tables = on(rp21, "PD22-1")
    assert [judged.outcome for judged in tables.values()] == ["agrees"] * 4
    for model, rise in (("BERT-base", 0.0053), ("RoBERTa-base", 0.0026)):
        (apart,) = [e for e in tables[f"RP21 table 1, {model}"].effects if e.name == "zero-mean, fine-tuned"]
        assert apart.value == pytest.approx(rise) and apart.low is None and not apart.primary
    raised = [e for e in tables["PD22 table 1 (reported), BERT-base"].effects if "fine-tuned" in e.name and not e.primary]
    assert sum(effect.value > 0 for effect in raised) == 3


def test_printed_tables_agree_or_disagree_with_the_claims_of_rp21(rp21: StudySpec) -> None:
    clusters = on(rp21, "PD22-3")
    assert [judged.outcome for judged in clusters.values()] == ["agrees", "agrees", "disagrees", "agrees"]
    assert all("not printed: between_share" in judged.why for judged in clusters.values())
    # For RoBERTa, removing the 700 least directions globally costs more than removing the 12 top ones; the mean with the
    # cluster-based removal does not.
    assert [judged.outcome for judged in on(rp21, "PD22-4").values()] == ["agrees"] * 4
    assert [judged.outcome for judged in list(on(rp21, "RP21-h").values())[:4]] == ["agrees"] * 4
    (effect,) = [
        effect
        for effect in on(rp21, "PD22-4")["RP21 table 1 + RP21 table 2, RoBERTa-base"].effects
        if effect.name == "least 700 minus top 12, global"
    ]
    assert effect.value == pytest.approx(0.7859 - 0.7971)
    for claim in ("RP21-a", "PD22-2", "RP21-f"):
        tables = [judged for source, judged in on(rp21, claim).items() if "table" in source]
        assert [judged.outcome for judged in tables] == ["agrees"] * 4
    families = on(rp21, "RP21-c")
    assert families["RP21 table 1"].outcome == "agrees"
    assert families["PD22 table 1 (reported)"].outcome == "disagrees"  # pre-trained BERT is the less isotropic there
    for claim in ("RP21-b", "RP21-d", "RP21-e"):
        (only,) = on(rp21, claim).values()
        assert only.outcome == "not printed" and "figure" in only.why
    stated = {verdict.claim: verdict.stated for verdict in judge_claims(rp21, [])}
    assert "section 3.3" in stated["RP21-g"] and stated["RP21-f"] == ""


def test_il23s_claims_on_its_tables(il23: StudySpec) -> None:
    for claim, count in (("IL23-a", 2), ("IL23-b", 4), ("IL23-c", 2), ("IL23-d", 1)):
        assert [judged.outcome for judged in on(il23, claim).values()] == ["agrees"] * count, claim
    gain = on(il23, "IL23-b")["IL23 table 3, RoBERTa-large"].effects[0]
    expected = (87.36 / 85.56 + 68.77 / 67.33 + 91.17 / 90.93) / 3 - 1
    assert gain.value == pytest.approx(expected) and gain.value < 0.02  # the printed 2 to 3 % are BERT's


def test_rows_of_another_study_are_one_clear_error(il23: StudySpec) -> None:
    rows = [Row(metric="spearman", value=0.5, study="rp21", model="m")]
    with pytest.raises(ValueError, match="the rows are from the study rp21, not il23"):
        judge_claims(il23, rows)


def test_a_command_has_the_users_own_model_data_and_options(il23: StudySpec) -> None:
    rows = [Row(metric="accuracy", value=0.5, study="il23", model="mine", task="rte", state=FINE_TUNED, seed=0)]
    rerun = Rerun(models={"mine": "./my models/mine"}, options="--data ./data")
    commands = {verdict.claim: verdict.measured.command for verdict in judge_claims(il23, rows, rerun=rerun)}
    assert commands["IL23-a"] == "theodolite study run il23 --model './my models/mine' --seeds 0,1,2,3,4 --data ./data"
    # Single quotes would keep the shell from expanding a variable.
    pasted = Rerun(models={"mine": "$MODELS/mine"}, options="--data $DATA")
    commands = {verdict.claim: verdict.measured.command for verdict in judge_claims(il23, rows, rerun=pasted)}
    assert commands["IL23-a"] == 'theodolite study run il23 --model "$MODELS/mine" --seeds 0,1,2,3,4 --data $DATA'


def test_what_the_notes_say_of_printed_tables(il23: StudySpec) -> None:
    """The findings in the study's notes, from the printed values."""
    cells = {(v.source, v.row.task, v.row.model, v.row.state, v.row.metric): v for v in il23.printed}
    notes = " ".join(il23.notes)
    right = []
    for (source, task, model, _, metric), gain in cells.items():
        if source == "IL23 table 2, improvements":
            name = metric.removesuffix("_gain")
            before, after = (cells["IL23 table 2", task, model, state, name].row.value for state in (FINE_TUNED, ISOLAYER))
            # Half a unit of the last printed digit: the largest error that rounding can have made.
            half = 0.5 * 10.0 ** -len(gain.text.partition(".")[2]) * il23.scale[metric]
            right.append(abs(after / before - 1 - gain.row.value) <= half * 1.001 + 1e-12)
    assert (sum(right), len(right)) == (10, 12) and "Of the 12 printed improvements of table 2, 10 are" in notes
    table, isobn = "IL23 table 3", "IL23 table 3, IsoBN columns (Zhou et al.)"
    bert = "BERT-base-cased"
    better = [
        cells[table, task, bert, ISOLAYER, ev].row.value < cells[isobn, task, bert, "isobn", ev].row.value
        for task in il23.score
        for ev in ("ev_1", "ev_2", "ev_3")
    ]
    assert (sum(better), len(better)) == (8, 9) and "in 8 of 9 cells of BERT" in notes
    widths = {model.name: model.d for model in il23.models}
    exceeded = Counter[bool]()
    for (source, task, model, state, metric), value in cells.items():
        if (source, metric) == ("IL23 table 2", "iso_score"):
            shares = np.diff([0.0, *(cells[table, task, model, state, f"ev_{k}"].row.value for k in (1, 2, 3))])
            for centred in (True, False):
                exceeded[centred] += value.row.value > largest_iso_score(shares, widths[model], centred=centred)
    assert (
        exceeded == {True: 9, False: 2}
        and "2 are larger than the printed EV allows" in notes
        and "and 9 if it is centred" in notes
    )


def largest_iso_score(shares: Any, d: int, *, centred: bool) -> float:
    """The largest IsoScore of a cloud whose first directions have these shares of EV.

    If EV is of the centred cloud, the rest is best spread evenly. If it is of the second moments, the mean may fill the first
    direction: the covariance's eigenvalues c interlace with the moments', m(i+1) <= c(i) <= m(i), and the participation ratio is
    largest if each is as near as it may be to one number, here found by trying many.
    """
    rest = (1 - shares.sum()) / (d - len(shares))
    upper = np.append(shares, np.full(d - len(shares), rest))
    lower = upper if centred else np.append(upper[1:], rest)
    clipped = [np.clip(middle, lower, upper) for middle in np.linspace(rest, shares[0], 2000)]
    return max(float((c.sum() ** 2 / np.square(c).sum() - 1) / (d - 1)) for c in clipped)


def measured(model: str, value: float = 0.8, layer: int = 12) -> Row:
    fields = {"study": "rp21", "task": "stsb", "split": "dev", "state": FINE_TUNED, "setting": "global", "n": 1500}
    return Row(metric="spearman", value=value, low=value - 0.01, high=value + 0.01, model=model, layer=layer, **fields)


def cell(comparisons: Sequence[PrintedComparison], source: str = "RP21 table 1", model: str = "BERT-base") -> PrintedComparison:
    """The comparison of one cell: Spearman of the fine-tuned model after global removal."""
    (comparison,) = [
        comparison
        for comparison in comparisons
        if (comparison.printed.source, comparison.printed.row.model) == (source, model)
        and (comparison.printed.row.state, comparison.printed.row.setting, comparison.printed.row.metric)
        == (FINE_TUNED, "global", "spearman")
    ]
    return comparison


def test_every_printed_number_is_compared_with_every_model() -> None:
    spec = load_spec("rp21")
    comparisons = compare_printed(spec, [measured("a"), measured("b")])
    assert len(comparisons) == 2 * len(spec.printed)
    assert {comparison.model for comparison in comparisons} == {"a", "b"}
    assert {comparison.words for comparison in comparisons if comparison.measured is None} == {"not measured"}


@pytest.mark.parametrize(
    "model", ["minilm-mlm", "bert-base-uncased-finetuned", "someone/bert-base-uncased", "bert-large-uncased", ""]
)
def test_another_model_is_never_called_a_reproduction(model: str) -> None:
    comparison = cell(compare_printed(load_spec("rp21"), [measured(model, 0.8214)]))
    assert not comparison.comparable
    assert comparison.measured is not None
    assert comparison.measured.value == 0.8214 == pytest.approx(comparison.printed.row.value)
    assert "not a reproduction" in comparison.words and "is not the paper's BERT-base" in comparison.words


def test_the_papers_own_model_is_compared_with_its_own_cell_only() -> None:
    comparisons = compare_printed(load_spec("rp21"), [measured("bert-base-uncased", 0.83)])
    own = cell(comparisons)
    assert own.comparable and own.printed.text == "82.14" and "+0.0086" in own.words and "trained again" in own.words
    assert own.measured is not None and (own.measured.low, own.measured.high) == (0.82, 0.84)
    other = cell(comparisons, model="RoBERTa-base")
    assert not other.comparable and "not a reproduction" in other.words
    reported = cell(comparisons, "PD22 table 1 (reported)")
    assert reported.printed.standing == "reported" and "not a target" in reported.words


def test_a_subsample_compares_with_nothing() -> None:
    comparison = cell(compare_printed(load_spec("rp21"), [measured("bert-base-uncased")], quick=True))
    assert not comparison.comparable and "subsample" in comparison.words and "not a reproduction" in comparison.words


def test_the_last_layer_is_compared() -> None:
    comparison = cell(compare_printed(load_spec("rp21"), [measured("m", 0.1, layer=3), measured("m", 0.7, layer=12)]))
    assert comparison.measured is not None and comparison.measured.value == 0.7


def test_seeds_are_pooled_as_the_paper_pools_them() -> None:
    rows: list[Row] = []
    scores, first = [0.70, 0.71, 0.60, 0.75, 0.73], [0.5, 0.2, 0.9, 0.4, 0.3]
    for seed, (score, share) in enumerate(zip(scores, first, strict=True)):
        same = {"model": "m", "study": "il23", "task": "rte", "state": ISOLAYER, "seed": seed, "step": 9}
        rows += [Row(metric="accuracy", value=score, **same), Row(metric="ev_1", value=share, **same)]
        rows.append(Row(metric="ev_2", value=1 - share / 10, **same))
    values = {
        (comparison.printed.source, comparison.printed.row.metric): comparison.measured and comparison.measured.value
        for comparison in compare_printed(load_spec("il23"), rows)
        if (comparison.printed.row.task, comparison.printed.row.state, comparison.printed.row.model)
        == ("rte", ISOLAYER, "BERT-base-cased")
    }
    assert values["IL23 table 3", "accuracy"] == median(scores) == values["IL23 table 2", "accuracy"]
    assert values["IL23 table 3", "accuracy_sd"] == pytest.approx(stdev(scores))
    # EV 2 is that of the seed with the median EV 1, and not the median of EV 2.
    assert values["IL23 table 3", "ev_1"] == 0.4 and values["IL23 table 3", "ev_2"] == pytest.approx(0.96)
    assert not any("gain" in metric for _, metric in values)


def test_a_stated_bound_is_compared_with_the_lowest_value() -> None:
    spec = load_spec("zs22")
    models = tuple(replace(model, hub=("m",)) if "not known" in model.name else model for model in spec.models)
    rows = [
        Row(metric="similarity_to_original", value=value, study="zs22", model="m", layer=2, step=step, state=FINE_TUNING)
        for step, value in {0: 1.0, 5: 0.8, 9: 0.4}.items()
    ]
    comparisons = compare_printed(replace(spec, models=models), rows)
    (bound,) = [comparison for comparison in comparisons if comparison.printed.row.metric == "similarity_to_original"]
    assert bound.measured is not None and bound.measured.value == 0.4
    assert bound.printed.relation == ">" and "not as stated (> 0.5)" in bound.words
