"""I(W) against the way it is usually written: `numpy.linalg.eig`, then one product and one sum for each eigenvector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from data import Singles, cloud_file, load
from scale import Scale
from table import Result
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from timing import best_in_turns, seconds, shown


def plain_partition_isotropy(X: Singles) -> float:
    """I(W) from the definition, with the signs that LAPACK happens to give."""
    _, vectors = np.linalg.eig(X.T @ X)
    partition = [np.sum(np.exp(X @ np.real(vector))) for vector in vectors.T]
    return float(min(partition) / max(partition))


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    for n in scale.eig:
        X = load(cloud_file(folder, n, scale.d))

        def ours(X: Singles = X) -> object:
            return metric_rows(Cloud(X), ["log_partition_isotropy"])

        def theirs(X: Singles = X) -> object:
            return plain_partition_isotropy(X)

        def needed(X: Singles = X) -> object:
            """The eigenvectors alone: no projection, no exponential, no sum, no check."""
            return np.linalg.eigh(X.T @ X)[1]

        mine, loop = best_in_turns(ours, theirs, repeats=scale.repeats)
        floor = min(seconds(needed) for _ in range(scale.repeats))
        yield Result(
            table="eig",
            case=f"I(W) of {n:,} × {scale.d}",
            value=loop / mine,
            sense="at least",
            goal=10,
            ours=shown(mine),
            theirs=f"numpy.linalg.eig and a loop, {shown(loop)}",
            floor=f"X^T X and its eigenvectors: {shown(floor)}",
            note="ours takes both signs of every eigenvector, the loop one",
        )
