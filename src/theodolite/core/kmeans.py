"""K-means for data that need not fit in memory: starts on a seeded sample, then a few passes over all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.core.blocks import map_blocks
from theodolite.core.centre import centred
from theodolite.core.moments import Doubles
from theodolite.core.sample import RowSample, sample_rows
from theodolite.core.vectors import Floats, Source, Vectors, source

Labels = NDArray[np.intp]

SAMPLE = 10_000  # rows Lloyd's iterations begin on
SAMPLE_PER_CLUSTER = 100  # and at least this many for each cluster
START = 4  # the first centres are chosen among every fourth row of the sample
SAMPLE_BYTES = 256 * 2**20  # but no more than this in memory
SAMPLE_PASSES = 100
TOLERANCE = 2e-4  # a pass that lowers the inertia by a smaller share is the last


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centroids of a cloud, and how well they fit it.

    `inertia` is the summed squared distance of the rows to the mean of their cluster, with the clusters of the last pass;
    the nearest-centroid inertia of `centroids` is never larger. Of float32 rows it is good to about 1e-6 of the total spread.
    """

    centroids: Doubles
    """(k, d)"""
    counts: NDArray[np.int64]
    """Rows of each cluster in the last pass, none of them 0."""
    inertia: float
    n_passes: int
    """Passes over all rows."""
    converged: bool

    @property
    def k(self) -> int:
        return len(self.centroids)


def kmeans(X: Vectors, k: int, *, seed: int = 0, passes: int = 3) -> Clusters:
    """Cluster the rows around k centroids: seeded, streamed, and independent of how the rows are chunked.

    Greedy k-means++ and a local search choose centroids on a seeded sample (10,000 rows, or 100 for each cluster), Lloyd's
    iterations on the sample carry them to convergence, and at most `passes` iterations over all rows finish them.

    A cluster that loses its rows starts anew at the row farthest from its centroid; one still empty after the last pass is
    dropped. Where the sample holds fewer distinct rows than k, each of them becomes a cluster. So `centroids` may have fewer
    than k rows, never more.
    """
    data = source(X)
    if k < 1 or passes < 1:
        raise ValueError(f"k={k} and passes={passes} must each be at least 1")
    if not data.replayable:
        raise ValueError(
            "k-means reads its rows several times, and this stream can be read once; pass a function that returns "
            "a fresh iterator, a list of chunks, a folder of shards or a memory-mapped array"
        )
    sample = _sample(data, k, seed=seed)
    shift = _shift(sample)
    sample = sample if shift is None else centred(sample, shift)
    centres = _start(sample[::START], k, seed=seed)
    if len(centres) < k:
        centres = _start(sample, k, seed=seed)
    begun = _lloyd(source(sample), None, centres, passes=SAMPLE_PASSES)
    final = _lloyd(data, shift, begun.centres, passes=passes)
    live = final.counts > 0
    return Clusters(
        centroids=final.centres[live] if shift is None else final.centres[live] + shift,
        counts=final.counts[live],
        inertia=final.inertia,
        n_passes=final.passes,
        converged=final.converged,
    )


def nearest(rows: Floats, centroids: Doubles) -> Labels:
    """Index of the nearest centroid (Euclidean) of each row; the first of those equally near."""
    middle = centroids.mean(axis=0)
    return _nearest(centred(rows, middle), (centroids - middle).astype(rows.dtype))[0]


class _State(NamedTuple):
    centres: Doubles
    counts: NDArray[np.int64]
    inertia: float
    passes: int
    converged: bool


class _Part(NamedTuple):
    """What one block tells of its clusters; coordinates are relative to the shift."""

    counts: NDArray[np.int64]
    sums: Floats
    squares: float
    farthest: Floats
    distance: float


