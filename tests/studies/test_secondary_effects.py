"""Effects that are shown next to a claim and decide nothing, on made-up records whose truth is known, and on a committed run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Evidence, Missing, Records
from theodolite.studies.claims.label_rules import movement_against_height, similarity_of_least_gain
from theodolite.studies.claims.rules import ClaimedEffect, judge
from theodolite.studies.spec import load_spec

RECORDS = Path(__file__).parents[2] / "docs" / "studies" / "records"
TUNED, PRE = {"state": "fine-tuned", "setting": ""}, {"state": "pre-trained", "setting": ""}


def labelled(tasks: dict[str, tuple[float, float]]) -> Evidence:
    """Tasks whose test layout has some noise against that of training, each with its gain of accuracy."""
    rng = np.random.default_rng(0)
    rows, layouts = [], []
    for task, (noise, gain) in tasks.items():
        points = rng.standard_normal((12, 4))
        for side, where in (("train", points), ("test", points + noise * rng.standard_normal(points.shape))):
            distances = np.linalg.norm(where[:, None] - where[None], axis=-1)[np.triu_indices(12, 1)].tolist()
            about = {"model": "a", "state": "fine-tuned", "task": task, "setting": "", "layer": 2, "seed": 0, "side": side}
            labels = {"labels": [f"L{i}" for i in range(12)], "clusters": [1] * 12, "inside": [1.0] * 12}
            layouts.append({**about, "step": None, "norm": 1.0, "overlaps": 0, **labels, "distances": distances})
        for state, value in (("pre-trained", 0.5), ("fine-tuned", 0.5 + gain)):
            rows.append(Row(metric="accuracy", value=value, model="a", state=state, task=task, layer=2, seed=0, n=100))
    return Evidence(source="measured", rows=tuple(rows), records=Records({"layouts": pyarrow.Table.from_pylist(layouts)}))


def test_similarity_is_compared_between_the_task_that_gains_least_and_the_others() -> None:
    options = {"metric": "accuracy", "of": TUNED, "minus": PRE}
    tasks = {"same": (0.0, 0.2), "alike": (0.0, 0.1), "other": (3.0, 0.01)}
    estimate = similarity_of_least_gain(labelled(tasks), **options, tasks=list(tasks))
    low, high = estimate.interval()
    assert estimate.value < -0.3 and low is not None and high is not None and low < estimate.value < high < 0
    assert "same 1.00 with a gain of +0.200" in estimate.remark and "other" in estimate.remark
    assert "which task gains least" in estimate.uncovered and estimate.counts == dict.fromkeys(tasks, 12)
    # The same layouts, but another task gains least: now the similarity is highest there.
    swapped = {"same": (0.0, 0.01), "alike": (0.0, 0.1), "other": (3.0, 0.2)}
    assert similarity_of_least_gain(labelled(swapped), **options, tasks=list(tasks)).value > 0.15
    with pytest.raises(Missing, match="two tasks"):
        similarity_of_least_gain(labelled(tasks), **options, tasks=["same", "absent"])


def moved(lengths: dict[int, float], spread: dict[int, float], seeds: int = 1) -> Evidence:
    """Centroids of ten labels that move along one direction, by layer, and by `spread` of it along the others."""
    rng = np.random.default_rng(1)
    rows = []
    for seed in range(seeds):
        for layer, length in lengths.items():
            moves = length * np.column_stack([np.ones(10), spread[layer] * rng.standard_normal((10, 5))])
            for i, move in enumerate(moves):
                about = {
                    "model": "a",
                    "state": "fine-tuned",
                    "task": "t",
                    "layer": layer,
                    "label": f"L{i}",
                    "seed": seed,
                    "step": 9,
                }
                rows.append(Row(metric="centroid_movement", value=float(np.linalg.norm(move)), **about))
                rows += [Row(metric=f"movement_pca_{k}", value=float(move[k - 1]), **about) for k in (1, 2)]
    return Evidence(source="measured", rows=tuple(rows))


def test_movement_is_the_upper_layers_minus_the_lower_ones() -> None:
    straight = moved({0: 0.1, 1: 0.2, 2: 5.0, 3: 0.6, 4: 0.7}, dict.fromkeys(range(5), 0.0))
    estimate = movement_against_height(straight, tasks=["t"])
    assert estimate.value == pytest.approx((0.6 + 0.7 - 0.1 - 0.2) / 2)  # the layer in the middle is in neither half
    assert movement_against_height(straight, tasks=["t"], directions=1).value == pytest.approx(0.0)
    spread = moved({0: 1.0, 1: 1.0}, {0: 0.0, 1: 2.0}, seeds=3)
    estimate = movement_against_height(spread, tasks=["t"], directions=2)
    low, high = estimate.interval()
    assert low is not None and high is not None and -1 < low < estimate.value < high < -0.2
    assert estimate.seeds == (0, 1, 2) and estimate.counts == {"t": 10}
    still = moved({0: 0.0, 1: 1.0}, {0: 0.0, 1: 0.0})
    with pytest.raises(Missing, match="fewer than two layers"):
        movement_against_height(still, tasks=["t"], directions=2)


def test_an_effect_over_layers_is_shown_for_each_layer_that_both_sides_have() -> None:
    values = {("cls", 1): -3.0, ("cls", 2): -5.0, ("tokens", 0): 1.0, ("tokens", 1): -1.0, ("tokens", 2): -1.0}
    rows = tuple(
        Row(metric="m", value=value, model="a", state="fine-tuned", setting=setting, layer=layer, seed=seed)
        for (setting, layer), value in values.items()
        for seed in (0, 1)
    )
    sides = {"of": {"setting": "cls"}, "minus": {"setting": "tokens"}}
    by_layer = ClaimedEffect(
        name="layer {layer}: m", rule="difference", parameters={"metric": "m", **sides}, side="below", over="layers"
    )
    total = ClaimedEffect(name="m", rule="difference", parameters={"metric": "m", **sides, "over": "layers"}, side="below")
    verdict = judge(Evidence(source="measured", rows=rows), [total], [by_layer])
    assert {effect.name: effect.value for effect in verdict.effects} == {"m": -3.0, "layer 1: m": -2.0, "layer 2: m": -4.0}
    assert [effect.primary for effect in verdict.effects] == [True, False, False]


@pytest.mark.slow
@pytest.mark.skipif(not RECORDS.is_dir(), reason="the records of studies are in the repository, not in the sdist")
def test_shares_by_label_are_those_that_the_step_stores() -> None:
    """On real rows: the squares of the kept scores add up to the share of the movement along two directions."""
    rows = Result.load(RECORDS / "zs22-tiny-mlm").rows
    evidence = Evidence(source="measured", rows=tuple(row for row in rows if row.task == "ps-role" and row.seed == 0))
    shares = {row.layer: row.value for row in evidence.find("movement_share_2")}
    estimate = movement_against_height(evidence, tasks=["ps-role"], directions=2)
    assert estimate.value == pytest.approx(shares[2] - shares[0], abs=1e-6)


def test_the_studies_declare_what_is_shown_next_to_their_claims() -> None:
    declared = {
        claim.id: " ".join(effect.name for effect in claim.secondary)
        for name in ("rp21", "il23", "zs22")
        for claim in load_spec(name).claims
    }
    assert "layer {layer}" in declared["RP21-b"] and "corrected IsoScore" in declared["RP21-b"]
    assert "IsoScore without 12 directions" in declared["PD22-2"] and "sweep of D" in declared["PD22-2"]
    assert "least 700 removed minus none removed" in declared["PD22-4"]
    assert "where tuning helps least" in declared["ZS22-b"]
    assert "distance the centroids moved" in declared["ZS22-f"] and "along two directions" in declared["ZS22-f"]
