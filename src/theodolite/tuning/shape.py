"""The shape of the vectors that a head takes, as rows: IsoScore and the explained variance to 20 directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.rows import Row
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.spectral import explained_variance_curve
from theodolite.metrics.survey import survey

METRICS = ("iso_score", "iso_score_corrected")
CURVE = 20
"""Directions of the curve of explained variance (IL23, figure 2)."""


def shape_rows(X: NDArray[Any], about: Mapping[str, Any]) -> list[Row]:
    """IsoScore plain and corrected, and EV 1 to 20, uncentred, of vectors (n, d); `about` fills further fields."""
    n, d = X.shape
    if not np.isfinite(X).all():
        reason = "the vectors are not finite: the training has diverged"
        names = (*METRICS, *(f"ev_{k}" for k in range(1, min(CURVE, d) + 1)))
        return [Row(metric=name, value=float("nan"), reason=reason, n=n, d=d, **about) for name in names]
    cloud = Cloud(X, seed=int(about.get("seed") or 0))
    fields = {name: value for name, value in about.items() if name != "seed"}
    rows = survey(cloud, METRICS, about=fields)
    for k, share in enumerate(explained_variance_curve(cloud, min(CURVE, d)), 1):
        reason = "all rows are zero" if np.isnan(share) else ""
        rows.append(Row(metric=f"ev_{k}", value=float(share), reason=reason, n=n, d=d, **about))
    return rows
