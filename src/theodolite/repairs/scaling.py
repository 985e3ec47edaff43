"""Centring, scaling and rotating: of the mean, of dimensions, of principal directions, and of rows to unit length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin

from theodolite.core.moments import Doubles, Moments, centred, row_norms
from theodolite.core.spectrum import eigenpairs, noise_floor
from theodolite.core.vectors import Floats, Source
from theodolite.repairs.base import Affine, CentredProduct, Repair, dimensions_to_keep
from theodolite.repairs.directions import complete_basis


class ZeroMean(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Subtract the mean: x - mean (Rajaee & Pilehvar 2021). One pass, affine.

    This is the mildest repair. The paper calls it a prerequisite for measuring isotropy. `mean_` is subtracted.
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
    `mean_` is subtracted, and the result is divided by `scale_`.
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


class Whiten(ClassNamePrefixFeaturesOutMixin, CentredProduct):  # type: ignore[misc]
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

    inverts_variances: ClassVar[bool] = True
    variances_: Doubles
    n_components_: int

    def __init__(self, n_components: int | None = None, *, shrinkage: float = 0.0, tolerance: float | None = None) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.tolerance = tolerance

    def _learn(self, data: Source) -> None:
        self._check_options(data.d)
        moments, variances, directions, floor = _principal_variances(data, self.tolerance)
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

    def _check_options(self, d: int) -> None:
        dimensions_to_keep(self.n_components, d)
        if not 0 <= self.shrinkage <= 1:
            raise ValueError(f"shrinkage={self.shrinkage} must be in [0, 1]")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance} must be in [0, 1)")


class PowerWhiten(OneToOneFeatureMixin, CentredProduct):  # type: ignore[misc]
    """Centre, scale principal direction i by its variance to the power -p/2: (x - mean) U diag(v)^(-p/2) U^T. One pass, affine.

    p = 0 is centring, p = 1 whitening; between the two, weak directions are scaled up less, and with them their noise. Rows stay
    in their own coordinates. Directions whose variance is rounding error are left out, as in `Whiten`, unless p is 0.

    Parameters
    ----------
    power
        p, in [0, 1].
    """

    inverts_variances: ClassVar[bool] = True

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def _learn(self, data: Source) -> None:
        if not 0 <= self.power <= 1:
            raise ValueError(f"power={self.power} must be in [0, 1]")
        moments, variances, directions, floor = _principal_variances(data, None)
        count = int(np.count_nonzero(variances > floor))
        kept = directions[:, :count]
        self.mean_ = moments.mean
        self.kernel_ = (kept * variances[:count] ** (-self.power / 2)) @ kept.T if self.power else np.eye(data.d)


class UnitLength(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Scale every row to length 1: x / norm(x). Rows of zeros stay zeros. Learns nothing, not affine.

    It changes no cosine, but it changes inner products, distances and everything that is fitted afterwards.
    """

    is_affine: ClassVar[bool] = False
    not_affine_because: ClassVar[str] = "divides each row by its own length"

    def _apply(self, block: Floats) -> Floats:
        norms = row_norms(block)[:, None]
        return np.divide(block, norms, out=np.zeros_like(block), where=norms > 0, casting="same_kind")


class Rotate(OneToOneFeatureMixin, CentredProduct):  # type: ignore[misc]
    """Centre, then rotate at random: every dimension gets a similar variance. One pass, affine.

    Use it before int8 or binary codes, which waste their levels if a few dimensions are much wider than the others. Apart from
    centring, it changes no cosine or distance.

    Parameters
    ----------
    seed
        Seed of the rotation.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed

    def _learn(self, data: Source) -> None:
        self.mean_ = Moments.of(data).mean
        self.kernel_, _ = np.linalg.qr(np.random.default_rng(self.seed).standard_normal((data.d, data.d)))


def _principal_variances(data: Source, tolerance: float | None) -> tuple[Moments, Doubles, Doubles, float]:
    """Moments, variances along the principal directions (descending), the directions, and the variance that is rounding error."""
    kinds: set[np.dtype[Any]] = set()
    moments = Moments.of(_in_float64(data, kinds))
    if moments.n < 2:
        raise ValueError("whitening needs the variance of at least two rows; there is one (n_samples=1)")
    pairs = eigenpairs(moments)
    variances = pairs.values / (moments.n - 1)
    largest = float(variances.max(initial=0.0))
    if tolerance is not None:
        floor = tolerance * largest
    else:
        rounding = max((float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"), default=0.0)
        # An entry is stored to within half of rounding * |x|: smaller variances cannot be distinguished from none.
        largest_entry = float((np.square(moments.mean) + moments.squared_deviations / moments.n).max())
        floor = noise_floor(variances, moments.d, eps=moments.eps) + rounding**2 * largest_entry
    if not largest > floor:
        raise ValueError("all rows are the same point, up to rounding, so there is no variance to whiten")
    return moments, variances, pairs.vectors, floor


def _in_float64(data: Source, kinds: set[np.dtype[Any]]) -> Source:
    """The same rows as float64; adds the precisions they were stored in to `kinds`."""
    if data.moments is not None:
        kinds.add(data.dtype)
        return data

    def chunks() -> Iterator[NDArray[Any]]:
        for _, block in data.raw_blocks():
            kinds.add(block.dtype)
            yield block

    return Source(chunks, n=data.n, d=data.d, dtype=np.dtype(np.float64), replayable=data.replayable)
