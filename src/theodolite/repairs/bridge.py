"""The bridge between two models: vectors of one, mapped into the space of the other, learned from the same texts in both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from theodolite.core.moments import Doubles, Moments
from theodolite.core.vectors import Floats, Source, Vectors, array
from theodolite.repairs.base import Affine, CentredProduct

MAPS = ("procrustes", "ridge")
BLOCK = 8192  # rows in double precision at once
# Penalties that a ridge tries, as shares of the mean variance of a dimension.
PENALTIES = tuple(10.0**power for power in range(-6, 3))


class Bridge(ClassNamePrefixFeaturesOutMixin, CentredProduct):  # type: ignore[misc]
    """Map vectors of one model into the space of another: (x - mean) @ kernel + the other mean. Affine.

    `fit` alone has no other space to map into and leaves the vectors as they are; `fit_to` learns the map from the same texts in
    both. The two models may have different numbers of dimensions.

    Parameters
    ----------
    map
        "procrustes": a rotation and one scale, which keeps the angles between documents. "ridge": any linear map, by least
        squares with a penalty on its size that generalised cross-validation chooses.
    """

    offset_: Doubles

    def __init__(self, map: str = "procrustes") -> None:
        self.map = map

    def fit_to(self, A: Vectors, B: Vectors) -> Self:
        """Learn the map that brings the rows of A closest to the rows of B.

        Parameters
        ----------
        A, B
            (n, d) and (n, e) vectors; row i of both stands for the same text.
        """
        if self.map not in MAPS:
            raise ValueError(f"map={self.map!r} must be one of {', '.join(MAPS)}")
        first, second = array(A), array(B)
        if len(first) != len(second) or len(first) < 2:
            raise ValueError(
                f"there are {len(first):,} rows to map and {len(second):,} to map them to; a bridge needs the same texts in "
                "both, and at least two"
            )
        self.fit(first)
        both = _CrossMoments.of(first, second)
        learn = _procrustes if self.map == "procrustes" else _ridge
        self.mean_, self.offset_, self.kernel_ = both.mean, both.other_mean, np.ascontiguousarray(learn(both))
        return self

    def _learn(self, data: Source) -> None:
        moments = Moments.of(data)
        self.mean_, self.offset_, self.kernel_ = moments.mean, moments.mean.copy(), np.eye(data.d)

    def _apply(self, block: Floats) -> Floats:
        return super()._apply(block) + self.offset_.astype(block.dtype)

    def _affine(self) -> Affine:
        return self.kernel_.copy(), self.offset_ - self.mean_ @ self.kernel_


@dataclass(frozen=True, eq=False)
class _CrossMoments:
    """Means of both sides, scatter of the first, products of both about their means, and the squared size of the second."""

    n: int
    mean: Doubles
    other_mean: Doubles
    scatter: Doubles
    products: Doubles
    size: float

    @classmethod
    def of(cls, A: Floats, B: Floats) -> _CrossMoments:
        means = [side.mean(axis=0, dtype=np.float64) for side in (A, B)]
        scatter, products, size = np.zeros((A.shape[1],) * 2), np.zeros((A.shape[1], B.shape[1])), 0.0
        for start in range(0, len(A), BLOCK):
            a, b = (side[start : start + BLOCK] - mean for side, mean in zip((A, B), means, strict=True))
            scatter += a.T @ a
            products += a.T @ b
            size += float(np.vdot(b, b))
        return cls(len(A), means[0], means[1], scatter, products, size)


def _procrustes(both: _CrossMoments) -> Doubles:
    """The rotation and scale of least squares; directions in which a side does not vary are dropped, not turned at random."""
    U, values, V = np.linalg.svd(both.products, full_matrices=False)
    rank = int((values > values[0] * max(both.products.shape) * np.finfo(np.float64).eps).sum())
    U, V = U[:, :rank], V[:rank]
    scale = values[:rank].sum() / (np.einsum("ij,ik,kj->", U, both.scatter, U, optimize=True) or 1.0)
    return np.asarray(scale * U @ V, dtype=np.float64)


def _ridge(both: _CrossMoments) -> Doubles:
    """The linear map of least squares, with the penalty of the smallest generalised cross-validation error."""
    values, Q = np.linalg.eigh(both.scatter)
    values = values.clip(0.0)
    targets = Q.T @ both.products
    squares = np.square(targets).sum(axis=1)
    penalties = np.array(PENALTIES) * (values.mean() or 1.0)

    def error(penalty: float) -> float:
        shrunk = values + penalty
        residual = both.size - float((squares * (values + 2 * penalty) / np.square(shrunk)).sum())
        freedom = 1 - (1 + float((values / shrunk).sum())) / both.n  # one for the mean
        return max(residual, 0.0) / freedom**2 if freedom > 0 else np.inf

    penalty = min(penalties, key=error)
    return np.asarray(Q @ (targets / (values + penalty)[:, None]), dtype=np.float64)
