"""Repairs inside clusters: each cluster loses its own mean, and its own principal directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from theodolite.core.blocks import available_cores, in_order
from theodolite.core.centre import centred
from theodolite.core.kmeans import Labels, kmeans, nearest
from theodolite.core.moments import Doubles, Moments
from theodolite.core.vectors import Floats, Source, Vectors
from theodolite.repairs.base import Repair, directions_to_remove, gather
from theodolite.repairs.clusters import by_cluster, cluster_means, cluster_moments
from theodolite.repairs.directions import PAPER_DIRECTIONS
from theodolite.repairs.subspace import Removal, Which, removal

if TYPE_CHECKING:
    from typing import Self


class _Clusterwise(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Clusters from k-means, or from given labels, each with its own repair; new rows go to the nearest centroid."""

    is_affine: ClassVar[bool] = False

    n_clusters: int
    seed: int
    centroids_: Doubles
    """(k, d): rows belong to the nearest of these."""
    means_: Doubles
    """(k, d): mean of the rows of each cluster."""
    counts_: NDArray[np.int64]
    """Rows of each cluster in the fit."""
    classes_: NDArray[np.int64]
    """Name of each cluster: the given labels, ascending, or 0, 1, ..."""

    def fit(self, X: Vectors, y: Any = None, *, labels: Any = None) -> Self:  # noqa: ARG002
        """Learn clusters and their repairs from the rows of X, which are read several times; y is ignored.

        `labels`, one integer for each row, replace k-means: their means become the centroids.
        """
        self._given = None if labels is None else _integers(labels)
        try:
            return super().fit(X)
        finally:
            del self._given

    def transform(self, X: Vectors, *, labels: Any = None) -> Floats:
        """The repaired rows. `labels` name the cluster of each row, where the nearest centroid shall not decide."""
        if labels is None:
            return super().transform(X)
        check_is_fitted(self)
        index = self._index_of(_integers(labels))
        data = self._open(X, reset=False)
        _require_one_label_each(index, data)
        return gather(lambda start, block: self._within(block, index[start : start + len(block)]), data)

    def fit_transform(self, X: Vectors, y: Any = None, *, labels: Any = None) -> Floats:  # noqa: ARG002
        """Fit, and repair the same rows, with the same labels where those are given."""
        return self.fit(X, labels=labels).transform(X, labels=labels)

    def _learn(self, data: Source) -> None:
        if not data.replayable:
            raise ValueError(
                f"{type(self).__name__} reads its rows several times, and this stream can be read once; pass a function "
                "that returns a fresh iterator, a list of chunks, a folder of shards or a memory-mapped array"
            )
        if self._given is None:
            self.centroids_ = kmeans(data, self.n_clusters, seed=self.seed).centroids
            self.classes_ = np.arange(len(self.centroids_))
            self._learn_within(data, lambda _, block: nearest(block, self.centroids_))
            self._forget_empty()
        else:
            self.classes_, index = np.unique(self._given, return_inverse=True)
            _require_one_label_each(index, data)
            self._learn_within(data, lambda start, block: index[start : start + len(block)])
            self.centroids_ = self.means_.copy()

    def _learn_within(self, data: Source, assign: Callable[[int, Floats], Labels]) -> None:
        raise NotImplementedError

    def _forget_empty(self) -> None:
        """Leave out clusters that are nearest to no row, as after a last pass that moved the centroids."""
        live = self.counts_ > 0
        if not live.all():
            for name in ("centroids_", "means_", "counts_", "bases_"):
                if hasattr(self, name):
                    setattr(self, name, getattr(self, name)[live])
            self.classes_ = np.arange(len(self.centroids_))

    def _apply(self, block: Floats) -> Floats:
        return self._within(block, nearest(block, self.centroids_))

    def _within(self, block: Floats, index: Labels) -> Floats:
        repaired = np.empty_like(block)
        for cluster, rows in by_cluster(index):
            repaired[rows] = self._repair_cluster(cluster, centred(block[rows], self.means_[cluster]))
        return repaired

    def _repair_cluster(self, cluster: int, rows: Floats) -> Floats:  # noqa: ARG002  # a mean is all some clusters lose
        return rows

    def _index_of(self, labels: NDArray[np.int64]) -> Labels:
        index = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[index] != labels
        if unknown.any():
            raise ValueError(f"label {labels[unknown][0]} was not in the fit; known: {self.classes_[:20].tolist()}")
        return index


