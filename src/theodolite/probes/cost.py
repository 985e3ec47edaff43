"""What a run of DirectProbe takes, measured beforehand on parts of it: some pairs of labels, and the beginning of the merging."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.sampling import sample_by_label
from theodolite.core.vectors import array
from theodolite.probes.direct_probe import centred
from theodolite.probes.hulls.active_set import Flags, Floats, Ints, solve_positive
from theodolite.probes.hulls.gap import pair_bounds, solve_gap
from theodolite.probes.labels import label_codes
from theodolite.probes.merging import find_clusters, is_merged_pairwise, linked_labels

# Processor seconds that each part of an estimate may take: pairs of labels, labels that may overlap, and the merging of these.
PART_SECONDS = 0.8
# Labels of which fewer rows than the first share of d are on the wrong side of a simple plane do not overlap. From the second
# share on they do, if there is no time to solve them.
_APART_SHARE, _OVERLAP_SHARE = 0.25, 0.75
# Rows and dimensions that the first miniature has at least.
_FIRST_ROWS, _FIRST_DIMENSION = 200, 24


@dataclass(frozen=True)
class Cost:
    """About what a run takes.

    Parameters
    ----------
    seconds
        Processor seconds; with several idle cores, pairs of labels take less time than that.
    megabytes
        Memory of the run.
    is_linear
        Whether no labels were seen to overlap.
    """

    seconds: float
    megabytes: float
    is_linear: bool


class _EnoughError(Exception):
    """Enough of the merging was measured."""


def estimate_cost(X: ArrayLike, y: ArrayLike) -> Cost:
    """About what `DirectProbe().fit(X, y)` will take: a guide and not a promise, mostly in a few seconds.

    Some pairs of labels are solved, small labels and large ones. Which labels overlap is found from the rows on the wrong side of
    the planes of a linear discriminant, and solved where that leaves a doubt. These labels are merged for a moment, and the time
    of the rest is extrapolated.

    Parameters
    ----------
    X, y
        (n, d) vectors and the label of each.
    """
    start = time.process_time()
    vectors = np.asarray(array(X), dtype=np.float64)
    codes, _ = label_codes(vectors, y)
    rows, _, touching = centred(vectors)
    order = np.argsort(codes, kind="stable")
    rows, codes = rows[order], codes[order]
    seconds = time.process_time() - start
    n, d = rows.shape
    hulls = [rows[first:last] for first, last in pairwise(np.searchsorted(codes, np.arange(codes.max() + 2)))]
    pairs = _pair_seconds(hulls, touching)
    shared, is_shared = _shared_points(rows, codes)
    overlaps = _likely_overlaps(hulls, _wrong_sides(rows, codes), shared, touching)
    merged = np.isin(codes, np.flatnonzero(overlaps.any(axis=1)))
    # The clusters of labels that overlap are measured once more, in about the time of the pairs of these labels.
    seconds += pairs * (2.0 - (1.0 - merged.mean()) ** 2) + _point_seconds(rows, codes, is_shared, touching)
    for group in linked_labels(overlaps):
        if len(group) > 1:
            at = np.isin(codes, group)
            seconds += _merge_seconds(rows[at], codes[at], overlaps, touching, PART_SECONDS * at.sum() / merged.sum())
    return Cost(float(seconds), 8 * n * d * (5 if overlaps.any() else 3) / 2**20, not bool(overlaps.any()))


def _pair_seconds(hulls: list[Floats], touching: float) -> float:
    """The seconds of all pairs of labels, from some of them."""
    sizes = np.array([len(hull) for hull in hulls])
    first, second = np.triu_indices(len(sizes), 1)
    pairs = np.stack([first, second], axis=1)[np.argsort(sizes[first] + sizes[second], kind="stable")]
    pair_bounds(hulls, pairs[:1], touching, 1e-6, 1, None)  # what is loaded or compiled on first use must not be timed
    # Multiples of the golden ratio spread any number of places evenly: small labels and large ones have their share.
    spread = (np.arange(4 * len(pairs)) * 0.6180339887498949 % 1 * len(pairs)).astype(np.int64)
    places = np.array(list(dict.fromkeys(spread.tolist())))
    start, done, took = time.process_time(), 0, 0.0
    while done < len(places) and took < PART_SECONDS / 2:
        end = min(2 * done + 16, len(places))
        pair_bounds(hulls, pairs[places[done:end]], touching, 1e-6, 1, None)
        done, took = end, time.process_time() - start
    return took / done * len(pairs)


def _shared_points(rows: Floats, codes: Ints) -> tuple[Flags, Flags]:
    """Which labels, (labels, labels), share a point, and which rows are such points."""
    labels = int(codes.max()) + 1
    numbers = _distinct(rows)[1]
    has_label = np.zeros((numbers.max() + 1, labels))
    has_label[numbers, codes] = 1.0
    is_shared = has_label.sum(axis=1) > 1
    shared = has_label[is_shared].T @ has_label[is_shared] > 0
    np.fill_diagonal(shared, False)
    return shared, is_shared[numbers]


def _wrong_sides(rows: Floats, codes: Ints) -> Floats:
    """(labels, labels): how many rows of two labels are on the wrong side of the plane of a linear discriminant."""
    labels, sizes = int(codes.max()) + 1, np.bincount(codes)
    means = np.stack([rows[codes == label].mean(axis=0) for label in range(labels)])
    apart = rows - means[codes]
    spread = apart.T @ apart
    spread[np.diag_indices(len(spread))] += 1e-6 * np.trace(spread) / len(spread) + 1e-300
    directions = solve_positive(spread, np.ascontiguousarray(means.T))
    along = rows @ (means.T if directions is None else directions)
    middle = np.stack([np.bincount(codes, along[:, label]) / sizes for label in range(labels)], axis=1)
    own = middle.diagonal()
    cut = 0.5 * (own[:, None] - middle + (middle.T - own))  # of label i against label j, between their means
    wrong = np.stack(
        [
            ((each[:, [label]] - each) < cut[label]).sum(axis=0)
            for label, each in ((label, along[codes == label]) for label in range(labels))
        ]
    )
    return np.asarray(wrong + wrong.T, dtype=np.float64)


def _likely_overlaps(hulls: list[Floats], wrong: Floats, shared: Flags, touching: float) -> Flags:
    """(labels, labels): which labels overlap, solved from the most likely on, and guessed if there is no time left."""
    d = hulls[0].shape[1]
    overlaps = shared.copy()
    start = time.process_time()
    first, second = np.triu_indices(len(hulls), 1)
    for pair in np.argsort(-wrong[first, second], kind="stable"):
        i, j = first[pair], second[pair]
        if wrong[i, j] < _APART_SHARE * d:
            break
        if not shared[i, j]:
            is_solved = time.process_time() - start < PART_SECONDS
            overlaps[i, j] = overlaps[j, i] = (
                solve_gap(hulls[i], hulls[j], touching=touching, decide=True).overlap
                if is_solved
                else wrong[i, j] > _OVERLAP_SHARE * d
            )
    return overlaps


def _merge_seconds(rows: Floats, codes: Ints, overlaps: Flags, touching: float, limit: float) -> float:
    """The seconds of the merging of some labels, from miniatures that grow until one takes longer than a limit."""
    points, numbers = _distinct(rows)
    d = rows.shape[1]
    scale = min(1.0, max(_FIRST_ROWS / len(rows), _FIRST_DIMENSION / d))
    before: tuple[float, float] | None = None
    is_pairwise = is_merged_pairwise(d)
    # What is loaded or compiled on first use must not be timed.
    crossing = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    find_clusters(crossing, np.array([0, 0, 1, 1]), ~np.eye(2, dtype=np.bool_), touching, None, is_pairwise=is_pairwise)
    while True:
        some, labels = (rows, codes) if scale == 1 else _miniature(points, numbers, codes, scale)
        group, places = np.unique(labels, return_inverse=True)
        clock = _Clock(2.0 * limit)
        try:
            find_clusters(some, places, overlaps[np.ix_(group, group)], touching, clock, is_pairwise=is_pairwise)
            took = clock.seconds()
        except _EnoughError:
            took = clock.seconds() / clock.share
        # A part of the time grows with the rows, a part with their square times the dimension: halfway between the square of the
        # scale and what the last two miniatures show, because so little time says little.
        power = 2.0
        if before is not None:
            power = 1.0 + 0.5 * np.clip(np.log(took / before[1]) / np.log(scale / before[0]), 1.0, 3.0)
        if scale == 1 or took > limit:
            return float(took / scale**power)
        before = (scale, took)
        scale = min(1.0, scale * np.sqrt(np.clip(limit / took, 2.0, 4.0)))


class _Clock:
    """Progress of a merging that stops it when a time is over, and knows how much of it is done."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.start = time.process_time()
        self.share = 1.0

    def seconds(self) -> float:
        return time.process_time() - self.start

    def __call__(self, stage: str, done: int, total: int) -> None:  # noqa: ARG002  # as progress is called
        self.share = max(done, 1) / total
        if self.seconds() > self.limit:
            raise _EnoughError


