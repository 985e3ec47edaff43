"""The registry of metrics and measures: names, labels, ranges, directions, and which are measured by default."""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeAlias

from theodolite.core.intervals import Limits
from theodolite.core.spelling import suggestion
from theodolite.metrics.cloud import Undefined

Arguments = ParamSpec("Arguments")

Direction: TypeAlias = Literal["higher is isotropic", "lower is isotropic", "neither"]
Needs: TypeAlias = Literal["sums", "moments", "second pass", "sample", "pairs", "reference"]
HIGHER: Direction = "higher is isotropic"
LOWER: Direction = "lower is isotropic"
NEITHER: Direction = "neither"

# Metrics that are measured by default for every layer of a space.
LAYER_METRICS = (
    "iso_score",
    "mean_cosine",
    "effective_rank",
    "ev_1",
    "log_partition_isotropy",
    "log_partition_isotropy_unit_norm",
)


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
        The function itself, which raises `Undefined` if there is no value.
    range, direction
        Its bounds, and which values are isotropic.
    needs
        What is read: sums alone or all moments (one pass), a second pass over the rows, the seeded sample of rows, or a second
        input.
    label
        Its name in tables and legends.
    paper
        Who defined it.
    isotropic_at
        The value of an isotropic cloud, as it is written on an axis; empty if only the direction is known.
    default
        Whether a survey of one cloud measures it unless other metrics are named.
    resample
        Whether an interval from half-samples makes sense.
    prepare
        Called once before any of the metrics that share it, with the cloud and the names of all that are measured: it computes
        together what they would compute one by one.
    """

    name: str
    function: Callable[..., float]
    range: str
    direction: Direction
    needs: Needs
    label: str
    paper: str = ""
    isotropic_at: str = ""
    default: bool = True
    resample: bool = True
    prepare: Callable[[Any, Sequence[str]], None] | None = None

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    def value(self, cloud: Any) -> tuple[float, str]:
        """The value and an empty reason, or nan and the reason why there is no value.

        Parameters
        ----------
        cloud
            A cloud, or anything else that the function accepts.
        """
        try:
            return float(self.function(cloud)), ""
        except Undefined as undefined:
            return math.nan, str(undefined)

    @functools.cached_property
    def limits(self) -> Limits:
        """The smallest and the largest value that it can have; ends that depend on n or d are replaced by wider ones."""
        ends = self.range.strip("[]()").split(", ")
        low, high = (re.sub(r"^\d/.*", "0", re.sub(r"^-1/.*", "-1", end)) for end in (ends[0], ends[-1]))
        is_number = [re.fullmatch(r"-?[\d.]+", end) is not None for end in (low, high)]
        return float(low) if is_number[0] else -math.inf, float(high) if is_number[1] else math.inf

    @property
    def axis(self) -> str:
        """The title of an axis that shows it."""
        if self.isotropic_at:
            return f"{self.label} ({self.isotropic_at} is isotropic)"
        side = {HIGHER: " (more is isotropic)", LOWER: " (small is isotropic)"}
        return self.label + side.get(self.direction, "")


METRICS: dict[str, Metric] = {}  # all metrics of a cloud by name


@dataclass(frozen=True)
class Measure:
    """A number in rows that is not a metric of one cloud: a task's score, or what a probe or a training run measured."""

    label: str
    axis: str = ""


