"""Rules on the score of a task: by how much a method raises it, and whether two methods are on par."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from theodolite.core.result import Judged
from theodolite.studies.rules.estimate import Estimate, difference, over
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, conclude, judged, outcome_of
from theodolite.studies.rules.registry import rule


@rule("raises the score by a share")
def raises_by_a_share(
    evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], least: float, most: float, metric: str = "score"
) -> Judged:
    """The second state's score is above the first's in every task, and by at least `least` of it on average over the tasks.

    Gains are shares of the first state's score, paired over seeds. A mean gain above `most` is told as more than was claimed.
    """
    parts = [_gain(evidence, metric, task, states) for task in tasks]
    known = [part.estimate for part in parts if part.estimate is not None]
    if not known:
        return conclude(evidence, parts)
    mean = _mean(known)
    where = "below" if mean.value < least else "above" if mean.value > most else "inside"
    said = f"; the mean gain is {mean}, {where} the claimed {least:g} to {most:g}"
    short = Part(name="mean gain", estimate=Estimate(value=mean.value - least)).support != "for"
    outcome = outcome_of([part.support for part in parts], printed=evidence.printed)
    found = conclude(evidence, parts, after=said, beside=[mean.effect("mean gain over tasks")])
    if outcome == "holds" and short:
        return replace(found, outcome="does not hold")
    return found


@rule("on par")
def on_par(evidence: Evidence, *, tasks: Sequence[str], states: Sequence[str], margin: float, metric: str = "score") -> Judged:
    """In every task the two states' scores differ by less than `margin`: the whole interval of the difference lies inside it.

    An interval that reaches over the margin leaves the claim undecided; one that lies beyond it, or a value beyond it without an
    interval on a printed row, refutes it.
    """
    said, effects, outcomes = [], [], []
    for task in tasks:
        first, second = (evidence.estimate(metric, task=task, state=state) for state in states)
        if first is None or second is None:
            said.append(f"{task} is missing for {states[0] if first is None else states[1]}")
            outcomes.append("missing")
            continue
        apart = difference(second, first)
        effects.append(apart.effect(f"{task}, {states[1]} minus {states[0]}"))
        ends = apart.bounds or ((apart.value, apart.value) if evidence.printed else None)
        outcomes.append(_inside(ends, margin))
        said.append(f"{task} {apart}" + ("" if ends else " (one seed: no interval)"))
    why = f"difference {states[1]} minus {states[0]}, margin {margin:g}: {', '.join(said)}"
    if "outside" in outcomes:
        return judged(evidence, "does not hold", why, effects)
    known = [one for one in outcomes if not (one == "missing" and evidence.printed)]
    if known and all(one == "inside" for one in known):
        return judged(evidence, "holds", why, effects)
    wide = "; an interval wider than the margin needs more seeds" if "wide" in outcomes else ""
    return judged(evidence, "not decidable here", why + wide, effects)


def _inside(ends: tuple[float, float] | None, margin: float) -> str:
    if ends is None:
        return "missing"
    if -margin < ends[0] and ends[1] < margin:
        return "inside"
    return "outside" if ends[0] > margin or ends[1] < -margin or ends[0] == ends[1] else "wide"


def _gain(evidence: Evidence, metric: str, task: str, states: Sequence[str]) -> Part:
    before, after = (evidence.estimate(metric, task=task, state=state) for state in states)
    name = f"{task} gain"
    if before is None or after is None:
        return Part(name=name, missing=f"{task}, {states[0] if before is None else states[1]}")
    if before.value <= 0 or any(value <= 0 for value in before.by_seed.values()):
        return Part(name=name, undefined=f"the score before is {before.value:.3g}, of which nothing can be a share")
    both = sorted(set(before.by_seed) & set(after.by_seed))
    if len(both) > 1:
        shares = {seed: after.by_seed[seed] / before.by_seed[seed] - 1 for seed in both}
        pooled = over(list(shares.values()), "paired seeds")
        return Part(name=name, estimate=Estimate(**{**vars(pooled), "by_seed": shares}))
    gain = Estimate(value=after.value / before.value - 1, how="point values, no interval")
    if evidence.printed:
        return Part(name=name, estimate=gain)
    return Part(name=name, missing=f"further seeds of {task} ({gain} without an interval)")


def _mean(gains: Sequence[Estimate]) -> Estimate:
    """The mean over tasks, with an interval over the seeds that all of them have."""
    seeds = set.intersection(*(set(one.by_seed) for one in gains))
    if len(seeds) > 1:
        return over(
            [sum(one.by_seed[seed] for one in gains) / len(gains) for seed in sorted(seeds)], "seeds, each the mean of the tasks"
        )
    return Estimate(value=sum(one.value for one in gains) / len(gains), how="mean of the tasks")
