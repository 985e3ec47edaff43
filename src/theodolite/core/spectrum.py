"""Eigenvalues and eigenvectors of a cloud's second moments, with signs that do not depend on the machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theodolite.core.moments import Doubles, Moments


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenpairs of a scatter matrix."""

    values: Doubles
    vectors: Doubles
    d: int
    eps: float = float(np.finfo(np.float64).eps)

    @property
    def rank(self) -> int:
        """Number of eigenvalues above rounding noise."""
        return int(np.count_nonzero(self.values > noise_floor(self.values, self.d, eps=self.eps)))

    @property
    def smallest_relative_gap(self) -> float:
        """Smallest gap between neighbouring eigenvalues, over the largest one; near 0, the data do not determine a direction.

        Directions without any spread count as one: nothing that is measured along them depends on which ones they are.
        """
        rank = self.rank
        # One zero in place of all directions without spread.
        padded = np.append(self.values[:rank], np.zeros(int(rank < self.d)))
        return float(np.min(padded[:-1] - padded[1:]) / padded[0]) if rank and len(padded) > 1 else float("nan")


def eigenpairs(moments: Moments, *, centered: bool = True) -> Spectrum:
    """Eigenvalues and eigenvectors of a cloud's second moments, which the moments keep for the next caller."""
    # In the instance's dictionary, as `cached_property` does: the fields of the class stay what they are.
    name = f"_spectrum_{centered}"
    if name not in vars(moments):
        vars(moments)[name] = _eigenpairs(moments, centered=centered)
    spectrum: Spectrum = vars(moments)[name]
    return spectrum


def _eigenpairs(moments: Moments, *, centered: bool) -> Spectrum:
    if moments.rows is not None:
        # Singular values of the rows: eigenvalues of their products would lose half of the digits.
        rows = moments.rows - moments.mean if centered else moments.rows
        _, singular, vectors = np.linalg.svd(rows, full_matrices=False)
        return Spectrum(np.square(singular), fixed_signs(vectors.T), moments.d, moments.eps)
    # Ascending, and a little below 0 by rounding.
    values, vectors = np.linalg.eigh(_second_moment(moments, centered=centered))
    return Spectrum(np.maximum(values[::-1], 0.0), fixed_signs(vectors[:, ::-1]), moments.d, moments.eps)


def eigenvalues(moments: Moments, *, centered: bool = True) -> Doubles:
    """Eigenvalues alone, descending, padded with zeros to d: a third of the cost of `eigenpairs`."""
    if moments.rows is not None:
        rows = moments.rows - moments.mean if centered else moments.rows
        values: Doubles = np.zeros(moments.d)
        values[: moments.n] = np.square(np.linalg.svd(rows, compute_uv=False))
        return values
    return np.asarray(np.maximum(np.linalg.eigvalsh(_second_moment(moments, centered=centered))[::-1], 0.0), dtype=np.float64)


def noise_floor(values: Doubles, d: int, *, eps: float) -> float:
    """The size up to which an eigenvalue may be rounding error.

    Products of float32 blocks leave an eigenvalue uncertain by up to about half of eps times the largest; products in
    float64 by d eps, and vectors that were float32 once give an empty direction a variance of float32's eps squared.
    """
    single = float(np.finfo(np.float32).eps)
    share = 2 * eps if eps >= single else d * (eps + single**2)
    return share * float(values.max(initial=0.0))


def fixed_signs(vectors: Doubles) -> Doubles:
    """Flip columns so that the entry of largest magnitude is positive: an eigenvector has no sign, and LAPACK picks any."""
    strongest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[strongest, np.arange(vectors.shape[1])])
    return np.asarray(vectors * np.where(signs == 0, 1.0, signs), dtype=np.float64)


def _second_moment(moments: Moments, *, centered: bool) -> Doubles:
    scatter = moments.full_scatter()
    # X^T X = scatter + n mean mean^T
    return scatter if centered else scatter + np.outer(moments.mean, moments.n * moments.mean)
