"""Rules by name: functions of evidence that give an effect; and how the effects of a claim add up to a verdict."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from theodolite.core.intervals import LEVEL, units_needed
from theodolite.core.numbers import short_number
from theodolite.core.result import Effect, Judged, Outcome
from theodolite.core.states import BEFORE, PRE_TRAINED
from theodolite.studies.claims.evidence import ONE_SEED, ROUNDING, SEEDS, Estimate, Evidence, Missing, TooFewLayers
from theodolite.studies.claims.premises import Premises, entered_tasks, grouped_reasons, unmet_origin

Side: TypeAlias = Literal["above", "below", "inside"]
SIDES: tuple[Side, ...] = ("above", "below", "inside")
# Where an effect is: on the claimed side, on the other one, on neither for certain; or why it decides nothing.
Place: TypeAlias = Literal["for", "against", "open", "scale", "one run", "quick run", "no interval"]
# Names of tasks, states, settings or metrics, in the order that a study's file has them in.
Names: TypeAlias = Sequence[str]

# Two one-sided tests at 5%, for an effect that is claimed to be inside a margin.
INSIDE_LEVEL = 0.90
SCALE_ALONE = "scale alone could explain it"
# Labels of a task cannot be added to.
FIXED_UNITS = ("labels",)


@dataclass(frozen=True)
class Rule:
    """A registered function of an effect."""

    function: Callable[..., Estimate]

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Its options: all parameters but the evidence, which comes first."""
        return dict(list(inspect.signature(self.function).parameters.items())[1:])

    def misuse(self, parameters: Mapping[str, Any]) -> str:
        """What is wrong with the names of parameters; empty if nothing is."""
        options = self.options
        if unknown := next((name for name in parameters if name not in options), ""):
            return f"takes no parameter {unknown!r}; it takes {', '.join(options)}"
        required = [name for name, parameter in options.items() if parameter.default is inspect.Parameter.empty]
        # The tasks are those of the claim, unless the effect has its own.
        missing = next((name for name in required if name not in parameters and name != "tasks"), "")
        return f"needs the parameter {missing!r}; it takes {', '.join(options)}" if missing else ""


# All rules by name.
RULES: dict[str, Rule] = {}


def rule(name: str) -> Callable[[Callable[..., Estimate]], Callable[..., Estimate]]:
    """Register a function of the evidence, whose options are the parameters that a study's file sets.

    It returns the `Estimate` of one effect, or raises `Missing`. An option `tasks` is filled with the claim's tasks.
    """

    def register(function: Callable[..., Estimate]) -> Callable[..., Estimate]:
        RULES[name] = Rule(function)
        return function

    return register


