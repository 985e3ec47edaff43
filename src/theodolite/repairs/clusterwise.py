"""Repairs inside clusters: each cluster loses its own mean, and its own principal directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from theodolite.core.engines import reduce_shards
from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.core.moments import BlockMoments, Doubles, Moments, centred, merge_blocks
from theodolite.core.parallel import available_cores, in_order, map_blocks
from theodolite.core.vectors import REPLAYABLE, Floats, Indices, Source, Vectors
from theodolite.repairs.base import Repair, directions_to_remove, gather
from theodolite.repairs.directions import PAPER_DIRECTIONS, Removal, Which, leading_directions, principal_removal

# The cluster of each row of a block, from the number of its first row and the block.
Assign: TypeAlias = Callable[[int, Floats], Indices]

# Rows of a cluster wait for each other, so that their products are efficient: until there are so many of them, or until all
# waiting rows together are so large, and the largest cluster is added to its scatter.
FOLD_ROWS = 4096
FOLD_BYTES = 128 * 2**20


class _Clusterwise(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Clusters from k-means or from labels, each with its own repair; new rows go to the nearest centroid."""

    is_affine: ClassVar[bool] = False
    n_clusters: int
    seed: int
    centroids_: Doubles  # (k, d): rows belong to the nearest of these
    means_: Doubles  # (k, d): mean of the rows of each cluster
    counts_: NDArray[np.int64]  # number of rows of each cluster in the fit
    classes_: NDArray[np.int64]  # name of each cluster: the labels, ascending, or 0, 1, ...
    _assigned: dict[int, Indices] | None = None  # while `fit_transform` runs: clusters of the rows, by first row of the block

    def fit(self, X: Vectors, y: Any = None, *, labels: Any = None) -> Self:  # noqa: ARG002
        """Learn clusters and their repairs from the rows of X, which are read several times.

        Parameters
        ----------
        X
            The vectors.
        y
            Ignored.
        labels
            One integer per row, which replace k-means: their means become the centroids.
        """
        self._fit_labels = None if labels is None else _integers(labels)
        try:
            return super().fit(X)
        finally:
            del self._fit_labels

    def transform(self, X: Vectors, *, labels: Any = None) -> Floats:
        """The repaired rows.

        Parameters
        ----------
        X
            Vectors of the same width as in the fit.
        labels
            The cluster of each row, if it is not the one with the nearest centroid.
        """
        if labels is None:
            return super().transform(X)
        check_is_fitted(self)
        index = self._index_of(_integers(labels))
        data = self._open(X, reset=False)
        _require_one_label_each(index, data)
        return gather(lambda start, block: self._within(block, index[start : start + len(block)]), data)

    def fit_transform(self, X: Vectors, y: Any = None, *, labels: Any = None) -> Floats:  # noqa: ARG002
        """Fit, and repair the same rows with the same labels."""
        if labels is not None:
            return self.fit(X, labels=labels).transform(X, labels=labels)
        if (data := self._open(X, reset=True)).parts:  # the fit of shards finds their clusters somewhere else
            return self.fit(data).transform(data)
        assigned = self._assigned = {}
        try:
            self.fit(X)
        finally:
            del self._assigned
        return gather(lambda start, block: self._within(block, assigned[start]), self._open(X, reset=False))

    def _learn(self, data: Source) -> None:
        if not data.replayable:
            name = type(self).__name__
            raise ValueError(f"{name} reads its rows several times, but this stream can be read only once; {REPLAYABLE}")
        if self._fit_labels is None:
            centroids = self.centroids_ = k_means(data, self.n_clusters, seed=self.seed).centroids
            self.classes_ = np.arange(len(self.centroids_))
            assigned = self._assigned

            def assign(start: int, block: Floats) -> Indices:
                index = nearest_centroids(block, centroids)
                if assigned is not None:
                    assigned[start] = index
                return index

            self._learn_within(data, assign)
            number = np.cumsum(self.counts_ > 0) - 1  # of each cluster once those without rows are dropped
            if assigned is not None:
                assigned.update({start: number[index] for start, index in assigned.items()})
            self._forget_empty()
        else:
            self.classes_, index = np.unique(self._fit_labels, return_inverse=True)
            _require_one_label_each(index, data)
            self._learn_within(data, lambda start, block: index[start : start + len(block)])
            self.centroids_ = self.means_.copy()

    def _learn_within(self, data: Source, assign: Assign) -> None:
        raise NotImplementedError

    def _forget_empty(self) -> None:
        """Drop clusters that are nearest to no row; the last pass of k-means, which moves centroids, may leave such."""
        has_rows = self.counts_ > 0
        if not has_rows.all():
            for name in ("centroids_", "means_", "counts_", "bases_"):
                if hasattr(self, name):
                    setattr(self, name, getattr(self, name)[has_rows])
            self.classes_ = np.arange(len(self.centroids_))

    def _apply(self, block: Floats) -> Floats:
        return self._within(block, nearest_centroids(block, self.centroids_))

    def _within(self, block: Floats, index: Indices) -> Floats:
        repaired = np.empty_like(block)
        for cluster, rows in _by_cluster(index):
            repaired[rows] = self._repair_cluster(cluster, centred(np.take(block, rows, axis=0), self.means_[cluster]))
        return repaired

    def _repair_cluster(self, cluster: int, rows: Floats) -> Floats:  # noqa: ARG002  # some clusters lose only their mean
        return rows

    def _index_of(self, labels: NDArray[np.int64]) -> Indices:
        index = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[index] != labels
        if unknown.any():
            raise ValueError(f"label {labels[unknown][0]} did not occur in the fit; known: {self.classes_[:20].tolist()}")
        return index


