"""K-means for data that need not fit in memory: it starts on a seeded sample, then takes a few passes over all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.core.engines import reduce_shards, take_rows
from theodolite.core.moments import Doubles, centred
from theodolite.core.parallel import map_blocks, one_blas_thread
from theodolite.core.sampling import RowSample, sample_rows
from theodolite.core.vectors import REPLAYABLE, Floats, Indices, Source, Vectors, source

SAMPLE = 10_000  # rows on which Lloyd's iterations begin
SAMPLE_PER_CLUSTER = 100  # and at least this many for each cluster
SAMPLE_BYTES = 256 * 2**20  # but no more than this in memory
START = 4  # the first centres are chosen among every fourth row of the sample
SAMPLE_PASSES = 100
PASSES = 3  # over all rows
TOLERANCE = 2e-4  # a pass that lowers the inertia by a smaller share is the last


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centroids of a cloud, and how well they fit it."""

    centroids: Doubles
    counts: NDArray[np.int64]
    inertia: float
    n_passes: int
    converged: bool


def k_means(X: Vectors, k: int, *, seed: int = 0) -> Clusters:
    """Cluster the rows around k centroids: seeded, streamed, and independent of how the rows are chunked.

    Greedy k-means++ and a local search choose centroids on a seeded sample (10,000 rows, or 100 for each cluster), Lloyd's
    iterations on the sample bring them to convergence, and a few iterations over all rows finish them.

    A cluster that loses its rows starts again at the row farthest from its centroid; one that is still empty after the last
    pass is dropped. If the sample has fewer distinct rows than k, each of them becomes a cluster. So `centroids` may have fewer
    than k rows, never more.
    """
    data = source(X)
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    if not data.replayable:
        raise ValueError(f"k-means reads its rows several times, but this stream can be read only once; {REPLAYABLE}")
    # Rows that come with their moments are shared by several repairs: the moments keep clusters, as they keep eigenpairs.
    known: dict[tuple[int, int], Clusters] = {} if data.moments is None else vars(data.moments).setdefault("_clusters", {})
    if (k, seed) not in known:
        with one_blas_thread():  # products with so few centres are too small to share, and blocks are shared already
            known[k, seed] = _k_means(data, k, seed=seed)
    return known[k, seed]


def _k_means(data: Source, k: int, *, seed: int) -> Clusters:
    sample = _sample(data, k, seed=seed)
    shift = _shift(sample)
    sample = sample if shift is None else centred(sample, shift)
    centres = _start(sample[::START], k, seed=seed)
    if len(centres) < k:
        centres = _start(sample, k, seed=seed)
    on_sample = _lloyd(source(sample), None, centres, passes=SAMPLE_PASSES)
    final = _lloyd(data, shift, on_sample.centroids, passes=PASSES)
    has_rows = final.counts > 0
    centroids = final.centroids[has_rows] if shift is None else final.centroids[has_rows] + shift
    return replace(final, centroids=centroids, counts=final.counts[has_rows])


def nearest_centroids(rows: Floats, centroids: Doubles) -> Indices:
    """Index of the nearest centroid (Euclidean) of each row; the first of those equally near."""
    middle = _shift(centroids, ratio=100)  # labels need fewer digits than sums
    if middle is None:
        return _nearest(rows, centroids.astype(rows.dtype))[0]
    return _nearest(centred(rows, middle), (centroids - middle).astype(rows.dtype))[0]


class _Part(NamedTuple):
    """What some rows add to their clusters; coordinates are relative to the shift."""

    counts: NDArray[np.int64]
    sums: Doubles
    squares: float
    farthest: list[tuple[float, Floats]]  # (squared distance, row): candidates for clusters that lost their rows

    def merged(self, other: _Part) -> _Part:
        far = sorted([*self.farthest, *other.farthest], key=lambda item: -item[0])[: len(self.counts)]
        return _Part(self.counts + other.counts, self.sums + other.sums, self.squares + other.squares, far)