@dataclass(frozen=True, kw_only=True)
class ClaimedEffect:
    """An effect that a claim declares, and where it expects it."""

    name: str
    rule: str
    parameters: Mapping[str, Any]
    side: str = "above"
    boundary: float = 0.0
    scale: Mapping[str, Any] = field(default_factory=dict)
    over: str = ""
    part: str = ""
    otherwise: str = ""
    printed_range: Mapping[str, float] = field(default_factory=dict)

    @property
    def level(self) -> float:
        """Coverage of its interval."""
        return INSIDE_LEVEL if self.side == "inside" else LEVEL

    @property
    def claimed(self) -> str:
        """Where the claim expects it, in words."""
        return f"{self.side} {'±' if self.side == 'inside' else ''}{short_number(self.boundary)}"

    def on(self, tasks: Names, evidence: Evidence) -> Iterator[ClaimedEffect]:
        """The effect on the claim's tasks, unless it has its own; one for each task or layer if it goes over them."""
        if self.over == "layers":
            of, minus = self.parameters["of"], self.parameters["minus"]
            for layer in evidence.layers(self.parameters["metric"], of, minus):
                sides = {"of": {**of, "layer": layer}, "minus": {**minus, "layer": layer}}
                yield replace(self, name=self.name.format(layer=layer), parameters={**self.parameters, **sides})
            return
        if "tasks" not in RULES[self.rule].options or "tasks" in self.parameters or not tasks:
            yield self
            return
        for group in [[task] for task in tasks] if self.over == "tasks" else [tasks]:
            yield replace(self, parameters={**self.parameters, "tasks": list(group)})

    def estimate(self, evidence: Evidence) -> Estimate:
        """The effect."""
        return RULES[self.rule].function(evidence, **self.parameters)

    def place(self, estimate: Estimate, *, effects: int = 1) -> Place:
        """On which side the interval is; of several effects each may contradict only at its share of the error."""
        low, high = estimate.interval(self.level)
        if low is None or high is None:  # a number without an interval is not an exact one
            return "no interval"
        if self._where(low, high) == "for":
            return "for"
        low, high = estimate.interval(1 - (1 - self.level) / effects)
        return "against" if low is not None and high is not None and self._where(low, high) == "against" else "open"

    def points(self, value: float) -> Literal["for", "against"]:
        """On which side the value itself is."""
        return "for" if self._where(value, value) == "for" else "against"

    def _where(self, low: float, high: float) -> Literal["for", "against", "open"]:
        if self.side == "inside":
            return "for" if -self.boundary < low and high < self.boundary else (
                "against" if low > self.boundary or high < -self.boundary else "open"
            )  # fmt: skip
        above, below = low > self.boundary + ROUNDING, high < self.boundary - ROUNDING
        claimed, other = (above, below) if self.side == "above" else (below, above)
        return "for" if claimed else "against" if other else "open"

    def decided_place(self, evidence: Evidence, estimate: Estimate, *, effects: int = 1) -> Place:
        """The place, if nothing forbids that the effect decides: scale, a single run, or small sizes."""
        place = self.place(estimate, effects=effects)
        if self.scale and self._is_scale(evidence, estimate, place):
            return "scale"
        if evidence.quick:
            return "quick run"
        return "one run" if ONE_SEED in estimate.uncovered else place

    def _is_scale(self, evidence: Evidence, estimate: Estimate, place: Place) -> bool:
        """Whether the effect at unit scale is not on the same side: as a value, and for a decision with its interval."""
        same = replace(self, parameters={**self.parameters, "metric": self.scale["metric"]}, scale={})
        try:
            at_unit = same.estimate(evidence)
        except Missing:
            return True
        if same.points(at_unit.value) != self.points(estimate.value) or abs(at_unit.value - self.boundary) <= ROUNDING:
            return True
        return place in ("for", "against") and same.place(at_unit) != place

    def distance(self, estimate: Estimate) -> float:
        """How far the effect is from the boundary that its interval crosses."""
        return abs(abs(estimate.value) - self.boundary) if self.side == "inside" else abs(estimate.value - self.boundary)

    def title(self, estimate: Estimate) -> str:
        """Its name, with the task or the number of tasks."""
        tasks = [task for task in estimate.counts if task]
        words = f"mean over {len(tasks)} tasks" if len(tasks) > 1 else (tasks or ["mean over tasks"])[0]
        return self.name.replace("{tasks}", words)

    def shown(self, estimate: Estimate, *, primary: bool, place: Place | None = None) -> Effect:
        """The effect as a verdict keeps it; without a place it is one of printed numbers."""
        low, high = estimate.interval(self.level) if place else (None, None)
        counts = dict(estimate.counts) if len(estimate.counts) > 1 else {}
        n = sum(estimate.counts.values()) or max((component.n for component in estimate.components), default=0)
        how = "; ".join(filter(None, [estimate.how if place else "as printed", self._against_printed(low, high)]))
        value = 0.0 if abs(estimate.value) <= ROUNDING else estimate.value
        effect = Effect(
            name=self.title(estimate), value=value, low=low, high=high, level=self.level, n=n or None, how=how,
            counts=counts, primary=primary, place=place or "",
        )  # fmt: skip
        if not primary:
            return effect
        effect = replace(effect, claimed=self.claimed, side=self.side, boundary=self.boundary)
        more = units_needed(self.distance(estimate), estimate.components, level=self.level) if place == "open" else None
        return effect if more is None or more[0] in FIXED_UNITS else replace(effect, more_of=more[0], more=more[1])

    def _against_printed(self, low: float | None, high: float | None) -> str:
        if low is None or high is None or not self.printed_range:
            return ""
        least, most = self.printed_range["from"], self.printed_range["to"]
        printed = f"the printed {least:g} to {most:g}"
        if low <= least and high >= most:
            return f"the interval contains {printed}"
        where = "below" if high < least else "above" if low > most else "partly in"
        return f"the interval is {where} {printed}"


