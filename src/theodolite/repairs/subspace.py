"""Principal directions to remove or to keep: found exactly, as few as are needed, and no more than the data determine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from theodolite.core.moments import Doubles, Moments
from theodolite.core.spectrum import fixed_signs, noise_floor, spectrum
from theodolite.core.vectors import Floats

Which = Literal["top", "bottom"]


@dataclass(frozen=True, eq=False)
class Removal:
    """A subspace to take out of centred rows: spanned by `basis`, or the complement of `basis` where `keeps`."""

    basis: Doubles
    """(d, m), orthonormal columns."""
    keeps: bool

    def apply(self, rows: Floats) -> Floats:
        """The rows without the subspace; may overwrite them."""
        basis = self.basis.astype(rows.dtype)
        shadow = (rows @ basis) @ basis.T
        if self.keeps:
            return shadow
        rows -= shadow
        return rows

    def matrix(self) -> Doubles:
        """(d, d) projection that `apply` is."""
        onto = self.basis @ self.basis.T
        return onto if self.keeps else np.eye(len(onto)) - onto


def removal(moments: Moments, count: int, which: Which, dtype: np.dtype[Any]) -> Removal:
    """Removal of the `count` principal directions with the most or the least variance.

    "top" stops at the rank: beyond it no direction is determined by the data. "bottom" counts directions without variance
    first, in a basis of them that is arbitrary but fixed. `dtype` is that of the rows: their rounding decides what variance
    is noise.
    """
    if which == "top":
        return Removal(leading_directions(moments, count, dtype), keeps=False)
    if which != "bottom":
        raise ValueError(f"which={which!r} must be 'top' or 'bottom'")
    directions = completed(spectrum(moments).vectors)
    left = moments.d - count
    if count > left:
        return Removal(directions[:, :left], keeps=True)  # the smaller of the two bases does the same work
    return Removal(directions[:, left:], keeps=False)


def leading_directions(moments: Moments, count: int, dtype: np.dtype[Any]) -> Doubles:
    """(d, m) principal directions of most variance as columns, m = count or the rank where that is less."""
    size = moments.d if moments.rows is None else moments.n
    if size >= 256 and 0 < count <= size // 16:
        values, vectors = _few_leading(moments, count)
    else:
        found = spectrum(moments)
        values, vectors = found.values[:count], found.vectors[:, :count]
    return vectors[:, : rank(values, moments, dtype)]


def rank(values: Doubles, moments: Moments, dtype: np.dtype[Any]) -> int:
    """How many of the (descending) eigenvalues of the scatter are more than rounding.

    Rounding comes from the rows as they were stored and, where float32 products made the scatter, from those.
    """
    stored = float(np.finfo(dtype).eps) * float(np.abs(moments.mean).max(initial=0.0))
    floor = noise_floor(values, moments.d, eps=moments.eps) + moments.n * stored**2
    return int(np.count_nonzero(values > floor))


def completed(vectors: Doubles) -> Doubles:
    """(d, d): the given orthonormal columns, followed by a fixed orthonormal basis of what they do not span."""
    d, found = vectors.shape
    if found == d:
        return vectors
    whole, _ = np.linalg.qr(vectors, mode="complete")
    return np.hstack([vectors, fixed_signs(whole[:, found:])])


def _few_leading(moments: Moments, count: int) -> tuple[Doubles, Doubles]:
    """The few largest eigenpairs by Lanczos iteration, to full precision: a tenth of the cost of all d of them."""
    from scipy.sparse.linalg import ArpackError, eigsh
    from threadpoolctl import threadpool_limits

    small = moments.gram if moments.rows is not None else moments.scatter
    assert small is not None
    start = np.random.default_rng(0).standard_normal(len(small))
    try:
        with threadpool_limits(1, user_api="blas"):  # a thousand products too small to share: threads would only wait
            values, vectors = eigsh(small, k=count, which="LA", v0=start)
    except ArpackError:  # no convergence, or a matrix of zeros
        found = spectrum(moments)
        return found.values[:count], found.vectors[:, :count]
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if moments.rows is not None:
        vectors, _ = np.linalg.qr((moments.rows - moments.mean).T @ vectors)
    return values, fixed_signs(vectors)
