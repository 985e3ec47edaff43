"""How far apart the labels' convex hulls are, for a model in training: the same clusters, one a label, at every step (ZS22)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.rows import Row, current_versions

MEAN = "mean_minimum_distance"
OF_LABEL = "minimum_distance"
MOST_ROWS = 1024
"""Vectors whose hulls are measured; of more, as words of many sentences are, a seeded sample that keeps every label."""
NO_LABELS = "the sample has no labels, so there are no hulls to part; give examples of a task with labels"


def hull_rows(X: NDArray[np.floating], labels: Sequence[str], *, seed: int, about: Mapping[str, Any]) -> list[Row]:
    """`mean_minimum_distance`, and `minimum_distance` of each label to the nearest other hull, at least 0; more is further apart.

    Hulls that overlap are 0 apart, within 1e-7 of the cloud's reach. One nan with its reason where there are no labels, one
    label, or no spread.
    """
    from theodolite.probes.direct import DirectProbe, NoSpread
    from theodolite.probes.rows import probe_rows
    from theodolite.probes.sample import sample_by_label

    if len(labels) == 0:
        return [no_hulls(NO_LABELS, about)]
    names = np.array(labels, dtype=str)
    count = len(np.unique(names))
    if count < 2:
        return [no_hulls(f"all {len(names):,} vectors of the sample have the label {names[0]!s}; there is no other hull", about)]
    # Labels, seed and size alone decide which rows: they are the same at every step and in every layer.
    chosen = sample_by_label(names, max(MOST_ROWS, count), seed=seed)
    names = names[chosen]
    try:
        probe = DirectProbe().fit(X[chosen], names, clusters=names)
    except NoSpread as error:
        return [no_hulls(str(error), about)]
    rows = probe_rows(probe, names, about={**about, "d": X.shape[1], "seed": seed})
    return [row for row in rows if row.metric in (MEAN, OF_LABEL)]


def no_hulls(reason: str, about: Mapping[str, Any]) -> Row:
    """The one row there is where no distance is defined."""
    return Row(**{"versions": current_versions(), **about, "metric": MEAN, "value": float("nan"), "reason": reason})
