"""DirectProbe (Zhou & Srikumar 2021, 2022): the labels of a space as clusters with disjoint convex hulls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from theodolite.core.vectors import array
from theodolite.probes.label_codes import code_labels

if TYPE_CHECKING:
    from theodolite.core.parallel import Stage
    from theodolite.probes.hulls.active_set import Floats, Ints

LabelDistance: TypeAlias = Literal["mean", "minimum"]

_PAIR = np.dtype([("i", np.int64), ("j", np.int64), ("lower", np.float64), ("upper", np.float64)])
_BLOCK = 1024  # rows of a block of pairwise distances, the most that is in memory at a time


class NoSpread(ValueError):
    """All rows are the same point, as the [CLS] vectors of an encoder's layer 0 are."""


@dataclass(kw_only=True, eq=False, repr=False)
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
    budget
        Seconds after which the merging of labels that overlap and the measuring of clusters stop; unlimited by default. Which
        labels overlap is decided in any case. If merging stops, the number of clusters has bounds, and the labels whose clusters
        might still merge have no distances; if measuring does, the labels that are not measured yet have none.

    Attributes
    ----------
    classes_
        The labels, sorted.
    clusters_
        The cluster of each row, numbered by label and then by first row.
    cluster_labels_, cluster_sizes_
        The label and the number of rows of each cluster.
    n_clusters_
        The number of clusters; if the budget ran out, the most that there can be.
    fewest_clusters_
        The same number; if the budget ran out, a certified lower bound of it.
    unfinished_
        The labels whose clusters might still merge: none, unless the budget ran out.
    unmeasured_
        The labels whose distance to another label is missing because the budget ran out.
    is_linear_
        Whether every label is one cluster.
    n_overlaps_
        Pairs of clusters with different labels that overlap: clusters that were given, or points that carry two labels.
    n_label_overlaps_
        Pairs of labels whose hulls, of all their rows or of clusters that were given, overlap.
    cluster_distances_
        One record per pair of clusters with different labels: `i`, `j`, and the bounds `lower` and `upper` of the distance.
    label_distances_, label_lower_, label_upper_
        (labels, labels) distances and their bounds, nan on the diagonal, if a label has no cluster that is large enough, and if
        the budget ran out before.

    Examples
    --------
    >>> probe = DirectProbe().fit([[0.0], [1.0], [4.0], [6.0]], ["low", "low", "high", "high"])
    >>> probe
    DirectProbe: 2 labels, 2 clusters, linearly separable (4 × 1)
    >>> probe.verdict()
    '2 labels, 2 clusters: linearly separable; high and low are closest, 3'
    """

    tolerance: float = 1e-6
    label_distance: LabelDistance = "mean"
    min_cluster_size: int = 1
    n_jobs: int | None = None
    progress: Stage | None = None
    budget: float | None = None

    def __repr__(self) -> str:
        if not hasattr(self, "label_distances_"):
            return str(super().__repr__())
        counts = f"{len(self.classes_):,} labels, {self.cluster_count()} clusters"
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
        # Not at the top of the file: numba takes a second to load, and not all who import this module fit a probe.
        from theodolite.probes.cluster_merging import find_clusters, label_bounds

        if self.label_distance not in ("mean", "minimum"):
            raise ValueError(f"label_distance={self.label_distance!r} must be 'mean' or 'minimum'")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance} must be between 0 and 1: it is a share of each distance")
        if self.min_cluster_size < 1:
            raise ValueError(f"min_cluster_size={self.min_cluster_size} must be at least 1")
        # By the clock on the wall: a worker on another machine has a performance counter of its own.
        deadline = np.inf if self.budget is None else time.time() + self.budget
        vectors = np.asarray(array(X), dtype=np.float64)
        codes, self.classes_ = code_labels(vectors, y)
        self.n_features_in_ = vectors.shape[1]
        rows, self._origin, self._touching = centred(vectors)
        if clusters is None:
            order = np.argsort(codes, kind="stable")  # the rows of a label are next to each other: its hull is one slice
            numbers = np.empty(len(codes), dtype=np.int64)
            grouped, labels = rows[order], codes[order]
            bounds = label_bounds(grouped, labels, self._touching, self.tolerance, self.n_jobs, self.progress)
            numbers[order], self.fewest_clusters_, unfinished = find_clusters(
                grouped, labels, bounds[:, :, 0] <= 0, self._touching, self.progress, deadline
            )
        else:
            numbers, bounds = _require_clusters(clusters, codes, self.classes_), None
            self.fewest_clusters_, unfinished = len(np.unique(numbers)), np.empty(0, dtype=np.int64)
        self.unfinished_ = self.classes_[unfinished]
        self._store_clusters(rows, codes, numbers)
        self._measure_distances(bounds, unfinished, deadline)
        return self

    def _store_clusters(self, rows: Floats, codes: Ints, numbers: Ints) -> None:
        """Store the rows cluster by cluster; clusters are numbered by label, then by first row."""
        _, first_rows, places = np.unique(numbers, return_index=True, return_inverse=True)
        ranked = np.lexsort((first_rows, codes[first_rows]))
        self.clusters_ = np.argsort(ranked)[places]  # the order of an order is the rank
        self.n_clusters_ = len(ranked)
        self.cluster_sizes_ = np.bincount(self.clusters_)
        by_cluster = np.ascontiguousarray(rows[np.argsort(self.clusters_, kind="stable")])
        self._hulls = np.split(by_cluster, np.cumsum(self.cluster_sizes_)[:-1])
        self._codes = codes[first_rows[ranked]]
        self.cluster_labels_ = self.classes_[self._codes]
        self.is_linear_ = self.n_clusters_ == len(self.classes_)
        self.__dict__.pop("_inside", None)  # of an earlier fit

    def _measure_distances(self, label_bounds: Floats | None, unfinished: Ints, deadline: float) -> None:
        """Distances of all clusters with different labels; `label_bounds` are those of whole labels, which are solved already."""
        included = np.flatnonzero((self.cluster_sizes_ >= self.min_cluster_size) & ~np.isin(self._codes, unfinished))
        first, second = (included[side] for side in np.triu_indices(len(included), 1))
        differ = self._codes[first] != self._codes[second]
        first, second = first[differ], second[differ]
        # Single points that are equal have equal distances: each is solved once.
        twins = self._first_equal_points()
        distinct, places = np.unique(twins[first] * self.n_clusters_ + twins[second], return_inverse=True)
        bounds = self._bounds(np.stack(np.divmod(distinct, self.n_clusters_), axis=1), label_bounds, deadline)[places]
        is_late = np.isnan(bounds[:, 0])
        is_missing = np.full(len(self.classes_), len(unfinished) > 0)
        is_missing[self._codes[first[is_late]]] = is_missing[self._codes[second[is_late]]] = True
        self.unmeasured_ = self.classes_[is_missing]
        self.label_lower_, self.label_upper_ = (self._by_label(first, second, bound) for bound in bounds.T)
        self.label_distances_ = 0.5 * (self.label_lower_ + self.label_upper_)
        self.cluster_distances_: NDArray[Any] = np.empty(int((~is_late).sum()), dtype=_PAIR)
        for name, values in zip(("i", "j", "lower", "upper"), (first, second, *bounds.T), strict=True):
            self.cluster_distances_[name] = values[~is_late]
        is_overlap = self.cluster_distances_["lower"] <= 0
        self.n_overlaps_ = int(is_overlap.sum())
        if label_bounds is None:
            pairs = np.sort([self._codes[self.cluster_distances_[side][is_overlap]] for side in "ij"], axis=0)
            self.n_label_overlaps_ = len(np.unique(pairs, axis=1).T)
        else:
            self.n_label_overlaps_ = int((label_bounds[:, :, 0] <= 0).sum()) // 2

    def _first_equal_points(self) -> Ints:
        """For each cluster of one point the first of its label that is the same point; for the others themselves."""
        twins, single = np.arange(self.n_clusters_), np.flatnonzero(self.cluster_sizes_ == 1)
        if len(single) > 1:
            points = np.column_stack([self._codes[single], np.concatenate([self._hulls[cluster] for cluster in single])])
            _, firsts, places = np.unique(points, axis=0, return_index=True, return_inverse=True)
            twins[single] = single[firsts[places.ravel()]]
        return twins

    def _bounds(self, pairs: Ints, label_bounds: Floats | None, deadline: float) -> Floats:
        """(pairs, 2): the bounds of the distance of each pair of clusters, nan if the time was over before."""
        from theodolite.probes.hulls.gap import pair_bounds

        bounds = np.full((len(pairs), 2), np.nan)
        codes = self._codes[pairs]
        if label_bounds is not None:  # the hull of a label that is one cluster was solved while the clusters were found
            is_whole = (np.bincount(self._codes)[codes] == 1).all(axis=1)
            bounds[is_whole] = label_bounds[codes[is_whole, 0], codes[is_whole, 1]]
        unsolved = np.flatnonzero(np.isnan(bounds[:, 0]))
        # Labels with few pairs of clusters first: if the time is over, as many labels as possible have distances.
        counts = np.zeros((len(self.classes_), len(self.classes_)), dtype=np.int64)
        np.add.at(counts, (codes[unsolved, 0], codes[unsolved, 1]), 1)
        unsolved = unsolved[np.argsort(counts[codes[unsolved, 0], codes[unsolved, 1]], kind="stable")]
        report = None if self.progress is None else partial(self.progress, "distances between clusters")
        bounds[unsolved] = pair_bounds(
            self._hulls, pairs[unsolved], self._touching, self.tolerance, self.n_jobs, report, deadline
        )
        return bounds

    def _by_label(self, clusters: Ints, others: Ints, bound: Floats) -> Floats:
        """(labels, labels): a bound of the distance of each pair of labels, from those of their clusters."""
        labels = len(self.classes_)
        first, second = self._codes[clusters], self._codes[others]
        if self.label_distance == "mean":
            values, count = np.zeros((labels, labels)), np.zeros((labels, labels))
            np.add.at(values, (first, second), bound)
            np.add.at(count, (first, second), 1)
            values /= np.maximum(count, 1)
        else:
            values = np.full((labels, labels), np.inf)
            np.minimum.at(values, (first, second), bound)
        table = np.full((labels, labels), np.nan)
        table[first, second] = table[second, first] = values[first, second]
        return table

    @property
    def minimum_distances_(self) -> Floats:
        """The distance of each label to the nearest other label; nan if that is not known.

        It is not if no cluster of the label is large enough, or if the budget ran out before one of its distances was measured.
        """
        return np.where(np.isin(self.classes_, self.unmeasured_), np.nan, np.fmin.reduce(self.label_distances_, axis=1))

    @cached_property
    def _inside(self) -> Floats:
        return np.array([_inside_distances(hull) for hull in self._hulls]).T

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
        from theodolite.probes.hulls.gap import hull_distances

        return hull_distances(self._centred(X), self._hulls, self._touching, n_jobs=self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of the nearest hull of each row; of the first one if a row is in several.

        Parameters
        ----------
        X
            (m, d) vectors.
        """
        from theodolite.probes.hulls.gap import nearest_hulls

        nearest = nearest_hulls(self._centred(X), self._hulls, self._touching, n_jobs=self.n_jobs)
        return np.asarray(self.cluster_labels_[nearest])

    def _centred(self, X: ArrayLike) -> Floats:
        check_is_fitted(self, "clusters_")
        rows = np.asarray(array(X), dtype=np.float64)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {rows.shape[1]} columns; the probe was fitted on {self.n_features_in_}")
        return np.ascontiguousarray(rows - self._origin)

    def closest_pair(self) -> tuple[str, str, float] | None:
        """The two closest labels of those measured, the first such pair, and their distance; None if there is no distance."""
        table = self.label_distances_
        if np.isnan(table).all():
            return None
        i, j = divmod(int(np.nanargmin(table)), len(table))
        return str(self.classes_[i]), str(self.classes_[j]), float(table[i, j])

    def verdict(self) -> str:
        """The result in one sentence: labels, clusters, separability, the labels in most pieces, and the closest two labels."""
        overlaps, closest, of = self.n_overlaps_, self.closest_pair(), " of those measured" if len(self.unmeasured_) else ""
        parts = [
            self._separability(),
            self.pieces(),
            {0: "", 1: "1 pair of clusters overlaps"}.get(overlaps, f"{overlaps} pairs of clusters overlap"),
            f"{closest[0]} and {closest[1]} are closest{of}, {closest[2]:.2g}" if closest else "no distances",
        ]
        return f"{len(self.classes_)} labels, {self.cluster_count()} clusters: {'; '.join(filter(None, parts))}"

    def pieces(self) -> str:
        """The three labels in most clusters, or that the budget ended before; empty if each label is one cluster."""
        if len(self.unfinished_):
            return f"merging of {len(self.unfinished_)} labels was stopped after {self.budget:g} s"
        names, counts = np.unique(self.cluster_labels_, return_counts=True)
        most = [at for at in np.argsort(-counts, kind="stable")[:3] if counts[at] > 1]
        return f"split: {', '.join(f'{names[at]} into {counts[at]}' for at in most)}" if most else ""

    def cluster_count(self) -> str:
        """The number of clusters, or its bounds."""
        if not len(self.unfinished_):
            return f"{self.n_clusters_:,}"
        return f"between {self.fewest_clusters_:,} and {self.n_clusters_:,}"

    def _separability(self) -> str:
        return "linearly separable" if self.is_linear_ and not self.n_overlaps_ else "not linearly separable"


