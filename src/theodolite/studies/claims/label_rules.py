"""Rules on the layout of labels: distances, clusters, and similarity of layouts. Labels are the units; rows are not covered.

Rows cannot be resampled: the hull of a resample lies inside the hull of all rows, so that every distance would be too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import (
    NO_INTERVAL,
    UNLIMITED,
    Component,
    Interval,
    Limits,
    component_interval,
    half_samples,
    jackknife_variance,
    share_interval,
)
from theodolite.core.moments import Doubles
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.studies.claims.evidence import (
    ONE_SEED,
    ROUNDING,
    SEEDS,
    Estimate,
    Evidence,
    Missing,
    Selector,
    TooFewLayers,
    aligned,
)
from theodolite.studies.claims.number_rules import difference
from theodolite.studies.claims.rules import Names, rule

# What no interval over labels covers.
ROWS = "rows inside the labels"
# Labels that a jackknife leaves at least, and layers that a correlation with their height needs at least.
FEWEST_LABELS, FEWEST_LAYERS = 3, 3
# Half-samples of the labels, for statistics of ranks, which a jackknife would take for exact.
HALVES = 100

Labels = Sequence[str]


@dataclass(frozen=True, eq=False)
class LabelLayout:
    """The layout of the labels of one layer in one state."""

    labels: tuple[str, ...]
    distances: Doubles  # (labels, labels), nan on the diagonal
    inside: Mapping[str, float]
    clusters: Mapping[str, int]
    norm: float
    overlaps: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> LabelLayout:
        """The layout that a record holds."""
        labels = tuple(record["labels"])
        distances = np.full((len(labels), len(labels)), np.nan)
        above = np.triu_indices(len(labels), 1)
        distances[above] = [np.nan if value is None else value for value in record["distances"]]
        distances.T[above] = distances[above]
        inside = {label: math.nan if value is None else value for label, value in zip(labels, record["inside"], strict=True)}
        clusters = dict(zip(labels, record["clusters"], strict=True))
        return cls(labels, distances, inside, clusters, record["norm"], record["overlaps"])

    @property
    def is_linear(self) -> bool:
        """Whether every label is one cluster, and none overlaps another."""
        return not self.overlaps and all(count == 1 for count in self.clusters.values())

    def between(self, labels: Labels) -> Doubles:
        """The distances of some labels, in that order."""
        at = np.array([self._indices[label] for label in labels])
        return np.asarray(self.distances[at[:, None], at])

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {label: at for at, label in enumerate(self.labels)}

    def minimum(self, labels: Labels, unit: str) -> float:
        """The mean distance of some labels to the nearest other one of them, over the unit: "inside", "norm" or "none"."""
        nearest = np.fmin.reduce(self.between(labels), axis=1)
        units: dict[str, Any] = {"inside": np.nanmean([self.inside[label] for label in labels]), "norm": self.norm, "none": 1.0}
        return float(np.nanmean(nearest) / units[unit])


# The layouts of each seed; under None that of an encoder before it is fine-tuned.
Layouts = dict[int | None, LabelLayout]


def _layouts(evidence: Evidence, side: str, selector: Selector) -> Layouts:
    """The layouts at the last layer."""
    records = [
        record
        for record in evidence.records.layouts
        if record["side"] == side and record["model"] in evidence.models and all(record[k] == v for k, v in selector.items())
    ]
    if not records:
        raise Missing(f"layouts of labels, {', '.join(str(value) for value in selector.values() if value)}")
    last = max(record["layer"] for record in records)
    of_last = [record for record in records if record["layer"] == last]
    is_shared = len(of_last) == 1 and of_last[0]["state"] == PRE_TRAINED
    return {None if is_shared else record["seed"]: LabelLayout.of(record) for record in of_last}


def _paired(evidence: Evidence, task: str, *sides: Selector) -> list[tuple[int | None, LabelLayout, LabelLayout]]:
    """The layouts of two states on a task's training rows, for every seed that both have."""
    pairs = list(aligned(*(_layouts(evidence, "train", {**side, "task": task}) for side in sides)))
    if not pairs:
        raise Missing("a seed that both states have")
    return [(seed, first, second) for seed, (first, second) in pairs]


# The effect of every seed in a task, with its variance over the labels.
Cell = Iterator[tuple[int | None, float, Component]]


