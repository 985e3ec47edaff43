"""Where the labels are: their centroids, and how far these lie apart (Zhou & Srikumar 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from theodolite.core.rows import Row

MOST_PAIRS = 45
"""Pairs of labels that get a row each (ten labels); with more, each label's nearest one alone."""


def centroids(X: NDArray[np.floating], labels: Sequence[str]) -> tuple[list[str], NDArray[np.float64]]:
    """The labels, sorted, and the mean of the vectors of each."""
    names, codes = np.unique(np.array(labels, dtype=str), return_inverse=True)
    sums = np.zeros((len(names), X.shape[1]))
    np.add.at(sums, codes, X.astype(np.float64))
    return names.tolist(), sums / np.bincount(codes)[:, None]


def distances(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances between all pairs of points, (k, k)."""
    return np.asarray(np.linalg.norm(points[:, None] - points[None], axis=-1))


def centroid_rows(X: NDArray[np.floating], labels: Sequence[str]) -> Iterator[Row]:
    """`label_min_distance` of each label to its nearest other centroid, and `centroid_distance` of pairs where these are few."""
    names, points = centroids(X, labels)
    if len(names) < 2:
        return
    apart = distances(points)
    nearest = apart + np.diag(np.full(len(names), np.inf))
    for i, name in enumerate(names):
        j = int(nearest[i].argmin())
        yield Row(metric="label_min_distance", value=float(nearest[i, j]), label=name, setting=f"nearest: {names[j]}")
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    if len(pairs) <= MOST_PAIRS:
        for i, j in pairs:
            yield Row(metric="centroid_distance", value=float(apart[i, j]), label=f"{names[j]} | {names[i]}")