def centred(vectors: Floats) -> tuple[Floats, Floats, float]:
    """The rows around their mean, where products keep their digits; the mean; and the distance that counts as touching."""
    from theodolite.probes.hulls.gap import TOUCHING, largest_norm

    origin = vectors.mean(axis=0)
    rows = vectors - origin
    reach = largest_norm(rows)
    if reach <= TOUCHING * float(np.linalg.norm(origin)) or reach == 0:
        raise NoSpread(f"all {len(rows):,} rows are the same point up to rounding, so labels cannot be told apart")
    return rows, origin, TOUCHING * reach


def _require_clusters(clusters: ArrayLike, codes: Ints, classes: NDArray[Any]) -> Ints:
    """Clusters that a caller gave, numbered from 0; there must be one for each row, and each must have a single label."""
    names = np.asarray(clusters)
    if names.shape != codes.shape:
        raise ValueError(f"clusters has shape {names.shape} for {len(codes)} rows; give one cluster for each row")
    names, numbers = np.unique(names, return_inverse=True)
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


def _inside_distances(points: Floats) -> tuple[float, float]:
    """Mean and largest Euclidean distance of two different points; both 0 for a single point."""
    n = len(points)
    if n == 1:
        return 0.0, 0.0
    points = points - points.mean(axis=0)  # a cluster far from the origin loses no digits
    norms = np.einsum("ij,ij->i", points, points)
    total = largest = 0.0
    for start in range(0, n, _BLOCK):
        block = points[start : start + _BLOCK]
        squares = norms[start : start + _BLOCK, None] + norms[start:] - 2.0 * (block @ points[start:].T)
        squares[np.tril_indices(len(block), m=squares.shape[1])] = 0.0  # each pair once
        distances = np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
        total += float(distances.sum())
        largest = max(largest, float(distances.max()))
    return 2.0 * total / (n * (n - 1)), largest
