"""Rules: functions of evidence that decide a claim, by name; and how the parts of a claim add up to an outcome."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from theodolite.core.result import Effect, Judged, Outcome
from theodolite.studies.claims.evidence import Estimate, Evidence

Judge: TypeAlias = Callable[..., Judged]
Scope: TypeAlias = Literal["model", "models"]
Support: TypeAlias = Literal["for", "against", "unclear", "undefined", "missing"]
Need: TypeAlias = Literal["all", "most"]
# Names of tasks, states, settings or metrics, in the order that a study's file has them in.
Names: TypeAlias = Sequence[str]

# How many parts of each kind a sentence names; the effects hold them all.
MOST_NAMED = 6


@dataclass(frozen=True)
class Rule:
    """A registered rule: its function, and whether it sees the rows of one model or of all of them."""

    judge: Judge
    scope: Scope

    def fault(self, parameters: Mapping[str, Any]) -> str:
        """What is wrong with the names of parameters; empty if nothing is."""
        # All but the evidence, which comes first.
        options = dict(list(inspect.signature(self.judge).parameters.items())[1:])
        if unknown := next((name for name in parameters if name not in options), ""):
            return f"takes no parameter {unknown!r}; it takes {', '.join(options)}"
        required = [name for name, parameter in options.items() if parameter.default is inspect.Parameter.empty]
        missing = next((name for name in required if name not in parameters), "")
        return f"needs the parameter {missing!r}; it takes {', '.join(options)}" if missing else ""


# All rules by name.
RULES: dict[str, Rule] = {}


def rule(name: str, *, scope: Scope = "model") -> Callable[[Judge], Judge]:
    """Register a rule: a function of the evidence, whose options are the parameters that a study's file sets.

    Parameters
    ----------
    name
        What a study's file calls it.
    scope
        Whether it sees the rows of one model at a time or of all models.
    """

    def register(judge: Judge) -> Judge:
        RULES[name] = Rule(judge, scope)
        return judge

    return register


@dataclass(frozen=True)
class Part:
    """One quantity that a claim expects on one side of 0.

    Parameters
    ----------
    name
        What it is called in a sentence.
    estimate
        The quantity; None if there is no number.
    rises
        Whether the claim expects it above 0, rather than below.
    undefined
        Why the quantity does not exist.
    missing
        What would have to be measured to have it, if that is not its name.
    """

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
        sign = 1 if self.rises else -1  # turns the claimed side to above 0
        if self.estimate.bounds is None:
            return "for" if sign * self.estimate.value > 0 else "against"
        near, far = sorted(sign * bound for bound in self.estimate.bounds)
        return "for" if near > 0 else "against" if far < 0 else "unclear"

    def __str__(self) -> str:
        return self.name if self.estimate is None else f"{self.name} {self.estimate}"


def absent_part(evidence: Evidence, name: str, metric: str, numbers: Mapping[str, Estimate | None], **fields: Any) -> Part:
    """The part of a change between states of which one or both have no number: not defined, or else missing.

    Parameters
    ----------
    evidence
        Where the numbers were looked for.
    name
        What the change is called in a sentence.
    metric, fields
        The metric and the fields of its rows.
    numbers
        The number of each state, or None.
    """
    states = [state for state, number in numbers.items() if number is None]
    reasons = filter(None, (evidence.undefined(metric, **fields, state=state) for state in states))
    return Part(name, undefined="; ".join(reasons), missing=f"{name}, {' and '.join(states)}")


def conclude(
    evidence: Evidence, parts: Sequence[Part], *, need: Need = "all", remark: str = "", secondary: Iterable[Effect] = ()
) -> Judged:
    """The outcome that the parts give, in one sentence with their figures.

    A part that is not defined does not count; one that is missing leaves the claim open unless the others settle it. Printed
    tables are judged by what they print.

    Parameters
    ----------
    evidence
        What the parts were taken from.
    parts
        The quantities that decide.
    need
        Whether all of them or more than half must be for the claim.
    remark
        What is added to the sentence.
    secondary
        Effects that are shown but do not decide.
    """
    effects = [part.estimate.effect(part.name) for part in parts if part.estimate is not None]
    outcome = outcome_of([part.support for part in parts], need=need, printed=evidence.printed)
    sentence = _sentence(parts, "not printed" if evidence.printed else "missing")
    return judgement(evidence, outcome, sentence + remark, [*effects, *secondary])


def judgement(evidence: Evidence, outcome: Outcome, why: str, effects: Iterable[Effect] = ()) -> Judged:
    """The verdict on one source; says that printed rows have no intervals, and how an open claim could be decided."""
    effects = tuple(effects)
    if outcome == "not decidable here" and evidence.decide and not evidence.printed:
        why += f"; to decide it: {evidence.decide}"
    # A reader must not take a point value for a measured certainty.
    if evidence.printed and effects:
        why += "; point values as printed, without intervals"
    elif effects and all(effect.low is None for effect in effects):
        why += "; the rows have no intervals"
    return Judged(source=evidence.source, outcome=outcome, why=why, effects=effects)


def outcome_of(supports: Sequence[Support], *, need: Need = "all", printed: bool = False) -> Outcome:
    """What follows from the parts: three-valued logic over those that are defined."""
    # What is not defined is left out of all counts: it can speak neither for nor against a claim.
    count = {kind: supports.count(kind) for kind in ("for", "against", "unclear", "missing")}
    if printed:  # what a table leaves out cannot be measured again, so it must not keep the claim open
        count["missing"] = 0
    total = sum(count.values())
    if not total:
        return "not decidable here"
    if need == "most":
        if 2 * count["for"] > total:
            return "holds"
        # Settled only if it would stay so, were all that is missing for the claim.
        return "does not hold" if 2 * (count["for"] + count["missing"]) <= total else "not decidable here"
    if count["against"]:  # settles it, whatever is missing
        return "does not hold"
    if count["missing"]:
        return "not decidable here"
    return "does not hold" if count["unclear"] else "holds"


def _sentence(parts: Sequence[Part], missing: str) -> str:
    kinds: tuple[Support, ...] = ("for", "against", "unclear", "undefined", "missing")
    groups = {kind: [part for part in parts if part.support == kind] for kind in kinds}
    counted = sum(len(groups[kind]) for kind in kinds[:3])
    phrases = [f"{len(groups['for'])} of {counted} as claimed{_listed(groups['for'])}"] if counted else []
    if groups["against"]:
        phrases.append(f"contradicting{_listed(groups['against'])}")
    if groups["unclear"]:
        phrases.append(f"no support, because the interval contains 0{_listed(groups['unclear'])}")
    if groups["undefined"]:
        reasons = (f"{part.name} ({part.undefined})" for part in groups["undefined"][:MOST_NAMED])
        phrases.append(f"not defined: {'; '.join(reasons)}")
    if groups["missing"]:
        phrases.append(f"{missing}: {', '.join(part.missing or part.name for part in groups['missing'][:MOST_NAMED])}")
    return "; ".join(phrases) or "nothing to judge"


def _listed(parts: Sequence[Part]) -> str:
    if not parts:
        return ""
    more = len(parts) - MOST_NAMED
    return f": {', '.join(map(str, parts[:MOST_NAMED]))}" + (f" and {more} more" if more > 0 else "")
