"""Clusters as nodes of a binary forest: the first n nodes are the points, and every merge of two clusters makes a new node.

Nodes never change, so merges can be taken back by cutting the forest at an earlier node. Written in NumPy that numba compiles as
it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from theodolite.probes.compiled import Flags, Floats, Ints, jit, jit_or

# Pairs for which a new forest has room at least, in its list of refused pairs.
REFUSED_ROOM = 128

_BLOCK = 1024  # rows of a block of pairwise distances, the most that is in memory of the n × n table


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
    parent: Ints
    alive: Flags  # whether the node is a cluster now, and not a part of a larger one
    lone: Flags  # points that carry two labels: anything with them overlaps the other label, so they never merge
    partner: Ints  # the closest cluster of the same label with which a merge is not refused
    square: Floats  # squared distance to it, or a lower bound of it if stale
    stale: Flags
    refused: Ints  # (room, 2)
    used: Ints  # nodes in use, pairs refused
    grain: float  # squared distances closer than this are equal, so that ties go by index and not by rounding


def new_forest(X: Floats, y: Ints, label_overlaps: Flags) -> Forest:
    """Every point a cluster of its own, with its closest partner.

    Parameters
    ----------
    X, y
        (n, d) points grouped by label, and the number of the label of each.
    label_overlaps
        (labels, labels): whether the whole hulls of two labels overlap.
    """
    n, d = X.shape
    nodes = 2 * n
    is_point = np.arange(nodes) < n
    # Squared distances are sums of products of this size: differences below 1e-14 of it are rounding.
    grain = 1e-14 * max(float(np.einsum("ij,ij->i", X, X).max()), 1e-300)
    lone = _with_two_labels(X, y)
    # A lone point gets a negative label of its own, so that it has no partner.
    partner, square = _first_partners(X, np.where(lone, -1 - np.arange(n), y), grain)
    return Forest(
        points=X,
        label=np.concatenate([y, np.full(n, -1, dtype=np.int64)]),
        label_overlaps=label_overlaps,
        centre=np.concatenate([X, np.zeros((n, d))]),
        size=is_point.astype(np.int64),
        radius=np.zeros(nodes),
        left_child=np.full(nodes, -1),
        right_child=np.full(nodes, -1),
        parent=np.full(nodes, -1),
        alive=is_point.copy(),
        lone=np.concatenate([lone, np.zeros(n, dtype=np.bool_)]),
        partner=np.concatenate([partner, np.full(n, -1, dtype=np.int64)]),
        square=np.concatenate([square, np.full(n, np.inf)]),
        stale=np.zeros(nodes, dtype=np.bool_),
        refused=np.zeros((max(n, REFUSED_ROOM), 2), dtype=np.int64),
        used=np.array([n, 0]),
        grain=grain,
    )


def _with_two_labels(X: Floats, y: Ints) -> Flags:
    """Which points are equal, to the last bit, to one of another label (for example one word's vector in layer 0)."""
    same = np.unique(np.ascontiguousarray(X).view([("", X.dtype)] * X.shape[1]).ravel(), return_inverse=True)[1]
    lowest, highest = np.full(len(X), len(y)), np.full(len(X), -1)
    np.minimum.at(lowest, same, y)
    np.maximum.at(highest, same, y)
    return np.asarray(lowest[same] != highest[same])


def _first_partners(X: Floats, y: Ints, grain: float) -> tuple[Ints, Floats]:
    """The closest other point of the same label for each point, and the squared distance; by matrix products, block by block."""
    partner, square = np.full(len(X), -1, dtype=np.int64), np.full(len(X), np.inf)
    norms = np.einsum("ij,ij->i", X, X)
    for label in np.unique(y[y >= 0]):  # points that never merge have negative ones
        rows = np.flatnonzero(y == label)
        if len(rows) < 2:
            continue
        own = X[rows]
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            table = norms[part][:, None] + norms[rows] - 2.0 * (X[part] @ own.T)
            table = np.rint(table / grain) * grain  # so that equal distances are equal
            table[np.arange(len(part)), start + np.arange(len(part))] = np.inf
            partner[part] = rows[table.argmin(axis=1)]
            # The distance itself again from the differences, which lose no digits.
            apart = X[part] - X[partner[part]]
            square[part] = np.rint(np.einsum("ij,ij->i", apart, apart) / grain) * grain
    return partner, square


@jit
def members(forest: Forest, node: int) -> Ints:
    """The points of a cluster.

    Parameters
    ----------
    forest, node
        The number of the cluster in the forest.
    """
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


@jit
def current_cluster(forest: Forest, node: int) -> int:
    """The cluster that a former cluster is part of now.

    Parameters
    ----------
    forest, node
        The number of the former cluster, or of a point, in the forest.
    """
    while not forest.alive[node]:
        node = forest.parent[node]
    return node


def _squares_in_arrays(table: Floats, rows: Ints, point: Floats) -> Floats:
    apart = table[rows] - point
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


@jit_or(_squares_in_arrays)
def squares(table: Floats, rows: Ints, point: Floats) -> Floats:
    """Squared distances of some rows of a table to a point.

    Parameters
    ----------
    table, rows, point
        An (n, d) table, the numbers of the rows, and a point of d coordinates.
    """
    totals = np.empty(len(rows))
    for place in range(len(rows)):
        row = rows[place]
        total = 0.0
        for column in range(len(point)):
            total += (table[row, column] - point[column]) ** 2
        totals[place] = total
    return totals


@jit
def _others_of_label(forest: Forest, node: int) -> Ints:
    """The other clusters with the label of a cluster."""
    used = forest.used[0]
    same = forest.alive[:used] & ~forest.lone[:used] & (forest.label[:used] == forest.label[node])
    same[node] = False
    return np.flatnonzero(same)


@jit
def _is_refused(forest: Forest, node: int, others: Ints) -> Flags:
    """With which of the others a cluster may not merge."""
    marks = np.zeros(forest.used[0], dtype=np.bool_)
    for entry in range(forest.used[1]):
        first, second = current_cluster(forest, forest.refused[entry, 0]), current_cluster(forest, forest.refused[entry, 1])
        if first == node:
            marks[second] = True
        elif second == node:
            marks[first] = True
    return marks[others]


@jit
def _find_partner(forest: Forest, node: int, others: Ints) -> Floats:
    """Store the closest of the others that a cluster may merge with; returns the squared distances, infinite if refused."""
    forest.stale[node] = False
    forest.square[node] = np.inf
    if len(others) == 0:
        return np.empty(0)
    distances = np.rint(squares(forest.centre, others, forest.centre[node]) / forest.grain) * forest.grain
    distances = np.where(_is_refused(forest, node, others), np.inf, distances)
    best = np.argmin(distances)
    forest.partner[node] = others[best]
    forest.square[node] = distances[best]
    return distances


@jit
def closest_cluster(forest: Forest) -> int:
    """The cluster whose partner is closest of all, ties by index; -1 if no pair is left.

    Parameters
    ----------
    forest
        Distances that are stale are computed as far as needed.
    """
    while True:
        node = np.argmin(forest.square[: forest.used[0]])
        if forest.square[node] == np.inf:
            return -1
        # A stale distance is a lower bound: it must be computed only if it is the smallest.
        if not forest.stale[node]:
            return int(node)
        _find_partner(forest, int(node), _others_of_label(forest, int(node)))


@jit
def refuse(forest: Forest, first: int, second: int) -> None:
    """Never merge these two clusters, nor what they become.

    Parameters
    ----------
    forest, first, second
        The numbers of two clusters of one label.
    """
    forest.refused[forest.used[1], 0] = first
    forest.refused[forest.used[1], 1] = second
    forest.used[1] += 1
    for node, partner in ((first, second), (second, first)):
        if forest.partner[node] == partner:
            forest.stale[node] = True


@jit
def merge(forest: Forest, first: int, second: int) -> int:
    """Merge two clusters; returns the new node.

    Parameters
    ----------
    forest, first, second
        The numbers of two clusters of one label.
    """
    node = forest.used[0]
    forest.used[0] += 1
    size = forest.size[first] + forest.size[second]
    forest.centre[node] = (forest.size[first] * forest.centre[first] + forest.size[second] * forest.centre[second]) / size
    forest.size[node], forest.label[node] = size, forest.label[first]
    forest.left_child[node], forest.right_child[node] = first, second
    for child in (first, second):
        forest.parent[child] = node
        forest.alive[child] = False
        forest.square[child] = np.inf
    forest.alive[node] = True
    # A sphere around both spheres: never too small, and no pass over the points.
    reach = 0.0
    for child in (first, second):
        gap = forest.centre[child] - forest.centre[node]
        reach = max(reach, np.sqrt(gap @ gap) + forest.radius[child])
    forest.radius[node] = reach
    others = _others_of_label(forest, node)
    distances = _find_partner(forest, node, others)
    for place in range(len(others)):
        other = others[place]
        if distances[place] < forest.square[other]:
            forest.partner[other], forest.square[other], forest.stale[other] = node, distances[place], False
        elif forest.partner[other] == first or forest.partner[other] == second:
            forest.stale[other] = True  # those that are left are no closer than the one that is gone
    return int(node)


@jit
def rivals_of(forest: Forest, label: int) -> Ints:
    """The clusters of the labels whose whole hulls overlap that of a label: only these can stop a merge.

    Parameters
    ----------
    forest, label
        The number of the label.
    """
    used = forest.used[0]
    return np.flatnonzero(forest.alive[:used] & forest.label_overlaps[label][forest.label[:used]])


@jit
def merge_unchecked(forest: Forest, steps: int) -> int:
    """Merge the closest pairs without a look at other labels; returns how many there were.

    Parameters
    ----------
    forest, steps
        How many pairs at most.
    """
    for step in range(steps):
        first = closest_cluster(forest)
        if first < 0:
            return step
        merge(forest, first, forest.partner[first])
    return steps


@jit
def alive_at(forest: Forest, nodes: int) -> Flags:
    """Which nodes were clusters when there were only the first `nodes` of them.

    Parameters
    ----------
    forest, nodes
        A number of nodes, at most those in use.
    """
    alive = np.zeros(nodes, dtype=np.bool_)
    for node in range(nodes):
        alive[node] = forest.parent[node] < 0 or forest.parent[node] >= nodes
    return alive