def _lloyd(data: Source, shift: Doubles | None, centres: Doubles, *, passes: int) -> Clusters:
    """Lloyd's iterations over all rows of the data, minus `shift`, until one gains next to nothing."""
    previous = math.inf
    for number in range(1, passes + 1):
        clusters, restarted = _iterate(data, shift, centres)
        gain = previous - clusters.inertia
        if gain <= TOLERANCE * clusters.inertia and not restarted:
            return replace(clusters, n_passes=number, converged=True)
        centres, previous = clusters.centroids, clusters.inertia
    return replace(clusters, n_passes=passes)


def _iterate(data: Source, shift: Doubles | None, centres: Doubles) -> tuple[Clusters, bool]:
    """One pass: assign every row, move the centres to the means. Also whether an empty cluster got a new centre."""
    rounded = centres.astype(data.dtype)

    def work(_: int, block: Floats) -> _Part:
        return _assign(block if shift is None else centred(block, shift), rounded)

    def piece(rows: Source) -> _Part:
        return reduce(_Part.merged, map_blocks(work, rows))  # in order: the sums do not depend on the number of threads

    counts, sums, squares, far = reduce_shards(piece, data, _Part.merged)
    has_rows = counts > 0
    means = centres.copy()
    means[has_rows] = sums[has_rows] / counts[has_rows, None]
    # The sum of |x - mean|^2 is that of |x|^2 minus n |mean|^2; rounding may leave it a little below 0.
    inertia = max(0.0, squares - float(np.vdot(sums[has_rows], means[has_rows])))
    empty = np.flatnonzero(~has_rows)
    # A distance that may be rounding error is not a reason for another cluster.
    noise = float(np.finfo(data.dtype).eps) * squares / counts.sum() * data.d
    restarts = [row for distance, row in far if distance > noise][: len(empty)]
    if restarts:
        means[empty[: len(restarts)]] = restarts
    return Clusters(means, counts, inertia, n_passes=1, converged=False), bool(restarts)


def _assign(rows: Floats, centres: Floats) -> _Part:
    labels, best = _nearest(rows, centres)
    squares = np.einsum("ij,ij->i", rows, rows)
    distance = squares - 2 * best
    farthest = int(distance.argmax())
    counts, sums = np.bincount(labels, minlength=len(centres)), _cluster_sums(rows, labels, len(centres))
    total = float(squares.sum(dtype=np.float64))
    return _Part(counts, sums, total, [(float(distance[farthest]), rows[farthest].copy())])


def _cluster_sums(rows: Floats, labels: Indices, k: int) -> Doubles:
    """(k, d) sums of the rows of each cluster, added in the order of the rows."""
    if k <= 2:  # the same sums, bit for bit, without the tenth of a second that scipy.sparse takes to import
        return np.stack([rows[labels == number].sum(axis=0) for number in range(k)]).astype(np.float64)
    from scipy.sparse import csr_array

    # Memberships in compressed rows, one entry of 1 in each: a sparse product takes a sixth of the time of a dense one.
    entries = np.ones(len(rows), rows.dtype), labels, np.arange(len(rows) + 1)
    return np.asarray(csr_array(entries, shape=(len(rows), k)).T @ rows, dtype=np.float64)


def _nearest(rows: Floats, centres: Floats) -> tuple[Indices, Floats]:
    """Nearest centre of each row, and its score x.c - |c|^2 / 2: half of the difference of |x|^2 and the squared distance."""
    scores = rows @ centres.T
    # |x|^2 is the same for all centres of a row, so it is left out; |c|^2 is summed in float64.
    scores -= (0.5 * np.square(centres.astype(np.float64)).sum(axis=1)).astype(rows.dtype)
    labels = scores.argmax(axis=1)
    return labels, scores[np.arange(len(rows)), labels]


