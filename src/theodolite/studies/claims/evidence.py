"""What a rule sees: rows and item-level records of one source, and the estimates with their sources of chance made from them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np

from theodolite.core.intervals import (
    LEVEL,
    NO_INTERVAL,
    UNLIMITED,
    Component,
    Interval,
    Limits,
    component_interval,
    limited_interval,
)
from theodolite.core.moments import Doubles
from theodolite.core.rows import Row
from theodolite.core.states import PRE_TRAINED

if TYPE_CHECKING:
    import pyarrow

# Metrics that are the logarithm of another one, which tables print.
LOGARITHMS = {"log_partition_isotropy": "partition_isotropy"}
SEEDS = "fine-tuning seeds"
ONE_SEED = "one fine-tuning seed"
# What the last training of an encoder was, if it was not language modelling.
TUNED, UNDECLARED = "tuned", "undeclared"
ORIGINS = (PRE_TRAINED, TUNED)
# Equal numbers may differ by this much in their last digits.
ROUNDING = 1e-9
# Fields of a row that a selector may give.
SELECTED = ("model", "state", "task", "setting", "label", "layer")
# Values of the fields of a row; a list means the mean over its values.
Selector: TypeAlias = Mapping[str, Any]


class Missing(LookupError):
    """Something that a rule needs is absent, or not defined; the message says what."""


class TooFewLayers(Missing):
    """The encoder has too few layers for a rule, in every task."""


@dataclass(frozen=True)
class ModelOrigin:
    """What an encoder is before a study tunes it."""

    kind: str = UNDECLARED
    about: str = ""
    known_by: str = ""


@dataclass(frozen=True, eq=False)
class Number:
    """A number of one seed: its value in every resample of the items, and the variance from repetitions of what is random.

    `counts` is the number of its items by task.
    """

    value: float
    items: Doubles | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    units: str = ""
    repeats: tuple[Component, ...] = ()

    @property
    def n(self) -> int:
        return sum(self.counts.values())


# The numbers of each seed; under None one that all seeds share, such as that of the encoder before it is fine-tuned.
BySeed: TypeAlias = Mapping[int | None, Number]
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Estimate:
    """An effect with its sources of chance."""

    value: float
    components: tuple[Component, ...] = ()
    uncovered: tuple[str, ...] = ()
    remark: str = ""
    bounds: Callable[[float], Interval] | None = None
    limits: Limits = UNLIMITED
    counts: Mapping[str, int] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def interval(self, level: float = LEVEL) -> Interval:
        """Its interval; none if nothing varied, which is what few units and ranks do, and is no certainty."""
        if self.bounds is not None:
            return self.bounds(level)
        if sum(component.variance for component in self.components) <= (ROUNDING * max(1.0, abs(self.value))) ** 2:
            return NO_INTERVAL
        low, high = component_interval(self.value, self.components, level=level)
        if low is None or high is None or (self.limits[0] < low and high < self.limits[1]):
            return low, high  # type: ignore[return-value]  # both or neither
        # Only an end that would leave the limits is bent: bending the other one too makes errors at a boundary near it.
        outside = low if low <= self.limits[0] else self.value, high if high >= self.limits[1] else self.value
        bent = limited_interval(self.value, outside, self.limits)
        return (low if low > self.limits[0] else bent[0]), (high if high < self.limits[1] else bent[1])

    @property
    def how(self) -> str:
        """What the interval covers, what it does not, and what else is to know."""
        sizes: dict[str, list[int]] = {}
        for component in self.components:
            sizes.setdefault(component.source, []).append(component.n)
        counts = list(self.counts.values())
        for source, numbers in sizes.items():  # items of several tasks, one number for each
            sizes[source] = counts if len(counts) > 1 and numbers == [sum(counts)] else numbers
        sources = ", ".join(f"{' + '.join(f'{n:,}' for n in numbers)} {source}" for source, numbers in sizes.items())
        covered = [f"over {sources}" if sources else "", f"not covered: {', '.join(self.uncovered)}" if self.uncovered else ""]
        return "; ".join(filter(None, [*covered, self.remark]))


def combined(function: Callable[..., Any], *numbers: Number) -> Number:
    """A function of numbers, resample by resample; repetitions are not paired, and enter by the function's derivatives."""
    values = [number.value for number in numbers]
    value = float(function(*values))
    items = None
    if all(number.items is not None for number in numbers):
        # Two numbers from different kinds of resamples cannot be combined, nor can their variances be added here.
        same = len({len(cast("Doubles", number.items)) for number in numbers}) == 1
        items = np.asarray(function(*(number.items for number in numbers))) if same else None
    repeats: list[Component] = []
    for at, number in enumerate(numbers):
        step = 1e-6 * max(abs(number.value), 1e-3)
        slope = (function(*[v + step * (i == at) for i, v in enumerate(values)]) - value) / step if number.repeats else 0.0
        repeats += [replace(component, variance=component.variance * slope**2) for component in number.repeats]
    units = " and ".join(dict.fromkeys(number.units for number in numbers if number.units))
    counts = {task: n for number in numbers for task, n in number.counts.items()}
    return Number(value, items, counts, units, tuple(repeats))


