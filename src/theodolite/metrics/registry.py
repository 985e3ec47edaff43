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

    `needs` says what is read: moments (one pass), a second pass over the rows, the seeded sample of rows, or a second input.
    `resample` says whether an interval from half-samples makes sense.
    """

    name: str
    function: Callable[..., float]
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


METRICS: dict[str, Metric] = {}
"""All metrics by name."""


def metric(
    *,
    range: str,
    direction: Direction,
    paper: str,
    needs: Needs,
    name: str = "",
    default: bool = True,
    resample: bool = True,
) -> Callable[[Callable[Arguments, float]], Callable[Arguments, float]]:
    """Register a function as a metric. What it raises as `Undefined` becomes nan with a warning for a direct caller."""

    def register(function: Callable[Arguments, float]) -> Callable[Arguments, float]:
        title = name or function.__name__
        if title in METRICS:
            raise ValueError(f"metric {title!r} is registered twice")
        METRICS[title] = Metric(
            name=title,
            function=function,
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