def _sample(data: Source, k: int, *, seed: int) -> Floats:
    limit = max(10 * k, SAMPLE_BYTES // (data.d * data.dtype.itemsize))
    size = min(max(SAMPLE, SAMPLE_PER_CLUSTER * k), limit)
    if data.n is not None:
        return take_rows(data, sample_rows(data.n, size, seed=seed))
    sample = RowSample(size, data.d, data.dtype, seed=seed)
    for start, raw in data.raw_blocks():
        sample.add(start, data.prepare(start, raw))
    return sample.rows


def _shift(sample: Floats, *, ratio: float = 10) -> Doubles | None:
    """The mean to subtract, or None if the rows are so close around the origin that their products lose no digits."""
    mean = sample.mean(axis=0, dtype=np.float64)
    few = sample[:: -(-len(sample) // 1000)]  # the order of magnitude is enough, and shifting is never wrong
    deviation = float(few.std(axis=0, dtype=np.float64).max())
    return mean if float(np.abs(mean).max()) > ratio * deviation else None


def _start(rows: Floats, k: int, *, seed: int) -> Doubles:
    """k of the rows as centres, random but well spread; all distinct rows if there are no more than k."""
    if len(np.unique(rows[:, 0])) <= k:  # one column is a quick test for many distinct rows
        distinct = np.unique(rows, axis=0)
        if len(distinct) <= k:
            return distinct.astype(np.float64)
    random = np.random.default_rng(seed)
    squares = np.einsum("ij,ij->i", rows, rows)
    centres = _plus_plus(rows, squares, k, random)
    if len(centres) > 1:
        centres = _swap_centres(rows, squares, centres, random)
    return rows[centres].astype(np.float64)


def _plus_plus(rows: Floats, squares: Floats, k: int, random: np.random.Generator) -> Indices:
    """Greedy k-means++: each next centre is the best of a few rows drawn by squared distance to the centres so far."""
    centres = [int(random.integers(len(rows)))]
    near = _distances(rows, squares, np.array(centres))[:, 0]
    while len(centres) < k and near.any():
        candidates = _draw(near, k, random)
        options = np.minimum(near[:, None], _distances(rows, squares, candidates))
        best = int(options.sum(axis=0).argmin())
        near = options[:, best]
        centres.append(int(candidates[best]))
    return np.array(centres)


def _swap_centres(rows: Floats, squares: Floats, centres: Indices, random: np.random.Generator) -> Indices:
    """Local search over k rounds (Lattanzi & Sohler 2019): a drawn row replaces a centre if that lowers the cost.

    k-means++ may put two centres into one cluster while two clusters share one, which Lloyd's iterations cannot correct.
    """
    centres = centres.copy()
    owner, first, second = _two_nearest(rows, squares, centres)
    for _ in range(len(centres)):
        if not first.any():
            break
        candidates = _draw(first, len(centres), random)
        distances = _distances(rows, squares, candidates)
        shortest = np.minimum(distances, first[:, None])
        extra = np.minimum(distances, second[:, None]) - shortest  # what a row costs more if its centre is the one replaced
        costs = np.stack([np.bincount(owner, weights=column, minlength=len(centres)) for column in extra.T])
        costs += shortest.sum(axis=0, dtype=np.float64)[:, None]
        new, old = np.unravel_index(costs.argmin(), costs.shape)
        if costs[new, old] < first.sum(dtype=np.float64):
            centres[old] = candidates[new]
            owner, first, second = _two_nearest(rows, squares, centres)
    return centres


def _two_nearest(rows: Floats, squares: Floats, centres: Indices) -> tuple[Indices, Floats, Floats]:
    """The nearest centre of each row, and the squared distances to the nearest and to the second nearest."""
    distances = _distances(rows, squares, centres)
    owner = distances.argmin(axis=1)
    everyone = np.arange(len(rows))
    first = distances[everyone, owner]
    distances[everyone, owner] = np.inf
    return owner, first, distances.min(axis=1)


def _draw(weights: Floats, k: int, random: np.random.Generator) -> Indices:
    """Row numbers drawn with probabilities in proportion to the weights: 2 + log k of them, as greedy k-means++ takes."""
    total = np.cumsum(weights, dtype=np.float64)
    rows: Indices = np.searchsorted(total, random.random(2 + int(math.log(k))) * total[-1], side="right")
    return np.minimum(rows, len(weights) - 1)


def _distances(rows: Floats, squares: Floats, centres: Indices) -> Floats:
    """(n, m) squared distances to m of the rows; exactly 0 for those rows themselves."""
    distances = rows @ rows[centres].T
    distances *= -2
    distances += squares[:, None]
    distances += squares[centres]
    np.maximum(distances, 0, out=distances)
    distances[centres, np.arange(len(centres))] = 0
    return distances