def judge(
    evidence: Evidence,
    primary: Sequence[ClaimedEffect],
    secondary: Sequence[ClaimedEffect] = (),
    *,
    tasks: Names = (),
    premises: Premises | None = None,
    note: str = "",
    command: str = "",
) -> Judged:
    """The verdict on a claim: by its primary effects alone, on what its premises let in; the secondary ones are shown."""
    if evidence.printed:
        return _judge_printed(evidence, primary, secondary, tasks)
    premises = premises or Premises()
    entered = entered_tasks(evidence, tasks, premises)
    unmet = unmet_origin(evidence) if premises.origin and evidence.models else ""
    missing = list(filter(None, [entered.missing]))
    judged: list[tuple[ClaimedEffect, Estimate, Place]] = []
    is_shallow = False
    for effect in () if entered.missing else (single for declared in primary for single in declared.on(entered.tasks, evidence)):
        if unmet and not effect.part:
            missing.append(unmet)
            continue
        try:
            estimate = effect.estimate(evidence)
            judged.append((effect, estimate, effect.decided_place(evidence, estimate, effects=len(primary))))
        except Missing as error:
            missing.append(str(error))
            is_shallow = is_shallow or isinstance(error, TooFewLayers)
    # A part of the claim stands on its own if only the rest needs what is not there.
    part = judged[0][0].part if unmet and judged else ""
    effects = [effect.shown(estimate, primary=True, place=place) for effect, estimate, place in judged]
    remarks = [note] if note else []
    if part:
        remarks.append(f"the rest of the claim is not measured, because it needs {unmet}")
    elif unmet:
        remarks.append("the rows called pre-trained are those of the encoder before this fine-tuning")
    # What a premise keeps from deciding is shown, and so is a task that did not enter.
    unjudged = [effect for effect in primary if entered.missing or (unmet and not effect.part)]
    others = (
        single
        for effect in (*unjudged, *secondary)
        for single in effect.on(tasks if effect.over == "tasks" else entered.tasks or tasks, evidence)
    )
    for effect in others:
        try:
            estimate = effect.estimate(evidence)
        except Missing:
            continue
        shown = effect.shown(estimate, primary=False, place=effect.place(estimate))
        # The only task that was measured is the mean over tasks.
        if effect.over == "tasks" and any((shown.value, shown.low) == (other.value, other.low) for other in effects):
            continue
        effects.append(shown)
        if effect.otherwise and effect.points(estimate.value) == "against":
            remarks.append(f"{effect.otherwise} ({effects[-1].name} {estimate.value:+.3g})")
    if unmet:
        effects = [replace(effect, name=effect.name.replace(PRE_TRAINED, BEFORE)) for effect in effects]
    places = [place for _, _, place in judged]
    leans = {effect.points(estimate.value) for effect, estimate, _ in judged}
    outcome: Outcome = "inconclusive"
    if "against" in places and "one run" not in places:  # settles it, whatever is missing
        outcome = "contradicted"
    elif (missing and not part) or not judged:
        outcome = "not measured"
    elif set(places) == {"for"}:
        outcome = "supported"
    lean = "" if not leans else "against" if "against" in leans else "for"
    left_out = {**entered.left_out, **{t: why for _, estimate, _ in judged for t, why in estimate.left_out.items()}}
    return Judged(
        source=evidence.source,
        outcome=outcome,
        why=_sentence(judged, effects, outcome, lean, [] if part else missing, left_out),
        effects=tuple(effects),
        command=command if outcome == "not measured" or _is_worth_more(outcome, effects) else "",
        lean=lean,
        unmet="learned" if entered.unlearned else premises.origin if unmet else "layers" if is_shallow else "",
        part=part,
        encoders={name: evidence.origins[name].about if name in evidence.origins else "" for name in evidence.models},
        seeds=tuple(sorted({seed for _, estimate, _ in judged for seed in estimate.seeds})),
        tasks=tuple(dict.fromkeys(task for _, estimate, _ in judged for task in estimate.counts if task)),
        left_out=left_out,
        remarks=tuple(remarks),
    )


