"""What fine-tuning on one task does to the labels of another (ZS22's cross-task table)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from theodolite.core.rows import Row, read_rows
from theodolite.studies.step import Work

DISTANCE = "minimum_distance"
LEVEL = 0.95


def cross_task(work: Work) -> list[Row]:
    """`mean_change` of the labels' minimum distances with its interval over labels, and how many of them rose and fell."""
    layer = int(work.settings["layer"])
    before, after = (_distances(work.inputs[role], layer) for role in ("before", "after"))
    labels = [label for label in before if label in after]
    if not labels:
        return []
    changes = np.array([after[label].value - before[label].value for label in labels])
    told = replace(after[labels[0]], label="", low=None, high=None, n=len(labels))
    rose, fell = int((changes > 0).sum()), int((changes < 0).sum())
    low, high = _interval(changes)
    return [
        replace(told, metric="mean_change", value=float(changes.mean()), low=low, high=high),
        replace(told, metric="labels_rose", value=float(rose)),
        replace(told, metric="labels_fell", value=float(fell)),
    ]


def _distances(folder: Path, layer: int) -> dict[str, Row]:
    rows = read_rows(folder / "rows.parquet")
    return {row.label: row for row in rows if row.metric == DISTANCE and row.layer == layer and np.isfinite(row.value)}


def _interval(changes: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float | None, float | None]:
    """Student's, over labels; none of fewer than two."""
    from scipy.stats import t

    if len(changes) < 2:
        return None, None
    half = float(t.ppf((1 + LEVEL) / 2, len(changes) - 1) * changes.std(ddof=1) / np.sqrt(len(changes)))
    return float(changes.mean()) - half, float(changes.mean()) + half
