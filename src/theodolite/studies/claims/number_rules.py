"""Rules on numbers of a state: differences between states, settings, models and layers, and the largest over layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from theodolite.core.intervals import UNLIMITED, Component, Limits
from theodolite.metrics.registry import METRICS
from theodolite.studies.claims.evidence import (
    BySeed,
    Estimate,
    Evidence,
    Missing,
    Number,
    Selector,
    aligned,
    combined,
    combined_by_seed,
    estimate_of,
    mean_number,
)
from theodolite.studies.claims.rules import Names, rule

# How two sides become one number.
WAYS = ("difference", "log ratio", "share")
# What the numbers can be that are not metrics of a cloud.
SCORE_LIMITS: dict[str, Limits] = {
    **dict.fromkeys(("spearman", "pearson", "matthews", "silhouette", "norm_frequency_correlation"), (-1.0, 1.0)),
    **dict.fromkeys(("accuracy", "macro_f1", "probe_accuracy", "between_share", "frequency_r2"), (0.0, 1.0)),
}


def limits_of(metric: str) -> Limits:
    """The lowest and the highest value of a metric or score."""
    return METRICS[metric].limits if metric in METRICS else SCORE_LIMITS.get(metric, UNLIMITED)


@rule("difference")
def difference(
    evidence: Evidence,
    *,
    metric: str | Mapping[str, Any],
    of: Selector,
    minus: Selector,
    tasks: Names = (),
    way: str = "difference",
    over: str = "",
    families: Mapping[str, str] | None = None,
    printed: Selector | None = None,
) -> Estimate:
    """One side minus another, paired by seed and item; the mean over tasks, and over what `over` names."""
    cells = []
    if evidence.printed and printed is not None:
        of, minus, over = {**of, **printed}, {**minus, **printed}, ""
    for task in tasks or [""]:
        fields = {"task": task} if task else {}
        sides = [{**side, **fields} for side in (of, minus)]
        if any(str(side.get("model", "")).startswith("@") for side in sides):
            cells.append(_between_models(evidence, metric, sides, way, over, families or {}))
        else:
            cells.append(_difference(evidence, metric, sides, way, over))
    mean = combined_by_seed(lambda *values: sum(values) / len(values), *cells)
    remark = "" if evidence.printed else _remark(evidence, metric, (of, minus), way, over, families or {})
    return estimate_of(mean, limits=_limits(evidence, metric, tasks, way), remark=remark)


def _limits(evidence: Evidence, metric: str | Mapping[str, Any], tasks: Names, way: str) -> Limits:
    """What a difference, or a ratio, of two numbers of a metric can be."""
    if way != "difference":
        return (-math.inf, math.inf) if way == "log ratio" else (-1.0, math.inf)
    names = (
        {evidence.score.get(task, "") for task in tasks} if metric == "score" else {metric} if isinstance(metric, str) else set()
    )
    width = max((high - low for low, high in map(limits_of, names)), default=math.inf)
    return -width, width


def _remark(
    evidence: Evidence,
    metric: str | Mapping[str, Any],
    sides: Sequence[Selector],
    way: str,
    over: str,
    families: Mapping[str, str],
) -> str:
    """In how many layers the mean's sign is found, where along a sweep it changes, or that there is one model of a kind."""
    if any(str(side.get("model", "")).startswith("@") for side in sides):
        single = all(len(evidence.models_of(side["model"], families)) == 1 for side in sides)
        return "one model on each side: this speaks of these two models only" if single else ""
    if over not in ("label", "layers"):
        return ""
    places = [fields for fields, _ in _common(evidence, metric, sides, over)]
    values = []
    for fields in places:
        parts = [_quantity(evidence, metric, {**side, **fields}) for side in sides]
        by_seed = combined_by_seed(lambda a, b: _joined(a, b, way), *parts)
        values.append(float(np.mean([number.value for number in by_seed.values()])))
    if over == "layers":
        return f"below 0 in {sum(value < 0 for value in values)} of {len(values)} layers"
    by_place = sorted(zip((float(fields["label"]) for fields in places), values, strict=True))
    changes = [f"{right[0]:g}" for left, right in pairwise(by_place) if left[1] * right[1] < 0]
    return f"the sign changes at D = {', '.join(changes)}" if changes else "the sign is the same at every D"


def _difference(evidence: Evidence, metric: str | Mapping[str, Any], sides: Sequence[Selector], way: str, over: str) -> BySeed:
    places = _common(evidence, metric, sides, over) if over else [({}, 1.0)]
    parts = [[_quantity(evidence, metric, {**side, **fields}) for side in sides] for fields, _ in places]
    weights = [weight for _, weight in places]
    by_place = [combined_by_seed(lambda a, b: _joined(a, b, way), first, second) for first, second in parts]
    return combined_by_seed(lambda *values: sum(w * v for w, v in zip(weights, values, strict=True)), *by_place)


