"""The published DirectProbe written plainly: its order of work, with SciPy's HiGHS for overlaps and an SVM for distances.

It merges to the end without a look at other labels. Where hulls overlap then, it goes back to the last state without an overlap,
refuses the pair that was merged next, and goes on from there, one merge and its tests at a time. Hulls only grow: a pair found
apart vouches for all pairs inside it, so no test is made twice; and what the plane between two centroids parts needs no program.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

Floats = NDArray[np.float64]
Pair = tuple[int, int]

MOST_STEPS = 1_000_000
"""Of the SVM: on thin margins it would go on for hours."""


def overlapping(A: Floats, B: Floats) -> bool:
    """Whether two hulls share a point: a linear program over convex weights, with no more rows than dimensions and two sums."""
    sums = np.repeat([[1.0, 0.0], [0.0, 1.0]], [len(A), len(B)], axis=0).T
    rows = np.vstack([np.concatenate([A, -B]).T, sums])
    right = np.r_[np.zeros(A.shape[1]), 1.0, 1.0]
    found = linprog(np.zeros(rows.shape[1]), A_eq=rows, b_eq=right, method="highs")
    if found.status not in (0, 2):  # neither solved nor infeasible: near the limit its simplex loses its way
        found = linprog(np.zeros(rows.shape[1]), A_eq=rows, b_eq=right, method="highs-ipm")
    return bool(found.status == 0)


def svm_distance(A: Floats, B: Floats) -> float:
    """Twice the margin of a linear SVM that allows no error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = SVC(kernel="linear", C=1e10, max_iter=MOST_STEPS).fit(np.concatenate([A, B]), [1] * len(A) + [0] * len(B))
    return float(2 / np.linalg.norm(machine.coef_))


class Clusters:
    """Same-label clusters that merge closest first; distances of centroids are kept, with each cluster's closest mate."""

    def __init__(self, X: Floats, y: NDArray[Any]) -> None:
        self.X, self.y = X, y
        self.members = [[row] for row in range(len(X))]
        self.centres = X.copy()
        squares = np.einsum("ij,ij->i", X, X)
        self.table = np.sqrt(np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0))
        self.table[y[:, None] != y] = np.inf
        np.fill_diagonal(self.table, np.inf)
        self.mate = self.table.argmin(axis=1)
        self.least = self.table.min(axis=1)

    def closest(self) -> Pair | None:
        """The closest pair, the smaller number first; None where none is left."""
        one = int(self.least.argmin())
        return None if np.isinf(self.least[one]) else (min(one, int(self.mate[one])), max(one, int(self.mate[one])))

    def merge(self, one: int, two: int) -> None:
        """Make two clusters the first of them; a pair refused for either stays refused."""
        self.members[one] = self.members[one] + self.members[two]
        self.members[two] = []
        self.centres[one] = self.X[self.members[one]].mean(axis=0)
        refused = np.isinf(self.table[one]) | np.isinf(self.table[two])
        away = np.where(refused, np.inf, np.linalg.norm(self.centres - self.centres[one], axis=1))
        self.table[one], self.table[:, one] = away, away
        self.table[two], self.table[:, two] = np.inf, np.inf
        nearer = away < self.least
        self.mate[nearer], self.least[nearer] = one, away[nearer]
        self._renew(np.flatnonzero((self.mate == one) | (self.mate == two)))
        self._renew(np.array([one, two]))

    def refuse(self, one: int, two: int) -> None:
        self.table[one, two] = self.table[two, one] = np.inf
        self._renew(np.array([one, two]))

    def _renew(self, rows: NDArray[np.intp]) -> None:
        self.mate[rows] = self.table[rows].argmin(axis=1)
        self.least[rows] = self.table[rows, self.mate[rows]]


class Apart:
    """Pairs of clusters known to be apart; clusters are sets of rows, as the bits of a number."""

    def __init__(self, X: Floats, y: NDArray[Any]) -> None:
        self.X, self.y = X, y
        self.known: list[tuple[int, int]] = []

    def holds(self, one: list[int], two: list[int]) -> bool:
        A, B = self.X[one], self.X[two]
        between = A.mean(axis=0) - B.mean(axis=0)
        if (A @ between).min() > (B @ between).max():
            return True
        a, b = bits(one), bits(two)
        for known_a, known_b in self.known:
            if (a & ~known_a == 0 and b & ~known_b == 0) or (a & ~known_b == 0 and b & ~known_a == 0):
                return True
        if overlapping(A, B):
            return False
        self.known.append((a, b))
        return True

    def all(self, clusters: list[list[int]]) -> bool:
        """Whether no two clusters of different labels overlap, the largest tried first."""
        ordered = sorted((cluster for cluster in clusters if cluster), key=len, reverse=True)
        pairs = ((a, b) for a, b in itertools.combinations(ordered, 2) if self.y[a[0]] != self.y[b[0]])
        return all(self.holds(a, b) for a, b in pairs)


def bits(rows: list[int]) -> int:
    number = 0
    for row in rows:
        number |= 1 << row
    return number


def published_greedy(X: Floats, y: NDArray[Any]) -> tuple[NDArray[np.int64], dict[Pair, float]]:
    """The cluster of each row, and the distance of each pair of clusters with different labels."""
    X = np.asarray(X, dtype=np.float64)
    apart = Apart(X, y)
    states = merged_to_the_end(X, y)
    last = len(states) - 1
    clusters = states[last]
    if not apart.all(clusters):
        clusters = forward(X, y, last_good(apart, states), apart)
    found = [cluster for cluster in clusters if cluster]
    assigned = np.empty(len(X), dtype=np.int64)
    for number, cluster in enumerate(found):
        assigned[cluster] = number
    pairs = [(i, j) for i, j in itertools.combinations(range(len(found)), 2) if y[found[i][0]] != y[found[j][0]]]
    return assigned, {(i, j): svm_distance(X[found[i]], X[found[j]]) for i, j in pairs}


def merged_to_the_end(X: Floats, y: NDArray[Any]) -> list[list[list[int]]]:
    """The clusters after 0, 1, ... merges that look at nothing but distances."""
    clusters = Clusters(X, y)
    states = [list(clusters.members)]
    while (pair := clusters.closest()) is not None:
        clusters.merge(*pair)
        states.append(list(clusters.members))
    return states


def last_good(apart: Apart, states: list[list[list[int]]]) -> int:
    """The number of merges after which nothing overlaps yet: back from the end in growing strides, then by halves."""
    good, bad, stride = 0, len(states) - 1, 1
    while bad - good > 1:
        middle = max(bad - stride, (good + bad) // 2)
        if apart.all(states[middle]):
            good = middle
        else:
            bad, stride = middle, 2 * stride
    return good


def forward(X: Floats, y: NDArray[Any], merges: int, apart: Apart) -> list[list[int]]:
    """The clusters from a state without overlap on: each merge is tried against all clusters of other labels."""
    clusters = Clusters(X, y)
    for _ in range(merges):
        pair = clusters.closest()
        assert pair is not None
        clusters.merge(*pair)
    while (pair := clusters.closest()) is not None:
        merged = clusters.members[pair[0]] + clusters.members[pair[1]]
        others = [cluster for cluster in clusters.members if cluster and y[cluster[0]] != y[merged[0]]]
        if all(apart.holds(merged, cluster) for cluster in others):
            clusters.merge(*pair)
        else:
            clusters.refuse(*pair)
    return clusters.members
