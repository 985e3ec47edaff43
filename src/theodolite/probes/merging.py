"""Greedy merging of same-label clusters whose hulls stay clear of every other label's (Zhou & Srikumar's DirectProbe).

A cluster is a node of a binary forest: the first n nodes are the points, every merge makes a new one. Nodes never change, so a
run can be taken back by cutting the forest at an earlier node. Written in NumPy that numba compiles as it stands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.compiled import compiled, compiled_or
from theodolite.probes.corral import OVERLAPPING, SEPARATED, nearest_compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Forest(NamedTuple):
    """Clusters as they merge; arrays over nodes have room for 2n of them, `used` says how many are."""

    points: Floats  # (n, d)
    label: Ints
    foes: Flags  # (labels, labels): whose whole hulls overlap
    centre: Floats
    size: Ints
    radius: Floats
    left: Ints
    right: Ints
    parent: Ints
    alive: Flags
    lone: Flags  # points that bear two labels: whatever holds one overlaps the other label, so they never merge
    mate: Ints  # the closest cluster of the same label that is not refused
    square: Floats  # squared distance to it, or a lower bound where stale
    stale: Flags
    refused: Ints  # (room, 2)
    used: Ints  # nodes in use, pairs refused
    grain: float  # squared distances closer than this are equal: ties go by index, not by rounding


@compiled
def members(forest: Forest, node: int) -> Ints:
    """The points of a cluster."""
    found, waiting = np.empty(forest.size[node], dtype=np.int64), np.empty(forest.size[node] + 1, dtype=np.int64)
    waiting[0] = node
    kept, open_ = 0, 1
    while open_ > 0:
        open_ -= 1
        at = waiting[open_]
        if forest.left[at] < 0:
            found[kept] = at
            kept += 1
        else:
            waiting[open_] = forest.left[at]
            waiting[open_ + 1] = forest.right[at]
            open_ += 2
    return found


@compiled
def standing(forest: Forest, node: int) -> int:
    """The cluster a former cluster is part of now."""
    while not forest.alive[node]:
        node = forest.parent[node]
    return node


def _squares(table: Floats, rows: Ints, point: Floats) -> Floats:
    apart = table[rows] - point
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


@compiled_or(_squares)
def squares(table: Floats, rows: Ints, point: Floats) -> Floats:
    """Squared distances of some rows of a table to a point."""
    found = np.empty(len(rows))
    for place in range(len(rows)):
        row = rows[place]
        total = 0.0
        for column in range(len(point)):
            total += (table[row, column] - point[column]) ** 2
        found[place] = total
    return found


@compiled
def squares_to(forest: Forest, others: Ints, centre: Floats) -> Floats:
    """Squared distances of cluster centres to a point, rounded so that equal ones are equal."""
    return np.rint(squares(forest.centre, others, centre) / forest.grain) * forest.grain


@compiled
def kin_of(forest: Forest, node: int) -> Ints:
    """The other clusters with the label of a cluster."""
    used = forest.used[0]
    same = forest.alive[:used] & ~forest.lone[:used] & (forest.label[:used] == forest.label[node])
    same[node] = False
    return np.flatnonzero(same)


@compiled
def banned(forest: Forest, node: int, kin: Ints) -> Flags:
    """Which of a cluster's kin it may not merge with."""
    marks = np.zeros(forest.used[0], dtype=np.bool_)
    for entry in range(forest.used[1]):
        one, two = standing(forest, forest.refused[entry, 0]), standing(forest, forest.refused[entry, 1])
        if one == node:
            marks[two] = True
        elif two == node:
            marks[one] = True
    return marks[kin]


@compiled
def refresh(forest: Forest, node: int) -> None:
    """Find the closest cluster a cluster may merge with."""
    kin = kin_of(forest, node)
    forest.stale[node] = False
    forest.square[node] = np.inf
    if len(kin) == 0:
        return
    squares = np.where(banned(forest, node, kin), np.inf, squares_to(forest, kin, forest.centre[node]))
    best = np.argmin(squares)
    forest.mate[node] = kin[best]
    forest.square[node] = squares[best]


@compiled
def closest(forest: Forest) -> int:
    """The cluster whose mate is closest of all, ties by index; -1 where no pair is left."""
    while True:
        node = np.argmin(forest.square[: forest.used[0]])
        if forest.square[node] == np.inf:
            return -1
        if not forest.stale[node]:
            return int(node)
        refresh(forest, int(node))


@compiled
def refuse(forest: Forest, one: int, two: int) -> None:
    """Never merge these two, nor what they become."""
    forest.refused[forest.used[1], 0] = one
    forest.refused[forest.used[1], 1] = two
    forest.used[1] += 1
    for node, mate in ((one, two), (two, one)):
        if forest.mate[node] == mate:
            forest.stale[node] = True


@compiled
def merge(forest: Forest, one: int, two: int) -> int:
    """Make two clusters one; the new node."""
    node = forest.used[0]
    forest.used[0] += 1
    size = forest.size[one] + forest.size[two]
    forest.centre[node] = (forest.size[one] * forest.centre[one] + forest.size[two] * forest.centre[two]) / size
    forest.size[node], forest.label[node] = size, forest.label[one]
    forest.left[node], forest.right[node] = one, two
    for child in (one, two):
        forest.parent[child] = node
        forest.alive[child] = False
        forest.square[child] = np.inf
    forest.alive[node] = True
    # A sphere around both spheres: never too small, and no pass over the points.
    reach = 0.0
    for child in (one, two):
        gap = forest.centre[child] - forest.centre[node]
        reach = max(reach, np.sqrt(gap @ gap) + forest.radius[child])
    forest.radius[node] = reach
    kin = kin_of(forest, node)
    forest.stale[node] = False
    forest.square[node] = np.inf
    if len(kin) == 0:
        return int(node)
    squares = np.where(banned(forest, node, kin), np.inf, squares_to(forest, kin, forest.centre[node]))
    best = np.argmin(squares)
    forest.mate[node] = kin[best]
    forest.square[node] = squares[best]
    for place in range(len(kin)):
        other = kin[place]
        if squares[place] < forest.square[other]:
            forest.mate[other], forest.square[other], forest.stale[other] = node, squares[place], False
        elif forest.mate[other] == one or forest.mate[other] == two:
            forest.stale[other] = True  # what is left is no closer than what is gone
    return int(node)


