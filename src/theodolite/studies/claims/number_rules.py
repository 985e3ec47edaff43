"""Rules on numbers of a state: differences between states, settings, models and layers, and the largest over layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from theodolite.core.intervals import UNLIMITED, Component, Limits
from theodolite.metrics.registry import METRICS
from theodolite.studies.claims.evidence import (
    BySeed,
    Estimate,
    Evidence,
    Missing,
    Selector,
    aligned,
    combined,
    combined_by_seed,
    estimate_of,
    mean_by_seed,
)
from theodolite.studies.claims.rules import Names, rule

# The name of a metric, or a difference of two numbers of one, as `_Comparison` takes it.
Metric: TypeAlias = str | Mapping[str, Any]
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
    metric: Metric,
    of: Selector,
    minus: Selector,
    tasks: Names = (),
    way: str = "difference",
    over: str = "",
    families: Mapping[str, str] | None = None,
    printed: Selector | None = None,
) -> Estimate:
    """One side minus another, paired by seed and item; the mean over tasks, and over what `over` names."""
    if evidence.printed and printed is not None:
        of, minus, over = {**of, **printed}, {**minus, **printed}, ""
    comparison = _Comparison(evidence, metric, way, over, families or {})
    by_task = [{"task": task} for task in tasks] or [{}]
    mean = mean_by_seed(*(comparison.numbers({**of, **task}, {**minus, **task}) for task in by_task))
    remark = "" if evidence.printed else comparison.remark(of, minus)
    return estimate_of(mean, limits=comparison.limits(tasks), remark=remark)


@dataclass(frozen=True)
class _Comparison:
    """How two sides become one number: by difference, "log ratio" or "share", over layers or labels if `over` names them."""

    evidence: Evidence
    metric: Metric
    way: str = "difference"
    over: str = ""
    families: Mapping[str, str] = field(default_factory=dict)

    def numbers(self, *sides: Selector) -> BySeed:
        """The number of every seed."""
        return self._between_models(sides) if _is_between_models(sides) else self._difference(sides)

    def limits(self, tasks: Names) -> Limits:
        """What a difference, or a ratio, of two numbers of the metric can be."""
        if self.way != "difference":
            return (-math.inf, math.inf) if self.way == "log ratio" else (-1.0, math.inf)
        scores = {self.evidence.score.get(task, "") for task in tasks}
        names = scores if self.metric == "score" else {self.metric} if isinstance(self.metric, str) else set()
        width = max((high - low for low, high in map(limits_of, names)), default=math.inf)
        return -width, width

    def remark(self, *sides: Selector) -> str:
        """In how many layers the mean's sign is found, where along a sweep it changes, or that there is one model of a kind."""
        if _is_between_models(sides):
            single = all(len(self.evidence.models_of(side["model"], self.families)) == 1 for side in sides)
            return "one model on each side: this speaks of these two models only" if single else ""
        if self.over not in ("label", "layers"):
            return ""
        means = [
            (fields, float(np.mean([number.value for number in by_seed.values()]))) for fields, _, by_seed in self._terms(sides)
        ]
        if self.over == "layers":
            return f"below 0 in {sum(value < 0 for _, value in means)} of {len(means)} layers"
        sweep = sorted((float(fields["label"]), value) for fields, value in means)
        changes = [f"{right[0]:g}" for left, right in pairwise(sweep) if left[1] * right[1] < 0]
        return f"the sign changes at D = {', '.join(changes)}" if changes else "the sign is the same at every D"

    def _difference(self, sides: Sequence[Selector]) -> BySeed:
        terms = self._terms(sides)
        weights = [weight for _, weight, _ in terms]
        by_term = [by_seed for _, _, by_seed in terms]
        return combined_by_seed(lambda *values: sum(w * v for w, v in zip(weights, values, strict=True)), *by_term)

    def _terms(self, sides: Sequence[Selector]) -> list[tuple[dict[str, Any], float, BySeed]]:
        """The layers or labels, each with its weight in the mean and with the number of both sides there."""
        return [
            (fields, weight, combined_by_seed(self._joined, *(self._quantity({**side, **fields}) for side in sides)))
            for fields, weight in (self._common(sides) if self.over else [({}, 1.0)])
        ]

    def _quantity(self, selector: Selector) -> BySeed:
        if isinstance(self.metric, str):
            return self.evidence.numbers(self.metric, selector)
        nested = _Comparison(self.evidence, self.metric["metric"], self.metric.get("way", "difference"))
        return nested._difference([{**selector, **self.metric[side]} for side in ("of", "minus")])

    def _joined(self, first: Any, second: Any) -> Any:
        if self.way == "difference":
            return first - second
        # Of resampled values some may be negative, which says nothing of the number itself.
        if np.ndim(second) == 0 and (second <= 0 or (self.way == "log ratio" and first <= 0)):
            raise Missing(f"a positive baseline, which a ratio needs (the numbers are {first:.3g} and {second:.3g})")
        return np.log(first / second) if self.way == "log ratio" else first / second - 1

    def _common(self, sides: Sequence[Selector]) -> list[tuple[dict[str, Any], float]]:
        """The labels or layers that both sides have defined numbers of, each with its weight in the mean."""
        name = "label" if self.over == "label" else "layer"
        assert isinstance(self.metric, str)
        values = []
        for side in sides:
            single = {key: value for key, value in side.items() if not isinstance(value, (list, tuple))}
            values.append({getattr(row, name) for row in self.evidence.find(self.metric, **single) if math.isfinite(row.value)})
        common = sorted(value for value in values[0] & values[1] if value not in (None, "", "0"))
        if not common and None in values[0] & values[1]:
            return [({}, 1.0)]  # a table without layers
        half = len(common) // 2
        upper, lower = common[len(common) - half :], common[:half]
        signs = {"upper layers": (upper, ()), "lower layers": (lower, ()), "upper minus lower layers": (upper, lower)}
        plus, less = signs.get(self.over, (common, ()))
        if not plus:
            raise Missing(f"{self.metric} of several {name}s on both sides")
        return [({name: at}, 1 / len(plus)) for at in plus] + [({name: at}, -1 / len(less)) for at in less]

    def _between_models(self, sides: Sequence[Selector]) -> BySeed:
        """The mean of the models of one side minus that of the other; several on each side are one more source of chance."""
        means, of_models = [], []
        for side in sides:
            models = self.evidence.models_of(side["model"], self.families)
            numbers = [
                replace(self, evidence=self.evidence.of_model(model))._of_one_model({**side, "model": model}) for model in models
            ]
            means.append(mean_by_seed(*numbers))
            if len(models) > 1:
                values = [np.mean([number.value for number in by_seed.values()]) for by_seed in numbers]
                of_models.append(Component("models", float(np.var(values, ddof=1)) / len(models), len(models) - 1, len(models)))
        by_seed = {seed: combined(self._joined, *pair) for seed, pair in aligned(*means)}
        if not by_seed:
            raise Missing("a seed that both models have")
        return {seed: replace(number, repeats=(*number.repeats, *of_models)) for seed, number in by_seed.items()}

    def _of_one_model(self, side: Selector) -> BySeed:
        if not self.over:
            return self._quantity(side)
        return mean_by_seed(*(self._quantity({**side, **fields}) for fields, _ in self._common((side, side))))


