"""Removal of rogue dimensions: the few coordinates that make all vectors look alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin

from theodolite.core.moments import Doubles, Moments
from theodolite.core.vectors import Floats, Source
from theodolite.repairs.base import Affine, Repair, directions_to_remove

DEFAULT_DIMENSIONS = 3


class DropRogueDimensions(Repair):
    """Drop the dimensions that add most to the mean cosine (Timkey & van Schijndel 2021). One pass, affine.

    Dimension j adds (s_j^2 - sum_i u_ij^2) / (n (n - 1)) to the mean cosine of all pairs, s the sum of the unit vectors u.
    The `n_dimensions` largest go (ties: the first ones); None stands for 3, or d - 1 where that is less. The rows get shorter
    by as many columns, and nothing is centred.
    """

    contributions_: Doubles
    """(d,) what each dimension adds; together the mean cosine."""
    dropped_: NDArray[np.int64]
    """Dropped dimensions, the largest contribution first."""
    kept_: NDArray[np.int64]

    def __init__(self, n_dimensions: int | None = None) -> None:
        self.n_dimensions = n_dimensions

    def _learn(self, data: Source) -> None:
        count = directions_to_remove(self.n_dimensions, DEFAULT_DIMENSIONS, data.d, name="n_dimensions")
        moments = Moments.of(data)
        if moments.directed_rows < 2:
            raise ValueError(
                f"a cosine needs two rows that are not zero; there are {moments.directed_rows} (n_samples={moments.n})"
            )
        self.contributions_ = moments.cosine_contributions()
        order = np.argsort(-self.contributions_, kind="stable")
        self.dropped_ = order[:count].astype(np.int64)
        self.kept_ = np.sort(order[count:]).astype(np.int64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that stay."""
        names: NDArray[Any] = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return names[self.kept_]

    def _apply(self, block: Floats) -> Floats:
        return np.take(block, self.kept_, axis=1)

    def _affine(self) -> Affine:
        return np.eye(self.n_features_in_)[:, self.kept_], np.zeros(len(self.kept_))