def _distinct(rows: Floats) -> tuple[Floats, Ints]:
    """The different points among the rows, and the number of the point of each row."""
    if (np.diff(np.sort(rows[:, 0])) > 0).all():  # nearly always: no two rows are equal
        return rows, np.arange(len(rows))
    whole = np.ascontiguousarray(rows).view([("", rows.dtype)] * rows.shape[1]).ravel()
    _, firsts, numbers = np.unique(whole, return_index=True, return_inverse=True)
    return rows[firsts], numbers.ravel()


def _miniature(points: Floats, numbers: Ints, codes: Ints, scale: float) -> tuple[Floats, Ints]:
    """A sample of the points, with all rows of each, projected to fewer dimensions in the same ratio; and the labels of the rows.

    Whether labels overlap depends on the rows per dimension: with fewer rows alone they would overlap less.
    """
    owner = np.empty(len(points), dtype=np.int64)
    owner[numbers[::-1]] = codes[::-1]  # the label of the first row of each point
    sample = sample_by_label(owner, max(int(scale * len(points)), len(np.unique(owner))))
    place = np.full(len(points), -1)
    place[sample] = np.arange(len(sample))
    width = max(int(scale * points.shape[1]), 2)
    projected = points[sample] @ np.random.default_rng(0).standard_normal((points.shape[1], width)) / np.sqrt(width)
    kept = place[numbers] >= 0
    return np.ascontiguousarray(projected[place[numbers[kept]]]), codes[kept]


def _point_seconds(rows: Floats, codes: Ints, is_shared: Flags, touching: float) -> float:
    """The seconds that points with two labels take, each a cluster of its own that is measured from all others."""
    if not is_shared.any():
        return 0.0
    points = np.unique(np.column_stack([codes, rows])[is_shared], axis=0)[:, 1:]
    rest = [rows[at] for at in (~is_shared & (codes == label) for label in range(codes.max() + 1)) if at.any()]
    some = np.linspace(0, len(points) - 1, min(50, len(points))).astype(np.int64)
    hulls = [points[place : place + 1] for place in some] + rest
    pairs = np.array([(place, len(some) + place % len(rest)) for place in range(len(some))]) if rest else np.empty((0, 2), int)
    start = time.process_time()
    pair_bounds(hulls, pairs, touching, 1e-6, 1, None)
    seconds = (time.process_time() - start) / len(some) * len(points) * len(rest)
    # All pairs of clusters are numbered and sorted, which is not little if there are thousands.
    numbers = np.random.default_rng(0).integers(2**40, size=2**16)
    start = time.process_time()
    np.unique(numbers, return_inverse=True)
    return seconds + (time.process_time() - start) * int(is_shared.sum()) ** 2 / 2 / len(numbers)
