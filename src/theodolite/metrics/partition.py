"""Partition isotropy I(W): how little the partition function varies along the principal directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from theodolite.core.engines import reduce_shards
from theodolite.core.moments import Doubles, column_sums, row_norms
from theodolite.core.parallel import map_blocks
from theodolite.core.vectors import Floats, Source, Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.registry import HIGHER, NEITHER, metric

Sign = Literal["both", "fixed"]
# What some rows add: log of the sums of exp(u.x) and of exp(-u.x) along each direction, for each variant.
LogSums: TypeAlias = list[tuple[Doubles, Doubles]]
TURNED_ROWS = 64  # rows per dimension from which a product with low-rank blocks saves more than it takes to find them


@dataclass(frozen=True)
class Variant:
    """Which cloud is measured."""

    centered: bool = False
    unit_norm: bool = False


RAW = Variant()
UNIT_NORM = Variant(unit_norm=True)
CENTERED = Variant(centered=True)


@dataclass(frozen=True, eq=False)
class LogPartition:
    """The logarithm of the partition function F along the eigenvectors u."""

    plus: Doubles
    minus: Doubles
    null: float | None


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
    """Partition isotropy I(W) = min F / max F (Rajaee & Pilehvar 2021, eq. 2), in (0, 1]; 1 is isotropic.

    F(u) = sum of exp(u.x) over the rows, for the eigenvectors u of X^T X. An eigenvector has no sign but F has, so both signs
    are taken.

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
    return float(np.exp(_log_isotropy(X, Variant(centered, unit_norm), sign)))


@metric("(-inf, 0]", HIGHER, **_SECOND_PASS, paper="RP21 eq. 1-2", label="log I", isotropic_at="0")
def log_partition_isotropy(X: Vectors | Cloud, *, sign: Sign = "both", centered: bool = False, unit_norm: bool = False) -> float:
    """Natural logarithm of the partition isotropy, at most 0; 0 is isotropic. Exact even if I(W) itself underflows.

    Parameters
    ----------
    X
        Vectors or a cloud.
    sign, centered, unit_norm
        As in `partition_isotropy`.
    """
    return _log_isotropy(X, Variant(centered, unit_norm), sign)


@metric("(-inf, 0]", HIGHER, **_SECOND_PASS, paper="RP21 eq. 1-2", label="log I, unit norm", isotropic_at="0")
def log_partition_isotropy_unit_norm(X: Vectors | Cloud) -> float:
    """Log partition isotropy of the cloud scaled to mean norm 1, at most 0; 0 is isotropic. Norms no longer matter.

    Parameters
    ----------
    X
        Vectors or a cloud.
    """
    return _log_isotropy(X, UNIT_NORM, "both")


@metric("(-inf, 0]", HIGHER, **_SECOND_PASS, paper="RP21 eq. 1-2", label="log I, centred", isotropic_at="0")
def log_partition_isotropy_centered(X: Vectors | Cloud) -> float:
    """Log partition isotropy about the mean, at most 0; 0 is isotropic.

    Parameters
    ----------
    X
        Vectors or a cloud.
    """
    return _log_isotropy(X, CENTERED, "both")


