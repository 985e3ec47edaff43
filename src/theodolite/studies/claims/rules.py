"""Rules by name: functions of evidence that give an effect; and how the effects of a claim add up to a verdict."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from theodolite.core.intervals import LEVEL, units_needed
from theodolite.core.numbers import short_number
from theodolite.core.result import Effect, Judged, Outcome
from theodolite.studies.claims.evidence import Estimate, Evidence, Missing

Side: TypeAlias = Literal["above", "below", "inside"]
SIDES: tuple[Side, ...] = ("above", "below", "inside")
# Where an effect is: on the claimed side, on the other one, on neither for certain, or only by its scale.
Place: TypeAlias = Literal["for", "against", "open", "scale"]
# Names of tasks, states, settings or metrics, in the order that a study's file has them in.
Names: TypeAlias = Sequence[str]

# Two one-sided tests at 5 %, for an effect that is claimed to be inside a margin.
INSIDE_LEVEL = 0.90
# Equal numbers may differ by this much in their last digits.
ROUNDING = 1e-9
SCALE_ALONE = "scale alone could explain it"


@dataclass(frozen=True)
class Rule:
    """A registered function: of an effect, or of a whole judgement of printed tables (an audit)."""

    function: Callable[..., Any]
    is_audit: bool = False

    def fault(self, parameters: Mapping[str, Any]) -> str:
        """What is wrong with the names of parameters; empty if nothing is."""
        # All but the evidence, which comes first.
        options = dict(list(inspect.signature(self.function).parameters.items())[1:])
        if unknown := next((name for name in parameters if name not in options), ""):
            return f"takes no parameter {unknown!r}; it takes {', '.join(options)}"
        required = [name for name, parameter in options.items() if parameter.default is inspect.Parameter.empty]
        missing = next((name for name in required if name not in parameters), "")
        return f"needs the parameter {missing!r}; it takes {', '.join(options)}" if missing else ""


# All rules by name.
RULES: dict[str, Rule] = {}


def rule(name: str, *, audit: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of the evidence, whose options are the parameters that a study's file sets.

    Parameters
    ----------
    name
        What a study's file calls it.
    audit
        Whether it judges printed tables as a whole; otherwise it returns the `Estimate` of one effect, or raises `Missing`.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES[name] = Rule(function, audit)
        return function

    return register


@dataclass(frozen=True, kw_only=True)
class ClaimedEffect:
    """An effect that a claim declares, and where it expects it.

    Parameters
    ----------
    name
        What it is called in a sentence.
    rule, parameters
        The registered rule that computes it, and its parameters.
    side, boundary
        "above" or "below" the boundary, or "inside" plus and minus the boundary.
    scale
        `metric` and `boundary` of the same effect at unit scale, which must agree with it; empty if scale does not matter.
    """

    name: str
    rule: str
    parameters: Mapping[str, Any]
    side: str = "above"
    boundary: float = 0.0
    scale: Mapping[str, Any] = field(default_factory=dict)

    @property
    def level(self) -> float:
        """Coverage of its interval."""
        return INSIDE_LEVEL if self.side == "inside" else LEVEL

    @property
    def claimed(self) -> str:
        """Where the claim expects it, in words."""
        return f"{self.side} {'±' if self.side == 'inside' else ''}{short_number(self.boundary)}"

    def estimate(self, evidence: Evidence) -> Estimate:
        """The effect.

        Raises
        ------
        Missing
            Something that it needs is absent.
        """
        estimate = RULES[self.rule].function(evidence, **self.parameters)
        assert isinstance(estimate, Estimate)
        return estimate

    def place(self, estimate: Estimate, *, point: bool = False) -> Place:
        """On which side the interval is; with `point`, as for printed numbers, the value itself."""
        low, high = (estimate.value, estimate.value) if point else estimate.interval(self.level)
        if low is None or high is None:  # a number without an interval is not an exact one
            return "open"
        if self.side == "inside":
            inside = -self.boundary < low and high < self.boundary
            outside = low > self.boundary or high < -self.boundary or (point and not inside)
            return "for" if inside else "against" if outside else "open"
        above, below = low > self.boundary + ROUNDING, high < self.boundary - ROUNDING
        claimed, other = (above, below) if self.side == "above" else (below, above)
        return "for" if claimed else "against" if other else "open"

    def checked_place(self, evidence: Evidence, estimate: Estimate) -> Place:
        """The same, and "scale" if the effect at unit scale is not on that side too."""
        place = self.place(estimate)
        if place == "open" or not self.scale:
            return place
        same = ClaimedEffect(
            name=self.name,
            rule=self.rule,
            parameters=_with_metric(self.parameters, self.scale["metric"]),
            side=self.side,
            boundary=float(self.scale.get("boundary", self.boundary)),
        )
        try:
            return place if same.place(same.estimate(evidence)) == place else "scale"
        except Missing:
            return "scale"

    def distance(self, estimate: Estimate) -> float:
        """How far the effect is from the boundary that its interval crosses."""
        return abs(abs(estimate.value) - self.boundary) if self.side == "inside" else abs(estimate.value - self.boundary)

    def shown(self, estimate: Estimate, *, primary: bool, printed: bool) -> Effect:
        """The effect as a verdict keeps it."""
        low, high = (None, None) if printed else estimate.interval(self.level)
        n = max((part.n for part in estimate.components), default=None)
        how = "as printed" if printed else estimate.how
        about = {"name": self.name, "primary": primary, "claimed": self.claimed if primary else ""}
        return Effect(value=estimate.value, low=low, high=high, n=n, how=how, **about)  # type: ignore[arg-type]


def _with_metric(parameters: Mapping[str, Any], metric: str) -> dict[str, Any]:
    return {**parameters, "metric": metric}


def judge(
    evidence: Evidence, primary: Sequence[ClaimedEffect], secondary: Sequence[ClaimedEffect] = (), *, command: str = ""
) -> Judged:
    """The verdict on a claim: by its primary effects alone; the secondary ones are shown.

    Parameters
    ----------
    evidence
        What was measured, or is printed.
    primary, secondary
        The effects that decide, and those that do not.
    command
        What would measure what is missing.
    """
    estimates, missing = [], []
    for effect in primary:
        try:
            estimates.append((effect, effect.estimate(evidence)))
        except Missing as error:
            missing.append(str(error))
    shown = [effect.shown(estimate, primary=True, printed=evidence.printed) for effect, estimate in estimates]
    for effect in secondary:
        try:
            shown.append(effect.shown(effect.estimate(evidence), primary=False, printed=evidence.printed))
        except Missing:
            continue
    if evidence.printed:
        return Judged(source=evidence.source, effects=tuple(shown), **_printed_outcome(estimates, missing))
    places = [effect.checked_place(evidence, estimate) for effect, estimate in estimates]
    outcome: Outcome = "supported"
    if "against" in places:  # settles it, whatever is missing
        outcome = "contradicted"
    elif missing:
        outcome = "not measured"
    elif set(places) != {"for"}:
        outcome = "inconclusive"
    parts = [_phrase(effect, estimate, place) for (effect, estimate), place in zip(estimates, places, strict=True)]
    if missing:
        parts.append(f"missing: {'; '.join(dict.fromkeys(missing))}")
    uncovered = dict.fromkeys(source for _, estimate in estimates for source in estimate.uncovered)
    if uncovered and outcome != "not measured":
        parts.append(f"not covered: {', '.join(uncovered)}")
    needed = command if outcome in ("not measured", "inconclusive") else ""
    return Judged(source=evidence.source, outcome=outcome, why="; ".join(parts), effects=tuple(shown), command=needed)


def _printed_outcome(estimates: Sequence[tuple[ClaimedEffect, Estimate]], missing: Sequence[str]) -> dict[str, Any]:
    """What a table says, which has no intervals: it agrees if all that it prints of the claim is on the claimed side."""
    places = [effect.place(estimate, point=True) for effect, estimate in estimates]
    parts = [
        f"{effect.name} {estimate.value:+.3g}" + f" ({estimate.remark})" * bool(estimate.remark) for effect, estimate in estimates
    ]
    parts += [f"not printed: {'; '.join(dict.fromkeys(missing))}"] if missing else []
    agrees = "disagrees" if any(place != "for" for place in places) else "agrees" if places else "not printed"
    return {"outcome": agrees, "why": "; ".join(parts)}


def _phrase(effect: ClaimedEffect, estimate: Estimate, place: Place) -> str:
    """One effect in words: its value and interval, and for an open one what would decide it."""
    low, high = estimate.interval(effect.level)
    interval = "without an interval" if low is None else f"[{low:+.3g}, {high:+.3g}]"
    text = f"{effect.name} {estimate.value:+.3g} {interval}, claimed {effect.claimed}"
    if place == "scale":
        return f"{text}: {SCALE_ALONE}"
    if place != "open":
        return text
    if low is None:
        return f"{text}: {' and '.join(estimate.uncovered) or 'nothing'} drawn once gives none"
    if estimate.bounds is not None:
        return text
    more = units_needed(effect.distance(estimate), estimate.components, level=effect.level)
    if more is None:
        return f"{text}: too small an effect to be decided by more units"
    return f"{text}: about {more[1]:,} more {more[0]} would decide it"
