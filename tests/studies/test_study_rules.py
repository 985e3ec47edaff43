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
from theodolite.studies.claims.judge import judge_claims
from theodolite.studies.spec import load_spec

SPREAD = 0.01
TASKS = ("pos", "dep", "ps-role", "ps-fxn", "trec-50")


def row(metric: str, value: float, spread: float | None = None, **fields: Any) -> Row:
    ends = {} if spread is None else {"low": value - spread, "high": value + spread}
    return Row(**{"metric": metric, "value": value, "model": "m", "n": 1000, "d": 8, **ends, **fields})


def verdict(claim: str, rows: Iterable[Row]) -> Verdict:
    study = load_spec({"RP21": "rp21", "PD22": "rp21", "IL23": "il23", "ZS22": "zs22"}[claim[:4]])
    (found,) = [one for one in judge_claims(study, [replace(one, study=study.name) for one in rows]) if one.claim == claim]
    assert found.measured.why and (found.measured.outcome == "not decidable here") == (
        "to decide it: theodolite" in found.measured.why
    )
    return found


def by_layer(metric: str, setting: str, value: float, state: str = TUNED, **fields: Any) -> list[Row]:
    return [row(metric, value, task="stsb", layer=layer, setting=setting, state=state, **fields) for layer in range(4)]


def anisotropic(high: float = 0.02) -> list[Row]:
    return [*by_layer("iso_score", "tokens", 0.01), row("iso_score", high, task="stsb", layer=4, setting="tokens", state=TUNED)]


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
        replace(one, model=model, value=one.value + 0.1 * (one.layer or 0))
        for model in models
        for state in (PRE, TUNED)
        for one in by_layer("log_partition_isotropy", "tokens", values.get(model, -8), state)
    ]


def change(setting: str, state: str, value: float, spread: float = SPREAD) -> Row:
    return row("spearman_change", value, spread, setting=setting, state=state, task="stsb", layer=4)


REPAIRS = ("clustering+zero-mean", "global", "cluster-based")


def repairs(tuned: float, pre: float = 0.1) -> list[Row]:
    return [change(name, state, value) for name in (*REPAIRS, "zero-mean") for state, value in ((TUNED, tuned), (PRE, pre))]


def elongated(shift: int, tuned: float = -2.0) -> list[Row]:
    same = {"task": "stsb", "layer": 4}
    rows = [
        row("log_partition_isotropy", value, setting=setting, state=state, **same)
        for setting in ("global", "cluster-based")
        for state, value in ((PRE, -1.0), (TUNED, tuned))
    ]
    for removed in (0, 1, 2, 4, 8, 16):
        for state, moved in ((PRE, 0), (TUNED, shift)):
            value = math.log(0.6) if removed >= 2 + moved else math.log(0.01)
            rows.append(row("log_partition_isotropy", value, setting="sweep global", label=str(removed), state=state, **same))
    return rows


def states(metrics: dict[str, tuple[float, float]], spread: float | None = SPREAD, **fields: Any) -> list[Row]:
    pairs = [(name, state, value) for name, both in metrics.items() for state, value in zip((PRE, TUNED), both, strict=True)]
    return [row(name, value, spread, state=state, **fields) for name, state, value in pairs]


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
    return [row(metric, value + wobble[seed], state=state, task=task, seed=seed, step=90) for seed in range(count)]


def reshaped(iso: float = 0.1, ev: float = -0.2, count: int = 5) -> list[Row]:
    numbers = {"iso_score": (0.2, iso), "ev_1": (0.6, ev), "ev_2": (0.7, ev), "ev_3": (0.8, ev)}
    return [
        one
        for task in GLUE
        for name, (value, moved) in numbers.items()
        for one in seeds(name, TUNED, task, value, count=count) + seeds(name, "isolayer", task, value + moved, count=count)
    ]


def scored(gain: float, state: str = "isolayer", against: str = TUNED, noise: float = 0.001, count: int = 5) -> list[Row]:
    return [
        one
        for task, metric in GLUE.items()
        for one in seeds(metric, against, task, 0.7, noise, count) + seeds(metric, state, task, 0.7 + gain, noise, count)
    ]


