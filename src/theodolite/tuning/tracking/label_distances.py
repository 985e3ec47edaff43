"""How far apart the labels are in a model in training: their centroids, and their convex hulls (Zhou & Srikumar 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.rows import Row, current_versions
from theodolite.tuning.tracking.sample import MOST_ROWS

MEAN_DISTANCE = "mean_minimum_distance"
LABEL_DISTANCE = "minimum_distance"
# Pairs of labels that get a row each (ten labels); with more, only each label's nearest one does.
MOST_PAIRS = 45


def centroid_rows(X: NDArray[np.floating], labels: Sequence[str]) -> Iterator[Row]:
    """Euclidean distances of the labels' centroids; nothing for fewer than two labels.

    `label_min_distance` is that of each label to its nearest other centroid, `centroid_distance` that of each pair if there are
    few.

    Parameters
    ----------
    X
        The vectors (n, d).
    labels
        The label of each row.
    """
    names, codes = np.unique(np.array(labels, dtype=str), return_inverse=True)
    if len(names) < 2:
        return
    sums = np.zeros((len(names), X.shape[1]))
    np.add.at(sums, codes, X.astype(np.float64))
    centroids = sums / np.bincount(codes)[:, None]
    distances = np.linalg.norm(centroids[:, None] - centroids[None], axis=-1)
    to_others = distances + np.diag(np.full(len(names), np.inf))
    for i, name in enumerate(names.tolist()):
        j = int(to_others[i].argmin())
        yield Row(metric="label_min_distance", value=float(to_others[i, j]), label=name, setting=f"nearest: {names[j]}")
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    if len(pairs) <= MOST_PAIRS:
        for i, j in pairs:
            yield Row(metric="centroid_distance", value=float(distances[i, j]), label=f"{names[j]} | {names[i]}")


def hull_rows(X: NDArray[np.floating], labels: Sequence[str], *, seed: int, about: Mapping[str, Any]) -> list[Row]:
    """Distances of the labels' convex hulls, at least 0; larger is further apart. One cluster per label, at every step.

    `minimum_distance` is that of each label to the nearest other hull, `mean_minimum_distance` their mean. Hulls that overlap are
    0 apart, within 1e-7 of the cloud's size. If there are no labels, only one, or no spread: one nan with its reason.

    Parameters
    ----------
    X
        The vectors (n, d).
    labels
        The label of each row.
    seed
        Seed of the sample that is measured, if there are many rows.
    about
        Further fields of every row.
    """
    from theodolite.probes.direct import NoSpread
    from theodolite.probes.layer_probe import probe_layer

    different = sorted(set(labels))
    if not different:
        return [no_hulls("the sample has no labels, so it has no hulls; give examples of a task with labels", about)]
    if len(different) < 2:
        return [
            no_hulls(f"all {len(labels):,} vectors of the sample have the label {different[0]}; there is no other hull", about)
        ]
    names = np.array(labels, dtype=str)
    try:
        layer_probe = probe_layer(X, names, clusters=names, max_rows=max(MOST_ROWS, len(different)), seed=seed, about=about)
    except NoSpread as error:
        return [no_hulls(str(error), about)]
    return [row for row in layer_probe.rows if row.metric in (MEAN_DISTANCE, LABEL_DISTANCE)]


def no_hulls(reason: str, about: Mapping[str, Any]) -> Row:
    """The one row there is if no distance is defined.

    Parameters
    ----------
    reason
        Why.
    about
        Further fields of the row.
    """
    return Row(**{"versions": current_versions(), **about, "metric": MEAN_DISTANCE, "value": float("nan"), "reason": reason})
