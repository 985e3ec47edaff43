"""The rows of a run: scores before and after, losses, the shape of the head's vectors, and statistics over several seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.result import Result
from theodolite.core.rows import Row, current_versions
from theodolite.core.states import FINE_TUNING
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.metrics.spectral import explained_variance_curve
from theodolite.models.location import model_name
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import TuneSettings

SHAPE_METRICS = ("iso_score", "iso_score_corrected")
# Directions of the curve of explained variance (IL23, figure 2).
CURVE = 20
DIVERGED = "the vectors are not finite: the training has diverged"


def row_fields(settings: TuneSettings, state: str, step: int) -> dict[str, Any]:
    """What every row of a run says about where it comes from.

    Parameters
    ----------
    settings
        The run's settings.
    state
        One of `core.states`.
    step
        Steps of training so far.
    """
    return {
        "model": model_name(settings.model),
        "revision": settings.revision or "",
        "state": state,
        "step": step,
        "task": settings.declared.name,
        "seed": settings.seed,
        "versions": run_versions(),
    }


def run_versions() -> str:
    """The versions of the libraries that a fine-tuned model depends on, in one line."""
    names = ("torch", "transformers", "sentence-transformers", "accelerate")
    return "; ".join([current_versions(), *(f"{name} {version(name)}" for name in names)])


def run_result(settings: TuneSettings, rows: Sequence[Row], outcome: Mapping[str, float], *, notes: Sequence[str] = ()) -> Result:
    """What a finished run saves in its folder.

    Parameters
    ----------
    settings
        The run's settings.
    rows
        All rows of the run.
    outcome
        `before`, `after`, `best_epoch` and `steps`, which `Tuned` reads.
    notes
        Sentences that belong next to the numbers.
    """
    name = model_name(settings.model)
    method = "" if settings.method == "plain" else f", {settings.method_summary()}"
    return Result(
        verb="tune",
        title=f"Fine-tuning {name} on {settings.declared.name}{method}",
        rows=tuple(rows),
        notes=tuple(notes),
        provenance={
            "inputs": [settings.model],
            "settings": settings.to_dict(),
            "models": [{"name": name, "place": settings.model, "revision": settings.revision or ""}],
            "versions": run_versions(),
            "outcome": dict(outcome),
        },
    )


def loss_rows(settings: TuneSettings, splits: Splits, history: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Losses and validation scores of a training.

    Parameters
    ----------
    settings
        The run's settings.
    splits
        The examples that were trained and validated on.
    history
        The trainer's log.
    """
    name = splits.dev.task.score
    for entry in history:
        fields = row_fields(settings, FINE_TUNING, entry["step"])
        if "loss" in entry:
            yield Row(metric="train_loss", value=entry["loss"], split="train", n=len(splits.train), **fields)
        value = entry.get(f"eval_{name}_cosine" if settings.is_siamese else f"eval_{name}")
        if value is not None and splits.validation is not None:
            yield validation_row(name, value, len(splits.validation), fields)


def validation_row(metric: str, value: float, n: int, fields: Mapping[str, Any]) -> Row:
    """A score on the validation rows, with a reason if it is nan.

    Parameters
    ----------
    metric, value, n
        The score, and the number of examples it was taken on.
    fields
        What `row_fields` returned.
    """
    reason = f"{metric} is not defined on the validation rows" if math.isnan(value) else ""
    return Row(metric=metric, value=value, reason=reason, split="validation", n=n, **fields)


def shape_rows(X: NDArray[Any], fields: Mapping[str, Any]) -> list[Row]:
    """IsoScore, plain and corrected, and EV 1 to 20, uncentred, of the vectors that a head takes.

    Parameters
    ----------
    X
        The vectors (n, d).
    fields
        Further fields of every row; `seed` is also that of the metrics.
    """
    n, d = X.shape
    if not np.isfinite(X).all():
        names = (*SHAPE_METRICS, *(f"ev_{k}" for k in range(1, min(CURVE, d) + 1)))
        return [Row(metric=name, value=float("nan"), reason=DIVERGED, n=n, d=d, **fields) for name in names]
    # The cloud's seed becomes that of its rows, so it must not be in `about` too.
    cloud = Cloud(X, seed=int(fields.get("seed") or 0))
    rows = metric_rows(cloud, SHAPE_METRICS, about={name: value for name, value in fields.items() if name != "seed"})
    for k, share in enumerate(explained_variance_curve(cloud, min(CURVE, d)), 1):
        reason = "all rows are zero" if np.isnan(share) else ""
        rows.append(Row(metric=f"ev_{k}", value=float(share), reason=reason, n=n, d=d, **fields))
    return rows


def over_seeds(rows: Sequence[Row]) -> list[Row]:
    """Median and standard deviation (n - 1) over the seeds of every number that every seed has.

    `setting` says which of the two a row is, and of how many seeds. If the number is not defined for some seed, neither are
    they. `step` is left out: runs may stop at different steps.

    Parameters
    ----------
    rows
        The rows of the same run with several seeds.
    """
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        # What the rows of one number have in common, whatever the seed.
        shared = replace(row, value=0.0, low=None, high=None, reason="", seed=None, step=None)
        groups.setdefault(shared, []).append(row)
    seeds = {row.seed for row in rows}
    summary = []
    for shared, group in groups.items():
        if {row.seed for row in group} == seeds and len(group) == len(seeds):
            for name, value, reason in _statistics([row.value for row in group]):
                setting = " ".join(filter(None, [shared.setting, f"{name} of {len(group)} seeds"]))
                summary.append(replace(shared, value=value, reason=reason, setting=setting))
    return summary


def median_seed(rows: Sequence[Row], metric: str) -> int | None:
    """The seed whose value of a metric is the median one, the lower of two in the middle; None if no value is defined.

    Parameters
    ----------
    rows
        Rows of several seeds.
    metric
        Name of the metric.
    """
    ranking = sorted((row.value, row.seed) for row in rows if row.metric == metric and not math.isnan(row.value))
    return ranking[(len(ranking) - 1) // 2][1] if ranking else None


def _statistics(values: Sequence[float]) -> list[tuple[str, float, str]]:
    if any(math.isnan(value) for value in values):
        reason = "the number is not defined for every seed"
        return [("median", math.nan, reason), ("standard deviation", math.nan, reason)]
    spread = statistics.stdev(values) if len(values) > 1 else math.nan
    reason = "" if len(values) > 1 else "one seed has no spread"
    return [("median", statistics.median(values), ""), ("standard deviation", spread, reason)]
