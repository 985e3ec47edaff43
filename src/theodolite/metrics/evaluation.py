"""Several metrics of one cloud as rows, or of two clouds as differences, in the fewest passes and with intervals."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import LEVEL, NO_INTERVAL, half_samples, replicate_interval, require_level
from theodolite.core.moments import Doubles
from theodolite.core.parallel import Progress, available_cores, in_order
from theodolite.core.rows import Row, current_versions
from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.cosine import PAIR_METRICS, PAIRS, SIMILAR, PairCosines, draw_pairs
from theodolite.metrics.registry import METRICS, check_metrics
from theodolite.metrics.sphere import UNIFORMITY_T, uniformity_of_parts

REPLICATES = 40  # half-samples behind the intervals of a comparison; more narrow them by 3% at most
FEWEST_REPLICATES = 20  # half-samples that an interval needs at least
# Share of a value's scale, 100 units in float32's last place, within which a difference is rounding, whatever the storage.
ROUNDING = 100 * float(np.finfo(np.float32).eps)
FEWEST_ROWS = 8  # rows that half-samples need at least


def metric_rows(
    X: Vectors | Cloud,
    metrics: Sequence[str] | None = None,
    *,
    bootstrap: int = 0,
    level: float = LEVEL,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure a cloud: one row per metric, in at most three passes over the data.

    Parameters
    ----------
    X
        The vectors, or a cloud of them with another sample size or seed.
    metrics
        Names of metrics; `default_metrics()` by default.
    bootstrap
        Number of half-samples for intervals, at least 20; 0 means no intervals. Metrics that repeated sampling would bias, such
        as hubness, have none.
    level
        Coverage of the intervals, between 0 and 1.
    about
        Further fields of every row, such as `model` and `layer`.
    progress
        Called with (finished, total) as half-samples are measured.

    Examples
    --------
    >>> import numpy as np
    >>> rows = metric_rows(np.eye(4), ["iso_score", "mean_cosine"])
    >>> [(row.metric, round(row.value, 3)) for row in rows]
    [('iso_score', 0.667), ('mean_cosine', 0.0)]
    """
    return [row for row, _ in measure(X, metrics, bootstrap=bootstrap, level=level, about=about, progress=progress)]


