"""Intrinsic dimension: in how many directions the cloud extends locally, whatever the width of its vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theodolite.core.vectors import Floats, Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest_rows import distinct_rows, nearest_neighbours
from theodolite.metrics.registry import NEITHER, metric

DISCARD = 0.1
"""Share of the ratios, the largest ones, that the fit leaves out: the density is least constant there."""


@dataclass(frozen=True)
class TwoNN:
    """A fitted intrinsic dimension.

    Parameters
    ----------
    dimension
        The estimate.
    rows
        Number of rows it was fitted on.
    copies
        Number of repeated rows that were left out.
    """

    dimension: float
    rows: int
    copies: int


@metric("(0, inf)", NEITHER, needs="sample", paper="Facco et al. 2017", resample=False)
def intrinsic_dimension(X: Vectors | Cloud) -> float:
    """Intrinsic dimension by TwoNN (Facco et al. 2017), above 0, usually far below d; Euclidean.

    The 10 % largest ratios are discarded and copies of rows are left out; `two_nn` reports how many.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return two_nn(X).dimension


def two_nn(X: Vectors | Cloud) -> TwoNN:
    """The dimension from each row's distances r1, r2 to its two nearest: P(r2 / r1 <= mu) = 1 - mu^-dimension.

    Least squares of -log(1 - F) on log mu, through the origin, F = i / n for the i-th smallest mu.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    return cloud.cached("two nearest", lambda: _fit(cloud.sample))


def _fit(X: Floats) -> TwoNN:
    points = _centred(X)
    first, _ = distinct_rows(points)
    n = len(first)
    points = points if n == len(X) else points[first]
    if n < 3:
        raise Undefined(f"two distances from each row need at least 3 distinct rows, there are {n}")
    _, squares = nearest_neighbours(points, 2)
    log_ratio = np.sort(np.log(squares[:, 1] / squares[:, 0]) / 2)[: int(n * (1 - DISCARD))]
    log_tail = -np.log1p(-np.arange(1, len(log_ratio) + 1) / n)
    # Ratios within rounding of 1 have no slope to fit.
    if log_ratio[-1] < 256 * np.finfo(points.dtype).eps:
        raise Undefined("the two nearest of each row are equally far, as on a grid, so their ratios fit no dimension")
    return TwoNN(float(log_ratio @ log_tail / (log_ratio @ log_ratio)), n, len(X) - n)


def _centred(X: Floats) -> Floats:
    """Rows about their mean, divided by the largest entry: ratios stay the same, and squares neither cancel nor overflow."""
    scale = float(np.abs(X).max()) or 1.0
    mean = X.mean(axis=0, dtype=np.float64)
    points = np.empty_like(X)
    for start in range(0, len(X), 1024):  # in chunks, so that float64 copies stay small
        points[start : start + 1024] = (X[start : start + 1024] - mean) / scale
    return points
