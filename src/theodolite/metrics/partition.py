"""Partition isotropy I(W): how evenly the partition function looks along the principal directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from theodolite.core.blocks import map_blocks
from theodolite.core.moments import Doubles, column_sums, row_norms
from theodolite.core.vectors import Floats, Vectors
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.registry import metric

Sign = Literal["both", "fixed"]


@dataclass(frozen=True)
class Variant:
    """Which cloud is measured: as it is or about its mean, in its own units or scaled to unit mean norm."""

    centered: bool = False
    unit_norm: bool = False


RAW = Variant()
UNIT_NORM = Variant(unit_norm=True)
CENTERED = Variant(centered=True)


@dataclass(frozen=True, eq=False)
class LogPartition:
    """log F(u) and log F(-u) along each eigenvector u, and log n where there are directions without any spread."""

    plus: Doubles
    minus: Doubles
    null: float | None

    def log_isotropy(self, sign: Sign = "both") -> float:
        """log(min F / max F) over the eigenvectors, with both their signs or the fixed one."""
        sides = [self.plus, self.minus] if sign == "both" else [self.plus]
        values = np.concatenate([*sides, [] if self.null is None else [self.null]])
        return float(min(0.0, values.min() - values.max()))


@metric(
    range="(0, 1]",
    direction="higher is isotropic",
    paper="RP21 eq. 1-2; Mu & Viswanath 2018",
    needs="second pass",
    resample=False,
    label="I(W)",
    isotropic_at="1",
)
def partition_isotropy(X: Vectors | Cloud, *, sign: Sign = "both", centered: bool = False, unit_norm: bool = False) -> float:
    """Partition isotropy I(W) = min F / max F (Rajaee & Pilehvar 2021, eq. 2), in (0, 1]; 1 is isotropic.

    F(u) = sum of exp(u.x) over the rows, for the eigenvectors u of X^T X. An eigenvector has no sign but F has, so both are
    taken; `sign="fixed"` takes the one whose entry of largest magnitude is positive, as one run of a published program would.
    Longer vectors lower I by themselves: `unit_norm` scales the cloud to mean norm 1 first. `centered` takes the mean off.
    """
    return float(np.exp(_log_isotropy(X, Variant(centered, unit_norm), sign)))


@metric(
    range="(-inf, 0]", direction="higher is isotropic", paper="RP21 eq. 1-2", needs="second pass", label="log I", isotropic_at="0"
)
def log_partition_isotropy(X: Vectors | Cloud, *, sign: Sign = "both", centered: bool = False, unit_norm: bool = False) -> float:
    """Natural logarithm of the partition isotropy, at most 0; 0 is isotropic. Exact where I(W) itself underflows."""
    return _log_isotropy(X, Variant(centered, unit_norm), sign)


@metric(
    range="(-inf, 0]",
    direction="higher is isotropic",
    paper="RP21 eq. 1-2",
    needs="second pass",
    label="log I, unit norm",
    isotropic_at="0",
)
def log_partition_isotropy_unit_norm(X: Vectors | Cloud) -> float:
    """Log partition isotropy of the cloud scaled to mean norm 1, at most 0; 0 is isotropic. Norms no longer matter."""
    return _log_isotropy(X, UNIT_NORM, "both")


@metric(
    range="(-inf, 0]",
    direction="higher is isotropic",
    paper="RP21 eq. 1-2",
    needs="second pass",
    label="log I, centred",
    isotropic_at="0",
)
def log_partition_isotropy_centered(X: Vectors | Cloud) -> float:
    """Log partition isotropy about the mean, at most 0; 0 is isotropic."""
    return _log_isotropy(X, CENTERED, "both")


@metric(range="[0, 1]", direction="neither", paper="RP21", needs="moments", resample=False)
def eigen_gap(X: Vectors | Cloud) -> float:
    """Smallest relative gap between eigenvalues of X^T X, in [0, 1]; near 0, I(W) depends on an arbitrary choice of basis."""
    gap = Cloud.of(X).uncentered_spectrum.smallest_relative_gap
    if np.isnan(gap):
        raise Undefined("there are not two eigenvalues to compare")
    return gap


VARIANTS: dict[str, Variant] = {
    "partition_isotropy": RAW,
    "log_partition_isotropy": RAW,
    "log_partition_isotropy_unit_norm": UNIT_NORM,
    "log_partition_isotropy_centered": CENTERED,
}
"""The variant each registered metric reads, so that a survey can compute all that are asked in one pass."""


def log_partitions(X: Vectors | Cloud, variants: set[Variant]) -> dict[Variant, LogPartition]:
    """log F for several variants of one cloud, in one pass over its rows; each is computed once per cloud."""
    cloud = Cloud.of(X)
    known: dict[Variant, LogPartition] = cloud.cached("log partitions", dict)
    missing = variants - set(known)
    if missing:
        known.update(_one_pass(cloud, missing))
    return known


def _log_isotropy(X: Vectors | Cloud, variant: Variant, sign: Sign) -> float:
    if sign not in ("both", "fixed"):
        raise ValueError(f"sign={sign!r} must be 'both' or 'fixed'")
    return log_partitions(X, {variant})[variant].log_isotropy(sign)


@dataclass(frozen=True, eq=False)
class _Frame:
    """Directions to project on, the point to project from, and the scales asked for."""

    directions: Floats
    origin: Floats | None
    rest: Doubles
    """What rounding the origin to the rows' precision leaves out, along each direction."""
    reach: float
    """No projection is larger than this."""
    variants: list[Variant]
    scales: list[float]

    def log_sums(self, block: Floats) -> list[tuple[Doubles, Doubles]]:
        projected = (block if self.origin is None else block - self.origin) @ self.directions
        last = len(self.scales) - 1
        sums = []
        for position, scale in enumerate(self.scales):
            scaled = projected if position == last else projected.copy()
            if scale != 1.0:
                scaled *= projected.dtype.type(scale)
            plus, minus = _log_sum_exp(scaled, safe=self.reach * scale < _safe_exponent(block.dtype))
            sums.append((plus - self.rest * scale, minus + self.rest * scale))
        return sums