def aligned(*sides: Mapping[int | None, Measured]) -> Iterator[tuple[int | None, tuple[Measured, ...]]]:
    """What all sides have seed by seed, over the seeds that all of them have; one without a seed goes with every seed."""
    seeds = [{seed for seed in side if seed is not None} for side in sides if None not in side]
    for seed in sorted(set.intersection(*seeds)) if seeds else (None,):
        yield seed, tuple(side[None if None in side else seed] for side in sides)


def combined_by_seed(function: Callable[..., Any], *sides: BySeed) -> dict[int | None, Number]:
    """A function of numbers, seed by seed."""
    by_seed = {seed: combined(function, *numbers) for seed, numbers in aligned(*sides)}
    if not by_seed:
        raise Missing("a seed that both sides have")
    return by_seed


def mean_by_seed(*sides: BySeed) -> dict[int | None, Number]:
    """The mean of all sides, seed by seed."""
    return combined_by_seed(lambda *values: sum(values) / len(values), *sides)


def estimate_of(by_seed: BySeed, *, limits: Limits = UNLIMITED, remark: str = "") -> Estimate:
    """The mean over seeds: paired per-seed values with Student's t, the variance of items and of repetitions added below."""
    numbers = list(by_seed.values())
    values = np.array([number.value for number in numbers])
    components: list[Component] = []
    uncovered = []
    if len(values) > 1:
        spread = float(values.var(ddof=1))
        components.append(Component(SEEDS, spread / len(values), len(values) - 1, len(values)))
        remark = "; ".join(filter(None, [f"sd over seeds {math.sqrt(spread):.2g}", remark]))
    elif None not in by_seed:
        uncovered.append(ONE_SEED)
    draws = [number.items for number in numbers]
    if all(items is not None for items in draws) and draws:
        # The same items are behind all seeds, so that their variance does not shrink with the number of seeds.
        items = np.mean(np.array(draws), axis=0)
        # Few draws give the variance with few degrees of freedom, however many items there are.
        degrees = max(1, min(numbers[0].n, len(items)) - 1)
        components.append(Component(numbers[0].units or "items", float(items.var(ddof=1)), degrees, numbers[0].n))
    else:
        uncovered.append("items")
    repeats: dict[str, list[Component]] = {}
    for number in numbers:
        for component in number.repeats:
            repeats.setdefault(component.source, []).append(component)
    for source, group in repeats.items():
        # Of all seeds together, not their mean: a state before fine-tuning has the same repetitions in all of them.
        variance = sum(component.variance for component in group) / len(numbers)
        components.append(Component(source, variance, sum(c.degrees for c in group), max(c.n for c in group)))
    seeds = tuple(seed for seed in by_seed if seed is not None)
    counts = {task: n for number in numbers for task, n in number.counts.items()}
    return Estimate(float(values.mean()), tuple(components), tuple(uncovered), remark, limits=limits, counts=counts, seeds=seeds)


