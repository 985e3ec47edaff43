"""The survey: all asked metrics of a cloud, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from theodolite.core.rows import Row, current_versions
from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.registry import METRICS
from theodolite.metrics.resample import Progress, deviations, interval
from theodolite.metrics.values import measure, metric_names


def survey(
    X: Vectors | Cloud,
    metrics: Sequence[str] | None = None,
    *,
    bootstrap: int = 0,
    level: float = 0.95,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure a cloud: one row a metric, in two passes over the data at most.

    `metrics` names entries of METRICS, by default all that need no second input. `bootstrap` asks for intervals from that
    many half-samples, for metrics where resampling makes sense. `about` fills further fields of every row (model, layer, ...).

    >>> import numpy as np
    >>> rows = survey(np.eye(4), ["iso_score", "mean_cosine"])
    >>> [(row.metric, round(row.value, 3)) for row in rows]
    [('iso_score', 0.667), ('mean_cosine', 0.0)]
    """
    cloud = Cloud.of(X)
    names = metric_names(metrics)
    measured = measure(cloud, names)
    strayed = deviations(cloud, names, count=bootstrap, seed=cloud.seed, progress=progress) if bootstrap else {}
    fields = {"versions": current_versions(), **(about or {})}
    said = str(fields.pop("setting", ""))
    rows = []
    for name, (value, reason) in measured.items():
        low, high = interval(value, strayed.get(name), level=level)
        rows.append(
            Row(
                metric=name,
                value=value,
                low=low,
                high=high,
                reason=reason,
                n=cloud.n,
                d=cloud.d,
                seed=cloud.seed,
                setting=" ".join(filter(None, [said, *_setting(cloud, name, bootstrap if low is not None else 0)])),
                **fields,
            )
        )
    return rows


def _setting(cloud: Cloud, name: str, bootstrap: int) -> list[str]:
    sampled = METRICS[name].needs == "sample" and cloud.is_sampled
    return [f"sample={cloud.sample_size}"] * sampled + [f"half-samples={bootstrap}"] * bool(bootstrap)
