"""How far search results depend on choices: cosine or inner product, and small steps of the query."""

from __future__ import annotations

import numpy as np

from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest import largest_products, squared_distances
from theodolite.metrics.neighbours import neighbours_of
from theodolite.metrics.registry import metric
from theodolite.metrics.units import units_of

AGREEMENT_QUERIES = 2000
STABILITY_QUERIES = 300
STEP = 0.05
"""Length of a query's step, as a share of the mean distance to the 10 nearest."""


@metric(range="[0, 1]", direction="neither", paper="", needs="sample", resample=False)
def metric_agreement(X: Vectors | Cloud) -> float:
    """Mean share of a row's 10 nearest by cosine that are also its 10 largest inner products, in [0, 1]; 1 is the same results.

    Over 2,000 seeded queries where there are more rows. Rows that tie with the tenth by cosine count as found. Above the
    cloud's sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    cloud = Cloud.of(X)
    units, table = units_of(cloud), neighbours_of(cloud)
    shifted, dtype = units.shifted, units.shifted.dtype
    queries = _queries(cloud, units.m, AGREEMENT_QUERIES)
    # x_i . x_j ranks as r_j (1 - |u_i - u_j|^2 / 2), r_j the length of x_j; less 1 and over shifted vectors nothing cancels.
    length = units.norms / units.norms.mean()
    halves = np.einsum("ij,ij->i", shifted, shifted).astype(np.float64) / 2
    keys = np.empty((units.m, shifted.shape[1] + 1), dtype)
    np.multiply(shifted, length.astype(dtype)[:, None], out=keys[:, :-1])
    keys[:, -1] = -length
    asked = np.column_stack([shifted[queries], halves[queries].astype(dtype)])
    bias = ((length - 1) - length * halves).astype(dtype)
    found = largest_products(asked, keys, table.k, bias=bias, own=queries)
    distance = squared_distances(shifted[queries], shifted, found) / 2
    return float(np.mean(distance <= table.distance[queries, -1:] * (1 + 1e-5) + table.alike))


@metric(range="[0, 1]", direction="neither", paper="", needs="sample", resample=False)
def retrieval_stability(X: Vectors | Cloud) -> float:
    """Mean overlap (Jaccard) of the 10 nearest by cosine before and after a small step of the query, in [0, 1]; 1 is stable.

    300 seeded queries take a Gaussian step whose length is about 5 % of the mean distance between a row and its 10 nearest, both
    as unit vectors. Copies are searched once, as their order means nothing. Above the cloud's sample size (10,000 rows) a
    seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    cloud = Cloud.of(X)
    table = neighbours_of(cloud)
    g, k = len(table.distinct), table.distinct_index.shape[1]
    if k == g - 1:
        raise Undefined(f"each of the {g} distinct directions lists all the others; there must be more than {k + 1}")
    shifted = units_of(cloud).shifted
    points = shifted if g == table.m else shifted[table.distinct]
    queries = _queries(cloud, g, STABILITY_QUERIES)
    length = STEP * float(np.sqrt(2 * table.distinct_distance).mean())
    steps = np.random.default_rng(cloud.seed).standard_normal((len(queries), cloud.d)) * (length / np.sqrt(cloud.d))
    moved = (points[queries] + steps).astype(points.dtype)
    found = largest_products(moved, points, k, bias=-np.einsum("ij,ij->i", points, points) / 2, own=queries)
    before = np.sort(table.distinct_index[queries], axis=1)
    shared = np.array([len(np.intersect1d(a, b, assume_unique=True)) for a, b in zip(before, found, strict=True)])
    return float(np.mean(shared / (2 * k - shared)))


def _queries(cloud: Cloud, m: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """`count` of m positions, seeded; all of them where there are no more."""
    if m <= count:
        return np.arange(m)
    return np.sort(np.random.default_rng(cloud.seed).choice(m, count, replace=False))