def measure(
    X: Vectors | Cloud,
    metrics: Sequence[str] | None = None,
    *,
    bootstrap: int = 0,
    groups: NDArray[np.generic] | None = None,
    level: float = LEVEL,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[tuple[Row, Doubles | None]]:
    """The rows of `metric_rows`, each with its deviations over the half-samples behind its interval, if it has one.

    With `groups`, the group of each row, half-samples are of whole groups.
    """
    require_level(level)
    cloud = Cloud.of(X)
    names = check_metrics(metrics)
    values = _values(cloud, names)
    deviations: Mapping[str, Doubles] = {}
    if bootstrap:
        deviations = _deviations(cloud, names, bootstrap, seed=cloud.seed, groups=groups, progress=progress)
    fields = {"n": cloud.n, "d": cloud.d, "seed": cloud.seed, "versions": current_versions(), **(about or {})}
    rows = []
    for name, (value, reason) in values.items():
        low, high = NO_INTERVAL
        if name in deviations:
            low, high = replicate_interval(value, deviations[name], level=level, limits=METRICS[name].limits)
        sample = cloud.sample_size if METRICS[name].needs == "sample" and cloud.is_sampled else None
        row = Row(metric=name, value=value, low=low, high=high, reason=reason, sample=sample, **fields)
        rows.append((row, deviations.get(name)))
    return rows


def deviation_records(measured: Sequence[tuple[Row, Doubles | None]]) -> list[dict[str, Any]]:
    """The deviations behind the intervals of rows, as records by which a later run can test a difference."""
    return [
        {"metric": row.metric, "layer": -1 if row.layer is None else row.layer, "number": number, "deviation": float(deviation)}
        for row, deviations in measured
        if deviations is not None
        for number, deviation in enumerate(deviations)
    ]


@dataclass(frozen=True)
class Comparison:
    """One metric of two clouds.

    Parameters
    ----------
    metric
        Its name.
    before, after
        The rows of the first and of the second cloud.
    difference
        The value after minus the value before.
    low, high
        The interval around the difference, if there is one.
    paired
        Whether row i of both clouds is the same text.
    """

    metric: str
    before: Row
    after: Row
    difference: float
    low: float | None
    high: float | None
    paired: bool

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def compare_clouds(
    A: Vectors | Cloud,
    B: Vectors | Cloud,
    metrics: Sequence[str] | None = None,
    *,
    paired: bool = False,
    groups: tuple[NDArray[np.generic] | None, NDArray[np.generic] | None] = (None, None),
    bootstrap: int = REPLICATES,
    level: float = LEVEL,
    about: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    progress: Progress | None = None,
) -> list[Comparison]:
    """The change of each metric from A to B, with an interval from half-samples.

    Parameters
    ----------
    A, B
        The vectors before and after, or clouds of them.
    metrics
        Names of metrics; `default_metrics()` by default.
    paired
        Whether row i of both is the same text: the same rows are then drawn from both, which narrows the interval.
    groups
        The group of each row of A and of B, such as the text that a token comes from: half-samples are of whole groups.
    bootstrap
        Number of half-samples for the intervals, at least 20; 0 means no intervals.
    level
        Coverage of the intervals, between 0 and 1.
    about
        Further fields of the rows before and of those after, such as `model` and `layer`.
    progress
        Called with (finished, total) as half-samples are measured.
    """
    first, second = Cloud.of(A), Cloud.of(B)
    require_level(level)
    before, after = metric_rows(first, metrics, about=about[0]), metric_rows(second, metrics, about=about[1])
    if paired and first.n != second.n:
        raise ValueError(f"A has {first.n} rows and B {second.n}, and pairs need equal numbers; compare them as independent")
    if paired and (first.sample_size, first.seed) != (second.sample_size, second.seed):
        raise ValueError("paired clouds must share sample size and seed, so that the same rows are drawn")

    def half_of(number: int) -> Progress | None:
        return None if progress is None else lambda finished, total: progress(number * total + finished, 2 * total)

    names = [row.metric for row in before]
    old = _deviations(first, names, bootstrap, seed=first.seed, groups=groups[0], progress=half_of(0))
    # Unrelated halves for rows that are not paired.
    other_seed = second.seed + (0 if paired else 1)
    new = _deviations(second, names, bootstrap, seed=other_seed, groups=groups[1], progress=half_of(1))
    comparisons = []
    for name, old_row, new_row in zip(names, before, after, strict=True):
        difference = new_row.value - old_row.value
        deviations = new[name] - old[name] if name in old and name in new else None
        low, high = replicate_interval(difference, deviations, level=level)
        has_unit_scale = METRICS[name].limits[0] == -1 or name == "norm_variation"  # a share of the lengths, which are rounded
        rounding = ROUNDING * max(abs(old_row.value), abs(new_row.value), float(has_unit_scale))
        if low is not None and high is not None and 0 < abs(difference) <= rounding:
            low, high = min(low, -rounding), max(high, rounding)
        comparisons.append(Comparison(name, old_row, new_row, difference, low, high, paired))
    return comparisons


def _values(cloud: Cloud, names: Sequence[str]) -> dict[str, tuple[float, str]]:
    """Value and reason of each metric: one pass for all moments, one or two for all partition functions, one search."""
    if any(METRICS[name].needs in ("moments", "second pass") for name in names):
        cloud.moments  # noqa: B018  # read once for all: sums alone would be another pass
    for prepare in dict.fromkeys(METRICS[name].prepare for name in names):
        if prepare is not None:
            with contextlib.suppress(Undefined):  # each metric raises it again below, and gives its reason
                prepare(cloud, names)
    return {name: METRICS[name].value(cloud) for name in names}


def _deviations(
    cloud: Cloud,
    names: Sequence[str],
    count: int,
    *,
    seed: int,
    groups: NDArray[np.generic] | None = None,
    progress: Progress | None,
) -> dict[str, Doubles]:
    """The deviations of each metric from its mean over half-samples; metrics without an interval are left out.

    Halves are drawn from the cloud's sampled rows; sqrt(sampled / all) converts their spread to that of a metric that was
    computed on all rows.
    """
    if count == 0:
        return {}
    if count < FEWEST_REPLICATES:
        raise ValueError(
            f"{count} replicates are too few for an interval; use at least {FEWEST_REPLICATES} ({REPLICATES} is usual)"
        )
    m = len(cloud.sample)
    if m < FEWEST_ROWS:
        return {}
    names = [name for name in names if METRICS[name].resample]
    values = np.empty((count, len(names)))

    def measure(part: Cloud) -> list[float]:
        return [value for value, _ in _values(part, names).values()]

    parts = half_clouds(cloud, names, count, seed=seed, groups=groups)
    for number, values[number] in enumerate(in_order(measure, parts, workers=available_cores())):
        if progress is not None:
            progress(number + 1, count)
    deviations = values - values.mean(axis=0)
    return {
        name: deviations[:, i] * np.sqrt(m / (m if METRICS[name].needs == "sample" else cloud.n))
        for i, name in enumerate(names)
        if np.isfinite(deviations[:, i]).all()
    }


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
