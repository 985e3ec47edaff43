"""Effects and verdicts: pairing, sources of chance, the four outcomes, scale, and how many more units would decide."""

from __future__ import annotations

import numpy as np
import pyarrow
import pytest

from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Evidence, Missing, Records
from theodolite.studies.claims.label_rules import label_distances, lowest_similarity
from theodolite.studies.claims.number_rules import difference
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
    assert items.variance == pytest.approx(own.mean(axis=0).var(), rel=1e-3)
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
    assert (verdict.command != "") == (outcome == "inconclusive")
    if outcome == "inconclusive":
        assert "would decide it" in verdict.why or "too small an effect" in verdict.why
    absent = ClaimedEffect(name="other", rule="difference", parameters={**parameters, "metric": "none"})
    assert judge(source, [effect, absent]).outcome == ("contradicted" if outcome == "contradicted" else "not measured")
    assert judge(source, [effect], [absent]).outcome == outcome  # a secondary effect decides nothing


def test_an_effect_of_scale_alone_is_inconclusive() -> None:
    raw = {("pre-trained", 0): (-2.0, [-2.0, -2.1]), ("fine-tuned", 0): (-6.0, [-6.0, -6.1])}
    unit = {("pre-trained", 0): (-0.5, [-0.5, -0.6]), ("fine-tuned", 0): (-0.5, [-0.5, -0.6])}
    one, two = evidence(raw, "log_i"), evidence(unit, "unit")
    tables = {"draws": pyarrow.Table.from_pylist([*one.records.draws.values(), *two.records.draws.values()])}
    both = Evidence(source="measured", rows=(*one.rows, *two.rows), records=Records(tables))
    parameters = {"metric": "log_i", "of": TUNED, "minus": PRE}
    effect = ClaimedEffect(name="log I", rule="difference", parameters=parameters, side="below", scale={"metric": "unit"})
    verdict = judge(both, [effect])
    assert verdict.outcome == "inconclusive" and "scale alone could explain it" in verdict.why


def test_more_units_are_counted_up_to_ten_times() -> None:
    rng = np.random.default_rng(2)
    spread = rng.normal(0, 0.1, 500)
    for value, words in ((0.17, "more pairs would decide it"), (0.001, "too small an effect")):
        numbers = {("pre-trained", 0): (0.5, [0.5] * 500), ("fine-tuned", 0): (0.5 + value, (0.5 + value + spread).tolist())}
        effect = ClaimedEffect(name="change", rule="difference", parameters={"metric": "m", "of": TUNED, "minus": PRE})
        verdict = judge(evidence(numbers), [effect])
        assert verdict.outcome == "inconclusive" and words in verdict.why


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


def test_a_layer_where_labels_overlap_is_left_out_of_the_lowest_similarity() -> None:
    rng = np.random.default_rng(4)
    points = rng.standard_normal((8, 4))
    tracked = {"side": "tracked"}
    far = {**layout(rng.standard_normal((8, 4)), "fine-tuning", **tracked, layer=2, step=9), "overlaps": 3}
    records = [layout(points, "pre-trained", **tracked, layer=layer, step=0) for layer in (1, 2)]
    records += [layout(points + 0.01, "fine-tuning", **tracked, layer=1, step=9), far]
    assert lowest_similarity(on_layouts(*records), tasks=["t"]).value == pytest.approx(1.0)
