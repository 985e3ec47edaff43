"""Greedy merging in high dimensions, where one plane separates many clusters of two labels at once.

For every two labels that overlap, the normals of some planes are stored, and of every cluster how far it extends along each: a
merge takes the smaller and the larger of two numbers. Two clusters are disjoint if they are apart along one of the normals, so
nearly all merges are tested without a look at the points; only clusters that no stored plane separates are solved, and the plane
that comes out is stored too.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from theodolite.probes.cluster_forest import CHUNK, Forest, closest_cluster, merge, refuse, with_room
from theodolite.probes.hulls.active_set import Flags, Floats, Ints, jit
from theodolite.probes.hulls.fallback_solvers import solve_by_newton
from theodolite.probes.hulls.gap import separating_plane

_MAX_PLANES = 256  # of two labels; a new one then replaces the one that has been of no use for longest


class _TimeOverError(Exception):
    """The time was over before a pair of clusters was decided."""


class PlaneMerger:
    """One greedy merging, one pair of clusters after the other.

    A cluster is stored at its slot: the number of one of its points, the same for as long as it grows.
    """

    def __init__(self, forest: Forest, touching: float) -> None:
        self.forest = forest
        self.touching = touching
        self._deadline = np.inf
        n = len(forest.points)
        self._slot = np.arange(2 * n)  # of each node
        self._owner = np.arange(n)  # the slot of each point
        self._size = np.ones(n, dtype=np.int64)  # by slot; 0 if it is part of another
        self._planes: dict[tuple[int, int], _Planes] = {}
        labels = forest.label[:n]
        self._rows = [np.flatnonzero(labels == label) for label in range(len(forest.label_overlaps))]

    def go_on(self, deadline: float = np.inf) -> bool:
        """Merge or refuse some more pairs, until a time of `time.time`; False if none is left."""
        self.forest = with_room(self.forest)
        self._deadline = deadline
        try:
            return all(self._step() for _ in range(CHUNK))
        except _TimeOverError:
            return True

    def _step(self) -> bool:
        """Merge or refuse the closest pair; False if none is left."""
        first = int(closest_cluster(self.forest))
        if first < 0:
            return False
        second = int(self.forest.partner[first])
        if self._overlaps(first, second):
            refuse(self.forest, first, second)
            return True
        node = merge(self.forest, first, second)
        kept, gone = int(self._slot[first]), int(self._slot[second])
        self._slot[node] = kept
        self._owner[self._owner == gone] = kept
        self._size[kept] += self._size[gone]
        self._size[gone] = 0
        label = int(self.forest.label[node])
        for pair, planes in self._planes.items():
            if label in pair:
                planes.join(kept, gone)
        return True

    def _overlaps(self, first: int, second: int) -> bool:
        """Whether the merger of two clusters would overlap a cluster of another label."""
        label = int(self.forest.label[first])
        slots = (int(self._slot[first]), int(self._slot[second]))
        unsolved = []
        for rival in np.flatnonzero(self.forest.label_overlaps[label]).tolist():
            planes = self._planes_between(label, rival)
            low, high = planes.extent(slots)
            if planes.separate_label(low, high, rival):
                continue
            clusters = self._rows[rival][self._size[self._rows[rival]] > 0]
            close = clusters[~planes.separate(low, high, clusters)]
            if len(close):
                unsolved.append((planes, close))
        if not unsolved:
            return False
        own = self._points_of(list(slots))
        # The largest rivals first: if there is an overlap, it is nearly always with one of them.
        unsolved.sort(key=lambda entry: -int(self._size[entry[1]].max()))
        return not all(self._separate(own, slots, planes, close) for planes, close in unsolved)

    def _planes_between(self, label: int, rival: int) -> _Planes:
        pair = (min(label, rival), max(label, rival))
        if pair not in self._planes:
            self._require_time()
            planes = _Planes(self.forest.points, [self._rows[label] for label in pair], pair, self.touching)
            self._planes[pair] = planes
            A, B = (self.forest.points[self._rows[label]] for label in pair)
            apart = A.mean(axis=0) - B.mean(axis=0)
            # The plane that comes closest to separating the labels separates most of their clusters.
            for normal in (apart, solve_by_newton(A, B, touching=self.touching, start=apart).normal):
                if normal.any():
                    planes.add(normal, self._owner)
        return self._planes[pair]

    def _separate(self, own: Floats, slots: tuple[int, int], planes: _Planes, close: Ints) -> bool:
        """Find planes between the points `own` and clusters; False if one overlaps."""
        waiting = [close]
        while waiting:
            rivals = waiting.pop()
            low, high = planes.extent(slots)
            rivals = rivals[~planes.separate(low, high, rivals)]
            if not len(rivals):
                continue
            sizes = self._size[rivals]
            largest = int(sizes.argmax())
            if len(rivals) > 1 and 2 * sizes[largest] > sizes.sum():
                waiting += [np.delete(rivals, largest), rivals[largest : largest + 1]]
                continue
            self._require_time()
            normal = separating_plane(own, self._points_of(rivals), self.touching, planes.nearest(low, high, rivals))
            if normal is not None:
                planes.add(normal, self._owner)
            elif len(rivals) == 1:
                return False
            else:
                waiting += self._halves(rivals)
        return True

    def _points_of(self, slots: Ints | list[int]) -> Floats:
        """The points of some clusters together, in order."""
        is_chosen = np.zeros(len(self._owner), dtype=np.bool_)
        is_chosen[slots] = True
        return self.forest.points[is_chosen[self._owner]]

    def _require_time(self) -> None:
        """Called before every solve, of which one pair of clusters may need many: the pair then stays as it is."""
        if time.time() > self._deadline:
            raise _TimeOverError

    def _halves(self, rivals: Ints) -> list[Ints]:
        """Two halves of some clusters away from each other, cut across the line from the middle to the farthest point."""
        apart = self.forest.points[rivals] - self.forest.points[rivals].mean(axis=0)
        along = apart @ apart[int(np.einsum("ij,ij->i", apart, apart).argmax())]
        order = np.argsort(along, kind="stable")
        return np.split(rivals[order], [len(order) // 2])


def _extents_apart_in_arrays(low: Floats, high: Floats, lows: Floats, highs: Floats, rows: Ints, touching: float) -> Flags:
    apart = (low > highs[rows, : len(low)] + touching) | (high < lows[rows, : len(low)] - touching)
    return np.asarray(apart.any(axis=1))


@partial(jit, plain=_extents_apart_in_arrays)
def _extents_apart(low: Floats, high: Floats, lows: Floats, highs: Floats, rows: Ints, touching: float) -> Flags:
    """For some rows of the tables `lows` and `highs`, whether one of the extents in it is apart from that in `low` and `high`."""
    apart = np.zeros(len(rows), dtype=np.bool_)
    for at in range(len(rows)):
        row = rows[at]
        for plane in range(len(low)):
            if low[plane] > highs[row, plane] + touching or high[plane] < lows[row, plane] - touching:
                apart[at] = True
                break
    return apart


class _Planes:
    """Normals between two labels, and the extent of every cluster of them along each, by slot."""

    def __init__(self, points: Floats, rows: list[Ints], labels: tuple[int, int], touching: float) -> None:
        self.rows = np.concatenate(rows)
        self.points = np.ascontiguousarray(points[self.rows])
        self.labels = labels
        self.sides = (slice(0, len(rows[0])), slice(len(rows[0]), len(self.rows)))
        self.touching = touching
        self.place = np.full(len(points), -1)  # of each slot in the arrays below
        self.place[self.rows] = np.arange(len(self.rows))
        self.normals = np.empty((0, points.shape[1]))
        self.low, self.high = np.empty((len(self.rows), 4)), np.empty((len(self.rows), 4))  # with room for more planes
        self.label_ends = np.empty((0, 2, 2))  # (planes, sides, low and high) of all points of a label
        self.last_use: Ints = np.empty(0, dtype=np.int64)
        self.clock = 0

    def add(self, normal: Floats, owner: Ints) -> None:
        """Store a plane."""
        unit = normal / np.linalg.norm(normal)
        along = self.points @ unit
        clusters = self.place[owner[self.rows]]
        low, high = np.full(len(along), np.inf), np.full(len(along), -np.inf)
        np.minimum.at(low, clusters, along)
        np.maximum.at(high, clusters, along)
        ends = np.array([[along[side].min(), along[side].max()] for side in self.sides])
        self.clock += 1
        count = len(self.normals)
        if count < _MAX_PLANES:
            if count == self.low.shape[1]:
                self.low, self.high = (np.concatenate([table, table], axis=1) for table in (self.low, self.high))
            self.normals = np.concatenate([self.normals, unit[None]])
            self.low[:, count], self.high[:, count] = low, high
            self.label_ends = np.concatenate([self.label_ends, ends[None]])
            self.last_use = np.append(self.last_use, self.clock)
            return
        at = int(self.last_use.argmin())
        self.normals[at], self.low[:, at], self.high[:, at] = unit, low, high
        self.label_ends[at], self.last_use[at] = ends, self.clock

    def join(self, kept: int, gone: int) -> None:
        """Extend a cluster by another one that it was merged with."""
        kept, gone = self.place[kept], self.place[gone]
        np.minimum(self.low[kept], self.low[gone], out=self.low[kept])
        np.maximum(self.high[kept], self.high[gone], out=self.high[kept])

    def extent(self, slots: tuple[int, int]) -> tuple[Floats, Floats]:
        """How far two clusters together extend along each normal."""
        first, second = self.place[slots[0]], self.place[slots[1]]
        low, high = np.minimum(self.low[first], self.low[second]), np.maximum(self.high[first], self.high[second])
        return low[: len(self.normals)], high[: len(self.normals)]

    def separate_label(self, low: Floats, high: Floats, label: int) -> bool:
        """Whether a plane separates an extent from all points of a label."""
        if not len(self.normals):  # the means of the labels are equal, and so is every start of a solve
            return False
        ends = self.label_ends[:, self.labels.index(label)]
        apart = np.maximum(low - ends[:, 1], ends[:, 0] - high)
        widest = int(apart.argmax())
        if apart[widest] <= self.touching:
            return False
        self.clock += 1
        self.last_use[widest] = self.clock
        return True

    def separate(self, low: Floats, high: Floats, clusters: Ints) -> Flags:
        """Which clusters a plane separates from an extent."""
        return _extents_apart(low, high, self.low, self.high, self.place[clusters], self.touching)

    def nearest(self, low: Floats, high: Floats, clusters: Ints) -> Floats | None:
        """The normal that comes closest to separating an extent from some clusters, towards the extent; None without any."""
        if not len(self.normals):
            return None
        lows, highs = (table[self.place[clusters], : len(low)] for table in (self.low, self.high))
        above, below = low - highs.max(axis=0), lows.min(axis=0) - high
        best = int(np.maximum(above, below).argmax())
        return np.asarray(self.normals[best] if above[best] >= below[best] else -self.normals[best])