def over_tasks(tasks: Names, cell: Callable[[str], Cell], *, limits: Limits = UNLIMITED) -> Estimate:
    """The mean over tasks of an effect that each task has by seed; tasks in which it is undefined are left out."""
    by_task: list[dict[int | None, float]] = []
    components: list[Component] = []
    counts: dict[str, int] = {}
    left_out: dict[str, str] = {}
    is_shallow = True
    for task in tasks:
        try:
            effects = list(cell(task))
        except UndefinedEffect as error:
            left_out[task] = str(error)
            is_shallow = is_shallow and isinstance(error, _TooFewLayersLeft)
            continue
        by_task.append({seed: effect for seed, effect, _ in effects})
        # The labels are the same for all seeds, so that their variance does not shrink with the number of seeds.
        of_labels = [component for _, _, component in effects]
        components.append(replace(of_labels[0], variance=float(np.mean([component.variance for component in of_labels]))))
        counts[task] = of_labels[0].n
    if not by_task:
        absent = TooFewLayers if is_shallow and left_out else Missing
        raise absent(f"a task where it is defined ({'; '.join(f'{task}: {why}' for task, why in left_out.items())})")
    scaled = [replace(component, variance=component.variance / len(by_task) ** 2) for component in components]
    seeds = sorted(set.intersection(*(set(values) for values in by_task)), key=str)
    if not seeds:
        raise Missing("a seed that all tasks have")
    means = np.mean([[values[seed] for seed in seeds] for values in by_task], axis=0)
    if len(seeds) > 1:
        scaled.append(Component(SEEDS, float(means.var(ddof=1)) / len(seeds), len(seeds) - 1, len(seeds)))
    fields: dict[str, Any] = {"seeds": tuple(seed for seed in seeds if seed is not None), "left_out": left_out}
    return Estimate(float(means.mean()), tuple(scaled), _uncovered(seeds), limits=limits, counts=counts, **fields)


def _uncovered(seeds: Collection[int | None]) -> tuple[str, ...]:
    return (ROWS,) if len(seeds) > 1 else (ONE_SEED, ROWS)


class UndefinedEffect(ValueError):
    """An effect has no meaning in a task; the message says why."""


class _TooFewLayersLeft(UndefinedEffect):
    """Labels overlap in too many layers of the encoder."""


def _jackknife(labels: Labels, statistic: Callable[[Labels], float]) -> Component:
    """The variance of a statistic of labels, from leaving out each in turn."""
    if len(labels) <= FEWEST_LABELS:
        raise UndefinedEffect(f"{len(labels)} labels are too few")
    left = [statistic([other for other in labels if other != label]) for label in labels]
    return Component("labels", jackknife_variance(left), len(labels) - 1, len(labels))


@rule("label distances")
def label_distances(
    evidence: Evidence, *, of: Selector, minus: Selector, tasks: Names, unit: str = "inside", linear: bool = True
) -> Estimate:
    """How the mean distance of labels to their nearest neighbour differs between two states, paired by label; mean over tasks."""
    if evidence.printed:
        values = [
            row.value for task in tasks for row in evidence.find("mean_change", task=task, **of) if minus.get("setting") == ""
        ]
        if not values:
            raise Missing(f"mean change of {', '.join(tasks)}, {of.get('setting', '')}")
        return Estimate(float(np.mean(values)), remark="raw")

    def cell(task: str) -> Cell:
        for seed, first, second in _paired(evidence, task, of, minus):
            if linear and not (first.is_linear and second.is_linear):
                raise UndefinedEffect("its labels are not linearly separable in both states")
            labels = [label for label in first.labels if label in second.labels]
            effect = _change(first, second, unit)
            yield seed, effect(labels), _jackknife(labels, effect)

    return over_tasks(tasks, cell)


@rule("share of labels that grew")
def share_that_grew(evidence: Evidence, *, of: Selector, minus: Selector, tasks: Names) -> Estimate:
    """The share of labels whose scaled distance to the nearest other one is larger on the first side, mean over seeds.

    Labels are those of all tasks; Wilson's interval.
    """
    larger: list[Doubles] = []
    counts, seeds = {}, set()
    for task in tasks:
        pairs = _paired(evidence, task, of, minus)
        labels = [label for label in pairs[0][1].labels if all(label in side.labels for pair in pairs for side in pair[1:])]
        larger.append(np.mean([_nearest(first, labels) > _nearest(second, labels) for _, first, second in pairs], axis=0))
        counts[task] = len(labels)
        seeds |= {seed for seed, _, _ in pairs if seed is not None}
    grew, n = float(np.concatenate(larger).sum()), sum(counts.values())
    remark = f"{grew:.3g} of {n} labels grew; Wilson's interval"

    def bounds(level: float) -> Interval:
        return share_interval(round(grew), n, level=level)

    return Estimate(grew / n, (), _uncovered(seeds), remark, bounds, counts=counts, seeds=tuple(sorted(seeds)))


