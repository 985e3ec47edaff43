"""From labelled rows to clusters: which labels' hulls overlap, and the greedy merging inside each group of labels that do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from theodolite.core.parallel import in_parallel
from theodolite.probes.compiled import Flags, Floats, Ints, needs_compiling
from theodolite.probes.direct.forest import merge_unchecked
from theodolite.probes.direct.merging import Merger
from theodolite.probes.hulls.gap import gap_bounds
from theodolite.probes.hulls.working_set import MAX_COMPILED_DIMENSION, grow_working_set_compiled

Stage = Callable[[str, int, int], None]
Bounds = dict[tuple[int, int], tuple[float, float]]

# The stage that a first run begins with.
COMPILING = "compiling, once on this machine (about a minute)"


def find_clusters(
    X: Floats, codes: Ints, touching: float, tolerance: float, n_jobs: int | None, progress: Stage | None
) -> tuple[Ints, Bounds]:
    """The clusters of labelled rows.

    Overlap only grows, so labels whose whole hulls are disjoint from all others are one cluster each, and only the groups of
    labels that overlap one another need merging.

    Parameters
    ----------
    X, codes
        (n, d) float64 rows near the origin, grouped by label, and the number of the label of each.
    touching
        The distance up to which hulls count as overlapping.
    tolerance
        How far the bounds of a distance may differ, as a share of it.
    n_jobs
        Threads, as in `theodolite.core.parallel.in_parallel`.
    progress
        Called with (stage, done, total); may raise to cancel.

    Returns
    -------
    tuple
        The cluster of each row, and the bounds of the distance of each pair of whole labels.
    """
    if progress is not None and X.shape[1] <= MAX_COMPILED_DIMENSION and needs_compiling(grow_working_set_compiled):
        progress(COMPILING, 0, 1)
    bounds = _label_bounds(X, codes, touching, tolerance, n_jobs, progress)
    labels = int(codes.max()) + 1
    overlaps = np.zeros((labels, labels), dtype=np.bool_)
    for (first, second), (lower, _) in bounds.items():
        overlaps[first, second] = overlaps[second, first] = lower <= 0
    clusters = codes.astype(np.int64)
    total = int(np.isin(codes, np.flatnonzero(overlaps.any(axis=1))).sum())
    rows_done = 0
    if progress is not None and total and needs_compiling(merge_unchecked):
        progress(COMPILING, 0, 1)
    for group in _groups(overlaps):
        rows = np.flatnonzero(np.isin(codes, group))
        with threadpool_limits(1, user_api="blas"):  # the systems are small: a second thread would mostly wait
            merger = Merger(
                np.ascontiguousarray(X[rows]),
                np.searchsorted(group, codes[rows]).astype(np.int64),
                np.ascontiguousarray(overlaps[np.ix_(group, group)]),
                touching,
            )
            while merger.go_on():
                if progress is not None:
                    progress("merging points", rows_done + merger.merges, total)
        clusters[rows] = labels + rows_done + merger.clusters()  # numbers that no other cluster has
        rows_done += len(rows)
    return clusters, bounds


def require_clusters(clusters: ArrayLike, codes: Ints, classes: NDArray[Any]) -> Ints:
    """Clusters that a caller gave, numbered from 0.

    Parameters
    ----------
    clusters
        The cluster of each row, by number or name.
    codes, classes
        The number of the label of each row, and the labels.

    Raises
    ------
    ValueError
        There is not one cluster for each row, or a cluster has rows of two labels.
    """
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


def _label_bounds(
    X: Floats, codes: Ints, touching: float, tolerance: float, n_jobs: int | None, progress: Stage | None
) -> Bounds:
    """The bounds of the distance of the whole hulls of every pair of labels."""
    starts = np.searchsorted(codes, np.arange(int(codes.max()) + 2))
    hulls = [X[start:end] for start, end in pairwise(starts)]
    pairs = list(combinations(range(len(hulls)), 2))
    bounds = in_parallel(
        lambda pair: gap_bounds(hulls[pair[0]], hulls[pair[1]], touching, tolerance),
        pairs,
        n_jobs=n_jobs,
        progress=None if progress is None else lambda done, total: progress("pairs of labels", done, total),
    )
    return dict(zip(pairs, bounds, strict=True))


def _groups(overlaps: Flags) -> list[Ints]:
    """The groups of labels connected by overlaps, without those of one label."""
    from scipy.sparse.csgraph import connected_components

    count, group = connected_components(overlaps, directed=False)
    return [labels for labels in (np.flatnonzero(group == number) for number in range(count)) if len(labels) > 1]
