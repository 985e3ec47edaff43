"""DirectProbe (Zhou & Srikumar 2021, 2022): the labels of a space as clusters with disjoint convex hulls, and what it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from theodolite.core.sampling import sample_by_label
from theodolite.core.vectors import array
from theodolite.probes.labels import label_codes

if TYPE_CHECKING:
    from theodolite.probes.hulls.active_set import Floats, Ints
    from theodolite.probes.merging import Stage

LabelDistance: TypeAlias = Literal["mean", "minimum"]

# Rows of the two trial runs that an estimate of the cost is made from.
SMALL, LARGE = 300, 600

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
        Seconds after which the merging of labels that overlap stops; unlimited by default. Which labels overlap is decided in any
        case, the number of clusters has bounds then, and the labels whose clusters might still merge have no distances.

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

    tolerance: float = 1e-6
    label_distance: LabelDistance = "mean"
    min_cluster_size: int = 1
    n_jobs: int | None = None
    progress: Stage | None = None
    budget: float | None = None

    def __repr__(self) -> str:
        if not hasattr(self, "label_distances_"):
            return str(super().__repr__())
        counts = f"{len(self.classes_):,} labels, {self._cluster_count()} clusters"
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
        from theodolite.probes.hulls.gap import TOUCHING, largest_norm
        from theodolite.probes.merging import find_clusters

        if self.label_distance not in ("mean", "minimum"):
            raise ValueError(f"label_distance={self.label_distance!r} must be 'mean' or 'minimum'")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance} must be between 0 and 1: it is a share of each distance")
        if self.min_cluster_size < 1:
            raise ValueError(f"min_cluster_size={self.min_cluster_size} must be at least 1")
        vectors = np.asarray(array(X), dtype=np.float64)
        codes, self.classes_ = label_codes(vectors, y)
        self.n_features_in_ = vectors.shape[1]
        self._origin = vectors.mean(axis=0)  # products near the origin keep their digits
        rows = vectors - self._origin
        reach = largest_norm(rows)
        if reach <= TOUCHING * float(np.linalg.norm(self._origin)) or reach == 0:
            raise NoSpread(f"all {len(rows):,} rows are the same point within rounding; labels cannot be told apart there")
        self._touching = TOUCHING * reach
        if clusters is None:
            order = np.argsort(codes, kind="stable")  # the rows of a label are next to each other: its hull is one slice
            numbers = np.empty(len(codes), dtype=np.int64)
            found = find_clusters(
                rows[order], codes[order], self._touching, self.tolerance, self.n_jobs, self.progress, self.budget
            )
            numbers[order], label_bounds, self.fewest_clusters_, unfinished = found
        else:
            numbers, label_bounds = _require_clusters(clusters, codes, self.classes_), {}
            self.fewest_clusters_, unfinished = len(np.unique(numbers)), np.empty(0, dtype=np.int64)
        self.unfinished_ = self.classes_[unfinished]
        self._store_clusters(rows, codes, numbers)
        self._measure_distances(label_bounds, unfinished)
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

    def _measure_distances(self, label_bounds: dict[tuple[int, int], tuple[float, float]], unfinished: Ints) -> None:
        """Distances of all clusters with different labels; `label_bounds` are those of whole labels, which are solved already."""
        from theodolite.probes.hulls.gap import pair_bounds

        first, second = np.triu_indices(self.n_clusters_, 1)
        is_large = (self.cluster_sizes_ >= self.min_cluster_size) & ~np.isin(self._codes, unfinished)
        differ = (self._codes[first] != self._codes[second]) & is_large[first] & is_large[second]
        first, second = first[differ], second[differ]
        pairs = list(zip(first.tolist(), second.tolist(), strict=True))
        # The hull of a label that is one cluster was solved while the clusters were found.
        clusters_of = np.bincount(self._codes)
        whole = {i: code for i, code in enumerate(self._codes.tolist()) if label_bounds and clusters_of[code] == 1}
        bounds = {(i, j): label_bounds[whole[i], whole[j]] for i, j in pairs if i in whole and j in whole}
        unsolved = [pair for pair in pairs if pair not in bounds]
        report = None if self.progress is None else partial(self.progress, "distances between clusters")
        solved = pair_bounds(self._hulls, unsolved, self._touching, self.tolerance, self.n_jobs, report)
        bounds.update(zip(unsolved, solved, strict=True))
        self.cluster_distances_: NDArray[Any] = np.array([(*pair, *bounds[pair]) for pair in pairs], dtype=_PAIR)
        self.n_overlaps_ = int((self.cluster_distances_["lower"] <= 0).sum())
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
        return np.asarray(np.fmin.reduce(self.label_distances_, axis=1))

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
        """The two closest labels, the first such pair in order, and their distance; None if there is no distance."""
        table = self.label_distances_
        if np.isnan(table).all():
            return None
        i, j = divmod(int(np.nanargmin(table)), len(table))
        return str(self.classes_[i]), str(self.classes_[j]), float(table[i, j])

    def verdict(self) -> str:
        """The result in one sentence: labels, clusters, separability, the labels in most pieces, and the closest two labels."""
        names, counts = np.unique(self.cluster_labels_, return_counts=True)
        largest = np.argsort(-counts, kind="stable")[:3]
        pieces = ", ".join(f"{names[at]} into {counts[at]}" for at in largest if counts[at] > 1)
        stopped = (
            f"merging of {len(self.unfinished_)} labels was stopped after {self.budget:g} s" if len(self.unfinished_) else ""
        )
        overlaps, closest = self.n_overlaps_, self.closest_pair()
        parts = [
            self._separability(),
            stopped or (f"split: {pieces}" if pieces else ""),
            {0: "", 1: "1 pair of clusters overlaps"}.get(overlaps, f"{overlaps} pairs of clusters overlap"),
            f"{closest[0]} and {closest[1]} are closest, {closest[2]:.2g}" if closest else "no distances",
        ]
        return f"{len(self.classes_)} labels, {self._cluster_count()} clusters: {'; '.join(filter(None, parts))}"

    def _cluster_count(self) -> str:
        """The number of clusters, or its bounds."""
        if not len(self.unfinished_):
            return f"{self.n_clusters_:,}"
        return f"between {self.fewest_clusters_:,} and {self.n_clusters_:,}"

    def _separability(self) -> str:
        return "linearly separable" if self.is_linear_ and not self.n_overlaps_ else "not linearly separable"


@dataclass(frozen=True)
class Cost:
    """About what a run takes.

    Parameters
    ----------
    seconds, megabytes
        Time and memory of the run.
    is_linear
        Whether the labels of the trial rows were linearly separable; if not, more rows take disproportionately longer.
    """

    seconds: float
    megabytes: float
    is_linear: bool


def estimate_cost(X: ArrayLike, y: ArrayLike, *, seed: int = 0) -> Cost:
    """About what `DirectProbe().fit(X, y)` will take, from two small runs on stratified samples, extrapolated by a power of n.

    Separable labels take time in proportion to n; labels that must be split, up to the cube. More rows can turn the first into
    the second, so this is a guide and not a promise.

    Parameters
    ----------
    X, y
        (n, d) vectors and the label of each.
    seed
        Of the samples.
    """
    rows = array(X)
    codes, classes = label_codes(rows, y)
    n, d = rows.shape
    sizes = [size for size in (max(SMALL, 2 * len(classes)), max(LARGE, 4 * len(classes))) if size < n] or [n]  # small: run it
    DirectProbe().fit(np.eye(4, d), [0, 0, 1, 1])  # what is loaded or compiled on first use must not be timed
    seconds, is_linear = [], True
    for size in sizes:
        sample = sample_by_label(codes, size, seed=seed)
        start = time.perf_counter()
        is_linear = DirectProbe().fit(rows[sample], codes[sample]).is_linear_
        seconds.append(time.perf_counter() - start)
    power = 1.0 if len(seconds) < 2 else float(np.clip(np.log(seconds[1] / seconds[0]) / np.log(sizes[1] / sizes[0]), 1.0, 3.0))
    if not is_linear:
        power = max(power, 2.0)
    return Cost(seconds[-1] * (n / sizes[-1]) ** power, 8 * n * d * (3 if is_linear else 5) / 2**20, is_linear)


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