def _quantity(evidence: Evidence, metric: str | Mapping[str, Any], selector: Selector) -> BySeed:
    if isinstance(metric, str):
        return evidence.numbers(metric, selector)
    nested = [{**selector, **metric[side]} for side in ("of", "minus")]
    return _difference(evidence, metric["metric"], nested, metric.get("way", "difference"), "")


def _joined(first: Any, second: Any, way: str) -> Any:
    if way == "difference":
        return first - second
    # Of resampled values some may be negative, which says nothing of the number itself.
    if np.ndim(second) == 0 and (second <= 0 or (way == "log ratio" and first <= 0)):
        raise Missing(f"a positive baseline, which a ratio needs (the numbers are {first:.3g} and {second:.3g})")
    return np.log(first / second) if way == "log ratio" else first / second - 1


def _common(
    evidence: Evidence, metric: str | Mapping[str, Any], sides: Sequence[Selector], over: str
) -> list[tuple[dict[str, Any], float]]:
    """The labels or layers that both sides have defined numbers of, each with its weight in the mean."""
    name = "label" if over == "label" else "layer"
    assert isinstance(metric, str)
    values = []
    for side in sides:
        single = {key: value for key, value in side.items() if not isinstance(value, (list, tuple))}
        values.append({getattr(row, name) for row in evidence.find(metric, **single) if math.isfinite(row.value)})
    common = sorted(value for value in values[0] & values[1] if value not in (None, "", "0")) if name == "label" else sorted(
        value for value in values[0] & values[1] if value is not None
    )  # fmt: skip
    if not common and None in values[0] & values[1]:
        return [({}, 1.0)]  # a table without layers
    half = len(common) // 2
    upper, lower = common[len(common) - half :], common[:half]
    signs = {"upper layers": (upper, ()), "lower layers": (lower, ()), "upper minus lower layers": (upper, lower)}
    plus, less = signs.get(over, (common, ()))
    if not plus:
        raise Missing(f"{metric} of several {name}s on both sides")
    return [({name: at}, 1 / len(plus)) for at in plus] + [({name: at}, -1 / len(less)) for at in less]


def _between_models(
    evidence: Evidence,
    metric: str | Mapping[str, Any],
    sides: Sequence[Selector],
    way: str,
    over: str,
    families: Mapping[str, str],
) -> BySeed:
    """The mean of the models of one side minus that of the other; several on each side are one more source of chance."""
    means, parts = [], []
    for side in sides:
        models = evidence.models_of(side["model"], families)
        numbers = [_of_one_model(evidence.of_model(model), metric, {**side, "model": model}, over) for model in models]
        means.append(combined_by_seed(lambda *values: sum(values) / len(values), *numbers))
        if len(models) > 1:
            values = [mean_number(list(by_seed.values())).value for by_seed in numbers]
            parts.append(Component("models", float(np.var(values, ddof=1)) / len(models), len(models) - 1, len(models)))
    by_seed = {seed: combined(lambda a, b: _joined(a, b, way), *pair) for seed, pair in aligned(*means)}
    if not by_seed:
        raise Missing("a seed that both models have")
    return {seed: replace(number, repeats=(*number.repeats, *parts)) for seed, number in by_seed.items()}


def _of_one_model(evidence: Evidence, metric: str | Mapping[str, Any], side: Selector, over: str) -> BySeed:
    if not over:
        return _quantity(evidence, metric, side)
    places = _common(evidence, metric, (side, side), over)
    numbers = [_quantity(evidence, metric, {**side, **fields}) for fields, _ in places]
    return combined_by_seed(lambda *values: sum(values) / len(values), *numbers)


@rule("largest over layers")
def largest_over_layers(evidence: Evidence, *, metric: str, of: Selector, settings: Names = ()) -> Estimate:
    """The largest number over all layers; in a table without layers, the one there is."""
    for setting in settings or [of.get("setting", "")]:
        fields = {**of, "setting": setting}
        rows = [row for row in evidence.find(metric, **fields) if math.isfinite(row.value)]
        layers = sorted({row.layer for row in rows if row.layer is not None})
        if layers:
            numbers = [evidence.numbers(metric, {**fields, "layer": layer}) for layer in layers]
            return estimate_of({seed: _largest(each) for seed, each in aligned(*numbers)}, limits=limits_of(metric))
        if rows:
            return estimate_of(evidence.numbers(metric, fields), limits=limits_of(metric))
    raise Missing(f"{metric}, {', '.join(map(str, of.values()))}")


def _largest(numbers: Sequence[Number]) -> Number:
    """The largest of several numbers, in every resample too."""
    return combined(lambda *values: np.max(np.array(values), axis=0), *numbers)


@rule("number")
def number(evidence: Evidence, *, metric: str, of: Selector) -> Estimate:
    """A number as it is."""
    return estimate_of(evidence.numbers(metric, of), limits=limits_of(metric))
