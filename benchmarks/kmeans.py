"""K-means against scikit-learn's Lloyd with one start: time, and how good the clusters are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans

from data import Singles, cloud_file, load
from scale import Scale
from table import Result
from theodolite.core.kmeans import k_means, nearest_centroids
from timing import seconds, shown

CLUSTERS = 27
CHUNK = 20_000


def inertia(X: Singles, centroids: NDArray[Any]) -> float:
    """Summed squared distance of every row to its nearest centroid: the same exact sum for both sides."""
    total = 0.0
    for start in range(0, len(X), CHUNK):
        rows = X[start : start + CHUNK]
        gaps = rows - centroids[nearest_centroids(rows, centroids)]
        total += float(np.sum(np.square(gaps), dtype=np.float64))
    return total


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    for n in scale.kmeans:
        X = load(cloud_file(folder, n, scale.d))
        found: dict[str, NDArray[Any]] = {}

        def ours(X: Singles = X, found: dict[str, NDArray[Any]] = found) -> None:
            found["ours"] = k_means(X, CLUSTERS, seed=0).centroids

        def theirs(X: Singles = X, found: dict[str, NDArray[Any]] = found) -> None:
            peer = KMeans(CLUSTERS, n_init=1, algorithm="lloyd", random_state=0).fit(X)
            found["theirs"] = np.asarray(peer.cluster_centers_, dtype=np.float64)

        def batches(X: Singles = X, found: dict[str, NDArray[Any]] = found) -> None:
            peer = MiniBatchKMeans(CLUSTERS, n_init=1, random_state=0).fit(X)
            found["batches"] = np.asarray(peer.cluster_centers_, dtype=np.float64)

        def assignment(X: Singles = X, found: dict[str, NDArray[Any]] = found) -> object:
            return X @ found["ours"].T.astype(np.float32)

        mine = min(seconds(ours) for _ in range(scale.repeats))
        floor = min(seconds(assignment) for _ in range(scale.repeats))
        small = min(seconds(batches) for _ in range(scale.repeats))
        peer = seconds(theirs)  # once: at full size it takes minutes, far more than its noise
        case = f"k-means of {n:,} × {scale.d}, k = {CLUSTERS}"
        names = ("scikit-learn KMeans, lloyd, one start", "scikit-learn MiniBatchKMeans, one start")
        for name, other, goal in zip(names, (peer, small), (10, math.nan), strict=True):
            yield Result(
                table="kmeans",
                case=f"{case}, against {name.split()[1].rstrip(',')}",
                value=other / mine,
                sense="at least",
                goal=goal,
                ours=shown(mine),
                theirs=f"{name}, {shown(other)}",
                floor=f"X @ centroids, once: {shown(floor)}",
            )
        best = inertia(X, found["ours"])
        for name, key, goal in zip(names, ("theirs", "batches"), (0.5, math.nan), strict=True):
            other = inertia(X, found[key])
            yield Result(
                table="kmeans",
                case=f"{case}: more inertia than {name.split()[1].rstrip(',')}",
                value=100 * (best / other - 1),
                sense="at most",
                goal=goal,
                unit="%",
                ours=f"{best:.6g}",
                theirs=f"{other:.6g}",
            )
