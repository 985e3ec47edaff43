"""From the parts of a claim to what is said of it: each is for it, against it, unclear, not defined, or missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from theodolite.core.result import Effect, Judged, Outcome
from theodolite.studies.rules.estimate import Estimate
from theodolite.studies.rules.evidence import Evidence

Support: TypeAlias = Literal["for", "against", "unclear", "undefined", "missing"]
Need: TypeAlias = Literal["all", "most"]
MOST_NAMED = 6
"""Parts that a sentence names of each kind; the effects hold them all."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One quantity that a claim expects above 0 (`rises`) or below. `undefined`: why it does not exist; `missing`: what lacks."""

    name: str
    estimate: Estimate | None = None
    rises: bool = True
    undefined: str = ""
    missing: str = ""

    @property
    def support(self) -> Support:
        """An interval that contains 0 is no support; without an interval the value itself decides."""
        if self.estimate is None:
            return "undefined" if self.undefined else "missing"
        sign = 1 if self.rises else -1
        if self.estimate.bounds is None:
            return "for" if sign * self.estimate.value > 0 else "against"
        near, far = sorted(sign * end for end in self.estimate.bounds)
        return "for" if near > 0 else "against" if far < 0 else "unclear"

    def __str__(self) -> str:
        return self.name if self.estimate is None else f"{self.name} {self.estimate}"


def conclude(
    evidence: Evidence, parts: Sequence[Part], *, need: Need = "all", after: str = "", beside: Iterable[Effect] = ()
) -> Judged:
    """The outcome that the parts give, in one sentence with their figures.

    All parts, or most, have to be for the claim. A part that is not defined does not count; one that is missing leaves the claim
    undecided unless the others settle it. Printed tables are judged by what they print.
    """
    effects = tuple(part.estimate.effect(part.name) for part in parts if part.estimate is not None)
    outcome = outcome_of([part.support for part in parts], need=need, printed=evidence.printed)
    return judged(
        evidence, outcome, _sentence(parts, "not printed" if evidence.printed else "missing") + after, (*effects, *beside)
    )


def judged(evidence: Evidence, outcome: Outcome, why: str, effects: Iterable[Effect] = ()) -> Judged:
    """The verdict on one source, which says of printed rows that they have no intervals, and how to decide what is open."""
    found = tuple(effects)
    if outcome == "not decidable here" and evidence.decide and not evidence.printed:
        why += f"; to decide it: {evidence.decide}"
    if evidence.printed and found:
        why += "; point values as printed, without intervals"
    elif found and all(one.low is None for one in found):
        why += "; the rows have no intervals"
    return Judged(source=evidence.source, outcome=outcome, why=why, effects=found)


def outcome_of(supports: Sequence[Support], *, need: Need = "all", printed: bool = False) -> Outcome:
    """What follows from the parts: three-valued logic over those that are defined."""
    count = {kind: supports.count(kind) for kind in ("for", "against", "unclear", "missing")}
    if printed:
        count["missing"] = 0
    total = sum(count.values())
    if not total:
        return "not decidable here"
    if need == "most":
        if 2 * count["for"] > total:
            return "holds"
        return "does not hold" if 2 * (count["for"] + count["missing"]) <= total else "not decidable here"
    if count["against"]:
        return "does not hold"
    if count["missing"]:
        return "not decidable here"
    return "does not hold" if count["unclear"] else "holds"


def _sentence(parts: Sequence[Part], lacking: str) -> str:
    kinds = {
        kind: [part for part in parts if part.support == kind] for kind in ("for", "against", "unclear", "undefined", "missing")
    }
    counted = sum(len(kinds[kind]) for kind in ("for", "against", "unclear"))
    said = [f"{len(kinds['for'])} of {counted} as claimed{_listed(kinds['for'])}"] if counted else []
    if kinds["against"]:
        said.append(f"otherwise{_listed(kinds['against'])}")
    if kinds["unclear"]:
        said.append(f"no support, because the interval contains 0{_listed(kinds['unclear'])}")
    if kinds["undefined"]:
        said.append("not defined: " + "; ".join(f"{part.name} ({part.undefined})" for part in kinds["undefined"][:MOST_NAMED]))
    if kinds["missing"]:
        said.append(f"{lacking}: " + ", ".join(part.missing or part.name for part in kinds["missing"][:MOST_NAMED]))
    return "; ".join(said) or "nothing to judge"


def _listed(parts: Sequence[Part]) -> str:
    if not parts:
        return ""
    more = len(parts) - MOST_NAMED
    return ": " + ", ".join(map(str, parts[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
