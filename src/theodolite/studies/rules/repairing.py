"""Rules on what repairs do to a score."""

from __future__ import annotations

from collections.abc import Sequence

from theodolite.core.result import Judged
from theodolite.studies.rules.estimate import Estimate, difference
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, conclude
from theodolite.studies.rules.registry import rule


@rule("repair hurts one state and helps the other")
def repair_hurts(
    evidence: Evidence, *, repairs: Sequence[str], apart: Sequence[str], hurt: str, helped: str, score: str, baseline: str
) -> Judged:
    """Every repair lowers the score in the state `hurt` and raises it in `helped`; those `apart` are reported and not counted.

    The changes are the rows of `<score>_change`, with their paired intervals; tables give the difference to their baseline.
    """
    parts = [
        Part(
            name=f"{repair}, {state}",
            estimate=change(evidence, score, state, repair, baseline),
            rises=state == helped,
            missing=missing,
        )
        for state in (hurt, helped)
        for repair in repairs
        for missing in [f"{score} after {repair}, {state}"]
    ]
    both = {
        f"{repair}, {state}": change(evidence, score, state, repair, baseline) for state in (hurt, helped) for repair in apart
    }
    found = {name: one for name, one in both.items() if one is not None}
    after = f"; apart: {', '.join(f'{name} {one}' for name, one in found.items())}" if found else ""
    tuned = [part.estimate for part in parts if part.name.endswith(hurt)] + [both[f"{repair}, {hurt}"] for repair in apart]
    known = [one for one in tuned if one is not None]
    raised = sum(one.value > 0 for one in known)
    if raised:
        after += f"; {raised} of {len(known)} repairs raise the {hurt} space"
    return conclude(evidence, parts, after=after, beside=[one.effect(f"{name} (apart)") for name, one in found.items()])


@rule("one removal costs less than another")
def costs_less(evidence: Evidence, *, pairs: Sequence[Sequence[str]], state: str, score: str, baseline: str) -> Judged:
    """In each pair the first removal leaves a higher score than the second, so that its loss is smaller."""
    return conclude(evidence, [_cheaper(evidence, pair, state, score, baseline) for pair in pairs])


def change(evidence: Evidence, score: str, state: str, setting: str, baseline: str) -> Estimate | None:
    """How a repair changes a score: as measured with its paired interval, or from the two scores."""
    measured = evidence.estimate(f"{score}_change", state=state, setting=setting)
    if measured is not None:
        return measured
    after, before = (evidence.estimate(score, state=state, setting=name) for name in (setting, baseline))
    return None if after is None or before is None else difference(after, before)


def _cheaper(evidence: Evidence, pair: Sequence[str], state: str, score: str, baseline: str) -> Part:
    least, top = (change(evidence, score, state, setting, baseline) for setting in pair)
    name = f"{score} after {pair[0]} minus after {pair[1]}"
    if least is None or top is None:
        return Part(name=name, missing=f"{score} after {pair[0] if least is None else pair[1]}, {state}")
    return Part(name=name, estimate=difference(least, top))
