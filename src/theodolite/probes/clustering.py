"""The clusters of a labelled cloud: which labels are in each other's way, and the greedy merging of those that are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.borders import Borders
from theodolite.probes.hulls import solve_gap
from theodolite.probes.merging import Forest, advance, closest, cut, faults, members, merge, refuse, run_blind, standing

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]

FLAT = 64
"""Up to this dimension merges are tested pair by pair in compiled code; above it against planes that many pairs share."""
BLOCK = 1024
"""Rows of a block of pairwise distances: the most that is ever held of the n x n table."""
CHUNK = 64
"""Steps between two reports of progress while merging one pair at a time."""


def merged_clusters(X: Floats, y: Ints, foes: NDArray[np.bool_], *, touching: float, progress: Progress | None = None) -> Ints:
    """The cluster of each row, numbered by its first row, after the greedy merging of Zhou & Srikumar.

    `foes[a, b]` says that the whole hulls of labels a and b overlap; only such labels can ever stop a merge. The rows must be
    float64, near the origin, and grouped by label.
    """
    return Merger(X, y, foes, touching).run(progress)


class Merger:
    """One greedy merging. It merges blindly as far as that went well lately, checks the outcome, and backs up to the first fault.

    Hulls only grow, so a state without overlap vouches for every state before it: where faults are rare one check stands for many
    merges, and where they are frequent the step is one merge.
    """

    def __init__(self, X: Floats, y: Ints, foes: NDArray[np.bool_], touching: float) -> None:
        self.forest = new_forest(X, y, foes)
        self.touching = touching
        self.ahead = len(X)
        self.decided: dict[tuple[int, int], bool] = {}
        self.borders = Borders(self.forest, touching) if X.shape[1] > FLAT else None

    def run(self, progress: Progress | None = None) -> Ints:
        """Merge until no pair is left; the cluster of each point."""
        n = len(self.forest.points)
        while self._go_on():
            if progress is not None:
                progress(int(self.forest.used[0]) - n, n)
        owners = np.array([standing(self.forest, point) for point in range(n)])
        return np.asarray(np.unique(owners, return_inverse=True)[1], dtype=np.int64)

    def _go_on(self) -> bool:
        return self._leap() if self.ahead >= 4 else self._walk()

    def _walk(self) -> bool:
        """Merge or refuse one pair after the other, a chunk of them; whether there is more to do."""
        if self.borders is not None:
            return self._pace()
        refused = int(self.forest.used[1])
        taken = 0
        while taken < CHUNK:
            self._make_room()
            done, one, two, undecided = advance(self.forest, CHUNK - taken, self.touching, ROUNDS)
            taken += done
            if one == -1:
                return False
            if one >= 0:
                (refuse if self._any_overlaps((one, two), undecided) else merge)(self.forest, one, two)
                taken += 1
        if int(self.forest.used[1]) == refused:
            self.ahead = 2 * CHUNK
        return True

    def _pace(self) -> bool:
        """As `_walk`, where every step is dear: as soon as a few have gone well, leap again."""
        assert self.borders is not None
        streak = 0
        while streak < 3:
            self._make_room()
            one, two, rival = self.borders.propose()
            if one < 0:
                return False
            if rival >= 0:
                refuse(self.forest, one, two)
                return True
            self.borders.inherit(merge(self.forest, one, two), one, two)
            streak += 1
        self.ahead = 4
        return True

    def _leap(self) -> bool:
        """Merge blindly, find the first merge that should not have been, and refuse it; whether there is more to do."""
        self._make_room()
        base, made, saved = int(self.forest.used[0]), 0, []
        stride = self.ahead
        while stride > 0:
            # Faults come late, so the states to come back to lie closer and closer together.
            stride = (self.ahead - made + 1) // 2
            saved.append((made, _snapshot(self.forest)))
            step = run_blind(self.forest, stride)
            made += step
            if step < stride:
                break
        if made == 0:
            return False
        good = self._first_fault(base, made)
        if good == made:
            self.ahead *= 2
            return True
        at, state = max((entry for entry in saved if entry[0] <= good), key=lambda entry: entry[0])
        _restore(self.forest, state)
        run_blind(self.forest, good - at)
        self.decided = {pair: told for pair, told in self.decided.items() if max(pair) < base + good}
        if self.borders is not None:
            self.borders.forget(base + good)
        one = closest(self.forest)
        refuse(self.forest, one, int(self.forest.mate[one]))
        self.ahead = 1  # faults come in crowds: go on step by step
        return True

    def _first_fault(self, base: int, made: int) -> int:
        """How many of the blind merges stand: all but those from the first that made hulls of two labels overlap."""
        if not self._faulty(base, made):
            return made
        good, bad, back = 0, made, 1
        while bad - good > 1:
            # Faults tend to come late, where the states are cheap to check: go back in growing strides, then halve.
            middle = max(bad - back, (good + bad) // 2)
            if self._faulty(base, middle):
                bad, back = middle, 2 * back
            else:
                good = middle
        return good

    def _faulty(self, base: int, merges: int) -> bool:
        """Whether, after so many of the blind merges, a cluster made by them overlaps one of another label."""
        alive = cut(self.forest, base + merges)
        if self.borders is not None:
            return self.borders.faulty(alive, base)
        node, _, pairs = faults(self.forest, alive, base, self.touching, ROUNDS)
        return bool(node >= 0) or any(self._overlap(int(one), int(two)) for one, two in pairs)

    def _any_overlaps(self, clusters: tuple[int, int], rivals: Ints) -> bool:
        own = self.forest.points[np.concatenate([members(self.forest, node) for node in clusters])]
        return any(self._rows_overlap(own, members(self.forest, int(rival))) for rival in rivals)

    def _overlap(self, one: int, two: int) -> bool:
        if (one, two) not in self.decided:
            own = self.forest.points[members(self.forest, one)]
            self.decided[one, two] = self._rows_overlap(own, members(self.forest, two))
        return self.decided[one, two]

    def _rows_overlap(self, own: Floats, rows: Ints) -> bool:
        return solve_gap(own, self.forest.points[rows], touching=self.touching, decide=True).overlap

    def _make_room(self) -> None:
        if int(self.forest.used[1]) + CHUNK >= len(self.forest.refused):
            refused = np.concatenate([self.forest.refused, np.zeros_like(self.forest.refused)])
            self.forest = self.forest._replace(refused=refused)
            if self.borders is not None:
                self.borders.forest = self.forest


ROUNDS = 40
"""Rounds of a solve inside the merging; what is undecided then gets the slower, surer solvers."""

_CHANGING = ("parent", "alive", "mate", "square", "stale", "used")


def _snapshot(forest: Forest) -> list[NDArray[Any]]:
    return [getattr(forest, name).copy() for name in _CHANGING]


def _restore(forest: Forest, saved: list[NDArray[Any]]) -> None:
    for name, values in zip(_CHANGING, saved, strict=True):
        getattr(forest, name)[:] = values


def new_forest(X: Floats, y: Ints, foes: NDArray[np.bool_]) -> Forest:
    """Every point a cluster of its own, with its closest mate."""
    n, d = X.shape
    nodes = 2 * n
    points = np.arange(nodes) < n
    grain = 1e-14 * max(float(np.einsum("ij,ij->i", X, X).max()), 1e-300)
    lone = of_two_labels(X, y)
    mate, square = first_mates(X, np.where(lone, -1 - np.arange(n), y), grain)
    return Forest(
        points=X,
        label=np.concatenate([y, np.full(n, -1, dtype=np.int64)]),
        foes=foes,
        centre=np.concatenate([X, np.zeros((n, d))]),
        size=points.astype(np.int64),
        radius=np.zeros(nodes),
        left=np.full(nodes, -1),
        right=np.full(nodes, -1),
        parent=np.full(nodes, -1),
        alive=points.copy(),
        lone=np.concatenate([lone, np.zeros(n, dtype=np.bool_)]),
        mate=np.concatenate([mate, np.full(n, -1, dtype=np.int64)]),
        square=np.concatenate([square, np.full(n, np.inf)]),
        stale=np.zeros(nodes, dtype=np.bool_),
        refused=np.zeros((max(n, 2 * CHUNK), 2), dtype=np.int64),
        used=np.array([n, 0]),
        grain=grain,
    )


def of_two_labels(X: Floats, y: Ints) -> NDArray[np.bool_]:
    """Which points coincide with one of another label, to the last bit: the first layer's vector of one word, say."""
    same = np.unique(np.ascontiguousarray(X).view([("", X.dtype)] * X.shape[1]).ravel(), return_inverse=True)[1]
    lowest, highest = np.full(len(X), len(y)), np.full(len(X), -1)
    np.minimum.at(lowest, same, y)
    np.maximum.at(highest, same, y)
    return np.asarray(lowest[same] != highest[same])


def first_mates(X: Floats, y: Ints, grain: float) -> tuple[Ints, Floats]:
    """The closest other point of the same label for each point, and the squared distance; by matrix products, block by block."""
    mate, square = np.full(len(X), -1, dtype=np.int64), np.full(len(X), np.inf)
    norms = np.einsum("ij,ij->i", X, X)
    for label in np.unique(y[y >= 0]):  # those of points that never merge are negative
        rows = np.flatnonzero(y == label)
        if len(rows) < 2:
            continue
        own = X[rows]
        for start in range(0, len(rows), BLOCK):
            part = rows[start : start + BLOCK]
            table = norms[part][:, None] + norms[rows] - 2.0 * (X[part] @ own.T)
            table = np.rint(table / grain) * grain
            table[np.arange(len(part)), start + np.arange(len(part))] = np.inf
            best = table.argmin(axis=1)
            mate[part] = rows[best]
            apart = X[part] - X[mate[part]]
            square[part] = np.rint(np.einsum("ij,ij->i", apart, apart) / grain) * grain
    return mate, square
