"""Greedy merging of same-label clusters whose hulls stay disjoint from every other label's (Zhou & Srikumar's DirectProbe)."""

from __future__ import annotations

import numpy as np

from theodolite.probes.compiled import Flags, Floats, Ints, jit
from theodolite.probes.direct.forest import (
    REFUSED_ROOM,
    Forest,
    alive_at,
    closest_cluster,
    current_cluster,
    members,
    merge,
    merge_unchecked,
    new_forest,
    refuse,
    rivals_of,
    squares,
)
from theodolite.probes.direct.separators import Separators
from theodolite.probes.hulls.gap import solve_gap
from theodolite.probes.hulls.working_set import OVERLAPPING, POINTS_PER_ROUND, SEPARATED, grow_working_set_compiled

# Up to this dimension merges are tested pair by pair in compiled code; above it, against planes that many pairs share.
_MAX_PAIRWISE_DIMENSION = 64
_CHUNK = REFUSED_ROOM // 2  # steps between two reports of progress while merging one pair at a time
_MAX_ROUNDS = 40  # of a solve inside the merging; what is undecided then gets the slower, surer solvers
_CHANGING = ("parent", "alive", "partner", "square", "stale", "used")  # fields of a Forest that merges change in old nodes


class Merger:
    """One greedy merging (Zhou & Srikumar): merges without tests as long as that went well, and backs up to the first overlap.

    Hulls only grow, so a state without overlap proves that every state before it had none: if overlaps are rare, one test stands
    for many merges, and if they are frequent, each merge is tested.

    Parameters
    ----------
    X, y
        (n, d) points near the origin, grouped by label, and the number of the label of each.
    label_overlaps
        (labels, labels): whether the whole hulls of two labels overlap. Only such labels can ever stop a merge.
    touching
        The distance up to which hulls count as overlapping.
    """

    def __init__(self, X: Floats, y: Ints, label_overlaps: Flags, touching: float) -> None:
        self.forest = new_forest(X, y, label_overlaps)
        self.touching = touching
        self.stride = len(X)  # how many merges to try without tests
        self.decided: dict[tuple[int, int], bool] = {}  # pairs of clusters whose overlap was undecided at first
        self.separators = Separators(self.forest, touching) if X.shape[1] > _MAX_PAIRWISE_DIMENSION else None

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
        if self.stride >= 4:
            return self._merge_many()
        return self._merge_by_pairs() if self.separators is None else self._merge_by_planes(self.separators)

    def _merge_by_pairs(self) -> bool:
        """Merge or refuse one pair after the other, a chunk of them."""
        refused = int(self.forest.used[1])
        steps = 0
        while steps < _CHUNK:
            self._make_room()
            steps_done, first, second, undecided = _advance(self.forest, _CHUNK - steps, self.touching, _MAX_ROUNDS)
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

    def _merge_by_planes(self, separators: Separators) -> bool:
        """The same if every step is expensive: after three good ones, try many merges again."""
        for _ in range(3):
            self._make_room()
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
        self._make_room()
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
        overlaps, undecided = _find_overlap(self.forest, alive, base, self.touching, _MAX_ROUNDS)
        return bool(overlaps) or any(self._overlap(int(first), int(second)) for first, second in undecided)

    def _overlap(self, first: int, second: int) -> bool:
        if (first, second) not in self.decided:
            own = self.forest.points[members(self.forest, first)]
            self.decided[first, second] = self._rows_overlap(own, members(self.forest, second))
        return self.decided[first, second]

    def _rows_overlap(self, own: Floats, rows: Ints) -> bool:
        return solve_gap(own, self.forest.points[rows], touching=self.touching, decide=True).overlap

    def _make_room(self) -> None:
        """Double the list of refused pairs before it is full."""
        if int(self.forest.used[1]) + _CHUNK >= len(self.forest.refused):
            refused = np.concatenate([self.forest.refused, np.zeros_like(self.forest.refused)])
            self.forest = self.forest._replace(refused=refused)
            if self.separators is not None:
                self.separators.forest = self.forest


@jit
def _first_overlap(
    forest: Forest, own: Ints, centre: Floats, radius: float, rivals: Ints, touching: float, max_rounds: int
) -> tuple[int, Ints]:
    """The first rival whose hull overlaps that of the points `own`, or -1; and the rivals that stayed undecided.

    Cheapest test first: spheres, then the plane between the centres, then a solve that starts from that plane.
    """
    distance = np.sqrt(squares(forest.centre, rivals, centre))
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
        verdict = grow_working_set_compiled(P, Q, direction, touching, 1e-6, 0.0, max_rounds, POINTS_PER_ROUND, None)[0]
        if verdict == OVERLAPPING:
            return int(rival), undecided[:0]
        if verdict != SEPARATED:
            undecided[n_undecided] = rival
            n_undecided += 1
    return -1, undecided[:n_undecided]


@jit
def _advance(forest: Forest, steps: int, touching: float, max_rounds: int) -> tuple[int, int, int, Ints]:
    """Merge or refuse at most `steps` closest pairs, one after the other.

    Returns the steps done; the two clusters of an undecided pair (-1 if no pair is left, -2 if all steps are done or the list of
    refused pairs is full); and the rivals that are undecided.
    """
    nobody = np.empty(0, dtype=np.int64)
    for step in range(steps):
        if forest.used[1] == len(forest.refused):
            return step, -2, -2, nobody
        first = closest_cluster(forest)
        if first < 0:
            return step, -1, -1, nobody
        second = int(forest.partner[first])
        own = np.concatenate((members(forest, first), members(forest, second)))
        size = forest.size[first] + forest.size[second]
        centre = (forest.size[first] * forest.centre[first] + forest.size[second] * forest.centre[second]) / size
        # The exact radius, smaller than that of a sphere around both spheres: fewer rivals need a solve.
        radius = np.sqrt(squares(forest.points, own, centre).max())
        rivals = rivals_of(forest, forest.label[first])
        rival, undecided = _first_overlap(forest, own, centre, radius, rivals, touching, max_rounds)
        if rival >= 0:
            refuse(forest, first, second)
        elif len(undecided) > 0:
            return step, first, second, undecided
        else:
            merge(forest, first, second)
    return steps, -2, -2, nobody


@jit
def _find_overlap(forest: Forest, alive: Flags, base: int, touching: float, max_rounds: int) -> tuple[bool, Ints]:
    """Whether a cluster made since node `base` overlaps one of another label, and the undecided pairs if none is sure to.

    `alive` are the clusters to test, as `alive_at` gives them.
    """
    pairs = np.empty((16, 2), dtype=np.int64)
    n_pairs = 0
    # The latest clusters are the largest: an overlap shows there first.
    for node in np.flatnonzero(alive)[::-1]:
        if node < base:
            break
        rivals = np.flatnonzero(alive & forest.label_overlaps[forest.label[node]][forest.label[: len(alive)]])
        rivals = rivals[rivals < node]  # a pair of two new clusters is tested once, with the later one
        own = members(forest, node)
        rival, undecided = _first_overlap(forest, own, forest.centre[node], forest.radius[node], rivals, touching, max_rounds)
        if rival >= 0:
            return True, pairs[:0]
        for other in undecided:
            if n_pairs == len(pairs):
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            pairs[n_pairs, 0] = node
            pairs[n_pairs, 1] = other
            n_pairs += 1
    return False, pairs[:n_pairs]
