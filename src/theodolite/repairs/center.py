"""Centring: the mean moved to the origin, and each dimension to unit variance."""

from __future__ import annotations

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from theodolite.core.centre import centred
from theodolite.core.moments import Doubles, Moments
from theodolite.core.vectors import Floats, Source
from theodolite.repairs.base import Affine, Repair


class ZeroMean(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Subtract the mean: x - mean (Rajaee & Pilehvar 2021). One pass, affine.

    The mildest repair, and in that paper a prerequisite of measuring isotropy.
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

    A dimension whose deviation is no more than the rounding of its mean is constant: it is centred and not scaled.
    """

    mean_: Doubles
    scale_: Doubles

    def _learn(self, data: Source) -> None:
        moments = Moments.of(data)
        deviation = np.sqrt(moments.squared_deviations / moments.n)
        rounding = 4 * float(np.finfo(data.dtype).eps) * np.abs(moments.mean)
        self.mean_ = moments.mean
        self.scale_ = np.where(deviation > rounding, deviation, 1.0)

    def _apply(self, block: Floats) -> Floats:
        rows = centred(block, self.mean_)
        rows /= self.scale_.astype(rows.dtype)
        return rows

    def _affine(self) -> Affine:
        return np.diag(1 / self.scale_), -self.mean_ / self.scale_
