"""Random halves of a cloud for intervals: what compares rows with rows is computed once, for all halves together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import half_samples
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.cosine import PAIR_METRICS, PAIRS, SIMILAR, PairCosines, draw_pairs
from theodolite.metrics.sphere import UNIFORMITY_T, uniformity_of_parts


def half_clouds(
    cloud: Cloud, names: Sequence[str], count: int, *, seed: int, groups: NDArray[np.generic] | None = None
) -> Iterator[Cloud]:
    """Seeded random halves of a cloud's sampled rows, as clouds.

    A half's pairs of rows are those of the whole sample that have both rows in it, so their cosines and kernels are computed
    once. Moments and spectra are computed for each half.
    """
    halves = half_samples(len(cloud.sample), count, seed=seed, groups=None if groups is None else groups[cloud.sample_index])
    filled: list[dict[Hashable, object]] = [{} for _ in halves]
    try:
        units = cloud.units
    except Undefined:  # each half says so again
        units = None
    if units is not None:
        is_member = np.zeros((count, len(cloud.sample)), bool)
        for row, half in zip(is_member, halves, strict=True):
            row[half] = True
        is_member = is_member[:, np.searchsorted(cloud.sample_index, units.rows)]  # rows of zeros have no direction
        usable = np.flatnonzero(is_member.sum(axis=1) >= 2)
        if PAIR_METRICS & set(names):
            for number, pairs in zip(usable, _pair_cosines(cloud, is_member[usable]), strict=True):
                filled[number]["pair cosines", PAIRS, SIMILAR] = pairs
        if "uniformity" in names and len(usable):
            for number, value in zip(usable, uniformity_of_parts(units.shifted, is_member[usable]), strict=True):
                filled[number]["uniformity", UNIFORMITY_T] = float(value)
    for half, values in zip(halves, filled, strict=True):
        yield Cloud(cloud.sample[half], sample=cloud.sample_size, seed=cloud.seed).with_cached(values)


def _pair_cosines(cloud: Cloud, is_member: NDArray[np.bool_]) -> Iterator[PairCosines]:
    """The cosines of the pairs within each part; at least about as many as a cloud of its own would draw."""
    points = cloud.units.shifted
    if len(points) * (len(points) - 1) // 2 <= 8 * PAIRS:
        first, second = np.triu_indices(len(points), 1)
        halves = np.einsum("ij,ij->i", points, points) / 2
        # 1 - |u - v|^2 / 2, from products: of vectors about their mean they have all digits that a quantile's spread needs.
        cosines = (1 + points @ points.T - halves[:, None] - halves)[first, second].clip(-1, 1)
    else:
        first, second, cosines, _ = draw_pairs(cloud, 4 * PAIRS)  # a quarter of all pairs have both rows in a half
    order = np.argsort(cosines)  # sorted once: a selection of sorted values is sorted
    first, second, ordered = first[order], second[order], cosines[order]
    for members in is_member:
        within = np.compress(members.take(first) & members.take(second), ordered)  # half the time of indexing with a mask
        yield PairCosines(within, SIMILAR, is_sample=True)
