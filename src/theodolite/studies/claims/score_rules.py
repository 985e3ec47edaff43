"""Rules on scores and other numbers of a state: how they change, what repairs do to them, and whether printed ones agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.result import Effect, Judged, Outcome
from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Estimate, Evidence, difference, magnitude, mean_estimate
from theodolite.studies.claims.rules import Names, Need, Part, absent_part, conclude, judgement, rule


@rule("changes")
def changes(
    evidence: Evidence,
    *,
    metrics: Mapping[str, str],
    states: Names,
    tasks: Names = (),
    where: Mapping[str, str] | None = None,
    derived: Mapping[str, Mapping[str, str]] | None = None,
    need: Need = "all",
) -> Judged:
    """From the first state to the second each metric "rises", "falls" or "shrinks" (in size), in all tasks or in most.

    Differences are paired over seeds if there are several. A measured one without any interval is not evidence. `derived` says
    which difference of two settings is the metric, if no row has it.
    """
    parts = []
    for task in tasks or [""]:
        fields = {**(where or {}), **({"task": task} if task else {})}
        for metric, direction in metrics.items():
            source = (derived or {}).get(metric)
            numbers = [_number(evidence, metric, {**fields, "state": state}, source) for state in states]
            parts.append(_change_part(evidence, metric, direction, dict(zip(states, numbers, strict=True)), fields))
    return conclude(evidence, parts, need=need)


def _number(evidence: Evidence, metric: str, fields: Mapping[str, Any], source: Mapping[str, str] | None) -> Estimate | None:
    """A number as a row has it, or as the difference of two settings of another metric."""
    direct = evidence.estimate(metric, **fields)
    if direct is not None or source is None:
        return direct
    return difference(*(evidence.estimate(source["metric"], **fields, setting=source[key]) for key in ("setting", "minus")))


def _change_part(
    evidence: Evidence, metric: str, direction: str, numbers: Mapping[str, Estimate | None], fields: Mapping[str, Any]
) -> Part:
    name = f"{fields['task']} {metric}" if "task" in fields else metric
    before, after = (magnitude(x) if x is not None and direction == "shrinks" else x for x in numbers.values())
    change = difference(after, before)
    if change is None:
        return absent_part(evidence, name, metric, numbers, **fields)
    if change.bounds is None and not evidence.printed:
        missing = f"an interval of {name} ({change} without one) (several seeds, or an interval in the row)"
        return Part(f"{name} {change}", missing=missing)
    return Part(name, change, rises=direction == "rises")


@rule("raises the score by a share")
def raises_by_a_share(evidence: Evidence, *, tasks: Names, states: Names, least: float, most: float) -> Judged:
    """The second state's score is above the first's in every task, and by at least `least` of it on average over the tasks.

    Gains are shares of the first state's score, paired over seeds. A mean gain above `most` is reported as more than was claimed.
    """
    parts = [_gain_part(evidence, task, states) for task in tasks]
    gains = [part.estimate for part in parts if part.estimate is not None]
    if not gains:
        return conclude(evidence, parts)
    seeds = set.intersection(*(set(gain.by_seed) for gain in gains))
    mean = Estimate(value=sum(gain.value for gain in gains) / len(gains), how="mean of the tasks")
    if len(seeds) > 1:
        means = [sum(gain.by_seed[seed] for gain in gains) / len(gains) for seed in sorted(seeds)]
        mean = mean_estimate(means, "seeds, each the mean of the tasks")
    side = "below" if mean.value < least else "above" if mean.value > most else "inside"
    remark = f"; the mean gain is {mean}, {side} the claimed {least:g} to {most:g}"
    verdict = conclude(evidence, parts, remark=remark, secondary=[mean.effect("mean gain over tasks")])
    return replace(verdict, outcome="does not hold") if verdict.outcome == "holds" and mean.value <= least else verdict


def _gain_part(evidence: Evidence, task: str, states: Names) -> Part:
    before, after = (evidence.estimate("score", task=task, state=state) for state in states)
    name = f"{task} gain"
    if before is None or after is None:
        return Part(name, missing=f"{task}, {states[0] if before is None else states[1]}")
    if before.value <= 0 or any(value <= 0 for value in before.by_seed.values()):  # Matthews can be
        return Part(name, undefined=f"the score before is {before.value:.3g}, and a gain is a share of a positive score")
    seeds = sorted(set(before.by_seed) & set(after.by_seed))
    if len(seeds) > 1:
        return Part(name, mean_estimate({seed: after.by_seed[seed] / before.by_seed[seed] - 1 for seed in seeds}, "paired seeds"))
    gain = Estimate(value=after.value / before.value - 1, how="point values, no interval")
    return Part(name, gain) if evidence.printed else Part(name, missing=f"further seeds of {task} ({gain} without an interval)")


@rule("on par")
def on_par(evidence: Evidence, *, tasks: Names, states: Names, margin: float) -> Judged:
    """In every task the two states' scores differ by less than `margin`: the whole interval of the difference is inside it.

    An interval that crosses the margin leaves the claim open; one that is beyond it, or a printed value beyond it, refutes it.
    """
    phrases: list[str] = []
    effects: list[Effect] = []
    places: list[str] = []
    for task in tasks:
        first, second = (evidence.estimate("score", task=task, state=state) for state in states)
        change = difference(second, first)
        if change is None:
            phrases.append(f"{task} is missing for {states[0] if first is None else states[1]}")
            places += [] if evidence.printed else ["missing"]
            continue
        effects.append(change.effect(f"{task}, {states[1]} minus {states[0]}"))
        has_place = change.bounds is not None or evidence.printed
        phrases.append(f"{task} {change}" + ("" if has_place else " (one seed: no interval)"))
        # A printed number has no interval: its place decides alone.
        low, high = change.bounds or (change.value, change.value)
        is_outside = low > margin or high < -margin or low == high
        place = "inside" if -margin < low and high < margin else "outside" if is_outside else "wide"
        places.append(place if has_place else "missing")
    why = f"difference {states[1]} minus {states[0]}, margin {margin:g}: {', '.join(phrases)}"
    if "outside" in places:
        return judgement(evidence, "does not hold", why, effects)
    if set(places) == {"inside"}:
        return judgement(evidence, "holds", why, effects)
    hint = "; an interval wider than the margin needs more seeds" if "wide" in places else ""
    return judgement(evidence, "not decidable here", why + hint, effects)


@rule("repair hurts one state and helps the other")
def repair_hurts(
    evidence: Evidence, *, repairs: Names, uncounted: Names, hurt: str, helped: str, score: str, baseline: str
) -> Judged:
    """Every repair lowers the score in the state `hurt` and raises it in `helped`; `uncounted` ones are shown and do not decide.

    The changes are the rows of `<score>_change`, with their paired intervals; tables give the difference to their baseline.
    """
    parts = {
        (repair, state): Part(
            f"{repair}, {state}",
            _repair_change(evidence, score, state, repair, baseline),
            rises=state == helped,
            missing=f"{score} after {repair}, {state}",
        )
        for state in (hurt, helped)
        for repair in (*repairs, *uncounted)
    }
    others = [part for (repair, _), part in parts.items() if repair in uncounted and part.estimate is not None]
    remark = f"; not counted: {', '.join(map(str, others))}" if others else ""
    # Said even if the claim holds, because an uncounted repair may go the other way.
    hurt_changes = [part.estimate.value for (_, state), part in parts.items() if state == hurt and part.estimate is not None]
    if raised := sum(value > 0 for value in hurt_changes):
        remark += f"; {raised} of {len(hurt_changes)} repairs raise the {hurt} space"
    effects = [part.estimate.effect(f"{part.name} (not counted)") for part in others if part.estimate is not None]
    counted = [part for (repair, _), part in parts.items() if repair in repairs]
    return conclude(evidence, counted, remark=remark, secondary=effects)


@rule("one removal costs less than another")
def costs_less(evidence: Evidence, *, pairs: Sequence[Names], state: str, score: str, baseline: str) -> Judged:
    """In each pair the first removal leaves a higher score than the second, so that its loss is smaller."""
    parts = []
    for first, second in pairs:
        cheap, dear = (_repair_change(evidence, score, state, setting, baseline) for setting in (first, second))
        missing = f"{score} after {first if cheap is None else second}, {state}"
        parts.append(Part(f"{score} after {first} minus after {second}", difference(cheap, dear), missing=missing))
    return conclude(evidence, parts)


def _repair_change(evidence: Evidence, score: str, state: str, setting: str, baseline: str) -> Estimate | None:
    """How a repair changes a score: as measured, with its paired interval, or from the two scores."""
    measured = evidence.estimate(f"{score}_change", state=state, setting=setting)
    return measured or difference(*(evidence.estimate(score, state=state, setting=name) for name in (setting, baseline)))


@rule("gains agree with values", scope="models")
def gains_agree(evidence: Evidence, *, metrics: Names, states: Names, suffix: str) -> Judged:
    """Each printed gain is the second state's value over the first's, minus 1, to half a unit of its last printed digit."""
    wrong, effects, count = [], [], 0
    for gain in [row for metric in metrics for row in _task_rows(evidence, f"{metric}{suffix}")]:
        own = evidence.of_model(gain.model)
        before, after = (own.estimate(gain.metric.removesuffix(suffix), task=gain.task, state=state) for state in states)
        if before is None or after is None:
            continue
        count += 1
        computed = after.value / before.value - 1
        # Some gains are off by exactly half a unit, which rounding errors must not turn into more.
        if abs(computed - gain.value) > evidence.halves.get(gain, 0.0) * 1.001 + 1e-12:
            name = f"{gain.task} {gain.model} {gain.metric}"
            wrong.append(f"{name} {gain.value:+.1%} should be {computed:+.1%}")
            effects.append(Effect(name=name, value=computed, how=f"from the printed values; printed {gain.value:.4g}"))
    why = "; ".join([f"{count - len(wrong)} of {count} printed gains are what the printed values give", *wrong])
    return judgement(evidence, _checked(count, wrong), why, effects)


@rule("smaller in every cell", scope="models")
def smaller_in_every_cell(evidence: Evidence, *, models: Names, metrics: Names, tasks: Names, states: Names) -> Judged:
    """For the named models, in every task, every metric is smaller in the first state than in the second."""
    parts = []
    for model, task, metric in ((model, task, metric) for model in models for task in tasks for metric in metrics):
        first, second = (evidence.of_model(model).estimate(metric, task=task, state=state) for state in states)
        parts.append(Part(f"{task} {model} {metric}", difference(first, second), rises=False))
    return conclude(evidence, parts)


@rule("IsoScore within explained variance", scope="models")
def within_explained_variance(evidence: Evidence, *, metric: str, explained: Names, centred: bool) -> Judged:
    """Each printed IsoScore is at most what the printed EV of the same task, model and state allows in the model's dimension.

    EV is taken as of the centred cloud or, as written, of the uncentred one, which allows more. The rounding of the printed
    digits is not searched: the excess is shown, and is what matters.
    """
    wrong, effects = [], []
    for row in _task_rows(evidence, metric):
        own, width = evidence.of_model(row.model), evidence.widths.get(row.model)
        estimates = [own.estimate(name, task=row.task, state=row.state) for name in explained]
        shares = [estimate.value for estimate in estimates if estimate is not None]
        if width is None or len(shares) < len(explained):
            continue
        bound = largest_iso_score(shares, width, centred=centred)
        name = f"{row.task} {row.model} {row.state}"
        effects.append(Effect(name=name, value=row.value - bound, how=f"printed {row.value:g} minus the bound {bound:.3g}"))
        if row.value > bound:
            wrong.append(f"{name} {row.value:g} > {bound:.2g}")
    reading, count = "centred" if centred else "uncentred, as written", len(effects)
    why = f"with EV read as {reading}, {len(wrong)} of {count} printed IsoScores exceed what it allows"
    return judgement(evidence, _checked(count, wrong), why + (f" ({', '.join(wrong)})" if wrong else ""), effects)


def largest_iso_score(explained: Sequence[float], d: int, *, centred: bool) -> float:
    """The largest IsoScore, in [0, 1], that a cloud with a given explained variance can have.

    IsoScore is of the covariance. If EV is too (`centred`), the shares of the first k directions are known and the rest is best
    spread evenly: PR = 1/(p1² + … + pk² + (1 - EVk)²/(d - k)). EV as IL23 writes it is of the second moments M, and the
    covariance is C = M - μμᵀ, so that the mean may be what fills the first direction. Then all that is known is that the
    eigenvalues interlace, m(i+1) <= c(i) <= m(i), and any such c has a mean that gives it. PR is largest if each c(i) is as
    near as it may be to one number t = Σc²/Σc.

    Parameters
    ----------
    explained
        EV 1, EV 2, …, each in (0, 1].
    d
        The dimension of the cloud.
    centred
        Whether EV is of the centred cloud.
    """
    shares = np.diff([0.0, *explained])
    k, rest = len(shares), (1.0 - explained[-1]) / (d - len(shares))
    if not 0 < k < d or (np.diff([*shares, rest]) > 1e-9).any() or rest < -1e-12:
        raise ValueError(
            f"explained variance {list(explained)} must rise by ever smaller steps to at most 1, for fewer than d={d} directions"
        )
    upper = np.append(shares, np.full(d - k, rest))
    values = upper if centred else _evened(upper, np.append(upper[1 : k + 1], np.full(d - k, rest)))
    ratio = values.sum() ** 2 / np.square(values).sum()
    return float((ratio - 1) / (d - 1))


def _evened(upper: Doubles, lower: Doubles) -> Doubles:
    """The values between the bounds with the largest participation ratio: Σ c(c - t) falls in t, and is 0 at the best t."""
    low, high = float(upper[-1]), float(upper[0])
    for _ in range(200):  # bisection, far beyond the precision of a double
        middle = (low + high) / 2
        values = np.clip(middle, lower, upper)
        low, high = (middle, high) if float((values * (values - middle)).sum()) > 0 else (low, middle)
    return np.asarray(np.clip((low + high) / 2, lower, upper))


def _checked(count: int, wrong: Names) -> Outcome:
    return "not decidable here" if not count else "does not hold" if wrong else "holds"


def _task_rows(evidence: Evidence, metric: str) -> list[Row]:
    """Rows of a metric; "score" is each task's own."""
    tasks = dict.fromkeys(row.task for row in evidence.rows)
    return [row for task in tasks for row in evidence.find(metric, task=task)]
