"""Planes between clusters in high dimensions, where one plane keeps a cluster apart from many others at once.

A cluster that a plane separates from all points of another label overlaps none of that label's clusters, whatever they are.
Planes are remembered and tried again on what the cluster grows into; only where they fail is a new one sought, against all
rivals that are left together, and only where there is none are the rivals halved.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.hulls import parting_plane
from theodolite.probes.merging import Forest, closest, members, rivals_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Borders:
    """The planes found so far, by cluster and the label they keep it from. Each use checks a plane on the points as they are."""

    def __init__(self, forest: Forest, touching: float) -> None:
        self.forest = forest
        self.touching = touching
        self.planes: dict[tuple[int, int], Floats] = {}

    def propose(self) -> tuple[int, int, int]:
        """The closest pair of clusters, and the rival it would run into (-1: none); the pair is -1 where none is left."""
        one = int(closest(self.forest))
        if one < 0:
            return -1, -1, -1
        two = int(self.forest.mate[one])
        own = np.concatenate([members(self.forest, one), members(self.forest, two)])
        rivals = rivals_of(self.forest, self.forest.label[one])
        self.found: dict[int, Floats] = {}
        return one, two, self.run_into(own, rivals, (one, two))

    def inherit(self, node: int, one: int, two: int) -> None:
        """Give a new cluster the planes that were found for it, and drop those of its parts."""
        for foe, plane in self.found.items():
            self.planes[node, foe] = plane
        for key in [key for key in self.planes if key[0] in (one, two)]:
            del self.planes[key]

    def forget(self, nodes: int) -> None:
        """Drop what is known of clusters from a node on, which have been taken back."""
        self.planes = {key: plane for key, plane in self.planes.items() if key[0] < nodes}

    def faulty(self, alive: NDArray[np.bool_], base: int) -> bool:
        """Whether a cluster made since node `base` overlaps one of another label, among those that stand."""
        label = self.forest.label[: len(alive)]
        for node in np.flatnonzero(alive)[::-1]:
            if node < base:
                break
            rivals = np.flatnonzero(alive & self.forest.foes[label[node]][label])
            rivals = rivals[(rivals < base) | (rivals < node)]
            self.found = {}
            parts = (int(node), int(self.forest.left[node]), int(self.forest.right[node]))
            rival = self.run_into(members(self.forest, node), rivals, parts)
            if rival >= 0:
                return True
            for foe, plane in self.found.items():
                self.planes[int(node), foe] = plane
        return False

    def run_into(self, own: Ints, rivals: Ints, parts: tuple[int, ...]) -> int:
        """The first rival that the hull of some points overlaps, or -1; `parts` are clusters whose planes may still hold."""
        points = self.forest.points[own]
        for foe in np.unique(self.forest.label[rivals]):
            left = _Rivals(self.forest, rivals[self.forest.label[rivals] == foe])
            start = None
            for plane in self._known(parts, int(foe)):
                left = left.only(left.reach(plane) >= (points @ plane).min() - self.touching * np.linalg.norm(plane))
                start = plane if start is None else start
                if not len(left.nodes):
                    self.found[int(foe)] = plane
                    break
            if len(left.nodes):
                rival = self._part(points, left, int(foe), start)
                if rival >= 0:
                    return rival
        return -1

    def _known(self, parts: tuple[int, ...], foe: int) -> Iterator[Floats]:
        for node in parts:
            if (node, foe) in self.planes:
                yield self.planes[node, foe]

    def _part(self, points: Floats, rivals: _Rivals, foe: int, start: Floats | None) -> int:
        """Seek a plane against all rivals together; where there is none, against each half of them.

        A rival that holds most of the points goes first and alone: where there is an overlap it is nearly always with that one.
        """
        if len(rivals.nodes) > 1 and rivals.giant():
            for part in rivals.giant_and_rest():
                rival = self._part(points, part, foe, start)
                if rival >= 0:
                    return rival
            return -1
        plane = parting_plane(points, rivals.points(), self.touching, start)
        if plane is not None:
            self.found[foe] = plane
            return -1
        if len(rivals.nodes) == 1:
            return int(rivals.nodes[0])
        for half in rivals.halves():
            rival = self._part(points, half, foe, start)
            if rival >= 0:
                return rival
        return -1


class _Rivals:
    """Clusters of one label, with their rows one after the other."""

    def __init__(self, forest: Forest, nodes: Ints, rows: list[Ints] | None = None) -> None:
        self.forest = forest
        self.nodes = nodes
        self.rows = [members(forest, node) for node in nodes] if rows is None else rows

    def points(self) -> Floats:
        return np.asarray(self.forest.points[np.concatenate(self.rows)])

    def reach(self, plane: Floats) -> Floats:
        """How far each cluster reaches along a normal."""
        starts = np.concatenate([[0], np.cumsum([len(rows) for rows in self.rows])[:-1]])
        return np.asarray(np.maximum.reduceat(self.points() @ plane, starts))

    def only(self, kept: NDArray[np.bool_]) -> _Rivals:
        places = np.flatnonzero(kept)
        return _Rivals(self.forest, self.nodes[places], [self.rows[place] for place in places])

    def giant(self) -> bool:
        """Whether one cluster holds more than half of the points."""
        sizes = self.forest.size[self.nodes]
        return bool(2 * sizes.max() > sizes.sum())

    def giant_and_rest(self) -> tuple[_Rivals, _Rivals]:
        largest = np.arange(len(self.nodes)) == int(self.forest.size[self.nodes].argmax())
        return self.only(largest), self.only(~largest)

    def halves(self) -> tuple[_Rivals, _Rivals]:
        """Two halves that lie apart: cut across the line from the middle to the farthest centre; the fuller half first."""
        centres = self.forest.centre[self.nodes]
        apart = centres - centres.mean(axis=0)
        along = apart @ apart[int(np.einsum("ij,ij->i", apart, apart).argmax())]
        far = np.zeros(len(along), dtype=np.bool_)
        far[np.argsort(along, kind="stable")[len(along) // 2 :]] = True
        one, two = self.only(far), self.only(~far)
        return (one, two) if sum(map(len, one.rows)) >= sum(map(len, two.rows)) else (two, one)
