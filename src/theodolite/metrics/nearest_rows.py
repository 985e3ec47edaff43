"""Exact nearest rows by brute force, near the speed of the matrix product, and the neighbour table that metrics share.

The symmetric product is cut into tiles, which run on all cores. Each tile serves both its rows and its columns, which halves
the work; on 10,000 x 768 rows this takes less than half the time of the general search in scikit-learn. Products select a few
candidates more than needed, and differences of the rows, which do not cancel, decide among them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.core.parallel import in_threads
from theodolite.core.vectors import Floats, Indices
from theodolite.metrics.cloud import Cloud, Undefined

Output = TypeVar("Output")
# Called with the rows and the columns of a tile, and with its products.
Visit: TypeAlias = Callable[[slice, slice, Floats], None]

K = 10  # neighbours listed per row: the length of a first page of search results
# Cosine distance, as a share of the mean one, up to which two rows are copies: above float32 rounding, below real gaps.
SAME = 1e-10
TILE = 1000  # rows of a tile: large enough for BLAS, and its products stay in the cache and below NumPy's huge pages of 4 MiB
SPARE = 4  # candidates beyond k, so that rounding in the products cannot exclude a true neighbour
GATHER_BYTES = 2 * 2**20


def nearest_neighbours(points: Floats, k: int, *, also: Visit | None = None) -> tuple[Indices, Doubles]:
    """The k nearest other rows of each row: (m, k) numbers and squared Euclidean distances, nearest first; ties by number.

    A row is never its own neighbour, even if there are copies of it.
    """
    m = len(points)
    if not 0 < k < m:
        raise ValueError(f"k={k} must be at least 1 and less than the number of rows, {m}")
    best = Best(m, min(k + SPARE, m - 1), points.dtype)

    def visit(rows: slice, columns: slice, scores: Floats) -> None:
        if also is not None:
            also(rows, columns, scores)
        if rows == columns:
            np.fill_diagonal(scores, -np.inf)
        else:
            best.offer(columns, scores.T, rows.start)
        best.offer(rows, scores, columns.start)

    each_tile(points, visit)
    return nearest_candidates(points, best.index, k)


def nearest_candidates(points: Floats, candidates: Indices, k: int) -> tuple[Indices, Doubles]:
    """The k nearest of a few candidates of each row: (m, k) numbers and squared distances, nearest first; ties by number.

    Products may round two candidates to the same score; differences, which do not cancel, decide their order.
    """
    squares = squared_distances(points, points, candidates)
    order = np.lexsort((candidates, squares), axis=1)[:, :k]
    return np.take_along_axis(candidates, order, 1), np.take_along_axis(squares, order, 1)


def each_tile(points: Floats, visit: Callable[[slice, slice, Floats], Output]) -> list[Output]:
    """Visit the tiles on and above the diagonal of the (m, m) matrix of -|x - y|^2 / 2 of all rows x and y, on all cores."""
    cuts = [slice(start, min(start + TILE, len(points))) for start in range(0, len(points), TILE)]
    # The diagonal first: it shows every row how near its neighbours are at least, and few of the other pairs are nearer.
    pairs = [(cuts[i], cuts[i + step]) for step in range(len(cuts)) for i in range(len(cuts) - step)]
    halves = np.einsum("ij,ij->i", points, points) / 2

    def work(pair: tuple[slice, slice]) -> Output:
        rows, columns = pair
        tile = points[rows] @ points[columns].T
        tile -= halves[rows, None]
        tile -= halves[columns]
        return visit(rows, columns, tile)

    return in_threads(work, pairs)


def largest_products(queries: Floats, keys: Floats, k: int, *, bias: Floats, own: Indices | None = None) -> Indices:
    """Numbers of the k keys with the largest `query . key + bias` for each query but its own, in no particular order."""
    step = max(8, 2**20 // len(keys))

    def work(start: int) -> Indices:
        scores = queries[start : start + step] @ keys.T
        scores += bias
        if own is not None:
            scores[np.arange(len(scores)), own[start : start + step]] = -np.inf
        return np.argpartition(scores, len(keys) - k, axis=1)[:, len(keys) - k :].copy()

    return np.concatenate(in_threads(work, range(0, len(queries), step)))


def squared_distances(queries: Floats, points: Floats, index: Indices) -> Doubles:
    """(q, k) squared distances of each query to some of the points, computed from differences."""
    q, k = index.shape
    step = max(1, GATHER_BYTES // (k * points.shape[1] * points.dtype.itemsize))

    def work(start: int) -> Doubles:
        gap = points[index[start : start + step]]
        gap -= queries[start : start + step, None]
        return np.asarray(np.einsum("ijk,ijk->ij", gap, gap), dtype=np.float64)

    return np.concatenate(in_threads(work, range(0, q, step)))


def distinct_rows(X: Floats) -> tuple[Indices, Indices]:
    """The first row of each set of identical rows, in order, and for every row the number of its set."""
    zero, bits = X.dtype.type(0), np.dtype(f"u{X.dtype.itemsize}")  # + 0 turns -0.0, which equals 0.0, into the same bits
    # Equal rows have equal sums of their bits, as integers: most rows have a sum of their own, and need no digest.
    tiles = (X[start : start + TILE] + zero for start in range(0, len(X), TILE))
    sums = np.concatenate([tile.view(bits).sum(axis=1, dtype=bits) for tile in tiles])
    _, number, count = np.unique(sums, return_inverse=True, return_counts=True)
    first = np.arange(len(X))  # of each row, the first one that equals it
    sets: dict[bytes, int] = {}
    for row in np.flatnonzero(count[number] > 1).tolist():
        first[row] = sets.setdefault(blake2b((X[row] + zero).tobytes(), digest_size=16).digest(), row)  # smaller than the rows
    distinct, group = np.unique(first, return_inverse=True)
    return distinct, group


@dataclass(frozen=True, eq=False)
class NeighbourTable:
    """The k nearest rows by cosine of every row of a cloud's sample that is not zero, nearest first, itself excluded.

    Rows are numbered by their position among the m rows that are not zero. Rows that point the same way, up to the rounding of
    one text embedded in two batches, are copies: neighbours at distance 0. If more copies tie than the list has room for, each
    row lists those that come next after it, in a circle: listing the first ones would turn them into hubs.
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
    """The neighbour table of a cloud's sample for k = 10, or m - 1 if there are fewer rows; computed once per cloud."""
    return cloud.cached("neighbours", lambda: _table(cloud, K))


