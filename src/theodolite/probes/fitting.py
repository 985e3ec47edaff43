"""From labelled rows to clusters: which labels' hulls overlap, and the merging inside each group of labels that do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from theodolite.probes.clustering import merged_clusters
from theodolite.probes.compiled import must_compile
from theodolite.probes.corral import NARROW, nearest_compiled
from theodolite.probes.hulls import gap_bounds
from theodolite.probes.merging import run_blind
from theodolite.probes.parallel import in_parallel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Stage = Callable[[str, int, int], None]
Bounds = dict[tuple[int, int], tuple[float, float]]

COMPILING = "compiling, once on this machine (about a minute)"
"""The stage that a first run begins with."""


def find_clusters(
    X: Floats, codes: Ints, touching: float, tolerance: float, n_jobs: int | None, progress: Stage | None
) -> tuple[Ints, Bounds]:
    """The cluster of each row, and the bounds of the distance of each pair of whole labels; rows must be grouped by label.

    Overlap only grows, so labels whose whole hulls are disjoint from all others are one cluster each, and only the groups of
    labels that overlap one another need merging.
    """
    if progress is not None and X.shape[1] <= NARROW and must_compile(nearest_compiled):
        progress(COMPILING, 0, 1)
    known = label_gaps(X, codes, touching, tolerance, n_jobs, progress)
    labels = int(codes.max()) + 1
    foes = np.zeros((labels, labels), dtype=np.bool_)
    for (one, two), (lower, _) in known.items():
        foes[one, two] = foes[two, one] = lower <= 0
    clusters = codes.astype(np.int64)
    total = int(np.isin(codes, np.flatnonzero(foes.any(axis=1))).sum())
    done = 0
    if progress is not None and total and must_compile(run_blind):
        progress(COMPILING, 0, 1)
    for group in groups(foes):
        rows = np.flatnonzero(np.isin(codes, group))
        local = np.searchsorted(group, codes[rows])
        before = done

        def report(merges: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress("merging points", before + merges, total)

        with threadpool_limits(1, user_api="blas"):  # the systems are small: a second thread would mostly wait
            found = merged_clusters(
                np.ascontiguousarray(X[rows]),
                local.astype(np.int64),
                np.ascontiguousarray(foes[np.ix_(group, group)]),
                touching=touching,
                progress=report,
            )
        clusters[rows] = labels + done + found  # numbers no other cluster has
        done += len(rows)
    return clusters, known


def label_gaps(X: Floats, codes: Ints, touching: float, tolerance: float, n_jobs: int | None, progress: Stage | None) -> Bounds:
    """The bounds of the distance of the whole hulls of every pair of labels."""
    starts = np.searchsorted(codes, np.arange(int(codes.max()) + 2))
    pairs = [(one, two) for one in range(len(starts) - 1) for two in range(one + 1, len(starts) - 1)]

    def bounds(pair: tuple[int, int]) -> tuple[float, float]:
        one, two = pair
        return gap_bounds(X[starts[one] : starts[one + 1]], X[starts[two] : starts[two + 1]], touching, tolerance)

    report = None if progress is None else lambda done, total: progress("pairs of labels", done, total)
    return dict(zip(pairs, in_parallel(bounds, pairs, n_jobs=n_jobs, progress=report), strict=True))


def groups(foes: NDArray[np.bool_]) -> list[Ints]:
    """The groups of labels connected by overlaps, those of one label left out."""
    from scipy.sparse.csgraph import connected_components

    _, group = connected_components(foes, directed=False)
    found = [np.flatnonzero(group == each) for each in np.unique(group)]
    return [labels for labels in found if len(labels) > 1]
