"""Labelled clouds, and slow but obvious hull geometry: a linear program, all faces, and plain greedy merging."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog, minimize


def cloud(n: int, d: int, labels: int, *, apart: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit Gaussians around random centres; with `apart` near 0 they are all in one place."""
    random = np.random.default_rng(seed)
    y = np.r_[np.arange(labels), random.integers(0, labels, n - labels)]
    return random.standard_normal((n, d)) + apart * random.standard_normal((labels, d))[y], y


def share_a_point(A: np.ndarray, B: np.ndarray) -> bool:
    """Whether two hulls meet: whether convex weights of A and of B give the same point."""
    if (A.min(axis=0) > B.max(axis=0)).any() or (B.min(axis=0) > A.max(axis=0)).any():
        return False  # not even the boxes around them meet
    columns = np.concatenate([A, -B]).T
    sums = np.repeat([[1.0, 0.0], [0.0, 1.0]], [len(A), len(B)], axis=0).T
    solution = linprog(
        np.zeros(len(A) + len(B)),
        A_eq=np.vstack([columns, sums]),
        b_eq=np.r_[np.zeros(A.shape[1]), 1.0, 1.0],
        method="highs",
    )
    if solution.status not in (0, 2):  # neither solved nor infeasible: HiGHS gave up
        return widest_slab(A, B) <= 1e-9
    return bool(solution.status == 0)


def widest_slab(A: np.ndarray, B: np.ndarray) -> float:
    """Half the widest slab between two sets, its normal in the unit cube; 0 if there is none: always solvable."""
    rows = np.block([[-A, np.ones((len(A), 2))], [B, -np.ones((len(B), 1)), np.ones((len(B), 1))]])
    bounds = [(-1, 1)] * A.shape[1] + [(None, None), (0, None)]
    solution = linprog(np.r_[np.zeros(A.shape[1] + 1), -1.0], A_ub=rows, b_ub=np.zeros(len(rows)), bounds=bounds, method="highs")
    assert solution.status == 0, solution.message
    return float(solution.x[-1])


def distance_by_faces(A: np.ndarray, B: np.ndarray) -> float:
    """The distance of two small hulls: the minimum over all pairs of simplices, one of which has the nearest points."""
    d = A.shape[1]
    minimum = np.inf
    for own, other in itertools.product(faces(len(A), d), faces(len(B), d)):
        if len(own) + len(other) <= d + 2:
            minimum = min(minimum, simplex_distance(A[list(own)], B[list(other)]))
    return float(minimum)


def faces(n: int, d: int) -> list[tuple[int, ...]]:
    return [rows for size in range(1, min(n, d + 1) + 1) for rows in itertools.combinations(range(n), size)]


def simplex_distance(A: np.ndarray, B: np.ndarray) -> float:
    """The distance of the flats through two sets of points; infinite if their nearest points are outside of the sets' hulls."""
    moves = np.concatenate([A[1:] - A[0], B[0] - B[1:]]).T
    between = A[0] - B[0]
    weights = np.linalg.lstsq(moves, -between, rcond=None)[0] if moves.size else np.zeros(0)
    own, other = weights[: len(A) - 1], weights[len(A) - 1 :]
    inside = min(1 - own.sum(), 1 - other.sum(), *own, *other) >= -1e-12
    return float(np.linalg.norm(between + moves @ weights)) if inside else np.inf


def distance_by_program(A: np.ndarray, B: np.ndarray) -> float:
    """The distance of the nearest points of two hulls, by a general solver of quadratic programs."""
    signed = np.concatenate([A, -B])
    sums = np.repeat([[1.0, 0.0], [0.0, 1.0]], [len(A), len(B)], axis=0).T
    solution = minimize(
        lambda w: 0.5 * float(np.sum((w @ signed) ** 2)),
        np.r_[np.full(len(A), 1 / len(A)), np.full(len(B), 1 / len(B))],
        jac=lambda w: signed @ (w @ signed),
        bounds=[(0, 1)] * len(signed),
        constraints={"type": "eq", "fun": lambda w: sums @ w - 1, "jac": lambda w: sums},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return float(np.linalg.norm(solution.x @ signed))


def greedy_partition(X: np.ndarray, y: np.ndarray) -> list[frozenset[int]]:
    """The clusters of DirectProbe, one merge at a time: the closest centroids of one label, unless the hull overlaps another's.

    A refused pair stays refused, and so do all that contain it.
    """
    clusters = [frozenset([row]) for row in range(len(X))]
    refused: list[tuple[frozenset[int], frozenset[int]]] = []
    while True:
        pair = closest_pair(X, y, clusters, refused)
        if pair is None:
            return clusters
        merged = pair[0] | pair[1]
        label = y[min(merged)]
        if any(y[min(other)] != label and share_a_point(X[sorted(merged)], X[sorted(other)]) for other in clusters):
            refused.append(pair)
        else:
            clusters = [cluster for cluster in clusters if cluster not in pair] + [merged]


def closest_pair(
    X: np.ndarray, y: np.ndarray, clusters: list[frozenset[int]], refused: list[tuple[frozenset[int], frozenset[int]]]
) -> tuple[frozenset[int], frozenset[int]] | None:
    centres = np.stack([X[sorted(cluster)].mean(axis=0) for cluster in clusters])
    labels = np.array([y[min(cluster)] for cluster in clusters])
    first, second = np.triu_indices(len(clusters), 1)
    same = labels[first] == labels[second]
    first, second = first[same], second[same]
    for place in np.argsort(np.linalg.norm(centres[first] - centres[second], axis=1), kind="stable"):
        P, Q = clusters[first[place]], clusters[second[place]]
        if not any((a <= P and b <= Q) or (a <= Q and b <= P) for a, b in refused):
            return P, Q
    return None


def as_partition(clusters: np.ndarray) -> set[frozenset[int]]:
    """Cluster numbers as sets of rows: the same however the clusters are numbered."""
    return {frozenset(np.flatnonzero(clusters == number).tolist()) for number in np.unique(clusters)}