def _is_worth_more(outcome: Outcome, effects: Sequence[Effect]) -> bool:
    """Whether another run would decide it: more seeds, or the whole sizes."""
    runs = any(effect.place in ("one run", "quick run") or effect.more_of == SEEDS for effect in effects if effect.primary)
    return outcome == "inconclusive" and runs


def _judge_printed(
    evidence: Evidence, primary: Sequence[ClaimedEffect], secondary: Sequence[ClaimedEffect], tasks: Names
) -> Judged:
    """What a table says, which has no intervals: it agrees if all that it prints of the claim is on the claimed side."""
    effects, phrases, missing, points = [], [], [], []
    for declared in (*primary, *secondary):
        is_primary = declared in primary
        for effect in declared.on(tasks, evidence):
            try:
                estimate = effect.estimate(evidence)
            except Missing as error:
                missing += [str(error)] if is_primary else []
                continue
            effects.append(effect.shown(estimate, primary=is_primary))
            if is_primary:
                points.append(effect.points(estimate.value))
                phrases.append(f"{effects[-1].name} {estimate.value:+.3g}" + f" ({estimate.remark})" * bool(estimate.remark))
    phrases += [f"not printed: {'; '.join(dict.fromkeys(missing))}"] if missing else []
    outcome: Outcome = "disagrees" if "against" in points else "agrees" if points else "not printed"
    return Judged(source=evidence.source, outcome=outcome, why="; ".join(phrases), effects=tuple(effects))


def _sentence(
    judged: Sequence[tuple[ClaimedEffect, Estimate, Place]],
    effects: Sequence[Effect],
    outcome: Outcome,
    lean: str,
    missing: Sequence[str],
    left_out: Mapping[str, str],
) -> str:
    """One sentence with the figures behind a verdict."""
    way = "pointing the claimed way" if lean == "for" else "pointing against the claim"
    places = [place for _, _, place in judged]
    head = next((f"{place}, {way}: " for place in ("quick run", "one run") if outcome == "inconclusive" and place in places), "")
    phrases = [_phrase(effect, estimate, shown) for (effect, estimate, _), shown in zip(judged, effects, strict=False)]
    phrases += [f"missing: {'; '.join(dict.fromkeys(missing))}"] if missing else []
    outside = {task: why for task, why in left_out.items() if judged or why not in "; ".join(missing)}
    phrases += [f"left out: {grouped_reasons(outside)}"] if outside else []
    uncovered = dict.fromkeys(source for _, estimate, _ in judged for source in estimate.uncovered)
    phrases += [f"not covered: {', '.join(uncovered)}"] if uncovered and outcome != "not measured" else []
    return head + "; ".join(phrases)


def _phrase(effect: ClaimedEffect, estimate: Estimate, shown: Effect) -> str:
    """One effect in words: its value and interval, and for an open one what would decide it."""
    low, high = estimate.interval(effect.level)
    bounds = "without an interval" if low is None else f"[{low:+.3g}, {high:+.3g}]"
    text = f"{shown.name} {shown.value:+.3g} {bounds}, claimed {effect.claimed}"
    if shown.place == "scale":
        return f"{text}: {SCALE_ALONE}"
    if shown.place == "no interval":
        return f"{text}: nothing varied among the draws, so this shows nothing"
    if shown.place != "open":
        return text
    direction = "as claimed" if effect.points(shown.value) == "for" else "against the claim"
    if shown.more is not None:
        units = shown.more_of.removesuffix("s") if shown.more == 1 else shown.more_of
        return f"{text}: about {shown.more:,} more {units} would decide it {direction}, if it is as large as observed"
    largest = max(estimate.components, key=lambda component: component.variance, default=None)
    if largest is not None and largest.source in FIXED_UNITS:
        return f"{text}: open, and the {largest.source} of a task cannot be added to"
    return f"{text}: even ten times as much data would not decide it, if it is as large as observed"