def _lloyd(data: Source, shift: Doubles | None, centres: Doubles, *, passes: int) -> _State:
    """Lloyd's iterations over all rows of the data, less `shift`, until one gains next to nothing."""
    previous = math.inf
    for done in range(1, passes + 1):
        state, moved = _iterate(data, shift, centres)
        gained = previous - state.inertia
        if gained <= TOLERANCE * state.inertia and not moved:
            return _State(state.centres, state.counts, state.inertia, done, True)
        centres, previous = state.centres, state.inertia
    return _State(state.centres, state.counts, state.inertia, passes, False)


def _iterate(data: Source, shift: Doubles | None, centres: Doubles) -> tuple[_State, bool]:
    """One pass: assign every row, move the centres to the means. Also whether an empty cluster found a new place."""
    counts = np.zeros(len(centres), np.int64)
    sums = np.zeros(centres.shape)
    squares = 0.0
    far: list[tuple[float, Floats]] = []
    rounded = centres.astype(data.dtype)

    def work(_: int, block: Floats) -> _Part:
        return _assign(block if shift is None else centred(block, shift), rounded)

    for part in map_blocks(work, data):
        counts += part.counts
        sums += part.sums
        squares += part.squares
        far = sorted([*far, (part.distance, part.farthest)], key=lambda item: -item[0])[: len(centres)]
    live = counts > 0
    moved = centres.copy()
    moved[live] = sums[live] / counts[live, None]
    inertia = max(0.0, squares - float(np.vdot(sums[live], moved[live])))
    empty = np.flatnonzero(~live)
    # A distance that rounding alone can make is no reason for another cluster.
    noise = float(np.finfo(data.dtype).eps) * squares / counts.sum() * data.d
    places = [row for distance, row in far if distance > noise][: len(empty)]
    if places:
        moved[empty[: len(places)]] = places
    return _State(moved, counts, inertia, 1, False), bool(places)


def _assign(rows: Floats, centres: Floats) -> _Part:
    labels, best = _nearest(rows, centres)
    squares = np.einsum("ij,ij->i", rows, rows)
    distance = squares - 2 * best
    farthest = int(distance.argmax())
    return _Part(
        counts=np.bincount(labels, minlength=len(centres)),
        sums=_sums(rows, labels, len(centres)),
        squares=float(squares.sum(dtype=np.float64)),
        farthest=rows[farthest].copy(),
        distance=float(distance[farthest]),
    )


def _sums(rows: Floats, labels: Labels, k: int) -> Floats:
    """(k, d) sum of the rows of each cluster, by a sparse product: a sixth of the time of a dense one."""
    from scipy.sparse import csr_array

    ends = np.arange(len(rows) + 1)
    members = csr_array((np.ones(len(rows), rows.dtype), labels, ends), shape=(len(rows), k))
    return np.asarray(members.T @ rows)


def _nearest(rows: Floats, centres: Floats) -> tuple[Labels, Floats]:
    """Nearest centre of each row, and x.c - |c|^2 / 2 of it: half of what |x|^2 exceeds the squared distance by."""
    scores = rows @ centres.T
    scores -= (0.5 * np.square(centres.astype(np.float64)).sum(axis=1)).astype(rows.dtype)
    labels = scores.argmax(axis=1)
    return labels, scores[np.arange(len(rows)), labels]