class ClusterZeroMean(_Clusterwise):
    """K-means, then subtract each cluster's mean (Rajaee & Pilehvar 2021: 27 clusters). Not affine.

    New rows are assigned to the nearest centroid of the fit.

    Parameters
    ----------
    n_clusters
        Number of clusters; there are fewer if there are fewer distinct rows.
    seed
        Seed of k-means.
    """

    def __init__(self, n_clusters: int = 27, *, seed: int = 0) -> None:
        self.n_clusters = n_clusters
        self.seed = seed

    def _learn_within(self, data: Source, assign: Assign) -> None:
        k = len(self.classes_)

        def work(start: int, block: Floats) -> list[tuple[int, int, Doubles]]:
            groups = _by_cluster(assign(start, block))
            return [(cluster, len(rows), block[rows].sum(axis=0, dtype=np.float64)) for cluster, rows in groups]

        def piece(rows: Source) -> tuple[NDArray[np.int64], Doubles]:
            counts, sums = np.zeros(k, np.int64), np.zeros((k, rows.d))
            for groups in map_blocks(lambda start, block: work(rows.first_row + start, block), rows):
                for cluster, count, total in groups:
                    counts[cluster] += count
                    sums[cluster] += total
            return counts, sums

        self.counts_, sums = reduce_shards(piece, data, lambda a, b: (a[0] + b[0], a[1] + b[1]))
        self.means_ = sums / np.maximum(self.counts_, 1)[:, None]


class ClusterRemoveDirections(_Clusterwise):
    """K-means; centre each cluster and remove its principal directions (Rajaee & Pilehvar 2021: k = 27, D = 12). Not affine.

    Fitting reads the rows once more after k-means and needs up to k d^2 float64 (127 MB for 27 clusters of 768 dimensions),
    whatever the number of rows.

    Parameters
    ----------
    n_clusters
        Number of clusters; there are fewer if there are fewer distinct rows.
    n_directions
        How many directions each cluster loses, at most d - 1. None means 12, or d - 1 if that is less. A small cluster loses
        fewer top directions, so that one of rank 1 or more keeps at least one: a cluster of m rows loses at most m - 2. Only
        clusters whose rows are all equal, such as those of a single row, shrink to the origin.
    which
        "top" removes the directions of most variance, "bottom" those of least.
    seed
        Seed of k-means.
    """

    # (k, d, m): directions that each cluster loses, or, if `keeps_basis_`, keeps; filled up with columns of zeros.
    bases_: Doubles
    keeps_basis_: bool

    def __init__(self, n_clusters: int = 27, n_directions: int | None = None, *, which: Which = "top", seed: int = 0) -> None:
        self.n_clusters = n_clusters
        self.n_directions = n_directions
        self.which = which
        self.seed = seed

    def _learn_within(self, data: Source, assign: Assign) -> None:
        count = directions_to_remove(self.n_directions, PAPER_DIRECTIONS, data.d)
        k = len(self.classes_)
        self.counts_, self.means_ = np.zeros(k, np.int64), np.zeros((k, data.d))
        removals: dict[int, Removal] = {}

        def solve(item: tuple[int, Moments]) -> tuple[int, Moments, Removal]:
            cluster, moments = item
            if self.which != "top":
                return cluster, moments, principal_removal(moments, count, self.which, data.dtype)
            # One more than are removed, to see whether any is left: without one, all rows of the cluster would be zero.
            directions = leading_directions(moments, min(count + 1, data.d), data.dtype)
            return cluster, moments, Removal(directions[:, : min(count, max(directions.shape[1] - 1, 0))], keeps=False)

        size = 8 * k * data.d**2
        totals = reduce_shards(lambda rows: _cluster_moments(rows, assign, k), data, _merge_clusters, result_bytes=size)
        # Not stored here any longer than needed: each may be freed once its directions are known.
        clusters = ((cluster, totals.pop(cluster)) for cluster in sorted(totals))
        for cluster, moments, removal in in_order(solve, clusters, workers=available_cores()):
            self.counts_[cluster], self.means_[cluster] = moments.n, moments.mean
            removals[cluster] = removal
        self.keeps_basis_ = any(removal.keeps for removal in removals.values())
        self.bases_ = np.zeros((k, data.d, max(removal.basis.shape[1] for removal in removals.values())))
        for cluster, removal in removals.items():
            self.bases_[cluster, :, : removal.basis.shape[1]] = removal.basis

    def _repair_cluster(self, cluster: int, rows: Floats) -> Floats:
        return Removal(self.bases_[cluster], self.keeps_basis_).apply(rows)