def _nearest(layout: LabelLayout, labels: Labels) -> Doubles:
    """The distance of each label to the nearest other one, over the mean distance inside all labels of the layout."""
    return np.asarray(np.fmin.reduce(layout.between(labels), axis=1) / np.nanmean(list(layout.inside.values())))


def _change(first: LabelLayout, second: LabelLayout, unit: str) -> Callable[[Labels], float]:
    return lambda labels: first.minimum(labels, unit) - second.minimum(labels, unit)


@rule("clusters per label")
def clusters_per_label(evidence: Evidence, *, of: Selector, minus: Selector, tasks: Names) -> Estimate:
    """How the number of clusters per label differs between two states, paired by label; the mean over tasks.

    A task that is linear in both states has nothing to lose, and is left out.
    """

    def cell(task: str) -> Cell:
        for seed, first, second in _paired(evidence, task, of, minus):
            if first.is_linear and second.is_linear:
                raise UndefinedEffect("one cluster per label in both states")
            changes = np.array(
                [first.clusters[label] - second.clusters[label] for label in first.labels if label in second.labels]
            )
            n = len(changes)
            yield seed, float(changes.mean()), Component("labels", float(changes.var(ddof=1)) / n, n - 1, n)

    return over_tasks(tasks, cell)


@rule("train and test similarity")
def train_test_similarity(evidence: Evidence, *, of: Selector, minus: Selector | None = None, tasks: Names) -> Estimate:
    """How similar the layouts of labels in train and test are in one state, or how that differs between two; mean over tasks."""
    states = (of,) if minus is None else (of, minus)

    def cell(task: str) -> Cell:
        sides = [_layouts(evidence, split, {**state, "task": task}) for state in states for split in ("train", "test")]
        by_seed = list(aligned(*sides))
        if not by_seed:
            raise Missing(f"a seed of {task} in both states")
        for seed, layouts in by_seed:
            if not all(layout.is_linear for layout in layouts):
                raise UndefinedEffect("its labels are not linearly separable in all of train and test, before and after")
            labels = [label for label in layouts[0].labels if all(label in layout.labels for layout in layouts)]
            effect = _similarity_change(layouts)
            yield seed, effect(labels), _jackknife(labels, effect)

    return over_tasks(tasks, cell, limits=(-1.0, 1.0) if minus is None else (-2.0, 2.0))


def _similarity_change(layouts: Sequence[LabelLayout]) -> Callable[[Labels], float]:
    """The similarity of the first two layouts minus that of the next two, if there are any."""
    pairs = list(zip(layouts[::2], layouts[1::2], strict=True))

    def change(labels: Labels) -> float:
        of, *minus = (similarity(train, test, labels) for train, test in pairs)
        return of - sum(minus)

    return change


@rule("similarity where tuning helps least")
def similarity_of_least_gain(evidence: Evidence, *, metric: str, of: Selector, minus: Selector, tasks: Names) -> Estimate:
    """The train/test similarity of the task whose metric gained least, minus the mean over the other tasks."""
    similarities: dict[str, Estimate] = {}
    gains: dict[str, float] = {}
    for task in tasks:
        try:
            gain = difference(evidence, metric=metric, of=of, minus=minus, tasks=[task]).value
            similarities[task], gains[task] = train_test_similarity(evidence, of=of, tasks=[task]), gain
        except Missing:
            continue
    if len(gains) < 2:
        raise Missing(f"two tasks that have a train/test similarity and a gain of {metric}")
    least = min(gains, key=gains.__getitem__)
    weighted = [(1.0 if task == least else -1 / (len(gains) - 1), estimate) for task, estimate in similarities.items()]
    # The tasks were fine-tuned apart, so that nothing is paired between them.
    components = [replace(c, variance=c.variance * weight**2) for weight, estimate in weighted for c in estimate.components]
    uncovered = dict.fromkeys(source for _, estimate in weighted for source in estimate.uncovered)
    return Estimate(
        sum(weight * estimate.value for weight, estimate in weighted),
        tuple(components),
        (*uncovered, "which task gains least"),
        "; ".join(f"{task} {similarities[task].value:.2f} with a gain of {gain:+.3f}" for task, gain in gains.items()),
        limits=(-2.0, 2.0),
        counts={task: n for _, estimate in weighted for task, n in estimate.counts.items()},
        seeds=tuple(sorted({seed for _, estimate in weighted for seed in estimate.seeds})),
    )


