"""The cluster-based repair against a plain program that treats one vector at a time, as the published one does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from data import Singles, cloud_file, load
from scale import Scale
from table import Result
from theodolite.repairs import ClusterRemoveDirections
from timing import seconds, shown

CLUSTERS, DIRECTIONS = 27, 12


def point_by_point(X: Singles, labels: NDArray[Any]) -> Singles:
    """Per cluster: centre, an exact PCA; then for every point, subtract its part along each of the top directions."""
    repaired = np.empty_like(X)
    for cluster in np.unique(labels):
        members = np.flatnonzero(labels == cluster)
        mean = X[members].mean(axis=0)
        directions = PCA().fit(X[members] - mean).components_[:DIRECTIONS]  # asked for 12, it would be approximate
        for member in members:
            point = X[member] - mean
            parts = np.zeros_like(point)
            for direction in directions:
                parts += (direction @ point) * direction
            repaired[member] = point - parts
    return repaired


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    for n in scale.repair:
        X = load(cloud_file(folder, n, scale.d))
        repair = ClusterRemoveDirections(CLUSTERS, DIRECTIONS)
        found: dict[str, Any] = {}

        def clustering(X: Singles = X, found: dict[str, Any] = found) -> None:
            found["labels"] = KMeans(CLUSTERS, n_init=1, random_state=0).fit_predict(X)

        def loop(X: Singles = X, found: dict[str, Any] = found) -> None:
            found["theirs"] = point_by_point(X, found["labels"])

        def with_labels(X: Singles = X, repair: ClusterRemoveDirections = repair, found: dict[str, Any] = found) -> None:
            found["ours"] = repair.fit_transform(X, labels=found["labels"])

        def alone(X: Singles = X, repair: ClusterRemoveDirections = repair) -> None:
            repair.fit_transform(X)

        def scatters(X: Singles = X, found: dict[str, Any] = found) -> None:
            for cluster in range(CLUSTERS):
                rows = X[found["labels"] == cluster]
                rows.T @ rows

        repeats = min(2, scale.repeats)  # seconds each, and the first calls warm up
        grouping = min(seconds(clustering) for _ in range(repeats))
        removing = min(seconds(loop) for _ in range(repeats))
        floor = f"the clusters' products alone, {shown(min(seconds(scatters) for _ in range(scale.repeats)))}"
        given = min(seconds(with_labels) for _ in range(scale.repeats))
        whole = min(seconds(alone) for _ in range(scale.repeats))
        case = f"cluster-based repair of {n:,} × {scale.d}, k = {CLUSTERS}, D = {DIRECTIONS}"
        yield compared(
            case,
            whole,
            grouping + removing,
            f"scikit-learn's k-means {shown(grouping)}, then a loop over points {shown(removing)}",
            floor,
        )
        apart = float(np.abs(found["ours"] - found["theirs"]).max() / np.abs(found["theirs"]).max())
        yield compared(f"{case}, clusters given", given, removing, f"a loop over points {shown(removing)}", floor, apart=apart)


def compared(case: str, ours: float, theirs: float, what: str, floor: str, *, apart: float | None = None) -> Result:
    return Result(
        table="repair",
        case=case,
        value=theirs / ours,
        sense="at least",
        goal=10,
        ours=shown(ours),
        theirs=what,
        floor=floor,
        note="" if apart is None else f"largest difference of the two results {apart:.0e} of the largest entry",
    )
