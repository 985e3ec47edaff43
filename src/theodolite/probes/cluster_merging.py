"""From labelled rows to clusters: greedy merging of same-label clusters whose hulls stay disjoint from every other label's.

This is the algorithm of DirectProbe (Zhou & Srikumar 2021). Only labels whose whole hulls overlap need it.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise

import numpy as np

from theodolite.core.parallel import Stage, one_blas_thread
from theodolite.probes.cluster_forest import (
    CHUNK,
    Forest,
    cluster_numbers,
    fewest_clusters,
    members,
    merge,
    merge_tested,
    n_merges,
    new_forest,
    refuse,
    with_room,
)
from theodolite.probes.hulls.active_set import Flags, Floats, Ints
from theodolite.probes.hulls.gap import pair_bounds, solve_gap
from theodolite.probes.shared_planes import PlaneMerger

# Up to this dimension merges are tested pair by pair in compiled code; above it, against planes that many pairs share. CPU
# seconds of the two if labels overlap: 3.4 and 54 at 2,000 × 2, 0.11 and 0.93 at 1,000 × 8, 1.1 and 1.6 at 1,000 × 24, 2.7 and
# 1.5 at 1,000 × 32.
_MAX_PAIRWISE_DIMENSION = 24


def label_bounds(X: Floats, codes: Ints, touching: float, tolerance: float, n_jobs: int | None, progress: Stage | None) -> Floats:
    """(labels, labels, 2) bounds of the distance of each pair of whole labels; a lower bound of 0 means that they overlap."""
    labels = int(codes.max()) + 1
    hulls = [X[start:end] for start, end in pairwise(np.searchsorted(codes, np.arange(labels + 1)))]
    first, second = np.triu_indices(labels, 1)
    report = None if progress is None else partial(progress, "pairs of labels")
    bounds = np.full((labels, labels, 2), np.nan)
    bounds[first, second] = pair_bounds(hulls, np.stack([first, second], axis=1), touching, tolerance, n_jobs, report)
    bounds[second, first] = bounds[first, second]
    return bounds


def find_clusters(
    X: Floats,
    codes: Ints,
    overlaps: Flags,
    touching: float,
    progress: Stage | None,
    deadline: float = np.inf,
) -> tuple[Ints, int, Ints]:
    """The cluster of each row, at least how many clusters there are, and the labels whose clusters might still merge.

    Overlap only grows, so labels whose whole hulls are disjoint from all others are one cluster each, and only the groups of
    labels that overlap one another need merging.
    """
    labels, is_pairwise = len(overlaps), X.shape[1] <= _MAX_PAIRWISE_DIMENSION
    clusters = codes.astype(np.int64)
    total = int(np.isin(codes, np.flatnonzero(overlaps.any(axis=1))).sum())
    rows_done = fewest = 0
    unfinished: list[int] = []
    for group in linked_labels(overlaps):
        if len(group) == 1:
            fewest += 1
            continue
        rows = np.flatnonzero(np.isin(codes, group))
        with one_blas_thread():  # the systems are small: a second thread would mostly wait
            labels_of_rows = np.searchsorted(group, codes[rows]).astype(np.int64)
            forest = new_forest(
                np.ascontiguousarray(X[rows]), labels_of_rows, np.ascontiguousarray(overlaps[np.ix_(group, group)])
            )
            merger = (_PairwiseMerger if is_pairwise else PlaneMerger)(forest, touching)
            is_left = True
            while is_left and time.time() < deadline:
                is_left = merger.go_on(deadline)
                if progress is not None:
                    progress("merging points", rows_done + n_merges(merger.forest), total)
        numbers = cluster_numbers(merger.forest)
        clusters[rows] = labels + rows_done + numbers  # numbers that no other cluster has
        most = int(numbers.max()) + 1
        at_least = fewest_clusters(merger.forest) if is_left else most
        if at_least < most:
            unfinished += group.tolist()
        fewest += at_least
        rows_done += len(rows)
    return clusters, fewest, np.array(unfinished, dtype=np.int64)


def linked_labels(overlaps: Flags) -> list[Ints]:
    """The groups of labels that overlap directly or through others; a label that overlaps none is a group of its own."""
    # Paths of up to 1, 2, 4, ... steps, until there are no more. For so few labels this takes a tenth of the time of SciPy's
    # search, which would be a twentieth of a small fit.
    linked = overlaps | np.eye(len(overlaps), dtype=np.bool_)
    while (wider := linked @ linked).sum() > linked.sum():
        linked = wider
    return [np.flatnonzero(row) for label, row in enumerate(linked) if row.argmax() == label]


class _PairwiseMerger:
    """One greedy merging in few dimensions: each merge is tested in compiled code against the rivals whose spheres it meets."""

    def __init__(self, forest: Forest, touching: float) -> None:
        self.forest = forest
        self.touching = touching

    def go_on(self, deadline: float = np.inf) -> bool:  # noqa: ARG002  # steps are short
        """Merge or refuse some more pairs; False if none is left."""
        self.forest = with_room(self.forest)
        steps = 0
        while steps < CHUNK:
            steps_done, first, second, undecided = merge_tested(self.forest, CHUNK - steps, self.touching)
            steps += steps_done
            if first == -1:
                return False
            if first >= 0:
                hulls = [self.forest.points[members(self.forest, int(node))] for node in (first, second, *undecided)]
                own = np.concatenate(hulls[:2])
                overlaps = any(solve_gap(own, rival, touching=self.touching, decide=True).overlap for rival in hulls[2:])
                (refuse if overlaps else merge)(self.forest, first, second)
                steps += 1
        return True