def _is_between_models(sides: Sequence[Selector]) -> bool:
    return any(str(side.get("model", "")).startswith("@") for side in sides)


@rule("largest over layers")
def largest_over_layers(evidence: Evidence, *, metric: str, of: Selector, settings: Names = ()) -> Estimate:
    """The largest number over all layers; in a table without layers, the one there is."""
    for setting in settings or [of.get("setting", "")]:
        fields = {**of, "setting": setting}
        rows = [row for row in evidence.find(metric, **fields) if math.isfinite(row.value)]
        layers = sorted({row.layer for row in rows if row.layer is not None})
        if layers:
            numbers = [evidence.numbers(metric, {**fields, "layer": layer}) for layer in layers]
            # In every resample too, the largest of its own layers.
            largest = combined_by_seed(lambda *values: np.max(np.array(values), axis=0), *numbers)
            return estimate_of(largest, limits=limits_of(metric))
        if rows:
            return estimate_of(evidence.numbers(metric, fields), limits=limits_of(metric))
    raise Missing(f"{metric}, {', '.join(map(str, of.values()))}")


@rule("number")
def number(evidence: Evidence, *, metric: str, of: Selector) -> Estimate:
    """A number as it is."""
    return estimate_of(evidence.numbers(metric, of), limits=limits_of(metric))
