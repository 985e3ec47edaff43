"""The registry of metrics: names, labels, ranges, directions, and which are measured by default."""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeAlias

from theodolite.core.intervals import Limits
from theodolite.core.measures import MEASURES, Measure
from theodolite.core.measures import axis_of as axis_of
from theodolite.core.measures import label_of as label_of
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
        entry = Metric(name, function, range, direction, needs, **{"label": name.replace("_", " "), **details})
        METRICS[name], MEASURES[name] = entry, Measure(entry.label, entry.axis)

        @functools.wraps(function)
        def with_warning(*args: Arguments.args, **kwargs: Arguments.kwargs) -> float:
            try:
                return float(function(*args, **kwargs))
            except Undefined as undefined:
                warnings.warn(f"{name} is nan: {undefined}", UndefinedMetricWarning, stacklevel=2)
                return math.nan

        return with_warning

    return register