def search_with(cloud: Cloud, visit: Visit) -> bool:
    """Compute the neighbour table of a cloud, and let `visit` see the products of its unit rows on the way."""
    units = cloud.units
    is_whole = units.zero_rows == 0 and len(_distinct(cloud)[0]) == units.m
    cloud.cached("neighbours", lambda: _table(cloud, K, visit if is_whole else None))
    return is_whole


def mean_distance(shifted: Floats, rows: Indices) -> float:
    """Mean cosine distance over all pairs of some rows: the mean of |u_i - u_j|^2 / 2 over i < j is the unbiased variance."""
    squares = np.einsum("ij,ij->i", shifted, shifted).astype(np.float64)[rows].sum()
    total = (np.bincount(rows, minlength=len(shifted)).astype(shifted.dtype) @ shifted).astype(np.float64)
    return float(squares - total @ total / len(rows)) / (len(rows) - 1)


def _table(cloud: Cloud, k: int, also: Visit | None = None) -> NeighbourTable:
    units = cloud.units
    first, group = _distinct(cloud)
    index, distance = _search(units.shifted, first, k, also)
    # Parallel rows whose entries were rounded are up to eps²/2 apart: in a cloud of one direction, less than that is noise.
    rounding = float(np.finfo(units.shifted.dtype).eps) ** 2
    limit = max(SAME * mean_distance(units.shifted, np.arange(units.m)), rounding)
    # A merge may bring rows together that were not among each other's k nearest, so the search is repeated.
    while distance.size and distance[:, 0].min() <= limit:
        first, group = _merge_copies(index, distance <= limit, first, group)
        index, distance = _search(units.shifted, first, k)
    full = (index, distance) if len(first) == units.m else _with_copies(index, distance, group, min(k, units.m - 1))
    return NeighbourTable(*full, units.rows, first, group, index, distance, limit)


def _distinct(cloud: Cloud) -> tuple[Indices, Indices]:
    return cloud.cached("distinct unit rows", lambda: distinct_rows(cloud.units.shifted))


def _search(points: Floats, first: Indices, k: int, also: Visit | None = None) -> tuple[Indices, Doubles]:
    """Lists over the distinct rows alone, (g, min(k, g - 1)) numbers and cosine distances."""
    if len(first) == 1:
        return np.empty((1, 0), np.intp), np.empty((1, 0))
    searched = points if len(first) == len(points) else points[first]
    index, squares = nearest_neighbours(searched, min(k, len(first) - 1), also=also)
    return index, squares / 2


def _merge_copies(index: Indices, is_copy: NDArray[np.bool_], first: Indices, group: Indices) -> tuple[Indices, Indices]:
    """Distinct rows and groups after distinct rows that are listed as copies of each other were merged."""
    row, place = np.nonzero(is_copy)
    leaders, part = np.unique(first_connected(row, index[row, place], len(first)), return_inverse=True)
    return first[leaders], part[group]