class ClusterZeroMean(_Clusterwise):
    """K-means, then subtract each cluster's mean (Rajaee & Pilehvar 2021: 27 clusters). Not affine.

    Fewer clusters come out where there are fewer distinct rows. New rows go to the nearest centroid of the fit.
    """

    def __init__(self, n_clusters: int = 27, *, seed: int = 0) -> None:
        self.n_clusters = n_clusters
        self.seed = seed

    def _learn_within(self, data: Source, assign: Callable[[int, Floats], Labels]) -> None:
        k = len(self.classes_)
        self.counts_, self.means_ = cluster_means(data, assign, k)


class ClusterRemoveDirections(_Clusterwise):
    """K-means; centre each cluster and remove its principal directions (Rajaee & Pilehvar 2021: k = 27, D = 12). Not affine.

    `which="top"` removes the directions of most variance, "bottom" those of least; `n_directions` None stands for 12, or d -
    1 where that is less. A cluster loses at most as many top directions as its rank: one of no more than `n_directions` + 1
    rows shrinks to the origin, so choose fewer clusters, or fewer directions, where `counts_` shows such. Fitting reads the
    rows once more after k-means and holds up to k d^2 float64 (127 MB for 27 clusters of 768 dimensions), whatever the number
    of rows.
    """

    bases_: Doubles
    """(k, d, m): directions each cluster loses, or keeps where `keeps_basis_`; columns of zeros fill up where there are fewer."""
    keeps_basis_: bool

    def __init__(self, n_clusters: int = 27, n_directions: int | None = None, *, which: Which = "top", seed: int = 0) -> None:
        self.n_clusters = n_clusters
        self.n_directions = n_directions
        self.which = which
        self.seed = seed

    def _learn_within(self, data: Source, assign: Callable[[int, Floats], Labels]) -> None:
        count = directions_to_remove(self.n_directions, PAPER_DIRECTIONS, data.d)
        k = len(self.classes_)
        self.counts_, self.means_ = np.zeros(k, np.int64), np.zeros((k, data.d))
        found: dict[int, Removal] = {}

        def solve(item: tuple[int, Moments]) -> tuple[int, Moments, Removal]:
            return *item, removal(item[1], count, self.which, data.dtype)

        for cluster, moments, one in in_order(solve, cluster_moments(data, assign, k), workers=available_cores()):
            self.counts_[cluster], self.means_[cluster] = moments.n, moments.mean
            found[cluster] = one
        self.keeps_basis_ = any(one.keeps for one in found.values())
        self.bases_ = np.zeros((k, data.d, max(one.basis.shape[1] for one in found.values())))
        for cluster, one in found.items():
            self.bases_[cluster, :, : one.basis.shape[1]] = one.basis

    def _repair_cluster(self, cluster: int, rows: Floats) -> Floats:
        return Removal(self.bases_[cluster], self.keeps_basis_).apply(rows)


def _integers(labels: Any) -> NDArray[np.int64]:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise ValueError(f"labels of shape {array.shape} and dtype {array.dtype} must be one integer for each row")
    return array.astype(np.int64)


def _require_one_label_each(index: Labels, data: Source) -> None:
    n = data.n if data.n is not None else sum(len(block) for _, block in data.raw_blocks())
    if len(index) != n:
        raise ValueError(f"there are {len(index)} labels for {n} rows; give one label for each row")
