"""What nearest-neighbour search finds in a cloud: hubs, points nobody finds, copies, outliers, and how much distances tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats, Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest import Indices, nearest
from theodolite.metrics.registry import metric
from theodolite.metrics.units import distinct_rows, units_of

K = 10
"""Neighbours listed per row: the length of a first page of search results."""
NEAR = 0.99
"""Cosine from which two rows count as near-duplicates."""
SAME = 1e-10
"""Cosine distance, as a share of the mean one, up to which two rows are copies: above float32 rounding, below all else."""
HUBS = 0.01
"""Share of the rows whose neighbour slots `hub_share` counts."""


@dataclass(frozen=True, eq=False)
class NeighbourTable:
    """The k nearest rows by cosine of every row of a cloud's sample that is not zero, nearest first, itself excluded.

    Rows are numbered by their position among the m rows that are not zero; `rows` gives their numbers in the whole cloud.
    Rows that point the same way, up to the rounding of one text embedded in two batches, are copies: neighbours at distance 0.
    Where more of them tie than the list has room for, each row lists those that come next after it, in a circle: listing the
    first ones would make hubs of them.
    """

    index: Indices
    """(m, k) positions of the neighbours."""
    distance: Doubles
    """(m, k) cosine distances, 1 - cosine, in [0, 2]."""
    rows: Indices
    """(m,) row numbers in the whole cloud."""
    zero_rows: int
    """Rows of zeros in the sample: they have no direction and are left out."""
    distinct: Indices
    """(g,) positions of the rows that are no copy of an earlier one."""
    group: Indices
    """(m,) which distinct row each row is a copy of."""
    distinct_index: Indices
    """(g, k') neighbours of each distinct row among the distinct rows; k' = min(k, g - 1)."""
    distinct_distance: Doubles
    """(g, k') cosine distances of those."""
    alike: float
    """Cosine distance up to which rows were taken for copies."""

    @property
    def m(self) -> int:
        return len(self.rows)

    @property
    def k(self) -> int:
        return int(self.index.shape[1])

    @property
    def nearest_distinct(self) -> Doubles:
        """(g,) cosine distance of each distinct row to the nearest other one."""
        if len(self.distinct) < 2:
            raise Undefined("all rows point the same way, so no row has a neighbour other than copies of itself")
        return np.asarray(self.distinct_distance[:, 0], dtype=np.float64)

    def occurrences(self) -> Indices:
        """(m,) in how many lists each row appears; undefined where the lists hold no choice."""
        if self.k == self.m - 1:
            raise Undefined(f"each of the {self.m} rows that are not zero lists all the others; there must be more than {K + 1}")
        if not self.distance.any():
            raise Undefined(f"every row has at least {self.k} copies by direction, so their order as neighbours means nothing")
        return np.bincount(self.index.ravel(), minlength=self.m)


def neighbours_of(cloud: Cloud) -> NeighbourTable:
    """The table of the cloud's sample for k = 10 (or m - 1 where there are fewer rows), computed once."""
    return cloud.cached("neighbours", lambda: _table(cloud, K))


@metric(range="(-inf, inf)", direction="neither", paper="Radovanović et al. 2010", needs="sample", resample=False)
def hubness(X: Vectors | Cloud) -> float:
    """Skewness of the 10-occurrence counts by cosine (Radovanović et al. 2010), unbounded; 0 is none, above 1 hubs dominate.

    The count of a row is the number of rows that have it among their 10 nearest. All counts equal gives 0. Above the cloud's
    sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    counts = neighbours_of(Cloud.of(X)).occurrences()
    centred = counts - counts.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    return float(np.mean(centred**3)) / spread**3 if spread > 0 else 0.0


@metric(range="[0, 1)", direction="neither", paper="Radovanović et al. 2010", needs="sample", resample=False)
def never_retrieved(X: Vectors | Cloud) -> float:
    """Share of rows that are among nobody's 10 nearest by cosine, the anti-hubs (Radovanović et al. 2010), in [0, 1); 0 is best.

    Above the cloud's sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    return float(np.mean(neighbours_of(Cloud.of(X)).occurrences() == 0))


@metric(range="[0.01, 1]", direction="neither", paper="Radovanović et al. 2010", needs="sample", resample=False)
def hub_share(X: Vectors | Cloud) -> float:
    """Share of all neighbour slots that the most listed 1 % of rows take, in [0.01, 1]; 0.01 is an even spread.

    The 1 % is rounded up to whole rows. Above the cloud's sample size (10,000 rows) a seeded sample is measured;
    `Cloud(X, sample=n)` widens it.
    """
    counts = neighbours_of(Cloud.of(X)).occurrences()
    top = int(np.ceil(HUBS * len(counts)))
    return float(np.sort(counts)[-top:].sum() / counts.sum())


@metric(range="[0, 1]", direction="neither", paper="", needs="sample", resample=False)
def near_duplicates(X: Vectors | Cloud) -> float:
    """Share of rows that have another row at cosine 0.99 or more, copies included, in [0, 1]; 0 is none.

    Above the cloud's sample size (10,000 rows) a seeded sample is measured, in which a pair is found only if both of its rows
    were drawn: the whole has at least this share. `Cloud(X, sample=n)` widens it.
    """
    return float(np.mean(neighbours_of(Cloud.of(X)).distance[:, 0] <= 1 - NEAR))


@metric(range="[0, 1)", direction="neither", paper="", needs="sample", resample=False)
def exact_duplicates(X: Vectors | Cloud) -> float:
    """Share of rows that repeat an earlier row entry by entry, rows of zeros included, in [0, 1); 0 is none.

    Above the cloud's sample size (10,000 rows) a seeded sample is measured, in which a pair is found only if both of its rows
    were drawn: the whole has at least this share. `Cloud(X, sample=n)` widens it.
    """
    rows = Cloud.of(X).sample
    if len(rows) < 2:
        raise Undefined("one row has nothing to repeat; give at least two")
    return 1 - len(distinct_rows(rows)[0]) / len(rows)


@metric(range="(0, inf)", direction="neither", paper="Aggarwal et al. 2001", needs="sample", resample=False)
def relative_contrast(X: Vectors | Cloud) -> float:
    """Mean cosine distance of two rows over the median one to the nearest (Aggarwal et al. 2001), above 0; 1 is no signal.

    Near 1 the nearest row is as far as any other. Copies of a row count once. Above the cloud's sample size (10,000 rows) a
    seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    cloud = Cloud.of(X)
    table = neighbours_of(cloud)
    nearby = float(np.median(table.nearest_distinct))
    return _mean_distance(units_of(cloud).shifted, table.distinct) / nearby


@metric(range="[0, 0.5]", direction="neither", paper="", needs="sample", resample=False)
def outliers(X: Vectors | Cloud) -> float:
    """Share of rows whose nearest other row is farther than the median + 3 robust standard deviations, in [0, 0.5]; 0 is none.

    By cosine distance to the nearest row that is no copy; the median and the robust deviation, 1.4826 times the median absolute
    deviation, are over rows with copies counted once. `outlying_rows` names the rows. Above the cloud's sample size (10,000
    rows) a seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    return float(np.mean(_excess(Cloud.of(X)) > 0))


def outlying_rows(X: Vectors | Cloud, *, count: int = 10) -> Indices:
    """Row numbers, in the whole cloud, of at most `count` of the rows that `outliers` counts, farthest first."""
    cloud = Cloud.of(X)
    excess = _excess(cloud)
    order = np.argsort(-excess, kind="stable")[:count]
    return neighbours_of(cloud).rows[order[excess[order] > 0]]


@metric(range="[0, inf)", direction="neither", paper="", needs="sample", resample=False)
def density_variation(X: Vectors | Cloud) -> float:
    """Coefficient of variation of the rows' mean cosine distance to their 10 nearest, at least 0; 0 is an even density.

    Above the cloud's sample size (10,000 rows) a seeded sample is measured; `Cloud(X, sample=n)` widens it.
    """
    means = neighbours_of(Cloud.of(X)).distance.mean(axis=1)
    if not means.any():
        raise Undefined("every row lies on copies of itself, so its neighbours are at distance 0 and density has no measure")
    return float(means.std() / means.mean())


def _excess(cloud: Cloud) -> Doubles:
    """(m,) by how much each row's nearest-neighbour distance exceeds the limit of an outlier."""
    table = neighbours_of(cloud)
    distance = table.nearest_distinct
    if len(distance) < 3:
        raise Undefined("an outlier needs at least two others to differ from, and there are only two distinct directions")
    middle = float(np.median(distance))
    deviation = 1.4826 * float(np.median(np.abs(distance - middle)))
    # Where most distances are equal, as on a grid, their rounding must not decide.
    return np.asarray(distance - (middle + 3 * max(deviation, 1e-5 * middle)), dtype=np.float64)[table.group]


def _table(cloud: Cloud, k: int) -> NeighbourTable:
    units = units_of(cloud)
    first, group = distinct_rows(units.shifted)
    index, distance = _search(units.shifted, first, k)
    rounding = 4 * float(np.finfo(units.shifted.dtype).eps) ** 2  # where the whole cloud is one direction, all else is noise
    alike = max(SAME * _mean_distance(units.shifted, np.arange(units.m)), rounding)
    while distance.size and distance[:, 0].min() <= alike:
        first, group = _joined(index, distance <= alike, first, group)
        index, distance = _search(units.shifted, first, k)
    full = (index, distance) if len(first) == units.m else _with_copies(index, distance, group, min(k, units.m - 1))
    return NeighbourTable(*full, units.rows, units.zero_rows, first, group, index, distance, alike)


def _search(points: Floats, first: Indices, k: int) -> tuple[Indices, Doubles]:
    """Lists over the distinct rows alone, (g, min(k, g - 1)) numbers and cosine distances."""
    if len(first) == 1:
        return np.empty((1, 0), np.intp), np.empty((1, 0))
    index, squares = nearest(points if len(first) == len(points) else points[first], min(k, len(first) - 1))
    return index, squares / 2


def _joined(index: Indices, alike: NDArray[np.bool_], first: Indices, group: Indices) -> tuple[Indices, Indices]:
    """Distinct rows and groups after those distinct rows that are listed as alike have been made one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    row, place = np.nonzero(alike)
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
        found = np.roll(sets[own], -place)[1 : k + 1]
        all_index[row, : len(found)] = found
        filled = len(found)
        for other, gap in zip(index[own], distance[own], strict=True):
            if filled == k:
                break
            copies = np.roll(sets[other], -(row % len(sets[other])))[: k - filled]
            all_index[row, filled : filled + len(copies)] = copies
            all_distance[row, filled : filled + len(copies)] = gap
            filled += len(copies)
    return all_index, all_distance