@metric("[0, 1]", NEITHER, needs="moments", paper="RP21", resample=False)
def eigen_gap(X: Vectors | Cloud) -> float:
    """Smallest relative gap between eigenvalues of X^T X, in [0, 1]; near 0, I(W) depends on an arbitrary choice of basis.

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
    """log F for several variants of one cloud, in one pass over its rows; each is computed once per cloud."""
    cloud = Cloud.of(X)
    logs: dict[Variant, LogPartition] = cloud.cached("log partitions", dict)
    missing = variants - set(logs)
    if missing:
        sums = PartitionSums(cloud, missing)

        def piece(rows: Source) -> LogSums:
            return reduce(_merged, map_blocks(lambda _, block: sums.part(block), rows, check=False))

        sums.add(reduce_shards(piece, cloud.replay(), _merged))
        logs.update(sums.logs())
    return logs


def _log_isotropy(X: Vectors | Cloud, variant: Variant, sign: Sign) -> float:
    """log(min F / max F) over the eigenvectors."""
    if sign not in ("both", "fixed"):
        raise ValueError(f"sign={sign!r} must be 'both' or 'fixed'")
    logs = log_partitions(X, {variant})[variant]
    sides = [logs.plus, logs.minus] if sign == "both" else [logs.plus]
    values = np.concatenate([*sides, [] if logs.null is None else [logs.null]])
    return float(min(0.0, values.min() - values.max()))


@dataclass(frozen=True, eq=False)
class _Frame:
    """Directions to project on, the point to project from, and the scales of the variants."""

    directions: Floats | LowRankBlocks  # the latter are to be applied to the projections of the frame before
    origin: Floats | None
    shift: Doubles  # what projections from the variants' own origin have more, along each direction
    reach: float  # an upper bound of all projections
    variants: list[Variant]
    scales: list[float]

    def projected(self, block: Floats, before: Floats | None) -> Floats:
        if isinstance(self.directions, LowRankBlocks):
            assert before is not None
            return self.directions.after(before)
        return np.asarray((block if self.origin is None else block - self.origin) @ self.directions)

    def log_sums(self, projected: Floats) -> LogSums:
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


class PartitionSums:
    """log F of several variants of a cloud, gathered from its rows block by block; for callers who produce the rows themselves.

    `part` may run in any thread; `add` takes its results one after the other.
    """

    def __init__(self, cloud: Cloud, variants: set[Variant]) -> None:
        groups = [[variant for variant in sorted(variants, key=repr) if variant.centered is kind] for kind in (True, False)]
        turned = None
        # The eigenvectors of X^T X as combinations of those about the mean, if that saves more than it takes to find out.
        if all(groups) and cloud.n >= TURNED_ROWS * cloud.d and cloud.d >= 256:
            turned = LowRankBlocks.of(cloud.spectrum.vectors.T @ cloud.uncentered_spectrum.vectors, cloud.source.dtype)
            turned = turned if turned.saves else None
        self._frames = [_frame(cloud, group, turned) for group in groups if group]
        self._totals: LogSums | None = None
        # Along a direction without spread every row adds exp(0), so F = n.
        self._null = float(np.log(cloud.n)) if cloud.uncentered_spectrum.vectors.shape[1] < cloud.d else None

    def part(self, block: Floats) -> LogSums:
        """What one block of rows adds."""
        projections: list[Floats] = []
        for frame in self._frames:
            projections.append(frame.projected(block, projections[-1] if projections else None))
        pairs = zip(self._frames, projections, strict=True)
        return [pair for frame, projected in pairs for pair in frame.log_sums(projected)]

    def add(self, part: LogSums) -> None:
        """Add what `part` returned."""
        self._totals = part if self._totals is None else _merged(self._totals, part)

    def logs(self) -> dict[Variant, LogPartition]:
        """log F of each variant over all rows that were added."""
        assert self._totals is not None
        variants = [variant for frame in self._frames for variant in frame.variants]
        return {v: LogPartition(plus, minus, self._null) for v, (plus, minus) in zip(variants, self._totals, strict=True)}


def _merged(first: LogSums, second: LogSums) -> LogSums:
    pairs = zip(first, second, strict=True)
    return [(np.logaddexp(a, c), np.logaddexp(b, e)) for (a, b), (c, e) in pairs]


def _frame(cloud: Cloud, variants: list[Variant], turned: LowRankBlocks | None) -> _Frame:
    """The frame of variants that are all centred, or all not; these may be turned from the frame of those that are."""
    moments, dtype, centered = cloud.moments, cloud.source.dtype, variants[0].centered
    directions = (cloud.spectrum if centered else cloud.uncentered_spectrum).vectors
    is_moved = centered or turned is not None
    origin = moments.mean.astype(dtype) if is_moved else None
    start = np.zeros(cloud.d) if origin is None else origin
    shift = (start - moments.mean if centered else start) @ directions
    reach = moments.norm_max + (float(np.linalg.norm(moments.mean)) if is_moved else 0.0)
    scales = [1.0 / _mean_norm(cloud, centered) if variant.unit_norm else 1.0 for variant in variants]
    factor = directions.astype(dtype) if centered or turned is None else turned
    return _Frame(factor, origin, shift, reach, variants, scales)


def _mean_norm(cloud: Cloud, centered: bool) -> float:
    if not centered:
        norm = cloud.moments.mean_norm
    else:
        mean = cloud.moments.mean

        def total(rows: Source) -> float:
            return sum(map_blocks(lambda _, block: float(row_norms(block - mean).sum()), rows))

        norm = reduce_shards(total, cloud.replay(), add) / cloud.n
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


BLOCKS = 8


@dataclass(frozen=True, eq=False)
class LowRankBlocks:
    """A matrix as blocks on its diagonal, and one product of two thin matrices for each block of columns beside its diagonal one.

    The eigenvectors of a symmetric matrix, expressed in those of the same matrix plus one outer product, are of this kind: entry
    (i, j) is z_i / (a_i - b_j) up to a factor of each column, and the a and b of two different blocks are far from each other.
    """

    cuts: list[slice]
    tall: Floats
    columns: list[tuple[slice, Floats]]

    @classmethod
    def of(cls, matrix: Doubles, dtype: np.dtype[Any]) -> Self:
        """A square matrix with entries of at most about 1, as exact as its rounding to a data type."""
        cuts = [slice(start, stop) for start, stop in pairwise(np.linspace(0, len(matrix), BLOCKS + 1).astype(int).tolist())]
        tall, columns, start = [], [], 0
        for cut in cuts:
            beside = matrix[:, cut].copy()
            beside[cut] = 0.0
            left, sizes, right = np.linalg.svd(beside, full_matrices=False)
            rank = int(np.count_nonzero(sizes > np.finfo(dtype).eps / 2))
            tall.append(left[:, :rank] * sizes[:rank])
            columns.append((slice(start, start + rank), np.vstack([matrix[cut, cut], right[:rank]]).astype(dtype)))
            start += rank
        return cls(cuts, np.hstack(tall).astype(dtype), columns)

    @property
    def saves(self) -> bool:
        """Whether a product takes clearly less than a plain one, skinny products being slower per entry."""
        size = self.cuts[-1].stop
        return bool(self.tall.size + sum(block.size for _, block in self.columns) < size**2 / 2)

    def after(self, rows: Floats) -> Floats:
        """The rows times the matrix."""
        beside = rows @ self.tall
        product = np.empty_like(rows)
        for cut, (part, block) in zip(self.cuts, self.columns, strict=True):
            width = cut.stop - cut.start
            np.matmul(rows[:, cut], block[:width], out=product[:, cut])
            product[:, cut] += beside[:, part] @ block[width:]
        return product