class Records:
    """Item-level records by name, indexed by what they are of."""

    def __init__(self, tables: Mapping[str, pyarrow.Table] | None = None) -> None:
        self._tables = tables or {}

    @cached_property
    def draws(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """By metric, model, state, task, setting, layer, label and seed."""
        keys = ("metric", *SELECTED, "seed")
        return {tuple(record[key] for key in keys): record for record in self._records("draws")}

    @cached_property
    def layouts(self) -> list[dict[str, Any]]:
        """The layouts of labels."""
        return list(self._records("layouts"))

    @cached_property
    def predictions(self) -> dict[tuple[Any, ...], tuple[Doubles, Doubles]]:
        """The right and the given answer to every example, by model, state, task and seed."""
        if (table := self._tables.get("predictions")) is None:
            return {}
        keys = list(zip(*(table[name].to_pylist() for name in ("model", "state", "task", "seed")), strict=True))
        truth, answer = (table[name].to_numpy() for name in ("truth", "answer"))
        examples: dict[tuple[Any, ...], list[int]] = {}
        for at, key in enumerate(keys):
            examples.setdefault(key, []).append(at)
        return {key: (truth[at], answer[at]) for key, at in examples.items()}

    def _records(self, name: str) -> Iterable[dict[str, Any]]:
        return self._tables[name].to_pylist() if name in self._tables else []


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Rows and records of one source: what was measured of a model, or what one or more tables print of it."""

    source: str
    rows: tuple[Row, ...]
    records: Records = field(default_factory=Records)
    printed: bool = False
    score: Mapping[str, str] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)
    origins: Mapping[str, ModelOrigin] = field(default_factory=dict)
    quick: bool = False

    @cached_property
    def models(self) -> list[str]:
        """The models, in the order of the rows."""
        return list(dict.fromkeys(row.model for row in self.rows))

    @cached_property
    def by_metric(self) -> dict[str, list[Row]]:
        """The rows of each metric."""
        rows: dict[str, list[Row]] = {}
        for row in self.rows:
            rows.setdefault(row.metric, []).append(row)
        return rows

    def of_model(self, model: str) -> Evidence:
        """The same with the rows of one model."""
        return replace(self, rows=tuple(row for row in self.rows if row.model == model))

    def models_of(self, name: str, families: Mapping[str, str]) -> list[str]:
        """The models that `@larger`, `@smaller` or the name of a family after an @ stand for."""
        if name in ("@larger", "@smaller"):
            sizes = {model: self.widths.get(model) or max((row.d or 0 for row in self.rows if row.model == model), default=0)
                     for model in self.models}  # fmt: skip
            if len(set(sizes.values())) < 2:
                raise Missing("models of two sizes")
            return [max(sizes, key=sizes.__getitem__) if name == "@larger" else min(sizes, key=sizes.__getitem__)]
        pattern = families[name.removeprefix("@")]
        models = [model for model in self.models if re.search(pattern, model, re.IGNORECASE)]
        if not models:
            raise Missing(f"a model of the family {name.removeprefix('@')} (by its name)")
        return models

    def find(self, metric: str, **fields: Any) -> list[Row]:
        """Rows of a metric whose fields have these values; "score" is the task's own metric."""
        head, _, rest = metric.partition("_")
        if head == "score":
            metric = "_".join(filter(None, [self.score.get(fields.get("task") or "", head), rest]))
        rows = [row for row in self.by_metric.get(metric, ()) if all(getattr(row, k) == v for k, v in fields.items())]
        if not rows and metric in LOGARITHMS:  # tables print I, and the rules compare log I
            rows = [_logarithm(row, metric) for row in self.find(LOGARITHMS[metric], **fields)]
        return rows

    def final(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of a state as it is: without a layer or else of the deepest one, without a step or else of the last one."""
        # A study measures many layers and training steps on the way; claims and tables are about the finished state.
        candidates = list(rows)
        without_layer = [row for row in candidates if row.layer is None]
        final: dict[tuple[Any, ...], Row] = {}
        for row in without_layer or [row for row in candidates if row.layer == self.depth(row.model, row.task)]:
            key = (row.model, row.state, row.task, row.setting, row.seed, row.label)
            if key not in final or _step(row) >= _step(final[key]):
                final[key] = row
        return list(final.values())

    def depth(self, model: str, task: str) -> int | None:
        """The last layer of a model that has rows in a task."""
        return self._depths.get((model, task))

    @cached_property
    def _depths(self) -> dict[tuple[str, str], int]:
        depths: dict[tuple[str, str], int] = {}
        for row in self.rows:
            if row.layer is not None:
                depths[row.model, row.task] = max(row.layer, depths.get((row.model, row.task), 0))
        return depths

    def layers(self, metric: str, *selectors: Selector) -> list[int]:
        """The layers that all selectors have defined numbers of."""
        rows = ([row for row in self.find(metric, **selector) if math.isfinite(row.value)] for selector in selectors)
        return sorted(set.intersection(*({row.layer for row in of if row.layer is not None} for of in rows)))

    def numbers(self, metric: str, selector: Selector) -> BySeed:
        """The number of every seed at the last layer, or at `layer`; a list in the selector is a mean over its values."""
        lists = {name: value for name, value in selector.items() if isinstance(value, (list, tuple))}
        sides = [self._one(metric, {**selector, **dict(zip(lists, values, strict=True))}) for values in product(*lists.values())]
        return mean_by_seed(*sides) if len(sides) > 1 else sides[0]

    def _one(self, metric: str, fields: Selector) -> BySeed:
        rows = self.find(metric, **fields)
        layer = fields.get("layer")
        if layer is None:
            final = self.final(rows)
        else:  # must not be dropped because there is a deeper one
            last = max((row.step or 0 for row in rows), default=0)
            final = [row for row in rows if row.step in (None, last)]
        name = ", ".join([metric, *(str(value) for value in fields.values() if value not in ("", None))])
        defined = [row for row in final if math.isfinite(row.value)]
        if not defined:
            reason = next(filter(None, (row.reason for row in final)), "")
            raise Missing(f"{name} (not defined: {reason})" if reason else name)
        if len({row.seed for row in defined}) < len(defined):
            raise Missing(f"one {name} for each seed (there are several: say more in the selector)")
        numbers = {row.seed: self.number(row) for row in defined}
        # An encoder before fine-tuning has no seed of its own; that of its rows is that of their samples.
        alone = len(numbers) == 1 and (defined[0].state == PRE_TRAINED or self.printed)
        return {None: next(iter(numbers.values()))} if alone else numbers

    def number(self, row: Row) -> Number:
        """The number of a row, with what its records say of it."""
        record = self.records.draws.get((row.metric, *(getattr(row, name) for name in SELECTED), row.seed))
        if record is None:
            return Number(row.value, counts={row.task: row.n or 0})
        repeats = np.asarray(record["repeats"] or [], dtype=np.float64)
        components: tuple[Component, ...] = ()
        if len(repeats) > 1:
            variance = float(repeats.var(ddof=1)) / len(repeats)
            components = (Component(record["repeated"], variance, len(repeats) - 1, len(repeats)),)
        items = np.asarray(record["items"], dtype=np.float64)
        # Resampled values may be lower or higher on average than the value itself: what counts is how they vary.
        return Number(row.value, items - items.mean() + row.value, {row.task: record["n"]}, record["units"], components)


def _step(row: Row) -> float:
    return math.inf if row.step is None else row.step


def _logarithm(row: Row, metric: str) -> Row:
    return replace(row, metric=metric, value=math.log(row.value) if row.value > 0 else -math.inf)
