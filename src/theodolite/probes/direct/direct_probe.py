"""DirectProbe (Zhou & Srikumar 2021, 2022): the labels of a space as clusters with disjoint convex hulls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from theodolite.core.parallel import in_parallel
from theodolite.core.vectors import array
from theodolite.probes.compiled import Floats, Ints
from theodolite.probes.hulls.gap import TOUCHING, gap_bounds
from theodolite.probes.labels import label_codes

# Progress of several stages: called with (stage, done, total); may raise to cancel.
Stage: TypeAlias = Callable[[str, int, int], None]
LabelDistance: TypeAlias = Literal["mean", "minimum"]

_PAIR = np.dtype([("i", np.int64), ("j", np.int64), ("lower", np.float64), ("upper", np.float64)])


class NoSpread(ValueError):
    """All rows are the same point, as the [CLS] vectors of an encoder's layer 0 are."""


@dataclass(frozen=True)
class Closest:
    """The two labels that are closest, and the distance between them."""

    first: str
    second: str
    distance: float


class DirectProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of same-label points whose convex hulls are disjoint from those of every other label, found greedily and exactly.

    If there are as many clusters as labels, the labels are linearly separable, pair by pair. The distance between two hulls is
    twice the margin of the widest separation, and has certified bounds. Nothing is random: ties go by index.

    Parameters
    ----------
    tolerance
        How far the two bounds of a distance may differ, as a share of it, between 0 and 1.
    label_distance
        The distance of two labels from those of their clusters: their "mean" (as published) or their "minimum".
    min_cluster_size
        Clusters of fewer points are left out of the distances; the published program leaves out those of up to 5 points.
    n_jobs
        Pairs of hulls solved at a time, in threads; all cores by default.
    progress
        Called with (stage, done, total); may raise to cancel.

    Attributes
    ----------
    classes_
        The labels, sorted.
    clusters_
        The cluster of each row, numbered by label and then by first row.
    cluster_labels_, cluster_sizes_
        The label and the number of rows of each cluster.
    n_clusters_
        The number of clusters.
    is_linear_
        Whether every label is one cluster.
    n_overlaps_
        Pairs of clusters with different labels that overlap: clusters that were given, or points that carry two labels.
    cluster_distances_
        One record per pair of clusters with different labels: `i`, `j`, and the bounds `lower` and `upper` of the distance.
    label_distances_, label_lower_, label_upper_
        (labels, labels) distances and their bounds, nan on the diagonal and if a label has no cluster that is large enough.

    Examples
    --------
    >>> probe = DirectProbe().fit([[0.0], [1.0], [4.0], [6.0]], ["low", "low", "high", "high"])
    >>> probe
    DirectProbe: 2 labels, 2 clusters, linearly separable (4 × 1)
    >>> probe.verdict()
    '2 labels, 2 clusters: linearly separable; high and low are closest, 3'
    """

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

    def __repr__(self) -> str:
        if not hasattr(self, "label_distances_"):
            return str(super().__repr__())
        counts = f"{len(self.classes_):,} labels, {self.n_clusters_:,} clusters"
        return f"DirectProbe: {counts}, {self._separability()} ({len(self.clusters_):,} × {self.n_features_in_:,})"

    def fit(self, X: ArrayLike, y: ArrayLike, *, clusters: ArrayLike | None = None) -> DirectProbe:
        """Find the clusters of the labels, and the distances between them.

        Parameters
        ----------
        X
            (n, d) vectors.
        y
            The label of each row, at least two different ones.
        clusters
            The cluster of each row, if they are not to be found: the same clusters can be followed through layers and training
            steps. Clusters that overlap then have distance 0, within what counts as touching, and `n_overlaps_` counts them.

        Raises
        ------
        ValueError
            An option is out of its range, X is not finite, or labels or clusters do not match the rows.
        NoSpread
            All rows are the same point.
        """
        from theodolite.probes.direct.fitting import find_clusters, require_clusters  # numba takes a second to load

        self._check_options()
        vectors = np.asarray(array(X), dtype=np.float64)
        codes, self.classes_ = label_codes(vectors, y)
        self.n_features_in_ = vectors.shape[1]
        self._origin = vectors.mean(axis=0)  # products near the origin keep their digits
        rows = vectors - self._origin
        reach = float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))
        if reach <= TOUCHING * float(np.linalg.norm(self._origin)) or reach == 0:
            raise NoSpread(f"all {len(rows):,} rows are the same point within rounding; labels cannot be told apart there")
        self._touching = TOUCHING * reach
        # The rows of a label, and then of a cluster, are next to each other: every hull is one slice.
        if clusters is None:
            order = np.lexsort((np.arange(len(codes)), codes))
            numbers, label_bounds = find_clusters(
                rows[order], codes[order], self._touching, self.tolerance, self.n_jobs, self.progress
            )
        else:
            numbers = require_clusters(clusters, codes, self.classes_)
            order = np.lexsort((np.arange(len(codes)), numbers, codes))
            numbers, label_bounds = numbers[order], {}
        self._store_clusters(rows[order], codes[order], numbers, order)
        self._measure_distances(label_bounds)
        return self

    def _check_options(self) -> None:
        if self.label_distance not in ("mean", "minimum"):
            raise ValueError(f"label_distance={self.label_distance!r} must be 'mean' or 'minimum'")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance} must be between 0 and 1: it is a share of each distance")
        if self.min_cluster_size < 1:
            raise ValueError(f"min_cluster_size={self.min_cluster_size} must be at least 1")

    def _store_clusters(self, X: Floats, codes: Ints, clusters: Ints, order: Ints) -> None:
        """Store the rows cluster by cluster; clusters are numbered by label, then by first row."""
        first_rows = np.full(int(clusters.max()) + 1, len(clusters), dtype=np.int64)
        np.minimum.at(first_rows, clusters, order)
        owners = np.zeros(len(first_rows), dtype=np.int64)
        owners[clusters] = codes
        # Numbers as they come may have gaps; in the end they go from 0, by label and then by first row.
        present = np.unique(clusters)
        ranked = present[np.lexsort((first_rows[present], owners[present]))]
        new_number = np.full(len(first_rows), -1, dtype=np.int64)
        new_number[ranked] = np.arange(len(ranked))
        numbers = new_number[clusters]
        by_cluster = np.argsort(numbers, kind="stable")
        self._rows = np.ascontiguousarray(X[by_cluster])
        self._starts = np.searchsorted(numbers[by_cluster], np.arange(len(ranked) + 1))
        self._codes = owners[ranked]
        self.clusters_ = np.empty(len(order), dtype=np.int64)
        self.clusters_[order] = numbers
        self.cluster_labels_ = self.classes_[self._codes]
        self.n_clusters_ = len(ranked)
        self.is_linear_ = self.n_clusters_ == len(self.classes_)
        self.cluster_sizes_ = np.diff(self._starts)
        self.__dict__.pop("_inside", None)  # of an earlier fit

    def _hulls(self) -> list[Floats]:
        return [self._rows[start:end] for start, end in pairwise(self._starts)]

    def _measure_distances(self, label_bounds: dict[tuple[int, int], tuple[float, float]]) -> None:
        """Distances of all clusters with different labels; `label_bounds` are those of whole labels, which are solved already."""
        first, second = np.triu_indices(self.n_clusters_, 1)
        is_large = self.cluster_sizes_ >= self.min_cluster_size
        differ = (self._codes[first] != self._codes[second]) & is_large[first] & is_large[second]
        pairs = np.zeros(int(differ.sum()), dtype=_PAIR)
        pairs["i"], pairs["j"] = first[differ], second[differ]
        is_whole = np.bincount(self._codes, minlength=len(self.classes_)) == 1
        # The hull of a label that is one cluster was solved while the clusters were found.
        unsolved = []
        for place, (i, j) in enumerate(zip(pairs["i"], pairs["j"], strict=True)):
            labels = (int(self._codes[i]), int(self._codes[j]))
            if is_whole[labels[0]] and is_whole[labels[1]] and labels in label_bounds:
                pairs["lower"][place], pairs["upper"][place] = label_bounds[labels]
            else:
                unsolved.append(place)
        hulls, progress = self._hulls(), self.progress
        bounds = in_parallel(
            lambda place: gap_bounds(hulls[pairs["i"][place]], hulls[pairs["j"][place]], self._touching, self.tolerance),
            unsolved,
            n_jobs=self.n_jobs,
            progress=None if progress is None else lambda done, total: progress("distances between clusters", done, total),
        )
        for place, (lower, upper) in zip(unsolved, bounds, strict=True):
            pairs["lower"][place], pairs["upper"][place] = lower, upper
        self.cluster_distances_: NDArray[Any] = pairs
        self.n_overlaps_ = int((pairs["lower"] <= 0).sum())
        self.label_lower_, self.label_upper_ = self._by_label("lower"), self._by_label("upper")
        self.label_distances_ = 0.5 * (self.label_lower_ + self.label_upper_)

    def _by_label(self, bound: str) -> Floats:
        """(labels, labels): a bound of the distance of each pair of labels, from those of their clusters."""
        labels, pairs = len(self.classes_), self.cluster_distances_
        first, second = self._codes[pairs["i"]], self._codes[pairs["j"]]
        if self.label_distance == "mean":
            values, count = np.zeros((labels, labels)), np.zeros((labels, labels))
            np.add.at(values, (first, second), pairs[bound])
            np.add.at(count, (first, second), 1)
            values /= np.maximum(count, 1)
        else:
            values = np.full((labels, labels), np.inf)
            np.minimum.at(values, (first, second), pairs[bound])
        table = np.full((labels, labels), np.nan)
        table[first, second] = table[second, first] = values[first, second]
        return table

    @property
    def minimum_distances_(self) -> Floats:
        """The distance of each label to the nearest other label; nan if none of its clusters is large enough."""
        table = self.label_distances_
        has_distance = ~np.isnan(table).all(axis=1)
        minimum = np.full(len(table), np.nan)
        minimum[has_distance] = np.nanmin(table[has_distance], axis=1)
        return minimum

    @cached_property
    def _inside(self) -> Floats:
        from theodolite.probes.hulls.points import inside_distances

        return np.array([inside_distances(hull) for hull in self._hulls()]).T

    @property
    def inside_mean_(self) -> Floats:
        """The mean distance of two points inside each cluster; 0 for a single point."""
        return np.asarray(self._inside[0])

    @property
    def inside_max_(self) -> Floats:
        """The largest distance of two points inside each cluster; 0 for a single point."""
        return np.asarray(self._inside[1])

    def distances(self, X: ArrayLike) -> Floats:
        """The distance of each row to the hull of each cluster, (m, clusters); 0 inside.

        Parameters
        ----------
        X
            (m, d) vectors.
        """
        from theodolite.probes.hulls.points import hull_distances

        return hull_distances(self._centred(X), self._hulls(), self._touching, n_jobs=self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of the nearest hull of each row; of the first one if a row is in several.

        Parameters
        ----------
        X
            (m, d) vectors.
        """
        from theodolite.probes.hulls.points import nearest_hulls

        nearest = nearest_hulls(self._centred(X), self._hulls(), self._touching, n_jobs=self.n_jobs)
        return np.asarray(self.cluster_labels_[nearest])

    def _centred(self, X: ArrayLike) -> Floats:
        check_is_fitted(self, "clusters_")
        rows = np.asarray(array(X), dtype=np.float64)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {rows.shape[1]} columns; the probe was fitted on {self.n_features_in_}")
        return np.ascontiguousarray(rows - self._origin)

    def closest_pair(self) -> Closest | None:
        """The two labels with the smallest distance between them, the first such pair in order; None if there is no distance."""
        table = self.label_distances_
        if np.isnan(table).all():
            return None
        i, j = divmod(int(np.nanargmin(table)), len(table))
        return Closest(str(self.classes_[i]), str(self.classes_[j]), float(table[i, j]))

    def verdict(self) -> str:
        """The result in one sentence: labels, clusters, separability, the labels in most pieces, and the closest two labels."""
        names, counts = np.unique(self.cluster_labels_, return_counts=True)
        largest = np.argsort(-counts, kind="stable")[:3]
        pieces = ", ".join(f"{names[at]} into {counts[at]}" for at in largest if counts[at] > 1)
        overlaps, closest = self.n_overlaps_, self.closest_pair()
        parts = [
            self._separability(),
            f"split: {pieces}" if pieces else "",
            f"{overlaps} pair{'s' if overlaps != 1 else ''} of clusters overlap{'s' if overlaps == 1 else ''}"
            if overlaps
            else "",
            f"{closest.first} and {closest.second} are closest, {closest.distance:.2g}" if closest else "no distances",
        ]
        return f"{len(self.classes_)} labels, {self.n_clusters_} clusters: {'; '.join(filter(None, parts))}"

    def _separability(self) -> str:
        return "linearly separable" if self.is_linear_ and not self.n_overlaps_ else "not linearly separable"
