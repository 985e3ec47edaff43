"""Means and moments of many clusters in one pass over rows that come in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from theodolite.core.blocks import available_cores, in_order, map_blocks
from theodolite.core.kmeans import Labels
from theodolite.core.moments import BlockMoments, Doubles, Moments, merge_blocks
from theodolite.core.vectors import Floats, Source

Assign = Callable[[int, Floats], Labels]
"""Cluster of each row of a block, given the number of its first row."""

FOLD_ROWS = 4096
FOLD_BYTES = 128 * 2**20
"""Rows of a cluster are gathered before they are folded into its scatter matrix: so many, or what all clusters hold together."""


def by_cluster(labels: Labels) -> Iterator[tuple[int, Labels]]:
    """(cluster, its rows in ascending order) for each cluster that has rows: one sort, no loop over rows."""
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    for cluster, rows in zip(present, np.split(order, starts[1:]), strict=True):
        yield int(cluster), rows


def cluster_means(data: Source, assign: Assign, k: int) -> tuple[NDArray[np.int64], Doubles]:
    """(k,) counts and (k, d) means; the mean of an empty cluster is 0."""

    def work(start: int, block: Floats) -> list[tuple[int, int, Doubles]]:
        groups = by_cluster(assign(start, block))
        return [(cluster, len(rows), block[rows].sum(axis=0, dtype=np.float64)) for cluster, rows in groups]

    counts = np.zeros(k, np.int64)
    sums = np.zeros((k, data.d))
    for found in map_blocks(work, data):
        for cluster, count, total in found:
            counts[cluster] += count
            sums[cluster] += total
    return counts, sums / np.maximum(counts, 1)[:, None]


def cluster_moments(data: Source, assign: Assign, k: int) -> Iterator[tuple[int, Moments]]:
    """(cluster, its moments) for each cluster that has rows, after one pass.

    Rows wait by cluster until there are enough for an efficient product; a cluster of at most d rows keeps them in place of a
    scatter matrix. So memory is bounded by k d^2 float64, plus the waiting rows.
    """
    folded: list[Moments | None] = [None] * k
    runs = _runs(data, assign, k)
    for cluster, fresh in in_order(lambda run: (run[0], _moments(*run)), runs, workers=available_cores()):
        known = folded[cluster]
        folded[cluster] = fresh if known is None else known | fresh
    for cluster in range(k):
        found, folded[cluster] = folded[cluster], None  # what was handed out need not be held here
        if found is not None:
            yield cluster, found


def _runs(data: Source, assign: Assign, k: int) -> Iterator[tuple[int, Floats, bool]]:
    """(cluster, many of its rows, whether these are its first), again and again until all rows are out."""
    enough = max(min(FOLD_ROWS, FOLD_BYTES // (k * data.d * data.dtype.itemsize)), data.d + 1)
    waiting: list[list[Floats]] = [[] for _ in range(k)]
    begun: set[int] = set()
    start = 0
    for block in data.blocks():
        for cluster, rows in by_cluster(assign(start, block)):
            waiting[cluster].append(block[rows])
            if sum(map(len, waiting[cluster])) >= enough:
                yield cluster, np.concatenate(waiting[cluster]), cluster not in begun
                begun.add(cluster)
                waiting[cluster].clear()
        start += len(block)
    for cluster, rest in enumerate(waiting):
        if rest:
            yield cluster, np.concatenate(rest), cluster not in begun


def _moments(_: int, rows: Floats, first: bool) -> Moments:
    """Moments that keep rows where there are few and no others: what joins a scatter matrix had better come as one."""
    return Moments.of(rows) if first else merge_blocks([BlockMoments.of(rows)], rows.shape[1])
