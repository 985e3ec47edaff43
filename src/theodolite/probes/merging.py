"""From labelled rows to clusters: greedy merging of same-label clusters whose hulls stay disjoint from every other label's.

This is the algorithm of DirectProbe (Zhou & Srikumar 2021). Only labels whose whole hulls overlap need it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from theodolite.probes.forest import (
    REFUSED_ROOM,
    Forest,
    alive_at,
    closest_cluster,
    current_cluster,
    find_overlap,
    members,
    merge,
    merge_tested,
    merge_unchecked,
    new_forest,
    refuse,
    rivals_of,
)
from theodolite.probes.hulls.active_set import Flags, Floats, Ints, needs_compiling
from theodolite.probes.hulls.gap import pair_bounds, separating_plane, solve_gap
from theodolite.probes.hulls.working_set import MAX_COMPILED_DIMENSION, grow_working_set_compiled

# Progress of several stages: called with (stage, done, total); may raise to cancel.
Stage: TypeAlias = Callable[[str, int, int], None]

# The stage that a first run begins with.
COMPILING = "compiling, once on this machine (about a minute)"

# Up to this dimension merges are tested pair by pair in compiled code; above it, against planes that many pairs share.
_MAX_PAIRWISE_DIMENSION = 64
_CHUNK = REFUSED_ROOM // 2  # steps between two reports of progress while merging one pair at a time
_CHANGING = ("parent", "alive", "partner", "square", "stale", "used")  # fields of a Forest that merges change in old nodes


def find_clusters(
    X: Floats, codes: Ints, touching: float, tolerance: float, n_jobs: int | None, progress: Stage | None
) -> tuple[Ints, dict[tuple[int, int], tuple[float, float]]]:
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
    from scipy.sparse.csgraph import connected_components

    if progress is not None and X.shape[1] <= MAX_COMPILED_DIMENSION and needs_compiling(grow_working_set_compiled):
        progress(COMPILING, 0, 1)
    labels = int(codes.max()) + 1
    hulls = [X[start:end] for start, end in pairwise(np.searchsorted(codes, np.arange(labels + 1)))]
    pairs = list(combinations(range(labels), 2))
    report = None if progress is None else partial(progress, "pairs of labels")
    bounds = dict(zip(pairs, pair_bounds(hulls, pairs, touching, tolerance, n_jobs, report), strict=True))
    overlaps = np.zeros((labels, labels), dtype=np.bool_)
    for (first, second), (lower, _) in bounds.items():
        overlaps[first, second] = overlaps[second, first] = lower <= 0
    clusters = codes.astype(np.int64)
    total = int(np.isin(codes, np.flatnonzero(overlaps.any(axis=1))).sum())
    rows_done = 0
    if progress is not None and total and needs_compiling(merge_unchecked):
        progress(COMPILING, 0, 1)
    count, group_of = connected_components(overlaps, directed=False)
    for group in (np.flatnonzero(group_of == number) for number in range(count)):
        if len(group) == 1:
            continue
        rows = np.flatnonzero(np.isin(codes, group))
        with threadpool_limits(1, user_api="blas"):  # the systems are small: a second thread would mostly wait
            labels_of_rows = np.searchsorted(group, codes[rows]).astype(np.int64)
            label_overlaps = np.ascontiguousarray(overlaps[np.ix_(group, group)])
            merger = _Merger(np.ascontiguousarray(X[rows]), labels_of_rows, label_overlaps, touching)
            while merger.go_on():
                if progress is not None:
                    progress("merging points", rows_done + merger.merges, total)
        clusters[rows] = labels + rows_done + merger.clusters()  # numbers that no other cluster has
        rows_done += len(rows)
    return clusters, bounds


class _Merger:
    """One greedy merging: merges without tests as long as that went well, and backs up to the first overlap.

    Hulls only grow, so a state without overlap proves that every state before it had none: if overlaps are rare, one test stands
    for many merges, and if they are frequent, each merge is tested.

    `label_overlaps` is (labels, labels): whether the whole hulls of two labels overlap. Only such labels can ever stop a merge.
    """

    def __init__(self, X: Floats, y: Ints, label_overlaps: Flags, touching: float) -> None:
        self.forest = new_forest(X, y, label_overlaps)
        self.touching = touching
        self.stride = len(X)  # how many merges to try without tests
        self.decided: dict[tuple[int, int], bool] = {}  # pairs of clusters whose overlap was undecided at first
        self.separators = _Separators(self.forest, touching) if X.shape[1] > _MAX_PAIRWISE_DIMENSION else None

    @property
    def merges(self) -> int:
        """How many merges there are so far."""
        return int(self.forest.used[0]) - len(self.forest.points)

    def clusters(self) -> Ints:
        """The cluster of each point, numbered by its first point."""
        owners = np.array([current_cluster(self.forest, point) for point in range(len(self.forest.points))])
        return np.asarray(np.unique(owners, return_inverse=True)[1], dtype=np.int64)

    def go_on(self) -> bool:
        """Merge some more; False if no pair is left."""
        # Double the list of refused pairs before it is full.
        if int(self.forest.used[1]) + _CHUNK >= len(self.forest.refused):
            refused = np.concatenate([self.forest.refused, np.zeros_like(self.forest.refused)])
            self.forest = self.forest._replace(refused=refused)
            if self.separators is not None:
                self.separators.forest = self.forest
        if self.stride >= 4:
            return self._merge_many()
        return self._merge_by_pairs() if self.separators is None else self._merge_by_planes(self.separators)

    def _merge_by_pairs(self) -> bool:
        """Merge or refuse one pair after the other, a chunk of them."""
        refused = int(self.forest.used[1])
        steps = 0
        while steps < _CHUNK:
            steps_done, first, second, undecided = merge_tested(self.forest, _CHUNK - steps, self.touching)
            steps += steps_done
            if first == -1:
                return False
            if first >= 0:
                own = self.forest.points[np.concatenate([members(self.forest, node) for node in (first, second)])]
                overlaps = any(self._rows_overlap(own, members(self.forest, int(rival))) for rival in undecided)
                (refuse if overlaps else merge)(self.forest, first, second)
                steps += 1
        if int(self.forest.used[1]) == refused:  # a whole chunk without a refusal: leap again
            self.stride = 2 * _CHUNK
        return True

    def _merge_by_planes(self, separators: _Separators) -> bool:
        """The same if every step is expensive: after three good ones, try many merges again."""
        for _ in range(3):
            first, second, overlaps = separators.closest_pair()
            if first < 0:
                return False
            if overlaps:
                refuse(self.forest, first, second)
                return True
            separators.inherit(merge(self.forest, first, second), first, second)
        self.stride = 4
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
        if self.separators is not None:
            self.separators.forget(base + good)
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
        if self.separators is not None:
            return self.separators.find_overlap(alive, base)
        overlaps, undecided = find_overlap(self.forest, alive, base, self.touching)
        return bool(overlaps) or any(self._overlap(int(first), int(second)) for first, second in undecided)

    def _overlap(self, first: int, second: int) -> bool:
        if (first, second) not in self.decided:
            own = self.forest.points[members(self.forest, first)]
            self.decided[first, second] = self._rows_overlap(own, members(self.forest, second))
        return self.decided[first, second]

    def _rows_overlap(self, own: Floats, rows: Ints) -> bool:
        return solve_gap(own, self.forest.points[rows], touching=self.touching, decide=True).overlap


class _Separators:
    """Planes between clusters in high dimensions, where one plane separates a cluster from many others at once.

    A cluster that a plane separates from all points of another label overlaps none of that label's clusters, whatever they are.
    Planes are stored by cluster and label, and tried again on what the cluster grows into; only if they fail is a new one
    computed, against all rivals that are left together, and only if there is none are the rivals halved.
    """

    def __init__(self, forest: Forest, touching: float) -> None:
        self.forest = forest
        self.touching = touching
        self._planes: dict[tuple[int, int], Floats] = {}  # by cluster and label
        self._new_planes: dict[int, Floats] = {}  # of the points tested last, by label

    def closest_pair(self) -> tuple[int, int, bool]:
        """The closest pair of clusters, -1 and -1 if none is left; and whether their merger would overlap another label."""
        first = int(closest_cluster(self.forest))
        if first < 0:
            return -1, -1, False
        second = int(self.forest.partner[first])
        own = np.concatenate([members(self.forest, first), members(self.forest, second)])
        rivals = rivals_of(self.forest, self.forest.alive[: self.forest.used[0]], self.forest.label[first])
        return first, second, self._overlaps(own, rivals, (first, second))

    def inherit(self, node: int, first: int, second: int) -> None:
        """Give a new cluster the planes that were computed for the pair it is made of, and drop those of its parts."""
        self._store_planes(node)
        self._planes = {key: plane for key, plane in self._planes.items() if key[0] not in (first, second)}

    def forget(self, nodes: int) -> None:
        """Drop the planes of clusters that were taken back: those after the first `nodes`."""
        self._planes = {key: plane for key, plane in self._planes.items() if key[0] < nodes}

    def find_overlap(self, alive: Flags, base: int) -> bool:
        """The same as `theodolite.probes.forest.find_overlap`, and never undecided."""
        for node in np.flatnonzero(alive)[::-1]:
            if node < base:
                break
            rivals = rivals_of(self.forest, alive, self.forest.label[node])
            rivals = rivals[rivals < node]  # a pair of two new clusters is tested once, with the later one
            parts = (int(node), int(self.forest.left_child[node]), int(self.forest.right_child[node]))
            if self._overlaps(members(self.forest, node), rivals, parts):
                return True
            self._store_planes(int(node))
        return False

    def _store_planes(self, node: int) -> None:
        self._planes |= {(node, label): plane for label, plane in self._new_planes.items()}

    def _overlaps(self, own: Ints, rivals: Ints, parts: tuple[int, ...]) -> bool:
        """Whether the hull of some points overlaps a rival; `parts` are clusters whose planes may still separate it."""
        points = self.forest.points[own]
        self._new_planes = {}
        for label in np.unique(self.forest.label[rivals]).tolist():
            close = _Rivals(self.forest, rivals[self.forest.label[rivals] == label])
            planes = [self._planes[node, label] for node in parts if (node, label) in self._planes]
            for plane in planes:
                # Only the rivals that a plane does not separate strictly, by more than `touching`, need another one.
                close = close.only(close.reach(plane) >= (points @ plane).min() - self.touching * np.linalg.norm(plane))
                if not len(close.nodes):
                    self._new_planes[label] = plane
                    break
            if len(close.nodes) and not self._separate(points, close, label, planes[0] if planes else None):
                return True
        return False

    def _separate(self, points: Floats, rivals: _Rivals, label: int, start: Floats | None) -> bool:
        """Compute a plane against all rivals together, and if there is none, against each half of them; False if one overlaps.

        A rival with most of the points goes first and alone: if there is an overlap, it is nearly always with that one.
        """
        parts = rivals.giant_and_rest()
        if parts is None:
            plane = separating_plane(points, rivals.points(), self.touching, start)
            if plane is not None:
                self._new_planes[label] = plane
                return True
            if len(rivals.nodes) == 1:
                return False
            parts = rivals.halves()
        return all(self._separate(points, part, label, start) for part in parts)


class _Rivals:
    """Clusters of one label, with their rows one after the other."""

    def __init__(self, forest: Forest, nodes: Ints, rows: list[Ints] | None = None) -> None:
        self.forest = forest
        self.nodes = nodes
        self.rows = [members(forest, node) for node in nodes] if rows is None else rows

    def points(self) -> Floats:
        return np.asarray(self.forest.points[np.concatenate(self.rows)])

    def reach(self, plane: Floats) -> Floats:
        """How far each cluster extends along a normal."""
        starts = np.concatenate([[0], np.cumsum([len(rows) for rows in self.rows])[:-1]])
        return np.asarray(np.maximum.reduceat(self.points() @ plane, starts))

    def only(self, mask: Flags) -> _Rivals:
        places = np.flatnonzero(mask)
        return _Rivals(self.forest, self.nodes[places], [self.rows[place] for place in places])

    def giant_and_rest(self) -> tuple[_Rivals, _Rivals] | None:
        """The one cluster of several that has more than half of the points, and the others; None if there is none."""
        sizes = self.forest.size[self.nodes]
        if len(sizes) == 1 or 2 * sizes.max() <= sizes.sum():
            return None
        is_largest = np.arange(len(sizes)) == int(sizes.argmax())
        return self.only(is_largest), self.only(~is_largest)

    def halves(self) -> tuple[_Rivals, _Rivals]:
        """Two halves away from each other, cut across the line from the middle to the farthest centre; the fuller half first."""
        centres = self.forest.centre[self.nodes]
        apart = centres - centres.mean(axis=0)
        along = apart @ apart[int(np.einsum("ij,ij->i", apart, apart).argmax())]
        is_far = np.zeros(len(along), dtype=np.bool_)
        is_far[np.argsort(along, kind="stable")[len(along) // 2 :]] = True
        far, near = self.only(is_far), self.only(~is_far)
        return (far, near) if sum(map(len, far.rows)) >= sum(map(len, near.rows)) else (near, far)
