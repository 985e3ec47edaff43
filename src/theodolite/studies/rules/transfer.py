"""Rules on tuning for one task and looking at another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from theodolite.core.result import Judged
from theodolite.studies.rules.estimate import Estimate, difference, over
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.labels import by_label
from theodolite.studies.rules.parts import Part, conclude, judged
from theodolite.studies.rules.registry import rule


@rule("transfer by closeness")
def transfer_by_closeness(
    evidence: Evidence,
    *,
    task: str,
    tuned_on: Sequence[str],
    metric: str,
    labels_metric: str,
    states: Sequence[str],
    accuracy: str,
) -> Judged:
    """Tuning on the task itself moves its labels apart, on the last of `tuned_on` together, and the change falls in that order.

    The mean change is the row of `metric`, or made from the labels' distances, with an interval over labels. Whether the probe's
    accuracy has the same order is told beside.
    """
    changes = {other: _change(evidence, task, other, metric, labels_metric, states) for other in tuned_on}
    known = {other: one for other, one in changes.items() if one is not None}
    first, last = tuned_on[0], tuned_on[-1]
    missing = {other: f"{metric} of {task} tuned on {other}" for other in tuned_on}
    parts = [Part(name=f"mean change, tuned on {first}", estimate=changes[first], missing=missing[first])]
    parts.append(Part(name=f"mean change, tuned on {last}", estimate=changes[last], rises=False, missing=missing[last]))
    for near, far in pairwise(tuned_on):
        pair = (known[near], known[far]) if near in known and far in known else None
        named = f"tuned on {near} less tuned on {far}"
        parts.append(
            Part(name=named, estimate=difference(*pair) if pair else None, missing=missing[near if near not in known else far])
        )
    scores = {other: evidence.estimate(accuracy, task=task, state=states[1], setting=f"tuned on {other}") for other in tuned_on}
    told = ", ".join(f"{other} {one.value:.3g}" for other, one in scores.items() if one is not None)
    if evidence.printed and len(known) < len(tuned_on):
        printed = ", ".join(f"tuned on {other} {one}" for other, one in known.items()) or "nothing"
        why = f"of the mean changes, {printed} is printed, and the order needs all of {', '.join(tuned_on)}"
        return judged(
            evidence, "not decidable here", why, [one.effect(f"mean change, tuned on {other}") for other, one in known.items()]
        )
    return conclude(evidence, parts, after=f"; {accuracy}: {told}" if told else "")


def _change(evidence: Evidence, task: str, other: str, metric: str, labels_metric: str, states: Sequence[str]) -> Estimate | None:
    setting = f"tuned on {other}"
    direct = evidence.estimate(metric, task=task, setting=setting)
    if direct is not None and direct.bounds is not None:
        return direct
    before, after = (
        by_label(evidence, labels_metric, task, state, name) for state, name in zip(states, ("", setting), strict=True)
    )
    both = sorted(set(before) & set(after))
    return over([after[label] - before[label] for label in both], "labels") if both else direct