def first_connected(row: Indices, other: Indices, m: int) -> Indices:
    """(m,) the first row of the part of a graph that each row is in, from the edges between `row` and `other`."""
    # SciPy has this too, but its import takes as long as a survey of a thousand rows.
    first = np.arange(m)
    while True:
        low, before = np.minimum(first[row], first[other]), first.copy()
        for end in (row, other, before[row], before[other]):  # the ends, and the rows that stand for their parts so far
            np.minimum.at(first, end, low)
        while not np.array_equal(first, first[first]):
            first = first[first]
        if np.array_equal(first, before):
            return first


def _with_copies(index: Indices, distance: Doubles, group: Indices, k: int) -> tuple[Indices, Doubles]:
    """Lists over all rows, from the lists over distinct rows: own copies first, then every neighbour with its copies."""
    sets = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    all_index = np.empty((len(group), k), np.intp)
    all_distance = np.zeros((len(group), k))
    for row, own in enumerate(group):
        # Own copies, starting with the next one after this row.
        copies = sets[own][:0]
        if len(sets[own]) > 1:
            copies = np.roll(sets[own], -int(np.searchsorted(sets[own], row)))[1 : k + 1]
        all_index[row, : len(copies)] = copies
        count = len(copies)
        for other, gap in zip(index[own], distance[own], strict=True):
            if count == k:
                break
            members = sets[other]  # mostly one row, which needs no turning
            copies = members if len(members) == 1 else np.roll(members, -(row % len(members)))[: k - count]
            all_index[row, count : count + len(copies)] = copies
            all_distance[row, count : count + len(copies)] = gap
            count += len(copies)
    return all_index, all_distance


class Best:
    """The k best scores of every row so far, best first, and the columns they belong to."""

    def __init__(self, m: int, k: int, dtype: np.dtype[np.floating]) -> None:
        self.k = k
        self.values: Floats = np.full((m, k), -np.inf, dtype)
        self.index = np.full((m, k), -1, np.intp)
        self._locks = [threading.Lock() for _ in range(64)]

    def offer(self, rows: slice, scores: Floats, first: int) -> None:
        """Consider a tile of scores."""
        row, column = self._candidates(scores, self.values[rows, -1])
        if not len(row):
            return
        updated, row_of, counts = np.unique(row, return_inverse=True, return_counts=True)
        # One line per row: the best so far, then the candidates, then nothing.
        place = self.k + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = len(updated), self.k + int(counts.max())
        value, index = np.full(shape, -np.inf, scores.dtype), np.full(shape, -1, np.intp)
        value[row_of, place], index[row_of, place] = scores[row, column], column + first
        mine = updated + rows.start
        with self._locks[rows.start // TILE % len(self._locks)]:
            value[:, : self.k], index[:, : self.k] = self.values[mine], self.index[mine]
            best = np.lexsort((index, -value), axis=1)[:, : self.k]
            self.values[mine], self.index[mine] = np.take_along_axis(value, best, 1), np.take_along_axis(index, best, 1)

    def _candidates(self, scores: Floats, worst: Floats) -> tuple[Indices, Indices]:
        """(row, column), by rows, of every score that may be among the k best of its row; self, at -inf, never is."""
        width = scores.shape[1]
        bound = np.maximum(worst, np.finfo(scores.dtype).min)
        groups = 8 * self.k
        if np.isneginf(worst).any() and width >= 2 * groups:
            # k of the group maxima are at least as large as the k-th largest of them, so the k best scores are too.
            tops = scores[:, : width // groups * groups].reshape(len(scores), -1, groups).max(axis=1)
            bound = np.maximum(bound, np.partition(tops, groups - self.k, axis=1)[:, groups - self.k])
        is_hit = scores >= bound[:, None]
        if np.count_nonzero(is_hit) > 4 * groups * len(scores) and width > self.k:  # rows full of equal scores: any k serve
            column = np.argpartition(scores, width - self.k, axis=1)[:, width - self.k :].ravel()
            row = np.repeat(np.arange(len(scores)), self.k)
            is_other = scores[row, column] > -np.inf
            return row[is_other], column[is_other]
        if is_hit.flags.c_contiguous:
            row, column = np.divmod(np.flatnonzero(is_hit), width)
            return row, column
        column, row = np.divmod(np.flatnonzero(is_hit.T), len(scores))  # the transpose of a tile, as its memory lies
        order = np.argsort(row, kind="stable")
        return row[order], column[order]
