"""Partition isotropy I(W): how little the partition function varies along the principal directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from theodolite.core.engines import reduce_shards
from theodolite.core.moments import Doubles, column_sums, row_norms
from theodolite.core.parallel import map_blocks
from theodolite.core.spectrum import noise_floor
from theodolite.core.vectors import Floats, Indices, Source, Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.registry import HIGHER, NEITHER, metric

Sign = Literal["both", "fixed"]
# Log of the sums of exp(u.x) and of exp(-u.x) along each direction, for each variant.
LogSums: TypeAlias = list[tuple[Doubles, Doubles]]
# What some rows add to each frame: their sums, and the largest squared length that a row has outside the directions.
Part: TypeAlias = list[tuple[LogSums, float]]
LARGEST, SMALLEST = 24, 8  # directions of the largest and of the smallest eigenvalues, which are measured first
PROBED_ENTRIES = 2**20  # numbers in a cloud above which that saves more than it takes


@dataclass(frozen=True)
class Variant:
    """Which cloud is measured, and along which signs of its directions."""

    centered: bool = False
    unit_norm: bool = False
    sign: Sign = "both"


RAW = Variant()
UNIT_NORM = Variant(unit_norm=True)
CENTERED = Variant(centered=True)


@dataclass(frozen=True, eq=False)
class LogPartition:
    """The logarithm of the partition function F along the eigenvectors u that may have its smallest or largest value."""

    plus: Doubles
    minus: Doubles
    null: float | None

    def values(self, sign: Sign) -> Doubles:
        """All of them, along one sign of each eigenvector or both."""
        sides = [self.plus, self.minus] if sign == "both" else [self.plus]
        return np.concatenate([*sides, [] if self.null is None else [self.null]])


def prepare_partitions(cloud: Cloud, names: Sequence[str]) -> None:
    """Compute log F for all variants that these metrics read, in one pass over the rows."""
    log_partitions(cloud, {VARIANTS[name] for name in names if name in VARIANTS})


_SECOND_PASS: Any = {"needs": "second pass", "prepare": prepare_partitions}


@metric(
    "(0, 1]",
    HIGHER,
    **_SECOND_PASS,
    paper="RP21 eq. 1-2; Mu & Viswanath 2018",
    resample=False,
    label="I(W)",
    isotropic_at="1",
)
def partition_isotropy(X: Vectors | Cloud, *, sign: Sign = "both", centered: bool = False, unit_norm: bool = False) -> float:
    """Partition isotropy I(W) = min F / max F, F the partition function (Rajaee & Pilehvar 2021), in (0, 1]; 1 is isotropic.

    F(u) is the sum of exp(u.x) over the rows, for the eigenvectors u of X^T X. The sign of an eigenvector is arbitrary but
    changes F, so both signs are used.

    Parameters
    ----------
    X
        Vectors or a cloud.
    sign
        "both", or "fixed" for the sign under which the entry of largest magnitude is positive, as one run of a published
        program would have it.
    centered
        Whether to subtract the mean first.
    unit_norm
        Whether to scale the cloud to a mean norm of 1 first; longer vectors alone lower I.
    """
    return float(np.exp(_log_isotropy(X, Variant(centered, unit_norm, sign))))


@metric("(-inf, 0]", HIGHER, **_SECOND_PASS, paper="RP21 eq. 1-2", label="log I", isotropic_at="0")
def log_partition_isotropy(X: Vectors | Cloud, *, sign: Sign = "both", centered: bool = False, unit_norm: bool = False) -> float:
    """Natural logarithm of I(W), at most 0; 0 is isotropic. It is exact even if I(W) itself underflows.

    Parameters
    ----------
    X
        Vectors or a cloud.
    sign, centered, unit_norm
        As in `partition_isotropy`.
    """
    return _log_isotropy(X, Variant(centered, unit_norm, sign))


@metric("(-inf, 0]", HIGHER, **_SECOND_PASS, paper="RP21 eq. 1-2", label="log I, unit norm", isotropic_at="0")
def log_partition_isotropy_unit_norm(X: Vectors | Cloud) -> float:
    """Logarithm of I(W) after scaling all rows by one factor to a mean length of 1, at most 0; 0 is isotropic.

    Parameters
    ----------
    X
        Vectors or a cloud.
    """
    return _log_isotropy(X, UNIT_NORM)


@metric("(-inf, 0]", HIGHER, **_SECOND_PASS, paper="RP21 eq. 1-2", label="log I, centred", isotropic_at="0")
def log_partition_isotropy_centered(X: Vectors | Cloud) -> float:
    """Logarithm of I(W) after subtracting the mean, at most 0; 0 is isotropic.

    Parameters
    ----------
    X
        Vectors or a cloud.
    """
    return _log_isotropy(X, CENTERED)


@metric("[0, 1]", NEITHER, needs="moments", paper="RP21", resample=False)
def eigen_gap(X: Vectors | Cloud) -> float:
    """Smallest relative gap between eigenvalues of X^T X, in [0, 1]. Near 0, I(W) depends on an arbitrary choice of basis.

    Parameters
    ----------
    X
        Vectors or a cloud.
    """
    gap = Cloud.of(X).uncentered_spectrum.smallest_relative_gap
    if np.isnan(gap):
        raise Undefined("there are not two eigenvalues to compare")
    return gap


# The variant that each registered metric reads, so that a survey can compute all of them in one pass.
VARIANTS: dict[str, Variant] = {
    "partition_isotropy": RAW,
    "log_partition_isotropy": RAW,
    "log_partition_isotropy_unit_norm": UNIT_NORM,
    "log_partition_isotropy_centered": CENTERED,
}


def log_partitions(X: Vectors | Cloud, variants: set[Variant]) -> dict[Variant, LogPartition]:
    """log F for several variants of one cloud, in one pass over its rows, or two if it is large; each is computed once per cloud.

    Of a large cloud a few directions are measured first. They and the moments bound F along the others, most of which then
    cannot have its smallest or largest value; the second pass measures those that can, if there are any.
    """
    cloud = Cloud.of(X)
    logs: dict[Variant, LogPartition] = cloud.cached("log partitions", dict)
    missing = variants - set(logs)
    if not missing:
        return logs
    # Rows whose number is not known come from a function, which may take longer to make them again than all products take.
    is_large = cloud.source.n is not None and cloud.n * cloud.d > PROBED_ENTRIES
    if not is_large or cloud.d < 4 * (LARGEST + SMALLEST) or cloud.n <= cloud.d:
        logs.update(_all_rows(cloud, PartitionSums(cloud, missing)).logs())
        return logs
    ends = np.r_[:LARGEST, cloud.d - SMALLEST : cloud.d]
    probes = _all_rows(cloud, PartitionSums(cloud, missing, {False: ends, True: ends}))
    measured, undecided = probes.logs(), probes.undecided(cloud)
    rest = {variant for variant in missing if len(undecided[variant.centered])}
    if rest:
        for variant, more in _all_rows(cloud, PartitionSums(cloud, rest, undecided)).logs().items():
            few = measured[variant]
            measured[variant] = replace(few, plus=np.append(few.plus, more.plus), minus=np.append(few.minus, more.minus))
    logs.update(measured)
    return logs


def _all_rows(cloud: Cloud, sums: PartitionSums) -> PartitionSums:
    """The sums, after one pass over the rows."""

    def piece(rows: Source) -> Part:
        return reduce(_merged, map_blocks(lambda _, block: sums.part(block), rows, check=False))

    sums.add(reduce_shards(piece, cloud.replay(), _merged))
    return sums


def _log_isotropy(X: Vectors | Cloud, variant: Variant) -> float:
    """log(min F / max F) over the eigenvectors."""
    if variant.sign not in ("both", "fixed"):
        raise ValueError(f"sign={variant.sign!r} must be 'both' or 'fixed'")
    values = log_partitions(X, {variant})[variant].values(variant.sign)
    return float(min(0.0, values.min() - values.max()))


@dataclass(frozen=True, eq=False)
class _Frame:
    """Directions to project on, the point to project from, and the scales of the variants."""

    centered: bool
    columns: Indices  # the numbers of the directions among all eigenvectors
    directions: Floats
    origin: Floats | None
    shift: Doubles  # what projections from the variants' own origin have more, along each direction
    reach: float  # an upper bound of all projections
    variants: list[Variant]
    scales: list[float]

    @classmethod
    def of(cls, cloud: Cloud, variants: list[Variant], columns: Indices | None) -> Self:
        """The frame of variants that are all centred, or all not."""
        moments, dtype, centered = cloud.moments, cloud.source.dtype, variants[0].centered
        vectors = (cloud.spectrum if centered else cloud.uncentered_spectrum).vectors
        columns = np.arange(vectors.shape[1]) if columns is None else columns
        origin = moments.mean.astype(dtype) if centered else None
        shift = np.zeros(cloud.d) if origin is None else origin - moments.mean
        reach = moments.norm_max + (float(np.linalg.norm(moments.mean)) if centered else 0.0)
        scales = [1.0 / _mean_norm(cloud, centered) if variant.unit_norm else 1.0 for variant in variants]
        directions = vectors[:, columns]
        return cls(centered, columns, directions.astype(dtype), origin, shift @ directions, reach, variants, scales)

    def part(self, block: Floats) -> tuple[LogSums, float]:
        """The sums over the rows of a block, and the largest squared length that a row has outside the directions."""
        rows = block if self.origin is None else block - self.origin
        projected = rows @ self.directions
        outside = 0.0
        if len(self.columns) < block.shape[1]:
            with np.errstate(over="ignore", invalid="ignore"):  # nan excludes no direction
                squares = np.einsum("ij,ij->i", rows, rows)
                # The margin is for rounding of these, and of the origin.
                outside = float((squares - np.einsum("ij,ij->i", projected, projected)).max() + 1e-3 * squares.max())
        return self._log_sums(projected), outside

    def _log_sums(self, projected: Floats) -> LogSums:
        """Overwrites the projections."""
        # exp overflows float32 beyond 88.7 and float64 beyond 709.7; the margin is for sums of 128 rows, and of reciprocals.
        limit = 80.0 if projected.dtype == np.float32 else 690.0
        last = len(self.scales) - 1  # may overwrite the projections, the others need a copy
        sums = []
        for position, scale in enumerate(self.scales):
            scaled = projected
            if scale != 1.0:
                scaled = np.multiply(projected, projected.dtype.type(scale), out=projected if position == last else None)
            is_own = position == last or scaled is not projected
            plus, minus = _log_sum_exp(scaled, out=scaled if is_own else None, safe=self.reach * scale < limit)
            sums.append((plus + self.shift * scale, minus - self.shift * scale))
        return sums

    def undecided(self, cloud: Cloud, logs: dict[Variant, LogPartition], outside: float) -> Indices:
        """The other directions along which F may be smaller or larger than along all of these."""
        moments, spectrum = cloud.moments, cloud.spectrum if self.centered else cloud.uncentered_spectrum
        mean = np.zeros(cloud.d) if self.centered else moments.mean @ spectrum.vectors
        variance = spectrum.values / cloud.n - np.square(mean)
        rounding = noise_floor(spectrum.values, cloud.d, eps=moments.eps) / cloud.n
        is_decided = np.ones(cloud.d, bool)
        for variant, scale in zip(self.variants, self.scales, strict=True):
            known, reach = logs[variant].values(variant.sign) - np.log(cloud.n), scale * np.sqrt(outside)
            for sign in (1, -1) if variant.sign == "both" else (1,):
                most = log_mean_exp_bound(sign * scale * mean, scale**2 * (variance + rounding), reach)
                least = log_mean_exp_bound(sign * scale * mean, scale**2 * (variance - rounding), -reach)
                is_decided &= (most < known.max()) & (least > known.min())
        is_decided[self.columns] = True
        return np.flatnonzero(~is_decided)


def log_mean_exp_bound(mean: Doubles, variance: Doubles, end: float) -> Doubles:
    """The largest log of the mean of exp(p) with this mean and variance if no p is above `end`, the smallest if none is below.

    Bennett's inequality: both are reached if p has two values, one of them the end. A quadratic that touches exp at the other
    one and meets it at the end stays on one side of exp.
    """
    gap, variance = end - mean, np.maximum(variance, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = variance / (variance + np.square(gap))
        return np.asarray(np.logaddexp(np.log(share) + end, np.log1p(-share) + mean - share * gap / (1 - share)))


class PartitionSums:
    """log F of several variants of a cloud, gathered from its rows block by block; for callers who produce the rows themselves.

    `part` may run in any thread; `add` takes its results one after the other. `columns` are numbers of eigenvectors of the
    uncentred and of the centred cloud; by default all are measured.
    """

    def __init__(self, cloud: Cloud, variants: set[Variant], columns: Mapping[bool, Indices] | None = None) -> None:
        groups = [[variant for variant in sorted(variants, key=repr) if variant.centered is kind] for kind in (True, False)]
        self._frames = [
            _Frame.of(cloud, group, None if columns is None else columns[group[0].centered]) for group in groups if group
        ]
        self._totals: Part | None = None
        # Along a direction without spread every row adds exp(0), so F = n.
        self._null = float(np.log(cloud.n)) if cloud.uncentered_spectrum.vectors.shape[1] < cloud.d else None

    def part(self, block: Floats) -> Part:
        """What one block of rows adds."""
        return [frame.part(block) for frame in self._frames]

    def add(self, part: Part) -> None:
        """Add what `part` returned."""
        self._totals = part if self._totals is None else _merged(self._totals, part)

    def logs(self) -> dict[Variant, LogPartition]:
        """log F of each variant over all rows that were added."""
        assert self._totals is not None
        pairs = zip(self._frames, self._totals, strict=True)
        of_variants = [entry for frame, (sums, _) in pairs for entry in zip(frame.variants, sums, strict=True)]
        return {variant: LogPartition(plus, minus, self._null) for variant, (plus, minus) in of_variants}

    def undecided(self, cloud: Cloud) -> dict[bool, Indices]:
        """The other directions along which F may be smaller or larger, for the uncentred and for the centred cloud."""
        assert self._totals is not None
        logs, pairs = self.logs(), zip(self._frames, self._totals, strict=True)
        return {frame.centered: frame.undecided(cloud, logs, outside) for frame, (_, outside) in pairs}


def _merged(first: Part, second: Part) -> Part:
    merged: Part = []
    for (sums, outside), (more, further) in zip(first, second, strict=True):
        pairs = zip(sums, more, strict=True)
        merged.append(
            ([(np.logaddexp(a, c), np.logaddexp(b, e)) for (a, b), (c, e) in pairs], float(np.maximum(outside, further)))
        )
    return merged


def _mean_norm(cloud: Cloud, centered: bool) -> float:
    if not centered:
        norm = cloud.moments.mean_norm
    else:
        mean = cloud.moments.mean

        def total(rows: Source) -> float:
            return sum(map_blocks(lambda _, block: float(row_norms(block - mean).sum()), rows))

        norm = cloud.cached("mean norm about the mean", lambda: reduce_shards(total, cloud.replay(), add) / cloud.n)
    if norm == 0:
        raise Undefined("all rows are zero and cannot be scaled to unit norm")
    return norm


def _log_sum_exp(projected: Floats, *, out: Floats | None, safe: bool) -> tuple[Doubles, Doubles]:
    """log of the column sums of exp(p) and of exp(-p); may overwrite `out`, and is `safe` if no exponent can overflow."""
    if safe:
        powers = np.exp(projected, out=out)
        plus = np.log(column_sums(powers))
        np.reciprocal(powers, out=powers)
        return plus, np.log(column_sums(powers))
    top, bottom = projected.max(axis=0), projected.min(axis=0)
    plus = np.log(column_sums(np.exp(projected - top))) + top
    return plus, np.log(column_sums(np.exp(bottom - projected))) - bottom
