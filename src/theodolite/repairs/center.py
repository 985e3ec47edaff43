"""Centring: the mean is moved to the origin, and each dimension scaled to unit variance."""

from __future__ import annotations

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from theodolite.core.moments import Doubles, Moments, centred
from theodolite.core.vectors import Floats, Source
from theodolite.repairs.base import Affine, Repair


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
