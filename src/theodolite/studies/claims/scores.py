"""Rules on scores and other numbers of a state: how they change, by how much, and what repairs do to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from theodolite.core.result import Effect, Judged
from theodolite.studies.claims.evidence import Estimate, Evidence, difference, magnitude, mean_estimate
from theodolite.studies.claims.rules import Need, Part, conclude, judgement, outcome_of, rule


@rule("changes")
def changes(
    evidence: Evidence,
    *,
    metrics: Mapping[str, str],
    states: Sequence[str],
    tasks: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
    derived: Mapping[str, Mapping[str, str]] | None = None,
    need: Need = "all",
) -> Judged:
    """From the first state to the second each metric "rises", "falls" or "shrinks" (in size), in all tasks or in most.

    Differences are paired over seeds if there are several. A measured one without any interval is not evidence. `derived` says
    which difference of two settings is the metric, if no row has it.
    """
    parts = [
        _change_part(evidence, metric, direction, states, {**(where or {}), **({"task": task} if task else {})}, derived or {})
        for task in tasks or [""]
        for metric, direction in metrics.items()
    ]
    return conclude(evidence, parts, need=need)


@rule("raises the score by a share")
def raises_by_a_share(
    evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], least: float, most: float, metric: str = "score"
) -> Judged:
    """The second state's score is above the first's in every task, and by at least `least` of it on average over the tasks.

    Gains are shares of the first state's score, paired over seeds. A mean gain above `most` is reported as more than was claimed.
    """
    parts = [_gain_part(evidence, metric, task, states) for task in tasks]
    gains = [part.estimate for part in parts if part.estimate is not None]
    if not gains:
        return conclude(evidence, parts)
    mean = _mean_gain(gains)
    side = "below" if mean.value < least else "above" if mean.value > most else "inside"
    remark = f"; the mean gain is {mean}, {side} the claimed {least:g} to {most:g}"
    verdict = conclude(evidence, parts, remark=remark, secondary=[mean.effect("mean gain over tasks")])
    if outcome_of([part.support for part in parts], printed=evidence.printed) == "holds" and mean.value <= least:
        return replace(verdict, outcome="does not hold")
    return verdict


@rule("on par")
def on_par(evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], margin: float, metric: str = "score") -> Judged:
    """In every task the two states' scores differ by less than `margin`: the whole interval of the difference is inside it.

    An interval that crosses the margin leaves the claim open; one that is beyond it, or a printed value beyond it, refutes it.
    """
    phrases: list[str] = []
    effects: list[Effect] = []
    places: list[str] = []
    for task in tasks:
        first, second = (evidence.estimate(metric, task=task, state=state) for state in states)
        if first is None or second is None:
            phrases.append(f"{task} is missing for {states[0] if first is None else states[1]}")
            places.append("missing")
            continue
        change = difference(second, first)
        effects.append(change.effect(f"{task}, {states[1]} minus {states[0]}"))
        bounds = change.bounds or ((change.value, change.value) if evidence.printed else None)
        places.append(_place(bounds, margin))
        phrases.append(f"{task} {change}" + ("" if bounds else " (one seed: no interval)"))
    why = f"difference {states[1]} minus {states[0]}, margin {margin:g}: {', '.join(phrases)}"
    if "outside" in places:
        return judgement(evidence, "does not hold", why, effects)
    counted = [place for place in places if not (place == "missing" and evidence.printed)]
    if counted and all(place == "inside" for place in counted):
        return judgement(evidence, "holds", why, effects)
    hint = "; an interval wider than the margin needs more seeds" if "wide" in places else ""
    return judgement(evidence, "not decidable here", why + hint, effects)


@rule("repair hurts one state and helps the other")
def repair_hurts(
    evidence: Evidence, *, repairs: Sequence[str], uncounted: Sequence[str], hurt: str, helped: str, score: str, baseline: str
) -> Judged:
    """Every repair lowers the score in the state `hurt` and raises it in `helped`; `uncounted` ones are shown and do not decide.

    The changes are the rows of `<score>_change`, with their paired intervals; tables give the difference to their baseline.
    """
    cells = [(repair, state) for state in (hurt, helped) for repair in (*repairs, *uncounted)]
    changes = {cell: repair_change(evidence, score, cell[1], cell[0], baseline) for cell in cells}
    parts = [
        Part(
            name=f"{repair}, {state}",
            estimate=changes[repair, state],
            rises=state == helped,
            missing=f"{score} after {repair}, {state}",
        )
        for repair, state in cells
        if repair in repairs
    ]
    others = {
        f"{repair}, {state}": change for (repair, state), change in changes.items() if repair in uncounted and change is not None
    }
    remark = f"; not counted: {', '.join(f'{name} {change}' for name, change in others.items())}" if others else ""
    # Said even if the claim holds, because an uncounted repair may go the other way.
    hurt_changes = [change for (_, state), change in changes.items() if state == hurt and change is not None]
    if raised := sum(change.value > 0 for change in hurt_changes):
        remark += f"; {raised} of {len(hurt_changes)} repairs raise the {hurt} space"
    effects = [change.effect(f"{name} (not counted)") for name, change in others.items()]
    return conclude(evidence, parts, remark=remark, secondary=effects)


@rule("one removal costs less than another")
def costs_less(evidence: Evidence, *, pairs: Sequence[Sequence[str]], state: str, score: str, baseline: str) -> Judged:
    """In each pair the first removal leaves a higher score than the second, so that its loss is smaller."""
    parts = []
    for first, second in pairs:
        cheap, dear = (repair_change(evidence, score, state, setting, baseline) for setting in (first, second))
        name = f"{score} after {first} minus after {second}"
        missing = f"{score} after {first if cheap is None else second}, {state}"
        parts.append(Part(name=name, estimate=difference(cheap, dear) if cheap and dear else None, missing=missing))
    return conclude(evidence, parts)


def repair_change(evidence: Evidence, score: str, state: str, setting: str, baseline: str) -> Estimate | None:
    """How a repair changes a score: as measured, with its paired interval, or from the two scores."""
    measured = evidence.estimate(f"{score}_change", state=state, setting=setting)
    if measured is not None:
        return measured
    after, before = (evidence.estimate(score, state=state, setting=name) for name in (setting, baseline))
    return None if after is None or before is None else difference(after, before)


def _change_part(
    evidence: Evidence,
    metric: str,
    direction: str,
    states: Sequence[str],
    fields: Mapping[str, Any],
    derived: Mapping[str, Mapping[str, str]],
) -> Part:
    name = f"{fields['task']} {metric}" if "task" in fields else metric
    before, after = (_number(evidence, metric, {**fields, "state": state}, derived) for state in states)
    if before is None or after is None:
        absent = [state for state, number in zip(states, (before, after), strict=True) if number is None]
        reasons = [evidence.undefined(metric, **fields, state=state) for state in absent]
        return Part(name=name, undefined="; ".join(filter(None, reasons)), missing=f"{name}, {' and '.join(absent)}")
    change = difference(magnitude(after), magnitude(before)) if direction == "shrinks" else difference(after, before)
    if change.bounds is None and not evidence.printed:
        missing = f"an interval of {name} ({change} without one) (several seeds, or an interval in the row)"
        return Part(name=f"{name} {change}", missing=missing)
    return Part(name=name, estimate=change, rises=direction == "rises")


def _number(
    evidence: Evidence, metric: str, fields: Mapping[str, Any], derived: Mapping[str, Mapping[str, str]]
) -> Estimate | None:
    direct = evidence.estimate(metric, **fields)
    if direct is not None or metric not in derived:
        return direct
    source = derived[metric]
    first, second = (evidence.estimate(source["metric"], **fields, setting=source[key]) for key in ("setting", "minus"))
    return None if first is None or second is None else difference(first, second)


def _gain_part(evidence: Evidence, metric: str, task: str, states: Sequence[str]) -> Part:
    before, after = (evidence.estimate(metric, task=task, state=state) for state in states)
    name = f"{task} gain"
    if before is None or after is None:
        return Part(name=name, missing=f"{task}, {states[0] if before is None else states[1]}")
    if before.value <= 0 or any(value <= 0 for value in before.by_seed.values()):  # Matthews can be
        return Part(name=name, undefined=f"the score before is {before.value:.3g}, and a gain is a share of a positive score")
    seeds = sorted(set(before.by_seed) & set(after.by_seed))
    if len(seeds) > 1:
        gains = {seed: after.by_seed[seed] / before.by_seed[seed] - 1 for seed in seeds}
        return Part(name=name, estimate=mean_estimate(gains, "paired seeds"))
    gain = Estimate(value=after.value / before.value - 1, how="point values, no interval")
    if evidence.printed:
        return Part(name=name, estimate=gain)
    return Part(name=name, missing=f"further seeds of {task} ({gain} without an interval)")


def _mean_gain(gains: Sequence[Estimate]) -> Estimate:
    """The mean over tasks, with an interval over the seeds that all of them have."""
    seeds = set.intersection(*(set(gain.by_seed) for gain in gains))
    if len(seeds) > 1:
        means = [sum(gain.by_seed[seed] for gain in gains) / len(gains) for seed in sorted(seeds)]
        return mean_estimate(means, "seeds, each the mean of the tasks")
    return Estimate(value=sum(gain.value for gain in gains) / len(gains), how="mean of the tasks")


def _place(bounds: tuple[float, float] | None, margin: float) -> str:
    """Where an interval is relative to ± margin."""
    if bounds is None:
        return "missing"
    low, high = bounds
    if -margin < low and high < margin:
        return "inside"
    # A printed number has no interval: its place decides alone.
    return "outside" if low > margin or high < -margin or low == high else "wide"
