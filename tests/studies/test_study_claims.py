"""Effects and verdicts: pairing, sources of chance, the four outcomes, scale, and how many more units would decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow
import pytest

from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Evidence, Missing, ModelOrigin, Records
from theodolite.studies.claims.label_rules import (
    label_distances,
    lowest_similarity,
    similarity_against_height,
    train_test_similarity,
)
from theodolite.studies.claims.number_rules import difference, largest_over_layers
from theodolite.studies.claims.premises import Premises, entered_tasks, unlearned
from theodolite.studies.claims.rules import ClaimedEffect, judge

PRE, TUNED = {"state": "pre-trained"}, {"state": "fine-tuned"}


def evidence(numbers: dict[tuple[str, int], tuple[float, list[float]]], metric: str = "m") -> Evidence:
    """Numbers by state and seed, each with its value in every resample."""
    rows, records = [], []
    for (state, seed), (value, items) in numbers.items():
        rows.append(Row(metric=metric, value=value, model="a", state=state, seed=seed))
        about = {"metric": metric, "model": "a", "state": state, "task": "", "setting": "", "label": "", "layer": None}
        draws = {"n": 9, "units": "pairs", "items": items, "repeats": [], "repeated": ""}
        records.append({**about, "seed": seed, "value": value, **draws})
    return Evidence(source="measured", rows=tuple(rows), records=Records({"draws": pyarrow.Table.from_pylist(records)}))


def test_items_are_paired_and_seeds_have_students_t() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, 100)  # the same items in both states: it cancels
    changes = [0.10, 0.14, 0.12]
    numbers = {("pre-trained", 0): (0.5, (0.5 + noise).tolist())}
    own = rng.normal(0, 0.01, (3, 100))
    numbers |= {("fine-tuned", s): (0.5 + c, (0.5 + c + noise + own[s]).tolist()) for s, c in enumerate(changes)}
    estimate = difference(evidence(numbers), metric="m", of=TUNED, minus=PRE)
    seeds, items = estimate.components
    assert estimate.value == pytest.approx(0.12)
    assert (seeds.variance, seeds.degrees, seeds.n) == (pytest.approx(np.var(changes, ddof=1) / 3), 2, 3)
    assert items.variance == pytest.approx(own.mean(axis=0).var(ddof=1), rel=1e-3)
    total = seeds.variance + items.variance
    degrees = total**2 / (seeds.variance**2 / 2 + items.variance**2 / 8)
    from scipy.stats import t

    half = t.ppf(0.975, degrees) * np.sqrt(total)
    assert estimate.interval() == pytest.approx((0.12 - half, 0.12 + half))


def test_one_seed_is_named_and_a_number_without_records_has_no_interval() -> None:
    numbers = {("pre-trained", 0): (0.5, [0.5, 0.6]), ("fine-tuned", 0): (0.7, [0.7, 0.7])}
    estimate = difference(evidence(numbers), metric="m", of=TUNED, minus=PRE)
    assert estimate.uncovered == ("one fine-tuning seed",) and estimate.interval()[0] is not None
    bare = Evidence(source="measured", rows=evidence(numbers).rows)
    effect = ClaimedEffect(name="change", rule="difference", parameters={"metric": "m", "of": TUNED, "minus": PRE})
    verdict = judge(bare, [effect])
    assert verdict.outcome == "inconclusive" and "without an interval" in verdict.why  # not an exact state


@pytest.mark.parametrize(
    ("side", "boundary", "outcome"),
    [
        ("above", 0.0, "supported"),
        ("below", 0.0, "contradicted"),
        ("above", 0.2, "inconclusive"),
        ("inside", 1.0, "supported"),
        ("inside", 0.05, "contradicted"),
        ("inside", 0.2, "inconclusive"),
    ],
)
def test_the_four_outcomes(side: str, boundary: float, outcome: str) -> None:
    spread = np.random.default_rng(1).normal(0, 0.05, 400)
    numbers = {("pre-trained", 0): (0.5, [0.5] * 400)}
    numbers |= {("fine-tuned", s): (0.7 + 0.01 * s, (0.7 + spread).tolist()) for s in (-1, 0, 1)}
    source = evidence(numbers)
    parameters = {"metric": "m", "of": TUNED, "minus": PRE}
    effect = ClaimedEffect(name="change", rule="difference", parameters=parameters, side=side, boundary=boundary)
    verdict = judge(source, [effect], command="theodolite study run x --model a")
    assert verdict.outcome == outcome
    assert (verdict.seeds, verdict.lean) == ((-1, 0, 1), "against" if outcome == "contradicted" else verdict.lean)
    if outcome == "inconclusive":
        assert "would decide it" in verdict.why or "even ten times as much data would not decide it" in verdict.why
        assert (verdict.command != "") == (verdict.effects[0].more_of == "fine-tuning seeds")
    absent = ClaimedEffect(name="other", rule="difference", parameters={**parameters, "metric": "none"})
    assert judge(source, [effect, absent]).outcome == ("contradicted" if outcome == "contradicted" else "not measured")
    assert judge(source, [effect], [absent]).outcome == outcome  # a secondary effect decides nothing


def test_an_effect_of_scale_alone_is_inconclusive() -> None:
    raw = {("pre-trained", 0): (-2.0, [-2.0, -2.1]), **{("fine-tuned", s): (-6.0 - s / 9, [-6.0, -6.3]) for s in range(3)}}
    unit = {("pre-trained", 0): (-0.5, [-0.5, -0.6]), **{("fine-tuned", s): (-0.499, [-0.5, -0.7]) for s in range(3)}}
    one, two = evidence(raw, "log_i"), evidence(unit, "unit")
    tables = {"draws": pyarrow.Table.from_pylist([*one.records.draws.values(), *two.records.draws.values()])}
    both = Evidence(source="measured", rows=(*one.rows, *two.rows), records=Records(tables))
    parameters = {"metric": "log_i", "of": TUNED, "minus": PRE}
    effect = ClaimedEffect(name="log I", rule="difference", parameters=parameters, side="below", scale={"metric": "unit"})
    verdict = judge(both, [effect])
    assert verdict.outcome == "inconclusive" and "scale alone could explain it" in verdict.why
    assert verdict.effects[0].place == "scale" and verdict.effects[0].more is None
    # Nor would more sentences tell, where the interval is open and the sign another one.
    wide = replace(effect, boundary=-4.1)
    assert judge(both, [wide]).effects[0].place == "scale" and "more" not in judge(both, [wide]).why
    assert judge(both, [replace(effect, scale={})]).outcome == "supported"


def test_more_units_are_counted_up_to_ten_times_and_one_run_is_never_enough() -> None:
    rng = np.random.default_rng(2)
    spread = rng.normal(0, 0.1, 500)
    effect = ClaimedEffect(name="change", rule="difference", parameters={"metric": "m", "of": TUNED, "minus": PRE})
    for value, words in (
        (0.17, "more pairs would decide it as claimed, if it is as large as observed"),
        (0.001, "even ten times as much data"),
    ):
        numbers = {("pre-trained", 0): (0.5, [0.5] * 500)}
        numbers |= {("fine-tuned", s): (0.5 + value, (0.5 + value + spread).tolist()) for s in range(3)}
        verdict = judge(evidence(numbers), [effect])
        assert verdict.outcome == "inconclusive" and words in verdict.why
        assert (verdict.effects[0].more is None) == (value == 0.001)
        one = judge(evidence({key: number for key, number in numbers.items() if key[1] == 0}), [effect], command="run")
        assert one.why.startswith("one run, pointing the claimed way: ") and one.effects[0].place == "one run"
        assert one.effects[0].more is None and one.command == "run"


def test_one_run_is_not_decided_by_the_part_that_needs_no_run() -> None:
    spread = np.random.default_rng(1).normal(0, 0.01, 40)
    numbers = {("pre-trained", 0): (0.5, (0.5 + spread).tolist()), ("fine-tuned", 0): (0.7, (0.7 + spread).tolist())}
    effects = [
        ClaimedEffect(name=str(of), rule="number", parameters={"metric": "m", "of": of}, boundary=0.6) for of in (PRE, TUNED)
    ]
    verdict = judge(evidence(numbers), effects)
    assert [effect.place for effect in verdict.effects] == ["against", "one run"]
    assert verdict.outcome == "inconclusive" and verdict.why.startswith("one run, pointing against the claim: ")
    assert judge(evidence(numbers), effects[:1]).outcome == "contradicted"  # a claim about the untuned encoder alone


def test_what_did_not_vary_decides_nothing() -> None:
    same = {("pre-trained", 0): (0.0, [0.0] * 40), **{("fine-tuned", s): (0.0, [0.0] * 40) for s in range(5)}}
    parameters = {"metric": "m", "of": TUNED, "minus": PRE}
    par = ClaimedEffect(name="difference", rule="difference", parameters=parameters, side="inside", boundary=0.02)
    verdict = judge(evidence(same), [par])
    assert verdict.outcome == "inconclusive" and "nothing varied" in verdict.why
    assert (verdict.effects[0].low, verdict.effects[0].place, verdict.effects[0].level) == (None, "no interval", 0.9)


def test_several_effects_share_the_error_of_a_contradiction() -> None:
    numbers = {("pre-trained", 0): (0.5, [0.5] * 40)}
    numbers |= {("fine-tuned", s): (0.45 + c, [0.45] * 40) for s, c in enumerate((-0.03, 0.0, 0.03))}
    parameters = {"metric": "m", "of": TUNED, "minus": PRE}
    effect = ClaimedEffect(name="change", rule="difference", parameters=parameters, boundary=0.025)
    estimate = effect.estimate(evidence(numbers))
    assert estimate.interval()[1] == pytest.approx(0.0245, abs=4e-4)
    assert effect.place(estimate) == "against" and effect.place(estimate, effects=2) == "open"


def test_an_interval_stays_inside_what_the_number_can_be() -> None:
    rows = [
        Row(metric="log_partition_isotropy", value=v, model="a", state="fine-tuned", seed=s, layer=1)
        for s, v in ((0, -2.4), (1, -4.2))
    ]
    low, high = largest_over_layers(
        Evidence(source="measured", rows=tuple(rows)), metric="log_partition_isotropy", of=TUNED, settings=[""]
    ).interval()
    assert low is not None and high is not None and low < -10 and -1 < high < 0


def answered(task: str, seed: int, truth: list[int], answer: list[int]) -> tuple[Row, dict[str, list[object]]]:
    n, place = len(truth), {"model": "a", "state": "fine-tuned", "task": task, "seed": seed}
    right = sum(t == a for t, a in zip(truth, answer, strict=True)) / n
    table = {
        **{name: [value] * n for name, value in place.items()},
        "truth": list(map(float, truth)),
        "answer": list(map(float, answer)),
    }
    return Row(metric="accuracy", value=right, n=n, **place), table


def test_a_task_is_learned_above_the_largest_class_in_the_median_seed() -> None:
    truth = [0] * 60 + [1] * 40
    good, bad = [0] * 50 + [1] * 50, [0] * 58 + [1] * 2 + [1] * 3 + [0] * 37
    for answers, words in (
        ([good, good, bad], ""),  # all seeds stay in, also the one that failed
        ([good, bad, bad], "not learned: accuracy 0.610, whose 95% lower limit"),
        ([[0] * 100] * 3, "not learned: it answers one class for every text"),
    ):
        made = [answered("t", seed, truth, answer) for seed, answer in enumerate(answers)]
        table = pyarrow.concat_tables([pyarrow.table(each) for _, each in made])
        source = Evidence(source="measured", rows=tuple(row for row, _ in made), records=Records({"predictions": table}))
        reason = unlearned(source, "t", {"metric": "accuracy"})
        assert reason.startswith(words) and bool(reason) == bool(words)


def test_a_tagger_needs_the_share_of_the_largest_class_and_matthews_needs_more_than_0() -> None:
    tagger = Row(metric="accuracy", value=0.5, n=400, model="a", state="fine-tuned", task="t", seed=0, split="dev")
    share = Row(metric="majority_share", value=0.44, n=400, model="a", state="pre-trained", task="t", split="test")
    learned = {"metric": "accuracy"}
    assert unlearned(Evidence(source="measured", rows=(tagger, share)), "t", learned) == ""
    assert "is not above 0.470" in unlearned(Evidence(source="measured", rows=(tagger, replace(share, value=0.47))), "t", learned)
    with pytest.raises(Missing, match="the share of its largest class was not measured"):
        unlearned(Evidence(source="measured", rows=(tagger,)), "t", learned)
    for value, passes in ((0.3, True), (0.1, False)):
        draws = (value + np.random.default_rng(0).normal(0, 0.1, 300)).tolist()
        source = evidence({("fine-tuned", 0): (value, draws)}, "matthews")
        assert (unlearned(source, "", {"metric": "matthews"}) == "") == passes


def test_tasks_that_were_not_learned_are_left_out_by_name_with_the_number() -> None:
    truth = [0] * 60 + [1] * 40
    rng = np.random.default_rng(5)
    rows, tables, draws = [], [], []
    for task, answer in (("easy", [0] * 55 + [1] * 45), ("hard", [0] * 100)):
        for seed in range(3):
            row, table = answered(task, seed, truth, answer)
            rows.append(row)
            tables.append(pyarrow.table(table))
            for state, value in (("fine-tuned", 0.5), ("isolayer", 0.6 if task == "easy" else 0.5)):
                place = {"metric": "m", "model": "a", "state": state, "task": task, "seed": seed}
                rows.append(Row(value=value + 0.01 * seed * (state == "isolayer"), n=100, **place))
                items = (value + rng.normal(0, 0.01, 40)).tolist()
                record = {**place, "setting": "", "label": "", "layer": None, "value": value, "n": 100, "units": "examples"}
                draws.append({**record, "items": items, "repeats": [], "repeated": ""})
    records = Records({"predictions": pyarrow.concat_tables(tables), "draws": pyarrow.Table.from_pylist(draws)})
    source = Evidence(
        source="measured", rows=tuple(rows), records=records, origins={"a": ModelOrigin("tuned", "a sentence encoder")}
    )
    effect = ClaimedEffect(
        name="gain, {tasks}", rule="difference", parameters={"metric": "m", "of": {"state": "isolayer"}, "minus": TUNED}
    )
    verdict = judge(source, [effect], tasks=["easy", "hard", "other"], premises=Premises(learned={"metric": "accuracy"}))
    assert verdict.outcome == "supported" and verdict.tasks == ("easy",) and verdict.seeds == (0, 1, 2)
    assert verdict.effects[0].name == "gain, easy" and verdict.effects[0].n == 100
    assert "one class for every text" in verdict.left_out["hard"] and verdict.left_out["other"] == "not run"
    assert verdict.encoders == {"a": "a sentence encoder"} and verdict.unmet == ""
    both = judge(source, [effect], tasks=["easy", "hard"])  # without the premise
    assert both.effects[0].name == "gain, mean over 2 tasks" and both.effects[0].counts == {"easy": 100, "hard": 100}
    assert "100 + 100 examples" in both.effects[0].how and both.effects[0].n == 200
    none = judge(source, [effect], tasks=["hard"], premises=Premises(learned={"metric": "accuracy"}), command="run")
    assert (none.outcome, none.unmet, none.command) == ("not measured", "learned", "run") and "accuracy 0.600" in none.why


def test_a_task_that_was_tuned_on_but_not_probed_does_not_enter_a_claim_over_probed_tasks() -> None:
    of = {"model": "a", "n": 400, "split": "test"}
    rows = [Row(metric="accuracy", value=0.8, state="fine-tuned", seed=0, task=task, **of) for task in ("probed", "tuned on")]
    rows += [Row(metric="majority_share", value=0.4, state="pre-trained", task=task, **of) for task in ("probed", "tuned on")]
    rows += [Row(metric="probe_accuracy", value=0.7, state="pre-trained", task="probed", **of)]
    source, tasks = Evidence(source="measured", rows=tuple(rows)), ("probed", "tuned on", "other")
    assert entered_tasks(source, tasks, Premises(learned={"metric": "accuracy"})).tasks == ("probed", "tuned on")
    entered = entered_tasks(source, tasks, Premises(learned={"metric": "accuracy", "needs": "probe_accuracy"}))
    assert entered.tasks == ("probed",) and not entered.missing
    assert entered.left_out == {"tuned on": "probe accuracy was not measured on it", "other": "not run"}


def test_the_part_that_needs_no_pre_trained_state_is_judged_under_its_own_name() -> None:
    spread = np.random.default_rng(1).normal(0, 0.01, 40)
    numbers = {("pre-trained", 0): (0.5, (0.5 + spread).tolist())}
    numbers |= {("fine-tuned", s): (0.4 + 0.01 * s, (0.4 - spread).tolist()) for s in range(3)}
    hurts = ClaimedEffect(
        name="tuned", rule="number", parameters={"metric": "m", "of": TUNED}, side="below", boundary=0.6, part="hurts"
    )
    helps = ClaimedEffect(name="pre-trained", rule="number", parameters={"metric": "m", "of": PRE}, boundary=0.6)
    premises = Premises(origin="pre-trained")
    source = replace(evidence(numbers), origins={"a": ModelOrigin("pre-trained", "a language model")})
    assert judge(source, [hurts, helps], premises=premises).outcome == "contradicted"
    tuned = judge(replace(source, origins={"a": ModelOrigin("tuned", "a sentence encoder")}), [hurts, helps], premises=premises)
    assert (tuned.outcome, tuned.part, tuned.unmet) == ("supported", "hurts", "pre-trained")
    assert [(effect.name, effect.primary) for effect in tuned.effects] == [("tuned", True), ("before", False)]
    assert "a is a sentence encoder" in tuned.remarks[0]
    undeclared = judge(evidence(numbers), [helps], [hurts], premises=premises)
    assert undeclared.outcome == "not measured" and "a is undeclared; declare it with origin='pre-trained'" in undeclared.why


def test_a_secondary_effect_on_the_other_side_is_remarked_and_a_printed_range_located() -> None:
    spread = np.random.default_rng(1).normal(0, 0.001, 40)
    numbers = {("pre-trained", 0): (0.5, [0.5] * 40)}
    numbers |= {("fine-tuned", s): (0.51 + 0.0001 * s, (0.51 + spread).tolist()) for s in range(3)}
    parameters = {"metric": "m", "of": TUNED, "minus": PRE}
    effect = ClaimedEffect(name="gain", rule="difference", parameters=parameters, printed_range={"from": 0.02, "to": 0.03})
    other = ClaimedEffect(name="other", rule="difference", parameters=parameters, side="below", otherwise="one reading only")
    verdict = judge(evidence(numbers), [effect], [other], note="scale enters")
    assert verdict.remarks == ("scale enters", "one reading only (other +0.0101)")
    assert "the interval is below the printed 0.02 to 0.03" in verdict.effects[0].how


def layout(points: np.ndarray, state: str, *, scale: float = 1.0, **about: object) -> dict[str, object]:
    distances = scale * np.linalg.norm(points[:, None] - points[None], axis=-1)
    fields = {"model": "a", "state": state, "task": "t", "setting": "", "layer": 1, "seed": 0, "step": None, "side": "train"}
    labels = {"labels": [f"L{i}" for i in range(len(points))], "clusters": [1] * len(points), "inside": [scale] * len(points)}
    upper = distances[np.triu_indices(len(points), 1)].tolist()
    return {**fields, **about, "norm": scale, "overlaps": 0, **labels, "distances": upper}


def on_layouts(*records: dict[str, object]) -> Evidence:
    rows = (Row(metric="clusters", value=1.0, model="a"),)
    return Evidence(source="measured", rows=rows, records=Records({"layouts": pyarrow.Table.from_pylist(list(records))}))


def test_distances_over_those_inside_do_not_see_scale_and_leave_labels_out_one_by_one() -> None:
    rng = np.random.default_rng(3)
    points = rng.standard_normal((9, 4))
    other = points + 0.3 * rng.standard_normal((9, 4))
    options = {"of": TUNED, "minus": PRE, "tasks": ["t"]}
    scaled = on_layouts(layout(points, "pre-trained"), layout(points, "fine-tuned", scale=3.0))
    assert label_distances(scaled, **options).value == pytest.approx(0.0, abs=1e-12)
    assert label_distances(scaled, **options, unit="none").value > 0
    moved = on_layouts(layout(points, "pre-trained"), layout(other, "fine-tuned"))

    def plain(keep: list[int]) -> float:
        means = []
        for where in (other, points):
            nearest = [min(np.linalg.norm(where[i] - where[j]) for j in keep if j != i) for i in keep]
            means.append(np.mean(nearest))
        return float(means[0] - means[1])

    estimate = label_distances(moved, **options)
    left = np.array([plain([j for j in range(9) if j != i]) for i in range(9)])
    assert estimate.value == pytest.approx(plain(list(range(9))))
    assert estimate.components[0].variance == pytest.approx(8 / 9 * np.square(left - left.mean()).sum())
    assert "rows inside the labels" in estimate.uncovered
    with pytest.raises(Missing, match="layouts of labels"):
        label_distances(moved, of={"state": "isolayer"}, minus=PRE, tasks=["t"])


def test_seeds_that_share_the_untuned_layout_count_as_if_each_had_a_copy_of_it() -> None:
    rng = np.random.default_rng(5)
    points = rng.standard_normal((9, 4))
    tuned = [layout(points + 0.3 * rng.standard_normal((9, 4)), "fine-tuned", seed=seed) for seed in (0, 1, 2)]
    for rule, parts in ((label_distances, ["train"]), (train_test_similarity, ["train", "test"])):
        after = [{**record, "side": part} for record in tuned for part in parts]
        shared, copied = (
            rule(
                on_layouts(*after, *(layout(points, "pre-trained", seed=seed, side=part) for seed in seeds for part in parts)),
                of=TUNED, minus=PRE, tasks=["t"],
            )
            for seeds in ([0], [0, 1, 2])
        )  # fmt: skip
        assert shared == copied and shared.seeds == (0, 1, 2)


def test_a_layer_where_labels_overlap_is_left_out_of_the_lowest_similarity() -> None:
    rng = np.random.default_rng(4)
    points = rng.standard_normal((8, 4))
    tracked = {"side": "tracked"}
    far = {**layout(rng.standard_normal((8, 4)), "fine-tuning", **tracked, layer=2, step=9), "overlaps": 3}
    records = [layout(points, "pre-trained", **tracked, layer=layer, step=0) for layer in (1, 2)]
    records += [layout(points + 0.01, "fine-tuning", **tracked, layer=1, step=9), far]
    assert lowest_similarity(on_layouts(*records), tasks=["t"]).value == pytest.approx(1.0)


def test_an_order_of_three_layers_that_no_half_of_the_labels_changes_decides_nothing() -> None:
    rng = np.random.default_rng(6)
    points = rng.standard_normal((12, 4))
    tracked = {"side": "tracked", "task": "t"}
    records = [layout(points, "pre-trained", **tracked, layer=layer, step=0) for layer in (0, 1, 2)]
    for layer, noise in ((0, 0.0), (1, 0.1), (2, 3.0)):
        records.append(layout(points + noise * rng.standard_normal((12, 4)), "fine-tuning", **tracked, layer=layer, step=9))
    estimate = similarity_against_height(on_layouts(*records), tasks=["t"])
    assert estimate.value == pytest.approx(-1.0) and estimate.interval() == (None, None)
    effect = ClaimedEffect(name="order", rule="similarity against height", parameters={}, side="below")
    assert judge(on_layouts(*records), [effect], tasks=["t"]).outcome == "inconclusive"


def test_labels_cannot_be_added_to() -> None:
    rng = np.random.default_rng(7)
    points = rng.standard_normal((9, 4))
    records = [layout(points, "pre-trained", seed=seed) for seed in range(3)]
    records += [layout(points + 0.1 * rng.standard_normal((9, 4)), "fine-tuned", seed=seed) for seed in range(3)]
    effect = ClaimedEffect(name="distance", rule="label distances", parameters={"of": TUNED, "minus": PRE}, boundary=0.01)
    verdict = judge(on_layouts(*records), [effect], tasks=["t"])
    assert verdict.outcome == "inconclusive" and "more labels" not in verdict.why and verdict.effects[0].more_of != "labels"
