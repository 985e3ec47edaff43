"""Nearest neighbours in a cloud: hubs, rows that no search returns, copies, outliers, and how much distances differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats, Indices, Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest_rows import distinct_rows, nearest_neighbours
from theodolite.metrics.registry import NEITHER, metric

K = 10
"""Neighbours listed per row: the length of a first page of search results."""
NEAR = 0.99
"""Cosine from which two rows count as near-duplicates."""
SAME = 1e-10
"""Cosine distance, as a share of the mean one, up to which two rows are copies: above float32 rounding, below real gaps."""
HUBS = 0.01
"""Share of the rows whose neighbour slots `hub_share` counts."""


@dataclass(frozen=True, eq=False)
class NeighbourTable:
    """The k nearest rows by cosine of every row of a cloud's sample that is not zero, nearest first, itself excluded.

    Rows are numbered by their position among the m rows that are not zero. Rows that point the same way, up to the rounding of
    one text embedded in two batches, are copies: neighbours at distance 0. If more copies tie than the list has room for, each
    row lists those that come next after it, in a circle: listing the first ones would turn them into hubs.

    Parameters
    ----------
    index, distance
        (m, k) positions of the neighbours, and their cosine distances 1 - cosine, in [0, 2].
    rows
        (m,) row numbers in the whole cloud.
    distinct
        (g,) positions of the rows that are not a copy of an earlier one.
    group
        (m,) which distinct row each row is a copy of.
    distinct_index, distinct_distance
        (g, k') neighbours of each distinct row among the distinct rows, and their distances; k' = min(k, g - 1).
    copy_distance
        Cosine distance up to which rows count as copies.
    """

    index: Indices
    distance: Doubles
    rows: Indices
    distinct: Indices
    group: Indices
    distinct_index: Indices
    distinct_distance: Doubles
    copy_distance: float

    @property
    def m(self) -> int:
        """Number of rows that are not zero."""
        return len(self.rows)

    @property
    def k(self) -> int:
        """Number of neighbours listed per row."""
        return int(self.index.shape[1])

    @property
    def nearest_distinct(self) -> Doubles:
        """(g,) cosine distance of each distinct row to the nearest other one."""
        if len(self.distinct) < 2:
            raise Undefined("all rows point the same way, so no row has a neighbour other than copies of itself")
        return np.asarray(self.distinct_distance[:, 0], dtype=np.float64)

    def occurrences(self) -> Indices:
        """(m,) in how many lists each row appears; undefined if every list has the same rows."""
        if self.k == self.m - 1:  # then all counts are equal, whatever the cloud looks like
            raise Undefined(f"each of the {self.m} rows that are not zero lists all the others; there must be more than {K + 1}")
        if not self.distance.any():
            raise Undefined(f"every row has at least {self.k} copies by direction, so their order as neighbours is arbitrary")
        return np.bincount(self.index.ravel(), minlength=self.m)


def neighbours_of(cloud: Cloud) -> NeighbourTable:
    """The neighbour table of a cloud's sample for k = 10, or m - 1 if there are fewer rows; computed once per cloud.

    Parameters
    ----------
    cloud
        The cloud.
    """
    return cloud.cached("neighbours", lambda: _table(cloud, K))


@metric("(-inf, inf)", NEITHER, needs="sample", paper="Radovanović et al. 2010", resample=False)
def hubness(X: Vectors | Cloud) -> float:
    """Skewness of the 10-occurrence counts by cosine (Radovanović et al. 2010), unbounded; 0 is none, above 1 hubs dominate.

    The count of a row is the number of rows that have it among their 10 nearest. If all counts are equal, it is 0.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    counts = neighbours_of(Cloud.of(X)).occurrences()
    centred = counts - counts.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    return float(np.mean(centred**3)) / spread**3 if spread > 0 else 0.0


@metric("[0, 1)", NEITHER, needs="sample", paper="Radovanović et al. 2010", resample=False)
def never_retrieved(X: Vectors | Cloud) -> float:
    """Share of rows that are among nobody's 10 nearest by cosine, the anti-hubs (Radovanović et al. 2010), in [0, 1); 0 is best.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return float(np.mean(neighbours_of(Cloud.of(X)).occurrences() == 0))


@metric("[0.01, 1]", NEITHER, needs="sample", paper="Radovanović et al. 2010", resample=False)
def hub_share(X: Vectors | Cloud) -> float:
    """Share of all neighbour slots that the most listed 1 % of rows take, in [0.01, 1]; 0.01 is an even spread.

    The 1 % is rounded up to whole rows.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    counts = neighbours_of(Cloud.of(X)).occurrences()
    top = int(np.ceil(HUBS * len(counts)))
    return float(np.sort(counts)[-top:].sum() / counts.sum())


@metric("[0, 1]", NEITHER, needs="sample", resample=False)
def near_duplicates(X: Vectors | Cloud) -> float:
    """Share of rows that have another row at cosine 0.99 or more, copies included, in [0, 1]; 0 is none.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`. A pair is counted only if both of
        its rows were sampled, so the whole cloud has at least this share.
    """
    return float(np.mean(neighbours_of(Cloud.of(X)).distance[:, 0] <= 1 - NEAR))


@metric("[0, 1)", NEITHER, needs="sample", resample=False)
def exact_duplicates(X: Vectors | Cloud) -> float:
    """Share of rows that repeat an earlier row entry by entry, rows of zeros included, in [0, 1); 0 is none.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`. A pair is counted only if both of
        its rows were sampled, so the whole cloud has at least this share.
    """
    rows = Cloud.of(X).sample
    if len(rows) < 2:
        raise Undefined("one row has nothing to repeat; give at least two")
    return 1 - len(distinct_rows(rows)[0]) / len(rows)


@metric("(0, inf)", NEITHER, needs="sample", paper="Aggarwal et al. 2001", resample=False)
def relative_contrast(X: Vectors | Cloud) -> float:
    """Mean cosine distance of two rows over the median one to the nearest (Aggarwal et al. 2001), above 0; 1 is no signal.

    Near 1, the nearest row is as far away as any other. Copies of a row count once.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    table = neighbours_of(cloud)
    nearby = float(np.median(table.nearest_distinct))
    return _mean_distance(cloud.units.shifted, table.distinct) / nearby


@metric("[0, 0.5]", NEITHER, needs="sample", resample=False)
def outliers(X: Vectors | Cloud) -> float:
    """Share of rows whose nearest other row is farther than the median + 3 robust standard deviations, in [0, 0.5]; 0 is none.

    By cosine distance to the nearest row that is not a copy; the median and the robust deviation, 1.4826 times the median
    absolute deviation, are over rows with copies counted once. `outlying_rows` names the rows.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return float(np.mean(_excess(Cloud.of(X)) > 0))


def outlying_rows(X: Vectors | Cloud, *, count: int = 10) -> Indices:
    """Row numbers, in the whole cloud, of the rows that `outliers` counts, farthest first.

    Parameters
    ----------
    X
        Vectors or a cloud.
    count
        How many rows to return at most.
    """
    cloud = Cloud.of(X)
    excess = _excess(cloud)
    order = np.argsort(-excess, kind="stable")[:count]
    return neighbours_of(cloud).rows[order[excess[order] > 0]]


@metric("[0, inf)", NEITHER, needs="sample", resample=False)
def density_variation(X: Vectors | Cloud) -> float:
    """Coefficient of variation of the rows' mean cosine distance to their 10 nearest, at least 0; 0 is an even density.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    means = neighbours_of(Cloud.of(X)).distance.mean(axis=1)
    if not means.any():
        raise Undefined("all neighbours of every row are copies of it, at distance 0, so there is no density to compare")
    return float(means.std() / means.mean())


def _excess(cloud: Cloud) -> Doubles:
    """(m,) by how much each row's nearest-neighbour distance exceeds the limit of an outlier."""
    table = neighbours_of(cloud)
    distance = table.nearest_distinct
    if len(distance) < 3:
        raise Undefined("an outlier needs at least two others to differ from, and there are only two distinct directions")
    middle = float(np.median(distance))
    deviation = 1.4826 * float(np.median(np.abs(distance - middle)))
    # If most distances are equal, as on a grid, their rounding must not decide.
    return np.asarray(distance - (middle + 3 * max(deviation, 1e-5 * middle)), dtype=np.float64)[table.group]


def _table(cloud: Cloud, k: int) -> NeighbourTable:
    units = cloud.units
    first, group = distinct_rows(units.shifted)
    index, distance = _search(units.shifted, first, k)
    rounding = 4 * float(np.finfo(units.shifted.dtype).eps) ** 2  # if the whole cloud is one direction, the rest is noise
    limit = max(SAME * _mean_distance(units.shifted, np.arange(units.m)), rounding)
    while distance.size and distance[:, 0].min() <= limit:
        first, group = _merge_copies(index, distance <= limit, first, group)
        index, distance = _search(units.shifted, first, k)
    full = (index, distance) if len(first) == units.m else _with_copies(index, distance, group, min(k, units.m - 1))
    return NeighbourTable(*full, units.rows, first, group, index, distance, limit)


def _search(points: Floats, first: Indices, k: int) -> tuple[Indices, Doubles]:
    """Lists over the distinct rows alone, (g, min(k, g - 1)) numbers and cosine distances."""
    if len(first) == 1:
        return np.empty((1, 0), np.intp), np.empty((1, 0))
    index, squares = nearest_neighbours(points if len(first) == len(points) else points[first], min(k, len(first) - 1))
    return index, squares / 2


def _merge_copies(index: Indices, is_copy: NDArray[np.bool_], first: Indices, group: Indices) -> tuple[Indices, Indices]:
    """Distinct rows and groups after distinct rows that are listed as copies of each other were merged."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    row, place = np.nonzero(is_copy)
    edges = coo_array((np.ones(len(row), np.int8), (row, index[row, place])), shape=(len(first), len(first)))
    _, part = connected_components(edges, directed=False)
    _, leader, number = np.unique(part, return_index=True, return_inverse=True)
    order = np.argsort(leader)  # parts in the order of their first rows
    return first[leader[order]], np.argsort(order)[number][group]


def _mean_distance(shifted: Floats, rows: Indices) -> float:
    """Mean cosine distance over all pairs of the rows: the mean of |u_i - u_j|^2 / 2 over i < j is the unbiased variance."""
    squares = np.einsum("ij,ij->i", shifted, shifted).astype(np.float64)[rows].sum()
    total = (np.bincount(rows, minlength=len(shifted)).astype(shifted.dtype) @ shifted).astype(np.float64)
    return float(squares - total @ total / len(rows)) / (len(rows) - 1)


def _with_copies(index: Indices, distance: Doubles, group: Indices, k: int) -> tuple[Indices, Doubles]:
    """Lists over all rows, from the lists over distinct rows: own copies first, then every neighbour with its copies."""
    sets = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    all_index = np.empty((len(group), k), np.intp)
    all_distance = np.zeros((len(group), k))
    for row, own in enumerate(group):
        place = int(np.searchsorted(sets[own], row))
        copies = np.roll(sets[own], -place)[1 : k + 1]
        all_index[row, : len(copies)] = copies
        count = len(copies)
        for other, gap in zip(index[own], distance[own], strict=True):
            if count == k:
                break
            copies = np.roll(sets[other], -(row % len(sets[other])))[: k - count]
            all_index[row, count : count + len(copies)] = copies
            all_distance[row, count : count + len(copies)] = gap
            count += len(copies)
    return all_index, all_distance
