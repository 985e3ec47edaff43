"""How search behaves: cosine against inner product, small changes of the query, and islands that no walk reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theodolite.core.vectors import Indices, Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest_rows import largest_products, squared_distances
from theodolite.metrics.neighbours import K, neighbours_of
from theodolite.metrics.registry import NEITHER, metric

AGREEMENT_QUERIES = 2000
STABILITY_QUERIES = 300
STEP = 0.05
"""Length of a query's step, as a share of the mean distance to the 10 nearest."""
ISLAND_SHARE = 0.005
"""Share of all rows up to which a cut-off part of the neighbour graph is an island."""


@metric("[0, 1]", NEITHER, needs="sample", resample=False)
def metric_agreement(X: Vectors | Cloud) -> float:
    """Mean share of a row's 10 nearest by cosine that are also its 10 largest inner products, in [0, 1]; 1 is the same results.

    Over at most 2,000 seeded queries. Rows that tie with the tenth by cosine count as shared.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    units, table = cloud.units, neighbours_of(cloud)
    shifted, dtype = units.shifted, units.shifted.dtype
    queries = _queries(cloud, units.m, AGREEMENT_QUERIES)
    # x_i . x_j ranks as r_j (1 - |u_i - u_j|^2 / 2), r_j the length of x_j; minus 1 and over shifted vectors nothing cancels.
    length = units.norms / units.norms.mean()
    halves = np.einsum("ij,ij->i", shifted, shifted).astype(np.float64) / 2
    keys = np.empty((units.m, shifted.shape[1] + 1), dtype)
    np.multiply(shifted, length.astype(dtype)[:, None], out=keys[:, :-1])
    keys[:, -1] = -length
    rows = np.column_stack([shifted[queries], halves[queries].astype(dtype)])
    bias = ((length - 1) - length * halves).astype(dtype)
    by_product = largest_products(rows, keys, table.k, bias=bias, own=queries)
    distance = squared_distances(shifted[queries], shifted, by_product) / 2
    # Within a margin of the tenth distance: ties, and rounding of the products, are not disagreement.
    return float(np.mean(distance <= table.distance[queries, -1:] * (1 + 1e-5) + table.copy_distance))


@metric("[0, 1]", NEITHER, needs="sample", resample=False)
def retrieval_stability(X: Vectors | Cloud) -> float:
    """Mean overlap (Jaccard) of the 10 nearest by cosine before and after a small step of the query, in [0, 1]; 1 is stable.

    300 seeded queries take a Gaussian step whose length is about 5 % of the mean distance between a row and its 10 nearest, both
    as unit vectors. Copies are searched once, as their order is arbitrary.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    table = neighbours_of(cloud)
    g, k = len(table.distinct), table.distinct_index.shape[1]
    if k == g - 1:
        raise Undefined(f"each of the {g} distinct directions lists all the others; there must be more than {k + 1}")
    shifted = cloud.units.shifted
    points = shifted if g == table.m else shifted[table.distinct]
    queries = _queries(cloud, g, STABILITY_QUERIES)
    length = STEP * float(np.sqrt(2 * table.distinct_distance).mean())
    steps = np.random.default_rng(cloud.seed).standard_normal((len(queries), cloud.d)) * (length / np.sqrt(cloud.d))
    stepped = (points[queries] + steps).astype(points.dtype)
    after = largest_products(stepped, points, k, bias=-np.einsum("ij,ij->i", points, points) / 2, own=queries)
    before = np.sort(table.distinct_index[queries], axis=1)
    shared = np.array([len(np.intersect1d(a, b, assume_unique=True)) for a, b in zip(before, after, strict=True)])
    return float(np.mean(shared / (2 * k - shared)))


@dataclass(frozen=True, eq=False)
class Components:
    """The connected parts of the graph that joins each row with its 10 nearest by cosine, largest first.

    Parameters
    ----------
    sizes
        Number of rows in each part.
    members
        Row numbers of each part, in the whole cloud.
    """

    sizes: Indices
    members: tuple[Indices, ...]

    @property
    def limit(self) -> int:
        """Number of rows up to which a part is an island: 20, or 0.5 % of all rows if that is more.

        A part of the graph has at least 11 rows, a row and its 10 nearest, so a much smaller limit would find nothing.
        """
        return max(2 * K, int(ISLAND_SHARE * self.sizes.sum()))

    @property
    def islands(self) -> tuple[Indices, ...]:
        """Row numbers of each island; the largest part is the mainland, and never an island."""
        return tuple(rows for rows in self.members[1:] if len(rows) <= self.limit)


def components(X: Vectors | Cloud) -> Components:
    """Connected parts of the symmetrised 10-nearest-neighbour graph by cosine.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    return cloud.cached("components", lambda: _components(cloud))


@metric("[0, 1)", NEITHER, needs="sample", resample=False)
def islands(X: Vectors | Cloud) -> float:
    """Share of rows in small parts cut off from the rest of the graph of 10 nearest by cosine, in [0, 1); 0 is none.

    A part is small with at most 20 rows or 0.5 % of them. `components(X).islands` names the rows.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    parts = components(X)
    return sum(map(len, parts.islands)) / int(parts.sizes.sum())


def _queries(cloud: Cloud, m: int, count: int) -> Indices:
    """`count` of m positions, seeded; all of them if there are no more."""
    if m <= count:
        return np.arange(m)
    return np.sort(np.random.default_rng(cloud.seed).choice(m, count, replace=False))


def _components(cloud: Cloud) -> Components:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    table = neighbours_of(cloud)
    ends = np.arange(0, table.m * table.k + 1, table.k)
    graph = csr_array((np.ones(table.index.size, np.int8), table.index.ravel(), ends), shape=(table.m, table.m))
    count, label = connected_components(graph, directed=True, connection="weak")
    sizes = np.bincount(label, minlength=count)
    parts = np.split(np.argsort(label, kind="stable"), np.cumsum(sizes)[:-1])
    order = np.argsort(-sizes, kind="stable")
    return Components(sizes[order], tuple(table.rows[parts[part]] for part in order))
