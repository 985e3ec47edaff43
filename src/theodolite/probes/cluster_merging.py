"""From labelled rows to clusters: greedy merging of same-label clusters whose hulls stay disjoint from every other label's.

This is the algorithm of DirectProbe (Zhou & Srikumar 2021). Only labels whose whole hulls overlap need it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from theodolite.core.parallel import one_blas_thread
from theodolite.probes.forest import (
    CHUNK,
    Forest,
    alive_at,
    closest_cluster,
    cluster_numbers,
    fewest_clusters,
    find_overlap,
    members,
    merge,
    merge_tested,
    merge_unchecked,
    n_merges,
    new_forest,
    refuse,
    with_room,
)
from theodolite.probes.hulls.active_set import Flags, Floats, Ints, needs_compiling
from theodolite.probes.hulls.gap import pair_bounds, solve_gap
from theodolite.probes.hulls.working_set import grow_working_set_compiled, is_compiled
from theodolite.probes.shared_planes import PlaneMerger

# Progress of several stages: called with (stage, done, total); may raise to cancel.
Stage: TypeAlias = Callable[[str, int, int], None]

# The stage that a first run begins with.
COMPILING = "compiling, once on this machine (about a minute)"

# Up to this dimension merges are tested pair by pair in compiled code; above it, against planes that many pairs share.
_MAX_PAIRWISE_DIMENSION = 64
# What merges change in old nodes of a Forest.
_CHANGING = ("parent", "alive", "mergeable", "partner", "square", "stale", "used", "refused")


class MergedClusters(NamedTuple):
    """The clusters of labelled rows."""

    numbers: Ints
    fewest: int
    unfinished: Ints


def label_bounds(X: Floats, codes: Ints, touching: float, tolerance: float, n_jobs: int | None, progress: Stage | None) -> Floats:
    """(labels, labels, 2) bounds of the distance of each pair of whole labels; a lower bound of 0 means that they overlap."""
    smallest = int(np.sort(np.bincount(codes))[:2].sum())
    if is_compiled(smallest, X.shape[1]):
        _announce_compiling(grow_working_set_compiled, progress)
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
    *,
    is_pairwise: bool,
) -> MergedClusters:
    """The clusters of labelled rows.

    Overlap only grows, so labels whose whole hulls are disjoint from all others are one cluster each, and only the groups of
    labels that overlap one another need merging.
    """
    labels = len(overlaps)
    clusters = codes.astype(np.int64)
    total = int(np.isin(codes, np.flatnonzero(overlaps.any(axis=1))).sum())
    rows_done = fewest = 0
    unfinished: list[int] = []
    if total:
        _announce_compiling(merge_unchecked if is_pairwise else merge, progress)
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
            merger = (_Merger if is_pairwise else PlaneMerger)(forest, touching)
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
    return MergedClusters(clusters, fewest, np.array(unfinished, dtype=np.int64))


def is_merged_pairwise(d: int) -> bool:
    """Whether merges are tested pair by pair, in compiled code, or against planes that many pairs share."""
    return d <= _MAX_PAIRWISE_DIMENSION


def linked_labels(overlaps: Flags) -> list[Ints]:
    """The groups of labels that overlap directly or through others; a label that overlaps none is a group of its own."""
    # Paths of up to 1, 2, 4, ... steps, until there are no more. For so few labels this takes a tenth of the time of SciPy's
    # search, which would be a twentieth of a small fit.
    linked = overlaps | np.eye(len(overlaps), dtype=np.bool_)
    while (wider := linked @ linked).sum() > linked.sum():
        linked = wider
    return [np.flatnonzero(row) for label, row in enumerate(linked) if row.argmax() == label]


def _announce_compiling(kernel: Callable[..., Any], progress: Stage | None) -> None:
    """Say so if a kernel is about to be compiled: a program that is silent for a minute looks as if it hung."""
    if not needs_compiling(kernel):
        return
    if progress is None:
        _say_compiling()
    else:
        progress(COMPILING, 0, 1)


@cache  # once in a process
def _say_compiling() -> None:
    print(f"theodolite: {COMPILING}", file=sys.stderr)  # noqa: T201  # there is nobody else to say it


class _Merger:
    """One greedy merging: merges without tests as long as that went well, and backs up to the first overlap.

    Hulls only grow, so a state without overlap proves that every state before it had none: if overlaps are rare, one test stands
    for many merges, and if they are frequent, each merge is tested.
    """

    def __init__(self, forest: Forest, touching: float) -> None:
        self.forest = forest
        self.touching = touching
        self.stride = len(forest.points)  # how many merges to try without tests
        self.decided: dict[tuple[int, int], bool] = {}  # pairs of clusters whose overlap was undecided at first

    def go_on(self, deadline: float = np.inf) -> bool:  # noqa: ARG002  # steps are short
        """Merge some more; False if no pair is left."""
        self.forest = with_room(self.forest)
        return self._merge_many() if self.stride >= 4 else self._merge_by_pairs()

    def _merge_by_pairs(self) -> bool:
        """Merge or refuse one pair after the other, a chunk of them."""
        refused = int(self.forest.used[1])
        steps = 0
        while steps < CHUNK:
            steps_done, first, second, undecided = merge_tested(self.forest, CHUNK - steps, self.touching)
            steps += steps_done
            if first == -1:
                return False
            if first >= 0:
                own = self.forest.points[np.concatenate([members(self.forest, node) for node in (first, second)])]
                overlaps = any(self._rows_overlap(own, members(self.forest, int(rival))) for rival in undecided)
                (refuse if overlaps else merge)(self.forest, first, second)
                steps += 1
        if int(self.forest.used[1]) == refused:  # a whole chunk without a refusal: leap again
            self.stride = 2 * CHUNK
        return True

    def _merge_many(self) -> bool:
        """Merge without tests, find the first merge that made an overlap, take back from there, and refuse it."""
        base, merges, snapshots = int(self.forest.used[0]), 0, []
        part = self.stride
        while part > 0:
            # Overlaps come late, so the states to come back to get closer and closer together.
            part = (self.stride - merges + 1) // 2
            snapshots.append((merges, [getattr(self.forest, name).copy() for name in _CHANGING]))
            step = merge_unchecked(self.forest, part)
            merges += step
            if step < part:
                break
        if merges == 0:
            return False
        good = self._merges_without_overlap(base, merges)
        if good == merges:
            self.stride *= 2
            return True
        # Back to the last stored state before the overlap, and from there merge again up to it.
        at, snapshot = max((entry for entry in snapshots if entry[0] <= good), key=lambda entry: entry[0])
        for name, values in zip(_CHANGING, snapshot, strict=True):
            getattr(self.forest, name)[:] = values
        merge_unchecked(self.forest, good - at)
        self.decided = {pair: overlap for pair, overlap in self.decided.items() if max(pair) < base + good}
        first = closest_cluster(self.forest)
        refuse(self.forest, first, int(self.forest.partner[first]))
        self.stride = 1  # overlaps come in crowds: go on step by step
        return True

    def _merges_without_overlap(self, base: int, merges: int) -> int:
        """How many of the merges since node `base` stand: those before the first that made hulls of two labels overlap."""
        if not self._has_overlap(base, merges):
            return merges
        good, bad, back = 0, merges, 1
        while bad - good > 1:
            # Overlaps tend to come late, where the states are cheap to test: go back in growing strides, then halve.
            middle = max(bad - back, (good + bad) // 2)
            if self._has_overlap(base, middle):
                bad, back = middle, 2 * back
            else:
                good = middle
        return good

    def _has_overlap(self, base: int, merges: int) -> bool:
        """Whether, after some of the merges since node `base`, a cluster made by them overlaps one of another label."""
        alive = alive_at(self.forest, base + merges)
        overlaps, undecided = find_overlap(self.forest, alive, base, self.touching)
        return bool(overlaps) or any(self._overlap(int(first), int(second)) for first, second in undecided)

    def _overlap(self, first: int, second: int) -> bool:
        if (first, second) not in self.decided:
            own = self.forest.points[members(self.forest, first)]
            self.decided[first, second] = self._rows_overlap(own, members(self.forest, second))
        return self.decided[first, second]

    def _rows_overlap(self, own: Floats, rows: Ints) -> bool:
        return solve_gap(own, self.forest.points[rows], touching=self.touching, decide=True).overlap