class PartitionSums:
    """log F of several variants of a cloud, gathered from its rows block by block; its moments must be known.

    `part` may run in any thread, `add` takes its results one after the other. For callers who make the rows themselves.
    """

    def __init__(self, cloud: Cloud, variants: set[Variant]) -> None:
        named = sorted(variants, key=repr)
        frames = [_frame(cloud, kind, [v for v in named if v.centered is kind]) for kind in (False, True)]
        self._frames = [frame for frame in frames if frame.variants]
        self._totals: list[tuple[Doubles, Doubles]] | None = None
        self._null = float(np.log(cloud.n)) if cloud.uncentered_spectrum.vectors.shape[1] < cloud.d else None

    def part(self, block: Floats) -> list[tuple[Doubles, Doubles]]:
        """What one block of rows adds."""
        return [pair for frame in self._frames for pair in frame.log_sums(block)]

    def add(self, part: list[tuple[Doubles, Doubles]]) -> None:
        if self._totals is None:
            self._totals = part
        else:
            pairs = zip(self._totals, part, strict=True)
            self._totals = [(np.logaddexp(a, c), np.logaddexp(b, e)) for (a, b), (c, e) in pairs]

    def logs(self) -> dict[Variant, LogPartition]:
        """log F of each variant over all rows added."""
        assert self._totals is not None
        named = [variant for frame in self._frames for variant in frame.variants]
        return {v: LogPartition(plus, minus, self._null) for v, (plus, minus) in zip(named, self._totals, strict=True)}


def _one_pass(cloud: Cloud, variants: set[Variant]) -> dict[Variant, LogPartition]:
    sums = PartitionSums(cloud, variants)
    for part in map_blocks(lambda _, block: sums.part(block), cloud.replay(), check=False):
        sums.add(part)
    return sums.logs()


def _frame(cloud: Cloud, centered: bool, variants: list[Variant]) -> _Frame:
    moments, dtype = cloud.moments, cloud.source.dtype
    directions = (cloud.spectrum if centered else cloud.uncentered_spectrum).vectors if variants else np.zeros((cloud.d, 0))
    origin = moments.mean.astype(dtype) if centered else None
    rest = (moments.mean - origin) @ directions if origin is not None else np.zeros(directions.shape[1])
    reach = moments.norm_max + (float(np.linalg.norm(moments.mean)) if centered else 0.0)
    scales = [1.0 / _mean_norm(cloud, centered) if variant.unit_norm else 1.0 for variant in variants]
    return _Frame(directions.astype(dtype), origin, rest, reach, variants, scales)


def _mean_norm(cloud: Cloud, centered: bool) -> float:
    if not centered:
        norm = cloud.moments.mean_norm
    else:
        mean = cloud.moments.mean
        norm = sum(map_blocks(lambda _, block: float(row_norms(block - mean).sum()), cloud.replay())) / cloud.n
    if norm == 0:
        raise Undefined("all rows are zero and cannot be scaled to unit norm")
    return norm


def _log_sum_exp(projected: Floats, *, safe: bool) -> tuple[Doubles, Doubles]:
    """log of the column sums of exp(p) and of exp(-p); overwrites its argument where no exponent can overflow."""
    if safe:
        np.exp(projected, out=projected)
        plus = np.log(column_sums(projected))
        np.reciprocal(projected, out=projected)
        return plus, np.log(column_sums(projected))
    top, bottom = projected.max(axis=0), projected.min(axis=0)
    plus = np.log(column_sums(np.exp(projected - top))) + top
    return plus, np.log(column_sums(np.exp(bottom - projected))) - bottom


def _safe_exponent(dtype: np.dtype[np.floating]) -> float:
    """Largest |p| for which exp(p), its reciprocal and their sums over a run of rows are ordinary numbers."""
    return 80.0 if dtype == np.float32 else 690.0