def similarity(first: LabelLayout, second: LabelLayout, labels: Labels) -> float:
    """Pearson's correlation of the distances of all pairs of the labels; nan if it is not defined."""
    above = _pairs(len(labels))
    x, y = first.between(labels)[above], second.between(labels)[above]
    x, y = x - x.mean(), y - y.mean()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / size if size > 0 else math.nan


@cache
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(count, 1)


# By layer and step of training: the layout of the labels before training, and at that step.
_Course: TypeAlias = dict[tuple[int, int], tuple[LabelLayout, LabelLayout]]


def _courses(evidence: Evidence, task: str) -> dict[int | None, _Course]:
    """The layouts of a task over training, by seed. Where labels overlap there is no similarity: ZS22 leaves the case out."""
    layouts: dict[int | None, dict[tuple[int, int], LabelLayout]] = {}
    for record in evidence.records.layouts:
        if record["side"] == "tracked" and record["task"] == task and record["model"] in evidence.models:
            layouts.setdefault(record["seed"], {})[record["layer"], record["step"] or 0] = LabelLayout.of(record)
    if not layouts:
        raise Missing(f"layouts of {task} over training")
    courses: dict[int | None, _Course] = {}
    for seed, by_step in layouts.items():
        linear = {key: layout for key, layout in by_step.items() if layout.is_linear}
        if course := {key: (linear[key[0], 0], layout) for key, layout in linear.items() if key[1] and (key[0], 0) in linear}:
            courses[seed] = course
    if not courses:
        raise UndefinedEffect("labels overlap in every layer")
    return courses


def _labels(course: _Course) -> list[str]:
    return list(next(iter(course.values()))[0].labels)


@rule("similarity against height")
def similarity_against_height(evidence: Evidence, *, tasks: Names) -> Estimate:
    """Spearman's correlation of a layer's height with the similarity of its labels' layout to the original; mean over tasks.

    Its interval is on Fisher's z, over half-samples of the labels: leaving out one label hardly ever changes a rank.
    """
    ranks: list[float] = []

    def cell(task: str) -> Cell:
        for seed, course in _courses(evidence, task).items():
            labels, layers = _labels(course), len({layer for layer, _ in course})
            if layers < FEWEST_LAYERS:
                raise _TooFewLayersLeft(f"{layers} layers without overlaps are too few")
            halves = half_samples(len(labels), HALVES, seed=0)
            if len(halves[0]) < FEWEST_LABELS:
                raise UndefinedEffect(f"{len(labels)} labels are too few")
            ranks.append(_height_correlation(course, labels))
            draws = [_rank_z(_height_correlation(course, [labels[i] for i in half]), layers) for half in halves]
            variance = Component("labels", float(np.nanvar(draws, ddof=1)), len(labels) - 1, len(labels))
            yield seed, _rank_z(ranks[-1], layers), variance

    on_z, value = over_tasks(tasks, cell), float(np.mean(ranks))

    def bounds(level: float) -> Interval:
        low, high = on_z.interval(level)
        # An order without exception is beyond what z can be.
        return NO_INTERVAL if low is None or high is None else (min(value, math.tanh(low)), max(value, math.tanh(high)))

    return replace(on_z, value=value, bounds=bounds)


def _height_correlation(course: _Course, labels: Labels) -> float:
    last = {layer: course[layer, step] for layer, step in sorted(course)}
    values = np.array([similarity(first, layout, labels) for first, layout in last.values()])
    if np.ptp(values) <= ROUNDING:  # the same in all layers: no order
        return 0.0
    ranks = np.argsort(np.argsort(values))  # ties are as good as impossible
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])


def _rank_z(correlation: float, n: int) -> float:
    """Fisher's z of a rank correlation of n values; half of the smallest step that ranks can take keeps it finite."""
    furthest = 1 - 6 / (n * (n * n - 1))
    return math.atanh(max(-furthest, min(furthest, correlation)))


@rule("movement against height")
def movement_against_height(evidence: Evidence, *, tasks: Names, directions: int = 0) -> Estimate:
    """How much further centroids moved, over the mean norm, in the upper half of the layers than in the lower; mean over tasks.

    With `directions`, how much more of the squared movement is along its first directions; they are not refitted without a label.
    """

    def cell(task: str) -> Cell:
        moved = _movements(evidence, task, "centroid_movement")
        along = [_movements(evidence, task, f"movement_pca_{k}") for k in range(1, directions + 1)]
        for seed, by_layer in moved.items():
            effect = _upper_minus_lower(by_layer, [scores[seed] for scores in along])
            labels = list(next(iter(by_layer.values())))
            yield seed, effect(labels), _jackknife(labels, effect)

    return over_tasks(tasks, cell)


