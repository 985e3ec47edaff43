"""Planes between clusters in high dimensions, where one plane separates a cluster from many others at once.

A cluster that a plane separates from all points of another label overlaps none of that label's clusters, whatever they are.
Planes are stored and tried again on what the cluster grows into; only if they fail is a new one computed, against all rivals that
are left together, and only if there is none are the rivals halved.
"""

from __future__ import annotations

import numpy as np

from theodolite.probes.compiled import Flags, Floats, Ints
from theodolite.probes.direct.forest import Forest, closest_cluster, members, rivals_of
from theodolite.probes.hulls.gap import separating_plane


class Separators:
    """The planes so far, by cluster and the label they separate it from. Each use checks a plane on the points as they are.

    Parameters
    ----------
    forest
        The clusters as they merge.
    touching
        The distance up to which hulls count as overlapping.
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
        return first, second, self._overlaps(own, rivals_of(self.forest, self.forest.label[first]), (first, second))

    def inherit(self, node: int, first: int, second: int) -> None:
        """Give a new cluster the planes that were computed for it, and drop those of its parts.

        Parameters
        ----------
        node, first, second
            The new cluster and its parts: the pair that `closest_pair` gave.
        """
        self._store_planes(node)
        for key in [key for key in self._planes if key[0] in (first, second)]:
            del self._planes[key]

    def forget(self, nodes: int) -> None:
        """Drop the planes of clusters that were taken back.

        Parameters
        ----------
        nodes
            The number of nodes that remain.
        """
        self._planes = {key: plane for key, plane in self._planes.items() if key[0] < nodes}

    def find_overlap(self, alive: Flags, base: int) -> bool:
        """Whether a cluster made since node `base` overlaps one of another label.

        Parameters
        ----------
        alive
            The clusters to test, as `theodolite.probes.direct.forest.alive_at` gives them.
        base
            The number of nodes of a state without overlap.
        """
        label = self.forest.label[: len(alive)]
        for node in np.flatnonzero(alive)[::-1]:
            if node < base:
                break
            rivals = np.flatnonzero(alive & self.forest.label_overlaps[label[node]][label])
            rivals = rivals[rivals < node]  # a pair of two new clusters is tested once, with the later one
            parts = (int(node), int(self.forest.left_child[node]), int(self.forest.right_child[node]))
            if self._overlaps(members(self.forest, node), rivals, parts):
                return True
            self._store_planes(int(node))
        return False

    def _store_planes(self, node: int) -> None:
        for label, plane in self._new_planes.items():
            self._planes[node, label] = plane

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
        if len(rivals.nodes) > 1 and rivals.has_giant():
            return all(self._separate(points, part, label, start) for part in rivals.giant_and_rest())
        plane = separating_plane(points, rivals.points(), self.touching, start)
        if plane is not None:
            self._new_planes[label] = plane
            return True
        if len(rivals.nodes) == 1:
            return False
        return all(self._separate(points, half, label, start) for half in rivals.halves())


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

    def has_giant(self) -> bool:
        """Whether one cluster has more than half of the points."""
        sizes = self.forest.size[self.nodes]
        return bool(2 * sizes.max() > sizes.sum())

    def giant_and_rest(self) -> tuple[_Rivals, _Rivals]:
        is_largest = np.arange(len(self.nodes)) == int(self.forest.size[self.nodes].argmax())
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
