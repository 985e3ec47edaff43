"""DirectProbe (Zhou & Srikumar 2021, 2022): the labels of a space as clusters with disjoint convex hulls."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from theodolite.core.vectors import array
from theodolite.probes.hulls import TOUCHING
from theodolite.probes.labels import label_codes
from theodolite.probes.parallel import in_parallel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Stage: TypeAlias = Callable[[str, int, int], None]
LabelDistance: TypeAlias = Literal["mean", "minimum"]

PAIR = np.dtype([("i", np.int64), ("j", np.int64), ("lower", np.float64), ("upper", np.float64)])


class NoSpread(ValueError):
    """All rows are the same point, as the [CLS] vectors of an encoder's layer 0 are."""


class DirectProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of same-label points whose convex hulls are disjoint from those of every other label, found greedily and exactly.

    As many clusters as labels: the labels are linearly separable, pair by pair. The distance between two hulls is twice the
    margin of the widest separation, and comes with certified bounds. No randomness: ties go by index.

    `label_distance` says how cluster pairs make the distance of two labels: their mean (published) or their minimum. Clusters of
    fewer than `min_cluster_size` points are left out of the distances (the published program drops those up to 5). `n_jobs`
    pairs are solved at a time, in threads; `progress` is called with (stage, done, total), and may raise to cancel.

    >>> probe = DirectProbe().fit([[0.0], [1.0], [4.0], [6.0]], ["low", "low", "high", "high"])
    >>> probe.verdict()
    '2 labels, 2 clusters: linearly separable; high and low are closest, 3'
    """

    classes_: NDArray[Any]
    clusters_: Ints
    cluster_labels_: NDArray[Any]
    n_clusters_: int
    is_linear_: bool
    cluster_distances_: NDArray[Any]
    label_distances_: Floats
    label_lower_: Floats
    label_upper_: Floats

    def __init__(
        self,
        *,
        tolerance: float = 1e-6,
        label_distance: LabelDistance = "mean",
        min_cluster_size: int = 1,
        n_jobs: int | None = None,
        progress: Stage | None = None,
    ) -> None:
        self.tolerance = tolerance
        self.label_distance = label_distance
        self.min_cluster_size = min_cluster_size
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: ArrayLike, y: ArrayLike, *, clusters: ArrayLike | None = None) -> DirectProbe:
        """Find the clusters of the labels, and the distances between them.

        `clusters` gives the cluster of each row instead, so that the same clusters can be followed through layers and training
        steps; hulls that overlap have distance 0 then, within what counts as touching, and `n_overlaps_` counts them.
        """
        self._check_options()
        given = np.asarray(array(X), dtype=np.float64)
        codes, self.classes_ = label_codes(given, y)
        self.n_features_in_ = given.shape[1]
        self._origin = given.mean(axis=0)
        rows = given - self._origin
        reach = float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))
        if reach <= TOUCHING * float(np.linalg.norm(self._origin)) or reach == 0:
            raise NoSpread(f"all {len(rows):,} rows are the same point within rounding; no labels can be told apart there")
        self._touching = TOUCHING * reach
        # A cluster's rows lie together: every hull is one slice.
        order = np.lexsort((np.arange(len(codes)), codes))
        if clusters is None:
            from theodolite.probes.fitting import find_clusters

            found, known = find_clusters(rows[order], codes[order], self._touching, self.tolerance, self.n_jobs, self.progress)
        else:
            named = given_clusters(clusters, codes, self.classes_)
            order = np.lexsort((np.arange(len(codes)), named, codes))
            found, known = named[order], {}
        self._take(rows[order], codes[order], found, order)
        self._measure(known)
        return self

    def _check_options(self) -> None:
        if self.label_distance not in ("mean", "minimum"):
            raise ValueError(f"label_distance={self.label_distance!r} must be 'mean' or 'minimum'")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance} must lie between 0 and 1: it is a share of each distance")
        if self.min_cluster_size < 1:
            raise ValueError(f"min_cluster_size={self.min_cluster_size} must be at least 1")

    def _take(self, X: Floats, codes: Ints, clusters: Ints, order: Ints) -> None:
        """Keep the rows cluster by cluster; clusters are numbered by label, then by first row."""
        firsts = np.full(int(clusters.max()) + 1, len(clusters), dtype=np.int64)
        np.minimum.at(firsts, clusters, order)
        owners = np.zeros(len(firsts), dtype=np.int64)
        owners[clusters] = codes
        present = np.unique(clusters)
        ranked = present[np.lexsort((firsts[present], owners[present]))]
        number = np.full(len(firsts), -1, dtype=np.int64)
        number[ranked] = np.arange(len(ranked))
        named = number[clusters]
        by_cluster = np.argsort(named, kind="stable")
        self._rows = np.ascontiguousarray(X[by_cluster])
        self._starts = np.searchsorted(named[by_cluster], np.arange(len(ranked) + 1))
        self._codes = owners[ranked]
        self.clusters_ = np.empty(len(order), dtype=np.int64)
        self.clusters_[order] = named
        self.cluster_labels_ = self.classes_[self._codes]
        self.n_clusters_ = len(ranked)
        self.is_linear_ = self.n_clusters_ == len(self.classes_)
        self.cluster_sizes_ = np.diff(self._starts)
        self.__dict__.pop("_inside", None)

    def _hull(self, cluster: int) -> Floats:
        return self._rows[self._starts[cluster] : self._starts[cluster + 1]]

    def _measure(self, known: dict[tuple[int, int], tuple[float, float]]) -> None:
        """Distances of all clusters with different labels; `known` are those of label pairs that were solved whole."""
        one, two = np.triu_indices(self.n_clusters_, 1)
        kept = self.cluster_sizes_ >= self.min_cluster_size
        apart = (self._codes[one] != self._codes[two]) & kept[one] & kept[two]
        pairs = np.zeros(int(apart.sum()), dtype=PAIR)
        pairs["i"], pairs["j"] = one[apart], two[apart]
        whole = np.bincount(self._codes, minlength=len(self.classes_)) == 1
        rest = []
        for place, (i, j) in enumerate(zip(pairs["i"], pairs["j"], strict=True)):
            labels = (int(self._codes[i]), int(self._codes[j]))
            if whole[labels[0]] and whole[labels[1]] and labels in known:
                pairs["lower"][place], pairs["upper"][place] = known[labels]
            else:
                rest.append(place)
        for place, bounds in zip(rest, self._gaps([(pairs["i"][at], pairs["j"][at]) for at in rest]), strict=True):
            pairs["lower"][place], pairs["upper"][place] = bounds
        self.cluster_distances_ = pairs
        self.n_overlaps_ = int((pairs["lower"] <= 0).sum())
        self._summarise()

    def _gaps(self, pairs: list[tuple[int, int]]) -> list[tuple[float, float]]:
        from theodolite.probes.hulls import gap_bounds

        return in_parallel(
            lambda pair: gap_bounds(self._hull(pair[0]), self._hull(pair[1]), self._touching, self.tolerance),
            pairs,
            n_jobs=self.n_jobs,
            progress=stage(self.progress, "distances between clusters"),
        )

    def _summarise(self) -> None:
        """The distance of each pair of labels from those of its clusters."""
        labels, pairs = len(self.classes_), self.cluster_distances_
        upper, lower = np.full((labels, labels), np.nan), np.full((labels, labels), np.nan)
        one, two = self._codes[pairs["i"]], self._codes[pairs["j"]]
        for table, column in ((lower, "lower"), (upper, "upper")):
            if self.label_distance == "mean":
                total, count = np.zeros((labels, labels)), np.zeros((labels, labels))
                np.add.at(total, (one, two), pairs[column])
                np.add.at(count, (one, two), 1)
                table[one, two] = (total / np.maximum(count, 1))[one, two]
            else:
                least = np.full((labels, labels), np.inf)
                np.minimum.at(least, (one, two), pairs[column])
                table[one, two] = least[one, two]
            table.T[one, two] = table[one, two]
        self.label_lower_, self.label_upper_ = lower, upper
        self.label_distances_ = 0.5 * (lower + upper)

    @property
    def minimum_distances_(self) -> Floats:
        """The distance of each label to the nearest other one; nan where none of its clusters is kept."""
        table = self.label_distances_
        known = ~np.isnan(table).all(axis=1)
        least = np.full(len(table), np.nan)
        least[known] = np.nanmin(table[known], axis=1)
        return least

    @cached_property
    def _inside(self) -> tuple[Floats, Floats]:
        from theodolite.probes.inside import inside_distances

        found = [inside_distances(self._hull(cluster)) for cluster in range(self.n_clusters_)]
        return np.array([mean for mean, _ in found]), np.array([most for _, most in found])

    @property
    def inside_mean_(self) -> Floats:
        """The mean distance of two points inside each cluster; 0 for a single point."""
        return self._inside[0]

    @property
    def inside_max_(self) -> Floats:
        """The largest distance of two points inside each cluster; 0 for a single point."""
        return self._inside[1]

    def distances(self, X: ArrayLike) -> Floats:
        """The distance of each point to the hull of each cluster, (m, clusters); 0 inside."""
        from theodolite.probes.assign import hull_distances

        return hull_distances(self._asked(X), self._hulls(), self._touching, n_jobs=self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of the nearest hull; where a point lies in several, of the first of them."""
        from theodolite.probes.assign import nearest_hulls

        found = nearest_hulls(self._asked(X), self._hulls(), self._touching, n_jobs=self.n_jobs)
        return np.asarray(self.cluster_labels_[found])

    def _hulls(self) -> list[Floats]:
        return [self._hull(cluster) for cluster in range(self.n_clusters_)]

    def _asked(self, X: ArrayLike) -> Floats:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "clusters_")
        rows = np.asarray(array(X), dtype=np.float64)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {rows.shape[1]} columns; the probe was fitted on {self.n_features_in_}")
        return np.ascontiguousarray(rows - self._origin)

    def verdict(self) -> str:
        """What was found, in words."""
        from theodolite.probes.verdict import verdict

        return verdict(self)


def stage(progress: Stage | None, name: str) -> Callable[[int, int], None] | None:
    """Progress of one stage by its name."""
    return None if progress is None else lambda done, total: progress(name, done, total)


def given_clusters(clusters: ArrayLike, codes: Ints, classes: NDArray[Any]) -> Ints:
    """Clusters numbered from 0, checked: one for each row, and one label in each."""
    named = np.asarray(clusters)
    if named.shape != codes.shape:
        raise ValueError(f"clusters has shape {named.shape} for {len(codes)} rows; give one cluster for each row")
    names, numbers = np.unique(named, return_inverse=True)
    owners = np.full(len(names), -1, dtype=np.int64)
    owners[numbers] = codes
    mixed = np.flatnonzero(owners[numbers] != codes)
    if len(mixed):
        row = mixed[0]
        raise ValueError(
            f"cluster {names[numbers[row]]!s} holds rows of the labels {classes[codes[row]]!s} and "
            f"{classes[owners[numbers[row]]]!s} (row {row}); a cluster has one label"
        )
    return np.asarray(numbers, dtype=np.int64)