def in_tasks(
    metric: str, before: float, after: float, spread: float | None = SPREAD, tasks: tuple[str, ...] = TASKS
) -> list[Row]:
    return [one for task in tasks for one in states({metric: (before, after)}, spread, task=task, layer=4)]


def accuracy(after: float, sd: float = 0.005) -> list[Row]:
    return in_tasks("probe_accuracy", 0.8, after, None) + in_tasks("probe_accuracy_sd", sd, sd, None)


def clusters(before: float, after: float, labels: float = 17) -> list[Row]:
    return in_tasks("clusters", before, after, None) + in_tasks("labels", labels, labels, None)


def distances(moved: float, noise: float = 0.1) -> list[Row]:
    return [
        one
        for task in TASKS
        for label in range(8)
        for one in states(
            {"minimum_distance": (2 + label, 2 + label + moved + noise * (-1) ** label)},
            None,
            task=task,
            layer=4,
            label=f"l{label}",
        )
    ]


def transfer(own: float, near: float, far: float, spread: float = 0.2) -> list[Row]:
    return [
        row("mean_change", value, spread, task="ps-fxn", state=TUNED, setting=f"tuned on {other}", layer=4)
        for other, value in (("ps-fxn", own), ("ps-role", near), ("pos", far))
    ]


def drift(top: float = 0.6, movement: float = 0.5, directions: float = -0.3) -> list[Row]:
    rows = []
    for layer in range(7):
        height = layer / 6
        same = {"task": "pos", "layer": layer}
        rows += [
            row("similarity_to_original", 1 - (1 - top) * height * step / 9, step=step, state="fine-tuning", **same)
            for step in (0, 9)
        ]
        rows += [row("centroid_movement", 0.1 + movement * height, label=label, step=9, state=TUNED, **same) for label in "ab"]
        rows.append(row("movement_share_2", 0.9 + directions * height, step=9, state=TUNED, **same))
    return rows


