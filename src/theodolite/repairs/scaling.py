"""Centring and scaling: the mean moves to the origin, and dimensions or principal directions get unit variance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin

from theodolite.core.moments import Doubles, Moments, centred
from theodolite.core.spectrum import eigenpairs, noise_floor
from theodolite.core.vectors import Floats, Source
from theodolite.repairs.base import Affine, Repair
from theodolite.repairs.directions import complete_basis


class ZeroMean(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Subtract the mean: x - mean (Rajaee & Pilehvar 2021). One pass, affine.

    The mildest repair, and in that paper a prerequisite for measuring isotropy. `mean_` is what is subtracted.
    """

    mean_: Doubles

    def _learn(self, data: Source) -> None:
        self.mean_ = Moments.of(data).mean

    def _apply(self, block: Floats) -> Floats:
        return centred(block, self.mean_)

    def _affine(self) -> Affine:
        return np.eye(len(self.mean_)), -self.mean_


class Standardize(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Subtract the mean and divide by the standard deviation of each dimension (denominator n). One pass, affine.

    A dimension whose deviation is not larger than the rounding error of its mean is constant: it is centred and not scaled.
    `mean_` and `scale_` are what is subtracted, and what is divided by.
    """

    mean_: Doubles
    scale_: Doubles

    def _learn(self, data: Source) -> None:
        moments = Moments.of(data)
        deviation = np.sqrt(moments.squared_deviations / moments.n)
        # Rounding gives a constant column a deviation of a few units in the last place of its mean.
        rounding = 4 * float(np.finfo(data.dtype).eps) * np.abs(moments.mean)
        self.mean_ = moments.mean
        self.scale_ = np.where(deviation > rounding, deviation, 1.0)

    def _apply(self, block: Floats) -> Floats:
        rows = centred(block, self.mean_)
        rows /= self.scale_.astype(rows.dtype)
        return rows

    def _affine(self) -> Affine:
        return np.diag(1 / self.scale_), -self.mean_ / self.scale_


class Whiten(ClassNamePrefixFeaturesOutMixin, Repair):  # type: ignore[misc]
    """Centre, rotate to principal directions, scale to unit variance: (x - mean) U diag(v)^-1/2 (Su 2021). One pass, affine.

    Directions whose variance is rounding error are left out, so there may be fewer than d columns: a final LayerNorm leaves
    one direction without variance, and scaling it up would turn rounding error into a dimension. Sums of products are computed
    in float64, since float32 sums would hide that direction. `kernel_` is (d, n_components_); `variances_` are those along each
    direction, descending, with denominator n - 1.

    Parameters
    ----------
    n_components
        Number of directions of most variance to keep; all by default.
    shrinkage
        In [0, 1]: whiten with (1 - shrinkage) S + shrinkage (tr S / d) I in place of S. Nothing is left out then, and small
        variances are scaled up less.
    tolerance
        In [0, 1): leave out directions with less than this share of the largest variance; None takes the rounding of the
        input's own precision.
    """

    mean_: Doubles
    kernel_: Doubles
    variances_: Doubles
    n_components_: int

    def __init__(self, n_components: int | None = None, *, shrinkage: float = 0.0, tolerance: float | None = None) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.tolerance = tolerance

    def _learn(self, data: Source) -> None:
        self._check_options(data.d)
        kinds: set[np.dtype[Any]] = set()
        moments = Moments.of(_in_float64(data, kinds))
        if moments.n < 2:
            raise ValueError("whitening needs the variance of at least two rows; there is one (n_samples=1)")
        pairs = eigenpairs(moments)
        variances, directions = pairs.values / (moments.n - 1), pairs.vectors
        rounding = max((float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"), default=0.0)
        floor = self._floor(variances, moments, rounding)
        if not variances.max(initial=0.0) > floor:
            raise ValueError("all rows are the same point, up to rounding, so there is no variance to whiten")
        if self.shrinkage > 0:
            directions = complete_basis(directions)
            padded = np.append(variances, np.zeros(data.d - len(variances)))
            variances = (1 - self.shrinkage) * padded + self.shrinkage * padded.mean()
        count = int(np.count_nonzero(variances > floor))
        count = count if self.n_components is None else min(count, self.n_components)
        self.mean_ = moments.mean
        self.variances_ = variances[:count]
        self.kernel_ = directions[:, :count] / np.sqrt(self.variances_)
        self.n_components_ = count

    def _apply(self, block: Floats) -> Floats:
        return centred(block, self.mean_) @ self.kernel_.astype(block.dtype)

    def _affine(self) -> Affine:
        return self.kernel_.copy(), -self.mean_ @ self.kernel_

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _check_options(self, d: int) -> None:
        if self.n_components is not None and not 1 <= self.n_components <= d:
            raise ValueError(f"n_components={self.n_components} must be at least 1 and at most the dimension d={d}")
        if not 0 <= self.shrinkage <= 1:
            raise ValueError(f"shrinkage={self.shrinkage} must be in [0, 1]")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance} must be in [0, 1)")

    def _floor(self, variances: Doubles, moments: Moments, rounding: float) -> float:
        """The size up to which variances are left out."""
        if self.tolerance is not None:
            return self.tolerance * float(variances.max(initial=0.0))
        # An entry is stored to within half of rounding * |x|: smaller variances cannot be distinguished from none.
        largest_entry = float((np.square(moments.mean) + moments.squared_deviations / moments.n).max())
        return noise_floor(variances, moments.d, eps=moments.eps) + rounding**2 * largest_entry


def _in_float64(data: Source, kinds: set[np.dtype[Any]]) -> Source:
    """The same rows as float64; adds the precisions they were stored in to `kinds`."""

    def chunks() -> Iterator[NDArray[Any]]:
        for _, block in data.raw_blocks():
            kinds.add(block.dtype)
            yield block

    return Source(chunks, n=data.n, d=data.d, dtype=np.dtype(np.float64), replayable=data.replayable)