def _by_cluster(labels: Indices) -> Iterator[tuple[int, Indices]]:
    """Each cluster that has rows, with its rows in ascending order: one sort, no loop over rows."""
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    for cluster, rows in zip(present, np.split(order, starts[1:]), strict=True):
        yield int(cluster), rows


def _cluster_moments(data: Source, assign: Assign, k: int) -> dict[int, Moments]:
    """The moments of each cluster that has rows, after one pass.

    Rows wait by cluster until there are enough for an efficient product; a cluster of at most d rows stores them in place of a
    scatter matrix. So memory is bounded by k d^2 float64, plus the waiting rows.
    """
    totals: dict[int, Moments] = {}

    def moments_of_run(run: tuple[int, list[Floats], bool]) -> tuple[int, Moments]:
        cluster, pieces, is_first = run
        rows = np.concatenate(pieces)
        # A cluster's later runs are added to a scatter matrix, so they come as one, however few their rows are.
        if is_first and len(rows) <= data.d:
            return cluster, Moments.of(rows)
        return cluster, merge_blocks([BlockMoments.of(rows, scatter_only=True)])

    for cluster, moments in in_order(moments_of_run, _runs(data, assign, k), workers=available_cores()):
        totals[cluster] = totals[cluster] | moments if cluster in totals else moments
    return totals


def _merge_clusters(first: dict[int, Moments], second: dict[int, Moments]) -> dict[int, Moments]:
    for cluster, moments in second.items():
        first[cluster] = first[cluster] | moments if cluster in first else moments
    return first


def _runs(data: Source, assign: Assign, k: int) -> Iterator[tuple[int, list[Floats], bool]]:
    """Runs of many rows of one cluster, in pieces, and whether it is the cluster's first run, until all rows are out."""
    waiting: list[list[Floats]] = [[] for _ in range(k)]
    counts = np.zeros(k, np.int64)  # rows that wait
    started: set[int] = set()
    most = FOLD_BYTES // (data.d * data.dtype.itemsize)

    def groups(start: int, block: Floats) -> list[tuple[int, Floats]]:
        # `take`, unlike an index, lets other threads run.
        return [(cluster, np.take(block, rows, axis=0)) for cluster, rows in _by_cluster(assign(data.first_row + start, block))]

    for block in map_blocks(groups, data):
        for cluster, rows in block:
            waiting[cluster].append(rows)
            counts[cluster] += len(rows)
        # More than d rows, so that the first run of a large cluster is stored as a scatter matrix at once.
        while counts.max() > data.d and (counts.max() >= FOLD_ROWS or counts.sum() > most):
            cluster = int(counts.argmax())
            yield cluster, waiting[cluster], cluster not in started
            started.add(cluster)
            waiting[cluster], counts[cluster] = [], 0
    for cluster, rest in enumerate(waiting):
        if rest:
            yield cluster, rest, cluster not in started


def _integers(labels: Any) -> NDArray[np.int64]:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise ValueError(f"labels of shape {array.shape} and dtype {array.dtype} must be one integer for each row")
    return array.astype(np.int64)


def _require_one_label_each(index: Indices, data: Source) -> None:
    n = data.n if data.n is not None else sum(len(block) for _, block in data.raw_blocks())
    if len(index) != n:
        raise ValueError(f"there are {len(index)} labels for {n} rows; give one label for each row")