Made = Callable[[], list[Row]]
CASES: dict[str, tuple[Made, Made, Made]] = {
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
    outcomes = [verdict(claim, made()).measured.outcome for made in CASES[claim]]
    assert outcomes == ["holds", "does not hold", "not decidable here"]


@pytest.mark.parametrize("claim", CASES)
def test_a_verdict_has_effects_that_say_what_their_interval_is(claim: str) -> None:
    measured = verdict(claim, CASES[claim][0]()).measured
    assert measured.effects and all(math.isfinite(one.value) and one.how for one in measured.effects)
    for one in measured.effects:
        assert (one.low is None) == (one.high is None)
        assert one.low is None or one.low <= one.value <= one.high  # type: ignore[operator]


NO_SUPPORT: dict[str, list[Row]] = {
    "PD22-1": [
        replace(one, low=-0.3, high=0.1) if one.setting == "global" and one.state == TUNED else one for one in repairs(-0.1)
    ],
    "PD22-3": structure(silhouette=0.299),
    "PD22-4": [replace(one, low=-0.5, high=0.5) if one.setting == "global" else one for one in removals(-0.01)],
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
    assert any(one.low is not None and one.high is not None and one.low <= 0 <= one.high for one in measured.effects)


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
        replace(one, value=one.value + 0.06 * (-1) ** (one.seed or 0) * (one.state == "isolayer"))
        for one in scored(0.001, against="isobn")
    ]
    measured = verdict("IL23-c", rows).measured
    assert measured.outcome == "not decidable here" and "needs more seeds" in measured.why


def test_a_missing_family_is_named_and_so_is_a_model_of_no_family() -> None:
    found = verdict("RP21-c", families(-2, ("bert-base-uncased", "minilm-mlm")))
    assert found.model == "bert-base-uncased, minilm-mlm"
    assert "none of RoBERTa" in found.measured.why and "minilm-mlm" in found.measured.why
    assert "--model bert-base-uncased --model roberta-base" in found.measured.why
    # A pair of families of different depth is compared at the last layer.
    rows = [one for one in families(-2) if one.model != "bert-base-uncased" or (one.layer or 0) < 3]
    assert verdict("RP21-c", rows).measured.outcome == "holds"


def test_a_contradiction_settles_a_claim_even_if_rows_are_missing() -> None:
    assert verdict("PD22-1", repairs(0.1)[:2]).measured.outcome == "does not hold"


def test_what_is_not_defined_does_not_count_and_is_named() -> None:
    undefined = [
        replace(one, value=math.nan, low=None, high=None, reason="more clusters than labels")
        for one in in_tasks("train_test_similarity", 1, 1, tasks=("trec-50",))
    ]
    rows = in_tasks("train_test_similarity", 0.9, 0.6, tasks=TASKS[:4]) + undefined
    measured = verdict("ZS22-b", rows).measured
    assert measured.outcome == "holds" and "trec-50 train_test_similarity (more clusters than labels" in measured.why
    assert verdict("ZS22-b", undefined).measured.outcome == "not decidable here"


def test_a_task_that_is_linear_already_has_nothing_to_lose() -> None:
    rows = clusters(40, 20)[:6] + clusters(17, 17)[6:]
    measured = verdict("ZS22-c", [one for one in rows if one.metric == "clusters"] + in_tasks("labels", 17, 17, None)).measured
    assert measured.outcome == "holds" and "one cluster per label before and after" in measured.why


def test_exceptions_are_named() -> None:
    rows = [
        replace(one, value=0.7) if one.task == "ps-fxn" and one.metric == "probe_accuracy" and one.state == TUNED else one
        for one in accuracy(0.9)
    ]
    measured = verdict("ZS22-a", rows).measured
    assert measured.outcome == "holds" and "contradicting: ps-fxn probe_accuracy -0.1" in measured.why


def test_mean_changes_can_be_made_from_the_labels_distances() -> None:
    rows = []
    for label in range(9):
        same = {"task": "ps-fxn", "layer": 4, "label": f"l{label}"}
        rows.append(row("minimum_distance", 3.0 + label, state=PRE, **same))
        for other, moved in (("ps-fxn", 2.0), ("ps-role", 0.5), ("pos", -1.7)):
            rows.append(
                row(
                    "minimum_distance",
                    3.0 + label + moved + 0.1 * (-1) ** label,
                    state=TUNED,
                    setting=f"tuned on {other}",
                    **same,
                )
            )
        rows.append(row("minimum_distance", 99.0, state="fine-tuning", step=3, **same))
    measured = verdict("ZS22-e", rows).measured
    assert measured.outcome == "holds"
    assert measured.effects[0].value == pytest.approx(2 + 0.1 / 9) and measured.effects[0].n == 9


def test_a_disagreement_of_isoscore_is_reported_and_does_not_decide() -> None:
    rows = elongated(2) + [
        row("iso_score", value, setting=setting, state=state, task="stsb", layer=4)
        for setting in ("global", "cluster-based")
        for state, value in ((PRE, 0.2), (TUNED, 0.4))
    ]
    measured = verdict("PD22-2", rows).measured
    assert measured.outcome == "holds" and "by iso_score" in measured.why and "disagrees" in measured.why


def test_rows_of_other_layers_and_of_training_steps_do_not_count() -> None:
    shallow = [replace(one, layer=2, value=0.5, low=0.4, high=0.6) for one in repairs(-0.1)]
    assert verdict("PD22-1", shallow + repairs(-0.1)).measured.outcome == "holds"
    tracked = [replace(one, layer=4, step=3, value=-9.0) for one in reshaped() if one.state == "isolayer"]
    assert verdict("IL23-a", tracked + reshaped()).measured.outcome == "holds"


def test_models_are_judged_one_by_one_and_rows_of_other_studies_are_ignored() -> None:
    rows = [*repairs(-0.1), *(replace(one, model="other") for one in repairs(0.1))]
    found = {one.model: one.measured.outcome for one in judge_claims(load_spec("rp21"), rows) if one.claim == "PD22-1"}
    assert found == {"m": "holds", "other": "does not hold"}
    strangers = [replace(one, study="il23") for one in rows]
    assert {one.model for one in judge_claims(load_spec("rp21"), strangers)} == {""}