def _movements(evidence: Evidence, task: str, metric: str) -> dict[int | None, dict[int, dict[str, float]]]:
    """A number of each centroid's movement, by seed, layer and label."""
    movements: dict[int | None, dict[int, dict[str, float]]] = {}
    for row in evidence.find(metric, task=task, state=FINE_TUNED):
        if row.layer is not None:
            movements.setdefault(row.seed, {}).setdefault(row.layer, {})[row.label] = row.value
    if not movements:
        raise Missing(f"{metric}, {task}")
    return movements


def _upper_minus_lower(
    moved: Mapping[int, Mapping[str, float]], along: Sequence[Mapping[int, Mapping[str, float]]]
) -> Callable[[Labels], float]:
    layers = [layer for layer in sorted(moved) if any(moved[layer].values())]  # where nothing moved there is no direction
    half = len(layers) // 2
    if not half:
        raise UndefinedEffect("centroids moved in fewer than two layers")

    def number(layer: int, labels: Labels) -> float:
        if not along:
            return float(np.mean([moved[layer][label] for label in labels]))
        squares = sum(scores[layer][label] ** 2 for scores in along for label in labels)
        return squares / sum(moved[layer][label] ** 2 for label in labels)

    def effect(labels: Labels) -> float:
        lower, upper = ([number(layer, labels) for layer in group] for group in (layers[:half], layers[-half:]))
        return float(np.mean(upper) - np.mean(lower))

    return effect


@rule("lowest similarity")
def lowest_similarity(evidence: Evidence, *, tasks: Names) -> Estimate:
    """The lowest similarity of a layer's labels to the original, over tasks, layers and steps of training.

    Its interval begins at the lowest lower end of all cells, and ends at the lowest upper end at a level for all of them
    together: the lowest of many is low by chance.
    """
    if evidence.printed:
        rows = evidence.find("similarity_to_original")
        if not rows:
            raise Missing("similarity to the original")
        return Estimate(min(row.value for row in rows))
    # By task, layer and step: Fisher's z of every seed, and its variance over labels.
    cells: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    counts: dict[str, int] = {}
    left_out: dict[str, str] = {}
    seeds: set[int] = set()
    for task in tasks:
        try:
            courses = _courses(evidence, task)
        except UndefinedEffect as error:
            left_out[task] = str(error)
            continue
        for seed, course in courses.items():
            labels = _labels(course)
            if len(labels) <= FEWEST_LABELS:
                left_out[task] = f"{len(labels)} labels are too few"
                continue
            counts[task] = len(labels)
            seeds |= set() if seed is None else {seed}
            for (layer, step), (first, layout) in course.items():
                cells.setdefault((task, layer, step), []).append(_similarity_z(first, layout, labels))
    if not cells:
        raise Missing("a task where the similarity to the original is defined")
    values = {key: [z for z, _ in by_seed] for key, by_seed in cells.items()}

    def components(key: tuple[str, int, int]) -> tuple[Component, ...]:
        by_seed, n = values[key], counts[key[0]]
        of_labels = Component("labels", float(np.mean([variance for _, variance in cells[key]])), n - 1, n)
        if len(by_seed) < 2:
            return (of_labels,)
        return of_labels, Component(SEEDS, float(np.var(by_seed, ddof=1)) / len(by_seed), len(by_seed) - 1, len(by_seed))

    def ends(key: tuple[str, int, int], level: float) -> tuple[float, float]:
        low, high = component_interval(float(np.mean(values[key])), components(key), level=level)
        return math.tanh(low or 0.0), math.tanh(high or 0.0)

    def bounds(level: float) -> Interval:
        low = min(ends(key, level)[0] for key in cells)
        return low, max(low, min(ends(key, 1 - (1 - level) / len(cells))[1] for key in cells))

    remark = f"lowest of {len(cells)} layers and steps, jackknife over labels"
    lowest = min(values, key=lambda key: float(np.mean(values[key])))
    value = math.tanh(float(np.mean(values[lowest])))
    fields: dict[str, Any] = {"counts": counts, "seeds": tuple(sorted(seeds)), "left_out": left_out}
    return Estimate(value, components(lowest), _uncovered(seeds), remark, bounds, **fields)


def _similarity_z(first: LabelLayout, second: LabelLayout, labels: Labels) -> tuple[float, float]:
    """Fisher's z of the similarity of two layouts, and its variance over labels."""

    def z(some: Labels) -> float:
        return math.atanh(max(-1 + 1e-12, min(1 - 1e-12, similarity(first, second, some))))  # it is infinite at ±1

    return z(labels), jackknife_variance([z([other for other in labels if other != label]) for label in labels])