def _sample(data: Source, k: int, *, seed: int) -> Floats:
    fitting = max(10 * k, SAMPLE_BYTES // (data.d * data.dtype.itemsize))
    size = min(max(SAMPLE, SAMPLE_PER_CLUSTER * k), fitting)
    if data.n is not None:
        return data.take(sample_rows(data.n, size, seed=seed))
    picked = RowSample(size, data.d, data.dtype, seed=seed)
    start = 0
    for block in data.blocks():
        picked.add(start, block)
        start += len(block)
    return picked.rows


def _shift(sample: Floats) -> Doubles | None:
    """The mean to subtract, or None where the rows lie so close around the origin that their products lose nothing."""
    mean = sample.mean(axis=0, dtype=np.float64)
    deviation = float(sample.std(axis=0, dtype=np.float64).max())
    return mean if float(np.abs(mean).max()) > 10 * deviation else None


def _start(rows: Floats, k: int, *, seed: int) -> Doubles:
    """k of the rows as centres, chosen at random but well; all distinct rows where there are no more than k."""
    if len(np.unique(rows[:, 0])) <= k:
        distinct = np.unique(rows, axis=0)
        if len(distinct) <= k:
            return distinct.astype(np.float64)
    random = np.random.default_rng(seed)
    squares = np.einsum("ij,ij->i", rows, rows)
    chosen = _plus_plus(rows, squares, k, random)
    if len(chosen) > 1:
        chosen = _swapped(rows, squares, chosen, random)
    return rows[chosen].astype(np.float64)


def _plus_plus(rows: Floats, squares: Floats, k: int, random: np.random.Generator) -> Labels:
    """Greedy k-means++: each next centre is the best of a few rows drawn by squared distance to the centres so far."""
    chosen = [int(random.integers(len(rows)))]
    near = _distances(rows, squares, np.array(chosen))[:, 0]
    while len(chosen) < k and near.any():
        drawn = _draw(near, _trials(k), random)
        options = np.minimum(near[:, None], _distances(rows, squares, drawn))
        best = int(options.sum(axis=0).argmin())
        near = options[:, best]
        chosen.append(int(drawn[best]))
    return np.array(chosen)


def _swapped(rows: Floats, squares: Floats, chosen: Labels, random: np.random.Generator) -> Labels:
    """Local search over k rounds (Lattanzi & Sohler 2019): a drawn row takes the place of a centre where that lowers the cost.

    Two centres inside one cluster while two clusters share one are what k-means++ gets wrong and Lloyd's iterations cannot
    mend.
    """
    chosen = chosen.copy()
    owner, first, second = _two_nearest(rows, squares, chosen)
    for _ in range(len(chosen)):
        if not first.any():
            break
        drawn = _draw(first, _trials(len(chosen)), random)
        distances = _distances(rows, squares, drawn)
        kept = np.minimum(distances, first[:, None])
        lost = np.minimum(distances, second[:, None]) - kept  # what a row pays more if its centre is the one to go
        costs = np.stack([np.bincount(owner, weights=column, minlength=len(chosen)) for column in lost.T])
        costs += kept.sum(axis=0, dtype=np.float64)[:, None]
        new, old = np.unravel_index(costs.argmin(), costs.shape)
        if costs[new, old] < first.sum(dtype=np.float64):
            chosen[old] = drawn[new]
            owner, first, second = _two_nearest(rows, squares, chosen)
    return chosen


def _two_nearest(rows: Floats, squares: Floats, chosen: Labels) -> tuple[Labels, Floats, Floats]:
    """The nearest of the chosen rows for each row, and the squared distances to the nearest and to the second nearest."""
    distances = _distances(rows, squares, chosen)
    owner = distances.argmin(axis=1)
    each = np.arange(len(rows))
    first = distances[each, owner]
    distances[each, owner] = np.inf
    return owner, first, distances.min(axis=1)


def _draw(weights: Floats, size: int, random: np.random.Generator) -> Labels:
    reach = np.cumsum(weights, dtype=np.float64)
    drawn: Labels = np.searchsorted(reach, random.random(size) * reach[-1], side="right")
    return np.minimum(drawn, len(weights) - 1)


def _trials(k: int) -> int:
    return 2 + int(math.log(k))


def _distances(rows: Floats, squares: Floats, chosen: Labels) -> Floats:
    """(n, m) squared distances to m of the rows; exactly 0 for those themselves."""
    distances = rows @ rows[chosen].T
    distances *= -2
    distances += squares[:, None]
    distances += squares[chosen]
    np.maximum(distances, 0, out=distances)
    distances[chosen, np.arange(len(chosen))] = 0
    return distances
