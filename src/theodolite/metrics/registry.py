"""The registry of metrics: what the survey, the command line, the contract tests and the docs read."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

from theodolite.metrics.cloud import Undefined

Arguments = ParamSpec("Arguments")
Function = TypeVar("Function", bound=Callable[..., float])

Direction = Literal["higher is isotropic", "lower is isotropic", "neither"]
Needs: TypeAlias = Literal["moments", "second pass", "sample", "pairs", "reference"]


class UndefinedMetricWarning(UserWarning):
    """A metric returned nan; the message says why."""


@dataclass(frozen=True)
class Metric:
    """An entry of the registry: a function of a cloud and what a reader must know about its number.

    Parameters
    ----------
    name
        The name in rows and on the command line.
    function
        The function itself, which raises `Undefined` if there is no number.
    label
        What it is called in tables and legends.
    isotropic_at
        The value of an isotropic cloud, as it is written on an axis; empty if only the direction is known.
    summary
        The first line of its docstring.
    range, direction, paper
        Its bounds, which way isotropy lies, and who defined it.
    needs
        What is read: moments (one pass), a second pass over the rows, the seeded sample of rows, or a second input.
    default
        Whether a survey of one cloud measures it unless other metrics are named.
    resample
        Whether an interval from half-samples makes sense.
    """

    name: str
    function: Callable[..., float]
    label: str
    isotropic_at: str
    summary: str
    range: str
    direction: Direction
    paper: str
    needs: Needs
    default: bool
    resample: bool

    def value(self, cloud: Any, **options: Any) -> tuple[float, str]:
        """(value, "") or (nan, why there is none)."""
        try:
            return float(self.function(cloud, **options)), ""
        except Undefined as undefined:
            return math.nan, str(undefined)

    @property
    def axis(self) -> str:
        """The title of an axis that shows it."""
        if self.isotropic_at:
            return f"{self.label} ({self.isotropic_at} is isotropic)"
        side = {"higher is isotropic": " (more is isotropic)", "lower is isotropic": " (small is isotropic)"}
        return self.label + side.get(self.direction, "")


METRICS: dict[str, Metric] = {}
"""All metrics of a cloud by name."""


@dataclass(frozen=True)
class Measure:
    """A number in rows that is not a metric of one cloud: a task's score, or what a probe or a training measured."""

    label: str
    axis: str = ""


MEASURES: dict[str, Measure] = {
    "accuracy": Measure("accuracy"),
    "macro_f1": Measure("macro F1"),
    "matthews": Measure("Matthews", "Matthews correlation"),
    "pearson": Measure("Pearson", "Pearson correlation"),
    "spearman": Measure("Spearman", "Spearman correlation"),
    "spearman_change": Measure("Spearman change", "change of Spearman"),
    "between_share": Measure("variance between clusters"),
    "clustering_gain": Measure("gain from clustering"),
    "silhouette": Measure("silhouette"),
    "frequency_r2": Measure("R² of log frequency"),
    "norm_frequency_correlation": Measure("norm–frequency correlation"),
    "removed_directions": Measure("directions removed"),
    "train_seconds": Measure("training, s"),
    "labels": Measure("labels"),
    "clusters": Measure("clusters"),
    "is_linear": Measure("linear"),
    "hull_accuracy": Measure("hull accuracy"),
    "inside_mean": Measure("mean distance inside"),
    "inside_max": Measure("largest distance inside"),
    "label_distance": Measure("label distance"),
    "label_min_distance": Measure("minimum centroid distance", "distance to the nearest label's centroid"),
    "minimum_distance": Measure("minimum distance", "distance to the nearest label"),
    "mean_minimum_distance": Measure("mean minimum distance"),
    "probe_accuracy": Measure("probe accuracy"),
    "probe_accuracy_sd": Measure("probe accuracy, sd"),
    "train_test_similarity": Measure("train–test similarity"),
    "cka_to_original": Measure("CKA to the original"),
    "similarity_to_original": Measure("similarity to the original", "similarity to the original (Pearson)"),
    "centroid_movement": Measure("centroid movement"),
    "movement_share_1": Measure("movement on 1 direction"),
    "movement_share_2": Measure("movement on 2 directions"),
    "mean_change": Measure("mean change"),
    "labels_rose": Measure("labels that rose"),
    "labels_fell": Measure("labels that fell"),
    **{f"ev_{k}": Measure(f"EV {k}", f"EV {k} (small is isotropic)") for k in range(1, 21)},
}
"""All other numbers that rows carry, by name."""


def label_of(name: str) -> str:
    """What a metric or measure is called in tables and legends; one that is not registered, by its own name in words."""
    entry = METRICS.get(name) or MEASURES.get(name)
    return entry.label if entry is not None else name.replace("_", " ")


def axis_of(name: str) -> str:
    """The title of an axis that shows a metric or measure."""
    entry = METRICS.get(name) or MEASURES.get(name)
    return (entry.axis or entry.label) if entry is not None else name.replace("_", " ")


def metric(
    *,
    range: str,
    direction: Direction,
    paper: str,
    needs: Needs,
    label: str = "",
    isotropic_at: str = "",
    default: bool = True,
    resample: bool = True,
) -> Callable[[Callable[Arguments, float]], Callable[Arguments, float]]:
    """Register a function as a metric under its own name. `Undefined` becomes nan with a warning for a direct caller.

    Parameters
    ----------
    range, direction, paper, needs, isotropic_at, default, resample
        The fields of the same name of `Metric`.
    label
        What it is called in tables; the function's name in words by default.
    """

    def register(function: Callable[Arguments, float]) -> Callable[Arguments, float]:
        title = function.__name__
        if title in METRICS:
            raise ValueError(f"metric {title!r} is registered twice")
        METRICS[title] = Metric(
            name=title,
            function=function,
            label=label or title.replace("_", " "),
            isotropic_at=isotropic_at,
            summary=(function.__doc__ or "").strip().partition("\n")[0],
            range=range,
            direction=direction,
            paper=paper,
            needs=needs,
            default=default,
            resample=resample,
        )

        @functools.wraps(function)
        def measured(*args: Arguments.args, **kwargs: Arguments.kwargs) -> float:
            try:
                return float(function(*args, **kwargs))
            except Undefined as undefined:
                warnings.warn(f"{title} is nan: {undefined}", UndefinedMetricWarning, stacklevel=2)
                return math.nan

        return measured

    return register