# All other numbers that rows carry, by name.
MEASURES: dict[str, Measure] = {
    "accuracy": Measure("accuracy"),
    "macro_f1": Measure("macro F1"),
    "matthews": Measure("Matthews", "Matthews correlation"),
    "pearson": Measure("Pearson", "Pearson correlation"),
    "spearman": Measure("Spearman", "Spearman correlation"),
    "spearman_change": Measure("Spearman change", "change of Spearman"),
    "knn_accuracy": Measure("k-NN accuracy"),
    "linear_accuracy": Measure("linear accuracy"),
    "ndcg@10": Measure("nDCG@10"),
    "mrr": Measure("MRR", "mean reciprocal rank"),
    "between_share": Measure("variance between clusters"),
    "clustering_gain": Measure("gain from clustering"),
    "gain": Measure("gain"),
    "silhouette": Measure("silhouette"),
    "frequency_r2": Measure("R² of log frequency"),
    "norm_frequency_correlation": Measure("norm–frequency correlation"),
    "effective_rank_share": Measure("effective rank over the largest possible"),
    "removed_directions": Measure("directions removed"),
    "train_seconds": Measure("training, s"),
    "examples": Measure("examples"),
    "majority_share": Measure("share of the most frequent label"),
    "validation_score": Measure("score on the validation rows"),
    "best_epoch": Measure("best epoch"),
    "chosen_learning_rate": Measure("learning rate chosen"),
    "chosen_epochs": Measure("epochs chosen"),
    "chosen_layer_learning_rate": Measure("learning rate chosen for the layer"),
    "labels": Measure("labels"),
    "clusters": Measure("clusters"),
    "is_linear": Measure("linear"),
    "overlaps": Measure("overlaps"),
    "hull_accuracy_all_rows": Measure("hull accuracy, all rows"),
    "probe_accuracy_all_rows": Measure("probe accuracy, all rows"),
    "probe_hidden_1": Measure("units, first layer"),
    "probe_hidden_2": Measure("units, second layer"),
    "probe_alpha": Measure("L2 weight"),
    "movement_pca_1": Measure("movement, first direction"),
    "movement_pca_2": Measure("movement, second direction"),
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
    "nearly_zero_rows": Measure("rows of (nearly) zero length"),
    "self_test_difference": Measure("difference in the self-test"),
    **{f"ev_{k}": Measure(f"EV {k}", f"EV {k} (small is isotropic)") for k in range(1, 21)},
}


def label_of(name: str) -> str:
    """The name of a metric or measure in tables and legends; of one that is not registered, its own name in words.

    Parameters
    ----------
    name
        The `metric` of a row.
    """
    entry = METRICS.get(name) or MEASURES.get(name)
    return entry.label if entry is not None else name.replace("_", " ")


def axis_of(name: str) -> str:
    """The title of an axis that shows a metric or measure.

    Parameters
    ----------
    name
        The `metric` of a row.
    """
    entry = METRICS.get(name) or MEASURES.get(name)
    return (entry.axis or entry.label) if entry is not None else name.replace("_", " ")


def default_metrics() -> list[str]:
    """Names of the metrics that a survey of one cloud measures unless others are named."""
    return [name for name, entry in METRICS.items() if entry.default]


def check_metrics(names: Sequence[str] | None = None) -> list[str]:
    """The names without repetitions, if all of them are metrics of one cloud.

    Parameters
    ----------
    names
        Names of metrics; None means `default_metrics()`.

    Raises
    ------
    ValueError
        A name is not that of a metric, or of one that needs a second input.
    """
    if names is None:
        return default_metrics()
    for name in names:
        if name not in METRICS:
            raise ValueError(f"there is no metric {name!r}; {suggestion(name, METRICS)}")
        if METRICS[name].needs in ("pairs", "reference"):
            raise ValueError(f"metric {name!r} needs a second input; call theodolite.metrics.{name} with it")
    return list(dict.fromkeys(names))


def metric(
    range: str, direction: Direction, *, needs: Needs, **details: Any
) -> Callable[[Callable[Arguments, float]], Callable[Arguments, float]]:
    """Register a function as a metric under its own name; if it raises `Undefined`, a direct caller gets nan and a warning."""

    def register(function: Callable[Arguments, float]) -> Callable[Arguments, float]:
        name = function.__name__
        if name in METRICS:
            raise ValueError(f"metric {name!r} is registered twice")
        METRICS[name] = Metric(name, function, range, direction, needs, **{"label": name.replace("_", " "), **details})

        @functools.wraps(function)
        def with_warning(*args: Arguments.args, **kwargs: Arguments.kwargs) -> float:
            try:
                return float(function(*args, **kwargs))
            except Undefined as undefined:
                warnings.warn(f"{name} is nan: {undefined}", UndefinedMetricWarning, stacklevel=2)
                return math.nan

        return with_warning

    return register
