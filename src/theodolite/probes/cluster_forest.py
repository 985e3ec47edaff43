"""Clusters as nodes of a binary forest, and the compiled kernels that merge them and test them for overlap.

The first n nodes are the points, and every merge of two clusters makes a new node. Written in NumPy that numba compiles as it is.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from theodolite.probes.hulls.active_set import Flags, Floats, Ints, jit
from theodolite.probes.hulls.working_set import OVERLAPPING, SEPARATED, grow_working_set

# Pairs that are merged or refused between two reports of progress; the list of refused pairs has room for at least these.
CHUNK = 64

_BLOCK = 1024  # rows of a block of pairwise distances, the most that is in memory of the n × n table
_MAX_ROUNDS = 40  # of a solve inside the merging; what is undecided then gets the slower, surer solvers


class Forest(NamedTuple):
    """Clusters as they merge. Arrays over nodes have room for 2n of them; `used` says how many there are."""

    points: Floats  # (n, d)
    label: Ints
    label_overlaps: Flags  # (labels, labels): whether the whole hulls of two labels overlap
    centre: Floats
    size: Ints
    radius: Floats  # of a sphere around the centre with all points in it
    left_child: Ints
    right_child: Ints
    alive: Flags  # whether the node is a cluster now, and not a part of a larger one
    lone: Flags  # points that carry two labels: anything with them overlaps the other label, so they never merge
    mergeable: Ints  # the label of a cluster that may merge; -1 for points that never do and for parts of larger clusters
    # Of the later clusters of the same label with which a merge is not refused, the closest: each pair is stored once.
    partner: Ints
    square: Floats  # squared distance to it, or a lower bound of it if stale; infinite if there is none
    stale: Flags
    refused: Ints  # (room, 2): clusters of one label that must not merge
    used: Ints  # nodes in use, pairs refused
    grain: float  # squared distances closer than this are equal, so that ties go by index and not by rounding


def new_forest(X: Floats, y: Ints, label_overlaps: Flags) -> Forest:
    """Every point a cluster of its own, with its closest partner."""
    n, d = X.shape
    nodes = 2 * n
    is_point = np.arange(nodes) < n
    # Squared distances are sums of products of this size: differences below 1e-14 of it are rounding.
    grain = 1e-14 * max(float(np.einsum("ij,ij->i", X, X).max()), 1e-300)
    lone = _with_two_labels(X, y)
    mergeable = np.where(lone, -1, y)
    partner, square = _first_partners(X, mergeable, grain)
    return Forest(
        points=X,
        label=np.concatenate([y, np.full(n, -1, dtype=np.int64)]),
        label_overlaps=label_overlaps,
        centre=np.concatenate([X, np.zeros((n, d))]),
        size=is_point.astype(np.int64),
        radius=np.zeros(nodes),
        left_child=np.full(nodes, -1),
        right_child=np.full(nodes, -1),
        alive=is_point.copy(),
        lone=np.concatenate([lone, np.zeros(n, dtype=np.bool_)]),
        mergeable=np.concatenate([mergeable, np.full(n, -1, dtype=np.int64)]),
        partner=np.concatenate([partner, np.full(n, -1, dtype=np.int64)]),
        square=np.concatenate([square, np.full(n, np.inf)]),
        stale=np.zeros(nodes, dtype=np.bool_),
        refused=np.zeros((max(n, 2 * CHUNK), 2), dtype=np.int64),
        used=np.array([n, 0]),
        grain=grain,
    )


def _with_two_labels(X: Floats, y: Ints) -> Flags:
    """Which points are equal, to the last bit, to one of another label (for example one word's vector in layer 0)."""
    if (np.diff(np.sort(X[:, 0])) > 0).all():  # nearly always: no two rows are equal
        return np.zeros(len(X), dtype=np.bool_)
    same = np.unique(np.ascontiguousarray(X).view([("", X.dtype)] * X.shape[1]).ravel(), return_inverse=True)[1]
    lowest, highest = np.full(len(X), len(y)), np.full(len(X), -1)
    np.minimum.at(lowest, same, y)
    np.maximum.at(highest, same, y)
    return np.asarray(lowest[same] != highest[same])


def _first_partners(X: Floats, y: Ints, grain: float) -> tuple[Ints, Floats]:
    """The closest later point of the same label for each point, and the squared distance; by matrix products, block by block."""
    partner, square = np.full(len(X), -1, dtype=np.int64), np.full(len(X), np.inf)
    norms = np.einsum("ij,ij->i", X, X)
    for label in np.unique(y[y >= 0]):  # points that never merge have -1
        rows = np.flatnonzero(y == label)
        for start in range(0, len(rows) - 1, _BLOCK):
            later = rows[start:]
            part = later[:_BLOCK]
            table = norms[part][:, None] + norms[later] - 2.0 * (X[part] @ X[later].T)
            table[np.arange(len(part))[:, None] >= np.arange(len(later))] = np.inf
            part, table = part[: len(later) - 1], table[: len(later) - 1]  # the last point of all has none after it
            # The first of those that round to the shortest: equal distances are equal, whatever their last digits are.
            shortest = (np.rint(table.min(axis=1) / grain) + 0.5) * grain
            partner[part] = later[(table <= shortest[:, None]).argmax(axis=1)]
            # The distance itself again from the differences, which lose no digits.
            apart = X[part] - X[partner[part]]
            square[part] = np.rint(np.einsum("ij,ij->i", apart, apart) / grain) * grain
    return partner, square


@jit
def members(forest: Forest, node: int) -> Ints:
    """The points of the cluster with the number `node`."""
    # Depth first with an explicit stack, which numba compiles.
    points, waiting = np.empty(forest.size[node], dtype=np.int64), np.empty(forest.size[node] + 1, dtype=np.int64)
    waiting[0] = node
    n_points, n_waiting = 0, 1
    while n_waiting > 0:
        n_waiting -= 1
        at = waiting[n_waiting]
        if forest.left_child[at] < 0:
            points[n_points] = at
            n_points += 1
        else:
            waiting[n_waiting] = forest.left_child[at]
            waiting[n_waiting + 1] = forest.right_child[at]
            n_waiting += 2
    return points


def n_merges(forest: Forest) -> int:
    """How many merges there are so far."""
    return int(forest.used[0]) - len(forest.points)


def cluster_numbers(forest: Forest) -> Ints:
    """The cluster of each point, numbered from 0."""
    numbers = np.empty(len(forest.points), dtype=np.int64)
    for number, node in enumerate(np.flatnonzero(forest.alive)):
        numbers[members(forest, int(node))] = number
    return numbers


def fewest_clusters(forest: Forest) -> int:
    """At least how many clusters there will be, however the merging goes on.

    Points with two labels never merge, and refused pairs stay apart, so clusters that are all refused to one another stay as many
    as they are. Of two labels that overlap, one at least has two clusters.
    """
    n_labels = len(forest.label_overlaps)
    alone, n_points = np.zeros(n_labels, dtype=np.int64), np.bincount(forest.label[: len(forest.points)], minlength=n_labels)
    np.add.at(alone, forest.label[forest.lone], 1)
    apart: dict[int, set[int]] = {}
    for first, second in forest.refused[: forest.used[1]].tolist():
        apart.setdefault(first, set()).add(second)
        apart.setdefault(second, set()).add(first)
    cliques: dict[int, list[int]] = {label: [] for label in range(n_labels)}
    for node in sorted(apart, key=lambda node: (-len(apart[node]), node)):
        clique = cliques[int(forest.label[node])]
        if apart[node].issuperset(clique):
            clique.append(node)
    fewest = alone + [max(len(cliques[label]), int(n_points[label] > alone[label])) for label in range(n_labels)]
    single = fewest == 1
    total = int(fewest.sum())
    for first, second in np.argwhere(np.triu(forest.label_overlaps)).tolist():
        if single[first] and single[second] and n_points[first] + n_points[second] > 2:
            total += 1  # one of the two, whichever; neither is counted again
            single[first] = single[second] = False
    return total


def with_room(forest: Forest) -> Forest:
    """The same forest, with room for another `CHUNK` of refused pairs."""
    if int(forest.used[1]) + CHUNK < len(forest.refused):
        return forest
    return forest._replace(refused=np.concatenate([forest.refused, np.zeros_like(forest.refused)]))


def _squares_in_arrays(table: Floats, rows: Ints, point: Floats) -> Floats:
    apart = table[rows] - point
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


@partial(jit, plain=_squares_in_arrays)
def _squares(table: Floats, rows: Ints, point: Floats) -> Floats:
    """Squared distances of some rows of a table to a point."""
    totals = np.empty(len(rows))
    for place in range(len(rows)):
        row = rows[place]
        total = 0.0
        for column in range(len(point)):
            total += (table[row, column] - point[column]) ** 2
        totals[place] = total
    return totals


@jit
def _squares_to(forest: Forest, node: int, others: Ints) -> Floats:
    """The squared distances of a cluster to others, infinite if a merge is refused."""
    squares = np.rint(_squares(forest.centre, others, forest.centre[node]) / forest.grain) * forest.grain
    if forest.used[1] == 0:
        return squares
    refused = np.zeros(forest.used[0], dtype=np.bool_)
    for side in range(2):
        is_own = forest.refused[: forest.used[1], side] == node
        refused[forest.refused[: forest.used[1], 1 - side][is_own]] = True
    return np.where(refused[others], np.inf, squares)


@jit
def _find_partner(forest: Forest, node: int) -> None:
    """Store the closest of the later clusters that a cluster may merge with."""
    forest.stale[node] = False
    forest.square[node] = np.inf
    others = node + 1 + np.flatnonzero(forest.mergeable[node + 1 : forest.used[0]] == forest.label[node])
    if len(others) > 0:
        squares = _squares_to(forest, node, others)
        best = np.argmin(squares)
        forest.partner[node] = others[best]
        forest.square[node] = squares[best]


@jit
def closest_cluster(forest: Forest) -> int:
    """The cluster whose partner is closest of all, ties by index; -1 if no pair is left."""
    while True:
        node = np.argmin(forest.square[: forest.used[0]])
        if forest.square[node] == np.inf:
            return -1
        # A stale distance is a lower bound: it must be computed only if it is the smallest.
        if not forest.stale[node]:
            return int(node)
        _find_partner(forest, int(node))


@jit
def refuse(forest: Forest, first: int, second: int) -> None:
    """Never merge these two clusters of one label, nor what they become."""
    forest.refused[forest.used[1], 0] = first
    forest.refused[forest.used[1], 1] = second
    forest.used[1] += 1
    for node, partner in ((first, second), (second, first)):
        if forest.partner[node] == partner:
            forest.stale[node] = True


def _offer_in_arrays(forest: Forest, node: int, others: Ints, squares: Floats) -> None:
    first, second = forest.left_child[node], forest.right_child[node]
    lost = (forest.partner[others] == first) | (forest.partner[others] == second)
    forest.stale[others[lost]] = True
    closer = squares < forest.square[others]
    forest.partner[others[closer]] = node
    forest.square[others[closer]] = squares[closer]
    forest.stale[others[closer]] = False


@partial(jit, plain=_offer_in_arrays)
def _offer(forest: Forest, node: int, others: Ints, squares: Floats) -> None:
    """Make a new node the partner of those others that have none as close; no cluster is later than it."""
    first, second = forest.left_child[node], forest.right_child[node]
    for place in range(len(others)):
        other = others[place]
        if forest.partner[other] == first or forest.partner[other] == second:
            forest.stale[other] = True  # those that are left are no closer than the one that is gone
        if squares[place] < forest.square[other]:
            forest.partner[other] = node
            forest.square[other] = squares[place]
            forest.stale[other] = False


@jit
def merge(forest: Forest, first: int, second: int) -> int:
    """Merge two clusters of one label; returns the new node."""
    node = forest.used[0]
    forest.used[0] += 1
    size = forest.size[first] + forest.size[second]
    forest.centre[node] = (forest.size[first] * forest.centre[first] + forest.size[second] * forest.centre[second]) / size
    forest.size[node], forest.label[node] = size, forest.label[first]
    forest.left_child[node], forest.right_child[node] = first, second
    for child in (first, second):
        forest.alive[child] = False
        forest.mergeable[child] = -1
        forest.square[child] = np.inf
    forest.alive[node] = True
    # A sphere around both spheres: never too small, and no pass over the points.
    reach = 0.0
    for child in (first, second):
        gap = forest.centre[child] - forest.centre[node]
        reach = max(reach, np.sqrt(gap @ gap) + forest.radius[child])
    forest.radius[node] = reach
    for side in range(2):
        column = forest.refused[: forest.used[1], side]
        forest.refused[: forest.used[1], side] = np.where((column == first) | (column == second), node, column)
    others = np.flatnonzero(forest.mergeable[:node] == forest.label[node])
    forest.mergeable[node] = forest.label[node]
    _offer(forest, node, others, _squares_to(forest, node, others))
    return int(node)


@jit
def _overlaps(forest: Forest, own: Ints, centre: Floats, radius: float, rivals: Ints, touching: float) -> tuple[bool, Ints]:
    """Whether the hull of the points `own` overlaps that of a rival, and the rivals that stayed undecided if none is sure to.

    Cheapest test first: spheres, then the plane between the centres, then a solve that starts from that plane.
    """
    distance = np.sqrt(_squares(forest.centre, rivals, centre))
    # Hulls whose spheres do not meet cannot overlap; 1e-12 covers the rounding of the radii.
    close = np.flatnonzero(distance <= (radius + forest.radius[rivals]) * (1 + 1e-12) + touching)
    depth = distance[close] - forest.radius[rivals[close]]
    undecided = np.empty(len(close), dtype=np.int64)
    n_undecided = 0
    P = forest.points[own]
    for _ in range(len(close)):
        deepest = np.argmin(depth)  # the most likely to overlap goes first
        depth[deepest] = np.inf
        place = close[deepest]
        rival = rivals[place]
        # `direction` has the length `distance`, so the gap along it is compared with `touching` times that.
        direction = centre - forest.centre[rival]
        reach = (P @ direction).min()
        Q = forest.points[members(forest, rival)]
        if reach - (Q @ direction).max() > touching * distance[place]:
            continue
        verdict = grow_working_set(P, Q, direction, touching, 1e-6, 0.0, _MAX_ROUNDS, None)[0]
        if verdict == OVERLAPPING:
            return True, undecided[:0]
        if verdict != SEPARATED:
            undecided[n_undecided] = rival
            n_undecided += 1
    return False, undecided[:n_undecided]


@jit
def merge_tested(forest: Forest, steps: int, touching: float) -> tuple[int, int, int, Ints]:
    """Merge or refuse the closest pairs, one after the other: how many, and the pair that was left with its undecided rivals.

    The pair is -1 if none is left, and -2 if all steps were made.
    """
    nobody = np.empty(0, dtype=np.int64)
    for step in range(steps):
        first = closest_cluster(forest)
        if first < 0:
            return step, -1, -1, nobody
        second = int(forest.partner[first])
        own = np.concatenate((members(forest, first), members(forest, second)))
        size = forest.size[first] + forest.size[second]
        centre = (forest.size[first] * forest.centre[first] + forest.size[second] * forest.centre[second]) / size
        # The exact radius, smaller than that of a sphere around both spheres: fewer rivals need a solve.
        radius = np.sqrt(_squares(forest.points, own, centre).max())
        alive = forest.alive[: forest.used[0]]
        # Only labels whose whole hulls overlap that of this label can stop a merge.
        rivals = np.flatnonzero(alive & forest.label_overlaps[forest.label[first]][forest.label[: len(alive)]])
        overlaps, undecided = _overlaps(forest, own, centre, radius, rivals, touching)
        if overlaps:
            refuse(forest, first, second)
        elif len(undecided) > 0:
            return step, first, second, undecided
        else:
            merge(forest, first, second)
    return steps, -2, -2, nobody