@compiled
def rivals_of(forest: Forest, node_label: int) -> Ints:
    """The clusters of the labels that a label's hull overlaps."""
    used = forest.used[0]
    return np.flatnonzero(forest.alive[:used] & forest.foes[node_label][forest.label[:used]])


@compiled
def clash(
    forest: Forest, own: Ints, centre: Floats, radius: float, rivals: Ints, touching: float, rounds: int
) -> tuple[int, Ints]:
    """The first rival whose hull overlaps that of the points `own`, or -1; and the rivals that stayed undecided.

    Cheapest first: spheres, then the plane between the centres, then a solve that starts from it.
    """
    distance = np.sqrt(squares(forest.centre, rivals, centre))
    close = np.flatnonzero(distance <= (radius + forest.radius[rivals]) * (1 + 1e-12) + touching)
    depth = distance[close] - forest.radius[rivals[close]]
    undecided = np.empty(len(close), dtype=np.int64)
    unsure = 0
    P = forest.points[own]
    for _ in range(len(close)):
        deepest = np.argmin(depth)  # the likeliest to overlap goes first
        depth[deepest] = np.inf
        place = close[deepest]
        rival = rivals[place]
        direction = centre - forest.centre[rival]
        reach = (P @ direction).min()
        Q = forest.points[members(forest, rival)]
        if reach - (Q @ direction).max() > touching * distance[place]:
            continue
        verdict = nearest_compiled(P, Q, direction, touching, 1e-6, 0.0, rounds, 4, None)[0]
        if verdict == OVERLAPPING:
            return int(rival), undecided[:0]
        if verdict != SEPARATED:
            undecided[unsure] = rival
            unsure += 1
    return -1, undecided[:unsure]


@compiled
def propose(forest: Forest, touching: float, rounds: int) -> tuple[int, int, int, Ints]:
    """The closest pair of clusters, the rival it would run into (-1: none), and the rivals that stayed undecided."""
    one = closest(forest)
    if one < 0:
        return -1, -1, -1, np.empty(0, dtype=np.int64)
    two = forest.mate[one]
    own = np.concatenate((members(forest, one), members(forest, two)))
    size = forest.size[one] + forest.size[two]
    centre = (forest.size[one] * forest.centre[one] + forest.size[two] * forest.centre[two]) / size
    radius = np.sqrt(squares(forest.points, own, centre).max())
    rival, undecided = clash(forest, own, centre, radius, rivals_of(forest, forest.label[one]), touching, rounds)
    return one, int(two), rival, undecided


@compiled
def advance(forest: Forest, steps: int, touching: float, rounds: int) -> tuple[int, int, int, Ints]:
    """Merge or refuse up to `steps` closest pairs, one after the other: steps done, and the pair and rivals that stopped it."""
    for step in range(steps):
        if forest.used[1] == len(forest.refused):
            return step, -2, -2, np.empty(0, dtype=np.int64)
        one, two, rival, undecided = propose(forest, touching, rounds)
        if one < 0 or (rival < 0 and len(undecided) > 0):
            return step, one, two, undecided
        if rival >= 0:
            refuse(forest, one, two)
        else:
            merge(forest, one, two)
    return steps, -2, -2, np.empty(0, dtype=np.int64)


@compiled
def cut(forest: Forest, nodes: int) -> Flags:
    """Which clusters stood when there were only so many nodes."""
    alive = np.zeros(nodes, dtype=np.bool_)
    for node in range(nodes):
        alive[node] = forest.parent[node] < 0 or forest.parent[node] >= nodes
    return alive


@compiled
def faults(forest: Forest, alive: Flags, base: int, touching: float, rounds: int) -> tuple[int, int, Ints]:
    """The first cluster made since node `base` that overlaps one of another label, and which (-1: none); the undecided pairs."""
    pairs = np.empty((16, 2), dtype=np.int64)
    unsure = 0
    # The latest clusters are the largest: what is wrong shows there first.
    for node in np.flatnonzero(alive)[::-1]:
        if node < base:
            break
        rivals = np.flatnonzero(alive & forest.foes[forest.label[node]][forest.label[: len(alive)]])
        rivals = rivals[(rivals < base) | (rivals < node)]
        rival, undecided = clash(
            forest, members(forest, node), forest.centre[node], forest.radius[node], rivals, touching, rounds
        )
        if rival >= 0:
            return int(node), rival, pairs[:0]
        for other in undecided:
            if unsure == len(pairs):
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            pairs[unsure, 0] = node
            pairs[unsure, 1] = other
            unsure += 1
    return -1, -1, pairs[:unsure]


@compiled
def run_blind(forest: Forest, steps: int) -> int:
    """Merge up to `steps` closest pairs without looking at other labels; how many there were."""
    for step in range(steps):
        one = closest(forest)
        if one < 0:
            return step
        merge(forest, one, forest.mate[one])
    return steps
