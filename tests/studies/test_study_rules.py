"""Each claim's rule on rows made so that it must hold, must not, and cannot be decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from theodolite.core.result import Verdict
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED as TUNED
from theodolite.core.states import PRE_TRAINED as PRE
from theodolite.studies.claims.judging import judge_claims
from theodolite.studies.spec import load_spec

SPREAD = 0.01
TASKS = ("pos", "dep", "ps-role", "ps-fxn", "trec-50")


def make_row(metric: str, value: float, spread: float | None = None, **fields: Any) -> Row:
    ends = {} if spread is None else {"low": value - spread, "high": value + spread}
    return Row(**{"metric": metric, "value": value, "model": "m", "n": 1000, "d": 8, **ends, **fields})


def verdict(claim: str, rows: Iterable[Row]) -> Verdict:
    study = load_spec({"RP21": "rp21", "PD22": "rp21", "IL23": "il23", "ZS22": "zs22"}[claim[:4]])
    own = [replace(row, study=study.name) for row in rows]
    (judged,) = [judged for judged in judge_claims(study, own) if judged.claim == claim]
    is_open = judged.measured.outcome == "not decidable here"
    assert judged.measured.why and is_open == ("to decide it: theodolite" in judged.measured.why)
    return judged


def by_layer(metric: str, setting: str, value: float, state: str = TUNED, **fields: Any) -> list[Row]:
    return [make_row(metric, value, task="stsb", layer=layer, setting=setting, state=state, **fields) for layer in range(4)]


def anisotropic(high: float = 0.02) -> list[Row]:
    return [
        *by_layer("iso_score", "tokens", 0.01),
        make_row("iso_score", high, task="stsb", layer=4, setting="tokens", state=TUNED),
    ]


def cls(by_i: float, by_iso: float) -> list[Row]:
    return [
        *by_layer("log_partition_isotropy", "tokens", -5),
        *by_layer("log_partition_isotropy", "cls", -5 + by_i),
        *by_layer("iso_score_corrected", "tokens", 0.2),
        *by_layer("iso_score_corrected", "cls", 0.2 + by_iso),
    ]


def families(difference: float, models: tuple[str, ...] = ("org/roberta-base", "bert-base-uncased")) -> list[Row]:
    values = {"org/roberta-base": -8 + difference}
    return [
        replace(row, model=model, value=row.value + 0.1 * (row.layer or 0))
        for model in models
        for state in (PRE, TUNED)
        for row in by_layer("log_partition_isotropy", "tokens", values.get(model, -8), state)
    ]


def change(setting: str, state: str, value: float, spread: float = SPREAD) -> Row:
    return make_row("spearman_change", value, spread, setting=setting, state=state, task="stsb", layer=4)


REPAIRS = ("clustering+zero-mean", "global", "cluster-based")


def repairs(tuned: float, pre: float = 0.1) -> list[Row]:
    return [change(name, state, value) for name in (*REPAIRS, "zero-mean") for state, value in ((TUNED, tuned), (PRE, pre))]


def elongated(shift: int, tuned: float = -2.0) -> list[Row]:
    same = {"task": "stsb", "layer": 4}
    rows = [
        make_row("log_partition_isotropy", value, setting=setting, state=state, **same)
        for setting in ("global", "cluster-based")
        for state, value in ((PRE, -1.0), (TUNED, tuned))
    ]
    for removed in (0, 1, 2, 4, 8, 16):
        for state, moved in ((PRE, 0), (TUNED, shift)):
            value = math.log(0.6) if removed >= 2 + moved else math.log(0.01)
            rows.append(
                make_row("log_partition_isotropy", value, setting="sweep global", label=str(removed), state=state, **same)
            )
    return rows


def states(metrics: dict[str, tuple[float, float]], spread: float | None = SPREAD, **fields: Any) -> list[Row]:
    pairs = [(name, state, value) for name, both in metrics.items() for state, value in zip((PRE, TUNED), both, strict=True)]
    return [make_row(name, value, spread, state=state, **fields) for name, state, value in pairs]


def structure(gain: float = 0.0, silhouette: float = 0.1) -> list[Row]:
    numbers = {"clustering_gain": (0.2, gain), "silhouette": (0.3, silhouette), "between_share": (0.5, 0.2)}
    return states(numbers, task="stsb", layer=4)


def frequency(r2: float = 0.1, correlation: float = 0.1, before: float = -0.6) -> list[Row]:
    return states({"frequency_r2": (0.4, r2), "norm_frequency_correlation": (before, correlation)}, task="stsb", layer=4)


def removals(least: float, top: float = -0.1) -> list[Row]:
    names = ("least global 100", "least global 700", "least cluster-based 100", "least cluster-based 700")
    return [*(change(name, TUNED, least) for name in names), *(change(name, TUNED, top) for name in ("global", "cluster-based"))]


GLUE = {"rte": "accuracy", "cola": "matthews", "mrpc": "accuracy"}


def seeds(metric: str, state: str, task: str, value: float, noise: float = 0.001, count: int = 5) -> list[Row]:
    """Values that differ by seed far more between seeds than the states do in one seed: only pairing shows the difference."""
    wobble = [0.05 * (seed - 2) + noise * (-1) ** seed * (state != TUNED) for seed in range(count)]
    return [make_row(metric, value + wobble[seed], state=state, task=task, seed=seed, step=90) for seed in range(count)]


def reshaped(iso: float = 0.1, ev: float = -0.2, count: int = 5) -> list[Row]:
    numbers = {"iso_score": (0.2, iso), "ev_1": (0.6, ev), "ev_2": (0.7, ev), "ev_3": (0.8, ev)}
    return [
        row
        for task in GLUE
        for name, (value, moved) in numbers.items()
        for row in seeds(name, TUNED, task, value, count=count) + seeds(name, "isolayer", task, value + moved, count=count)
    ]


def scored(gain: float, state: str = "isolayer", against: str = TUNED, noise: float = 0.001, count: int = 5) -> list[Row]:
    return [
        row
        for task, metric in GLUE.items()
        for row in seeds(metric, against, task, 0.7, noise, count) + seeds(metric, state, task, 0.7 + gain, noise, count)
    ]


def in_tasks(
    metric: str, before: float, after: float, spread: float | None = SPREAD, tasks: tuple[str, ...] = TASKS
) -> list[Row]:
    return [row for task in tasks for row in states({metric: (before, after)}, spread, task=task, layer=4)]


def accuracy(after: float, sd: float = 0.005) -> list[Row]:
    return in_tasks("probe_accuracy", 0.8, after, None) + in_tasks("probe_accuracy_sd", sd, sd, None)


def clusters(before: float, after: float, labels: float = 17) -> list[Row]:
    return in_tasks("clusters", before, after, None) + in_tasks("labels", labels, labels, None)


def distances(moved: float, noise: float = 0.1) -> list[Row]:
    return [
        row
        for task in TASKS
        for label in range(8)
        for row in states(
            {"minimum_distance": (2 + label, 2 + label + moved + noise * (-1) ** label)},
            None,
            task=task,
            layer=4,
            label=f"l{label}",
        )
    ]


def transfer(own: float, near: float, far: float, spread: float = 0.2) -> list[Row]:
    return [
        make_row("mean_change", value, spread, task="ps-fxn", state=TUNED, setting=f"tuned on {other}", layer=4)
        for other, value in (("ps-fxn", own), ("ps-role", near), ("pos", far))
    ]


def drift(top: float = 0.6, movement: float = 0.5, directions: float = -0.3) -> list[Row]:
    rows = []
    for layer in range(7):
        height = layer / 6
        same = {"task": "pos", "layer": layer}
        rows += [
            make_row("similarity_to_original", 1 - (1 - top) * height * step / 9, step=step, state="fine-tuning", **same)
            for step in (0, 9)
        ]
        rows += [
            make_row("centroid_movement", 0.1 + movement * height, label=label, step=9, state=TUNED, **same) for label in "ab"
        ]
        rows.append(make_row("movement_share_2", 0.9 + directions * height, step=9, state=TUNED, **same))
    return rows


Rows = Callable[[], list[Row]]
CASES: dict[str, tuple[Rows, Rows, Rows]] = {
    "RP21-a": (anisotropic, lambda: anisotropic(0.4), list),
    "RP21-b": (lambda: cls(-1, -0.1), lambda: cls(-1, 0.1), lambda: cls(-1, -0.1)[:8]),
    "RP21-c": (lambda: families(-2), lambda: families(2), lambda: families(-2, ("org/roberta-base", "minilm-mlm"))),
    "PD22-1": (lambda: repairs(-0.1), lambda: repairs(0.1), lambda: repairs(-0.1)[:2]),
    "PD22-2": (lambda: elongated(2), lambda: elongated(2, tuned=-0.5), lambda: elongated(2)[:4]),
    "PD22-3": (structure, lambda: structure(silhouette=0.5), lambda: structure()[:4]),
    "PD22-4": (lambda: removals(-0.01), lambda: removals(-0.3), lambda: removals(-0.01)[:5]),
    "RP21-d": (frequency, lambda: frequency(r2=0.6), lambda: frequency()[:2]),
    "IL23-a": (reshaped, lambda: reshaped(iso=-0.1), lambda: reshaped(count=1)),
    "IL23-b": (lambda: scored(0.018), lambda: scored(-0.018), lambda: scored(0.018)[:20]),
    "IL23-c": (lambda: scored(0.002, against="isobn"), lambda: scored(0.08, against="isobn"), lambda: scored(0.002)),
    "ZS22-a": (lambda: accuracy(0.9), lambda: accuracy(0.7), lambda: accuracy(0.9)[:4]),
    "ZS22-b": (
        lambda: in_tasks("train_test_similarity", 0.9, 0.6),
        lambda: in_tasks("train_test_similarity", 0.6, 0.9),
        lambda: in_tasks("train_test_similarity", 0.9, 0.6, tasks=TASKS[:2]),
    ),
    "ZS22-c": (lambda: clusters(40, 20), lambda: clusters(20, 40), lambda: clusters(17, 17)),
    "ZS22-d": (lambda: distances(1), lambda: distances(-1), lambda: distances(1)[:16]),
    "ZS22-e": (lambda: transfer(2, 0.8, -1.7), lambda: transfer(2, -1.7, 0.8), lambda: transfer(2, 0.8, -1.7)[:2]),
    "ZS22-f": (drift, lambda: drift(top=0.3), lambda: drift()[:3]),
}


@pytest.mark.parametrize("claim", CASES)
def test_a_claim_holds_does_not_and_is_open(claim: str) -> None:
    outcomes = [verdict(claim, rows()).measured.outcome for rows in CASES[claim]]
    assert outcomes == ["holds", "does not hold", "not decidable here"]


@pytest.mark.parametrize("claim", CASES)
def test_a_verdict_has_effects_that_say_what_their_interval_is(claim: str) -> None:
    measured = verdict(claim, CASES[claim][0]()).measured
    assert measured.effects and all(math.isfinite(effect.value) and effect.how for effect in measured.effects)
    for effect in measured.effects:
        assert (effect.low is None) == (effect.high is None)
        assert effect.low is None or effect.low <= effect.value <= effect.high  # type: ignore[operator]


NO_SUPPORT: dict[str, list[Row]] = {
    "PD22-1": [
        replace(row, low=-0.3, high=0.1) if row.setting == "global" and row.state == TUNED else row for row in repairs(-0.1)
    ],
    "PD22-3": structure(silhouette=0.299),
    "PD22-4": [replace(row, low=-0.5, high=0.5) if row.setting == "global" else row for row in removals(-0.01)],
    "RP21-d": frequency(r2=0.399),
    "IL23-a": reshaped(iso=0.0005),
    "IL23-b": scored(0.0005, noise=0.02),
    "ZS22-a": accuracy(0.801),
    "ZS22-b": in_tasks("train_test_similarity", 0.9, 0.899),
    "ZS22-d": distances(0.05, noise=2.0),
    "ZS22-e": transfer(2, 0.8, -0.1),
}


@pytest.mark.parametrize("claim", NO_SUPPORT)
def test_an_interval_that_contains_zero_is_not_support_and_the_sentence_says_so(claim: str) -> None:
    measured = verdict(claim, NO_SUPPORT[claim]).measured
    assert measured.outcome == "does not hold"
    assert "no support, because the interval contains 0" in measured.why or "contradicting" in measured.why
    assert any(
        effect.low is not None and effect.high is not None and effect.low <= 0 <= effect.high for effect in measured.effects
    )


def test_one_seed_decides_nothing_and_says_so() -> None:
    for claim, rows in (
        ("IL23-a", reshaped(count=1)),
        ("IL23-b", scored(0.018, count=1)),
        ("IL23-c", scored(0.001, against="isobn", count=1)),
    ):
        measured = verdict(claim, rows).measured
        assert measured.outcome == "not decidable here" and "--seeds 0,1,2,3,4" in measured.why and "seed" in measured.why


def test_an_equivalence_that_the_seeds_cannot_show_is_open() -> None:
    rows = [
        replace(row, value=row.value + 0.06 * (-1) ** (row.seed or 0) * (row.state == "isolayer"))
        for row in scored(0.001, against="isobn")
    ]
    measured = verdict("IL23-c", rows).measured
    assert measured.outcome == "not decidable here" and "needs more seeds" in measured.why


def test_a_missing_family_is_named_and_so_is_a_model_of_no_family() -> None:
    families_verdict = verdict("RP21-c", families(-2, ("bert-base-uncased", "minilm-mlm")))
    assert families_verdict.model == "bert-base-uncased, minilm-mlm"
    assert "none of RoBERTa" in families_verdict.measured.why and "minilm-mlm" in families_verdict.measured.why
    assert "--model bert-base-uncased --model roberta-base" in families_verdict.measured.why
    # A pair of families of different depth is compared at the last layer.
    rows = [row for row in families(-2) if row.model != "bert-base-uncased" or (row.layer or 0) < 3]
    assert verdict("RP21-c", rows).measured.outcome == "holds"


def test_a_contradiction_settles_a_claim_even_if_rows_are_missing() -> None:
    assert verdict("PD22-1", repairs(0.1)[:2]).measured.outcome == "does not hold"


def test_what_is_not_defined_does_not_count_and_is_named() -> None:
    undefined = [
        replace(row, value=math.nan, low=None, high=None, reason="more clusters than labels")
        for row in in_tasks("train_test_similarity", 1, 1, tasks=("trec-50",))
    ]
    rows = in_tasks("train_test_similarity", 0.9, 0.6, tasks=TASKS[:4]) + undefined
    measured = verdict("ZS22-b", rows).measured
    assert measured.outcome == "holds" and "trec-50 train_test_similarity (more clusters than labels" in measured.why
    assert verdict("ZS22-b", undefined).measured.outcome == "not decidable here"


def test_a_task_that_is_linear_already_has_nothing_to_lose() -> None:
    rows = clusters(40, 20)[:6] + clusters(17, 17)[6:]
    measured = verdict("ZS22-c", [row for row in rows if row.metric == "clusters"] + in_tasks("labels", 17, 17, None)).measured
    assert measured.outcome == "holds" and "one cluster per label before and after" in measured.why


def test_exceptions_are_named() -> None:
    rows = [
        replace(row, value=0.7) if row.task == "ps-fxn" and row.metric == "probe_accuracy" and row.state == TUNED else row
        for row in accuracy(0.9)
    ]
    measured = verdict("ZS22-a", rows).measured
    assert measured.outcome == "holds" and "contradicting: ps-fxn probe_accuracy -0.1" in measured.why


def test_mean_changes_can_be_made_from_the_labels_distances() -> None:
    rows = []
    for label in range(9):
        same = {"task": "ps-fxn", "layer": 4, "label": f"l{label}"}
        rows.append(make_row("minimum_distance", 3.0 + label, state=PRE, **same))
        for other, moved in (("ps-fxn", 2.0), ("ps-role", 0.5), ("pos", -1.7)):
            rows.append(
                make_row(
                    "minimum_distance",
                    3.0 + label + moved + 0.1 * (-1) ** label,
                    state=TUNED,
                    setting=f"tuned on {other}",
                    **same,
                )
            )
        rows.append(make_row("minimum_distance", 99.0, state="fine-tuning", step=3, **same))
    measured = verdict("ZS22-e", rows).measured
    assert measured.outcome == "holds"
    assert measured.effects[0].value == pytest.approx(2 + 0.1 / 9) and measured.effects[0].n == 9


def test_a_disagreement_of_isoscore_is_reported_and_does_not_decide() -> None:
    rows = elongated(2) + [
        make_row("iso_score", value, setting=setting, state=state, task="stsb", layer=4)
        for setting in ("global", "cluster-based")
        for state, value in ((PRE, 0.2), (TUNED, 0.4))
    ]
    measured = verdict("PD22-2", rows).measured
    assert measured.outcome == "holds" and "by iso_score" in measured.why and "disagrees" in measured.why


def test_rows_of_other_layers_and_of_training_steps_do_not_count() -> None:
    shallow = [replace(row, layer=2, value=0.5, low=0.4, high=0.6) for row in repairs(-0.1)]
    assert verdict("PD22-1", shallow + repairs(-0.1)).measured.outcome == "holds"
    tracked = [replace(row, layer=4, step=3, value=-9.0) for row in reshaped() if row.state == "isolayer"]
    assert verdict("IL23-a", tracked + reshaped()).measured.outcome == "holds"


def test_models_are_judged_one_by_one_and_rows_of_other_studies_are_ignored() -> None:
    rows = [*repairs(-0.1), *(replace(row, model="other") for row in repairs(0.1))]
    outcomes = {
        judged.model: judged.measured.outcome for judged in judge_claims(load_spec("rp21"), rows) if judged.claim == "PD22-1"
    }
    assert outcomes == {"m": "holds", "other": "does not hold"}
    strangers = [replace(row, study="il23") for row in rows]
    assert {judged.model for judged in judge_claims(load_spec("rp21"), strangers)} == {""}
