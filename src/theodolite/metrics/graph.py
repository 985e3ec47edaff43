"""The neighbour graph: whether walking from neighbour to neighbour reaches all of a cloud."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.nearest import Indices
from theodolite.metrics.neighbours import K, neighbours_of
from theodolite.metrics.registry import metric

ISLAND_SHARE = 0.005


@dataclass(frozen=True, eq=False)
class Components:
    """The connected parts of the graph that joins each row with its 10 nearest by cosine, largest first."""

    sizes: Indices
    """Rows in each part."""
    members: tuple[Indices, ...]
    """Row numbers, in the whole cloud, of each part."""

    @property
    def limit(self) -> int:
        """Rows up to which a part is an island: 20, or 0.5 % of all rows if that is more.

        A part of the graph has at least 11 rows, a row and its 10 nearest, so a smaller limit would find nothing.
        """
        return max(2 * K, int(ISLAND_SHARE * self.sizes.sum()))

    @property
    def islands(self) -> tuple[Indices, ...]:
        """Row numbers of each island; the largest part is the mainland and never one."""
        return tuple(rows for rows in self.members[1:] if len(rows) <= self.limit)


def components(X: Vectors | Cloud) -> Components:
    """Connected parts of the symmetrised 10-nearest-neighbour graph by cosine of the cloud's sample."""
    cloud = Cloud.of(X)
    return cloud.cached("components", lambda: _components(cloud))


@metric(range="[0, 1)", direction="neither", paper="", needs="sample", resample=False)
def islands(X: Vectors | Cloud) -> float:
    """Share of rows in small parts cut off from the rest of the graph of 10 nearest by cosine, in [0, 1); 0 is none.

    A part is small with at most 20 rows or 0.5 % of them. `components(X).islands` names the rows. Above the cloud's sample size
    (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    parts = components(X)
    return sum(map(len, parts.islands)) / int(parts.sizes.sum())


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
