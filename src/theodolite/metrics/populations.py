"""Whether the rows of one file look like two populations: two groups that share hardly any neighbours and vary in unrelated ways.

Vectors alone show two groups, not two models. Two topics in one encoder also share hardly any neighbours, but they vary in the
same directions; the rows of two unrelated encoders do not. Error rates are in benchmarks/mixture_error_rates.json.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.core.moments import Doubles
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Floats, Indices, Vectors
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.nearest_rows import K, nearest_neighbours, neighbours_of
from theodolite.metrics.registry import NEITHER, metric

LOOKED_AT, FEWEST_LOOKED_AT = 3_000, 100  # rows that the groups are looked for among
# In few dimensions any cut leaves few neighbours across it and halves of different shape: normal rows gave 40 of 60 in 2 to 4
# dimensions, 1 of 20 in 6 and none in 8 or more.
FEWEST_DIMENSIONS = 16
FEWEST, LEAST_SHARE = 20, 0.01  # rows of the smaller group, and their share
CROSSING = 0.25  # neighbours across the cut, as a share of what chance gives
WIDE = 0.5  # spread of a group, as a share of that of all rows: copies of a few texts are narrower
UNALIGNED = 0.03  # alignment of the covariances of two unrelated encoders; one encoder on two topics shows more
GRAPH_DIRECTIONS, PRINCIPAL_DIRECTIONS = 6, 15
GRAPH_TOLERANCE, LANCZOS_STEPS = 1e-3, 300  # relative errors of the eigenvalues, and the most steps to get there


@dataclass(frozen=True, eq=False)
class Populations:
    """Two groups of rows that look like two populations.

    `minority` has the row numbers of the smaller group and `majority` those of the other, among the rows looked at; `crossing`
    is the share of neighbours across the cut over what chance gives, `alignment` that of the covariances (1 for equal ones).
    """

    minority: Indices
    majority: Indices
    crossing: float
    spread: float
    alignment: float


@metric("[0, 0.5]", NEITHER, needs="sample", resample=False)
def second_population(X: Vectors | Cloud) -> float:
    """Share of rows that look like a second population, such as another encoder's, in [0, 0.5]; 0 if all look like one.

    Two groups of rows are two populations if neighbours across them are at most a quarter of what chance gives, both are wide,
    and their covariances are not aligned. The smaller one has at least 20 rows and 1% of them. Of more than 3,000 rows, a sample
    is looked at; fewer than 100, or rows of fewer than 16 dimensions, count as one population.

    Parameters
    ----------
    X
        Vectors or a cloud.
    """
    found = two_populations(Cloud.of(X))
    return 0.0 if found is None else len(found.minority) / (len(found.minority) + len(found.majority))


def two_populations(cloud: Cloud) -> Populations | None:
    """The two populations that the sampled rows of a cloud look like; None if they look like one."""
    return cloud.cached("two populations", lambda: _found(cloud))


def _found(cloud: Cloud) -> Populations | None:
    cuts = sorted(cut_scores(cloud), key=lambda cut: cut.crossing)
    return next((cut for cut in cuts if is_cut(cut)), None)


def is_cut(cut: Populations) -> bool:
    """Whether two groups look like two populations by all three criteria."""
    return cut.crossing <= CROSSING and cut.spread >= WIDE and cut.alignment < UNALIGNED


def cut_scores(cloud: Cloud) -> Iterator[Populations]:
    """The best cut along every direction that is tried, with its numbers; those that cross too often have no further numbers."""
    if cloud.units.m < FEWEST_LOOKED_AT or cloud.d < FEWEST_DIMENSIONS:
        return
    units, rows, index = _unit_sample(cloud)
    m = len(units)
    least = max(FEWEST, math.ceil(LEAST_SHARE * m))
    total = _variance(_centred(units))
    seen = set()
    for values in _directions(units, index, seed=cloud.seed):
        order = np.argsort(values, kind="stable")
        size, crossing = _best_cut(order, index, least)
        # The groups with the smaller one first.
        groups = [np.sort(order[:size]), np.sort(order[size:])][:: 1 if size <= m - size else -1]
        key = groups[0].tobytes()
        if key in seen:
            continue
        seen.add(key)
        spread = alignment = math.nan
        if crossing <= CROSSING:
            first, second = (units[group] for group in groups)
            narrower = min(_variance(_centred(first)), _variance(_centred(second)))
            spread = math.sqrt(narrower / total) if total > 0 else 0.0
            alignment = _alignment(first, second)
        yield Populations(rows[groups[0]], rows[groups[1]], crossing, spread, alignment)


def _unit_sample(cloud: Cloud) -> tuple[Floats, Indices, Indices]:
    """Unit rows about their mean, their numbers in the cloud, and the 10 nearest of each."""
    units = cloud.units
    if units.m <= LOOKED_AT:
        return units.shifted, units.rows, neighbours_of(cloud).index
    taken = sample_rows(units.m, LOOKED_AT, seed=cloud.seed)
    rows = units.shifted[taken]
    return rows, units.rows[taken], nearest_neighbours(rows, K)[0]


def _directions(units: Floats, index: Indices, *, seed: int) -> Iterator[Doubles]:
    """Numbers along which the rows are cut: sides of 2-means, eigenvectors of the neighbour graph, principal directions."""
    centroids = k_means(units, 2, seed=seed).centroids
    if len(centroids) == 2:
        yield nearest_centroids(units, centroids).astype(np.float64)
    yield from _graph_directions(index, seed=seed)
    scatter = units.T @ units
    yield from (units @ np.linalg.eigh(scatter)[1][:, ::-1][:, :PRINCIPAL_DIRECTIONS]).T.astype(np.float64)


def _graph_directions(index: Indices, *, seed: int) -> Doubles:
    """The slowest directions of a random walk on the neighbour graph, one per row, by Lanczos' iteration.

    In NumPy, because importing scipy.sparse.linalg takes as long as everything else that a survey of 1,000 rows does.
    """
    m, k = index.shape
    ends = index.ravel()
    scale = 1 / np.sqrt(k + np.bincount(ends, minlength=m))
    vector = np.random.default_rng(seed).standard_normal(m)
    steps = min(m, LANCZOS_STEPS)
    basis, tridiagonal = np.empty((steps, m)), np.zeros((steps + 1, steps + 1))
    length = float(np.linalg.norm(vector))
    for step in range(1, steps + 1):
        basis[step - 1] = vector / length
        scaled = scale * basis[step - 1]
        vector = scale * (scaled[index].sum(axis=1) + np.bincount(ends, np.repeat(scaled, k), minlength=m))
        tridiagonal[step - 1, step - 1] = basis[step - 1] @ vector
        for _ in range(2):  # once leaves rounding errors, which grow
            vector -= basis[:step].T @ (basis[:step] @ vector)
        length = float(np.linalg.norm(vector))
        is_exhausted = length <= np.finfo(np.float64).eps * m
        if step % 10 == 0 or step == steps or is_exhausted:
            values, weights = np.linalg.eigh(tridiagonal[:step, :step])
            values, weights = values[-GRAPH_DIRECTIONS - 1 :], weights[:, -GRAPH_DIRECTIONS - 1 :]
            residuals = length * np.abs(weights[-1])
            if is_exhausted or (step > GRAPH_DIRECTIONS and (residuals <= GRAPH_TOLERANCE * np.abs(values)).all()):
                break
        tridiagonal[step - 1, step] = tridiagonal[step, step - 1] = length
    return np.asarray(weights.T @ basis[:step] * scale)


def _best_cut(order: Indices, index: Indices, least: int) -> tuple[int, float]:
    """The size of the first group, of at least so many rows on both sides, with the fewest crossing neighbours over chance."""
    m, k = index.shape
    place = np.empty(m, np.intp)
    place[order] = np.arange(m)
    ends = np.sort(np.stack([np.repeat(place, k), place[index.ravel()]]), axis=0)
    # A pair at places p < q is cut by every group of p + 1 to q rows.
    counts = [np.bincount(places + 1, minlength=m + 2) for places in ends]
    crossing = np.cumsum(counts[0] - counts[1])[least : m - least + 1]
    sizes = np.arange(least, m - least + 1)
    ratios = crossing / (k * m) / (2 * sizes * (m - sizes) / (m * (m - 1)))
    best = int(np.argmin(ratios))
    return int(sizes[best]), float(ratios[best])


def _centred(rows: Floats) -> Floats:
    return np.asarray(rows - rows.mean(axis=0))


def _variance(centred: Floats) -> float:
    return float(np.einsum("ij,ij->i", centred, centred).sum(dtype=np.float64)) / (len(centred) - 1)


def _alignment(first: Floats, second: Floats) -> float:
    """Inner product of the trace-free parts of two covariances, over their norms, which halves of the rows give without bias."""
    norms = [_trace_free(group[::2], group[1::2]) for group in (first, second)]
    if min(norms) <= 0:  # no direction stands out, so there is nothing to align
        return math.nan
    return _trace_free(first, second) / math.sqrt(norms[0] * norms[1])


def _trace_free(first: Floats, second: Floats) -> float:
    """Inner product of the trace-free parts of the covariances of two groups of rows."""
    A, B = _centred(first), _centred(second)
    # |A B^T|^2 = <A^T A, B^T B>: whichever takes fewer products, of which that of an array with itself takes half.
    is_wide = 2 * len(A) * len(B) < (len(A) + len(B)) * A.shape[1]
    left, right = (A @ B.T,) * 2 if is_wide else (A.T @ A, B.T @ B)
    product = float(np.einsum("ij,ij->i", left, right).sum(dtype=np.float64)) / ((len(A) - 1) * (len(B) - 1))
    return float(product - _variance(A) * _variance(B) / A.shape[1])
