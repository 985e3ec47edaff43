"""Removing or keeping directions: principal ones, rogue dimensions, and the first dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin

from theodolite.core.moments import Doubles, Moments, centred
from theodolite.core.parallel import one_blas_thread
from theodolite.core.spectrum import eigenpairs, fixed_signs, noise_floor
from theodolite.core.vectors import Floats, Source
from theodolite.repairs.base import Affine, CentredProduct, Repair, dimensions_to_keep, directions_to_remove

Which: TypeAlias = Literal["top", "bottom"]

PAPER_DIRECTIONS = 12  # directions that Rajaee & Pilehvar (2021) remove, of 768
PAPER_DIMENSION = 768
PAPER_ROGUE_DIMENSIONS = 3  # dimensions that Timkey & van Schijndel (2021) look at


class RemoveDirections(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Centre, then remove principal directions of the centred data: all-but-the-top (Mu & Viswanath 2018). One pass, affine.

    x becomes (x - mean) minus its part along those directions; new rows lose the mean and the directions of the fit. If the
    data have a lower rank than `n_directions`, "top" removes as many directions as the rank.

    Parameters
    ----------
    n_directions
        How many directions to remove, at most d - 1. None means 12, as in Rajaee & Pilehvar (2021), or d - 1 if that is less;
        `scaled_count` converts a count from 768 dimensions to another d.
    which
        "top" removes the directions of most variance, "bottom" those of least: the least-dominant removal of Rajaee & Pilehvar
        (2021), who remove 100 and 700 of 768.
    """

    mean_: Doubles
    basis_: Doubles  # (d, m) the directions that are removed, or, if `keeps_basis_`, the only ones that stay
    keeps_basis_: bool
    n_removed_: int

    def __init__(self, n_directions: int | None = None, *, which: Which = "top") -> None:
        self.n_directions = n_directions
        self.which = which

    def _learn(self, data: Source) -> None:
        count = directions_to_remove(self.n_directions, PAPER_DIRECTIONS, data.d)
        moments = Moments.of(data)
        subspace = principal_removal(moments, count, self.which, data.dtype)
        self.mean_ = moments.mean
        self.basis_, self.keeps_basis_ = subspace.basis, subspace.keeps
        self.n_removed_ = data.d - subspace.basis.shape[1] if subspace.keeps else subspace.basis.shape[1]

    def _apply(self, block: Floats) -> Floats:
        return Removal(self.basis_, self.keeps_basis_).apply(centred(block, self.mean_))

    def _affine(self) -> Affine:
        matrix = Removal(self.basis_, self.keeps_basis_).matrix()
        return matrix, -self.mean_ @ matrix


class KeepDirections(ClassNamePrefixFeaturesOutMixin, CentredProduct):  # type: ignore[misc]
    """Centre, keep the coordinates along the k principal directions of most variance, unscaled: (x - mean) U_k. One pass, affine.

    This is principal component analysis: k dimensions cannot keep more of the variance. If the data have a lower
    rank than k, there are as many columns as the rank.

    Parameters
    ----------
    n_components
        How many directions to keep, at most d; all by default.
    """

    n_components_: int

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def _learn(self, data: Source) -> None:
        count = dimensions_to_keep(self.n_components, data.d)
        moments = Moments.of(data)
        self.kernel_ = leading_directions(moments, count, data.dtype)
        self.mean_, self.n_components_ = moments.mean, self.kernel_.shape[1]
        if not self.n_components_:
            raise ValueError(
                f"all rows are the same point, up to rounding, so there is no direction to keep (n_samples={moments.n})"
            )


class KeepDimensions(Repair):
    """The base of repairs that leave columns out and change nothing else; `kept_` are the columns that stay."""

    kept_: NDArray[np.int64]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that stay.

        Parameters
        ----------
        input_features
            Names of all columns; those of the fit by default.
        """
        names: NDArray[Any] = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return names[self.kept_]

    def _apply(self, block: Floats) -> Floats:
        return np.take(block, self.kept_, axis=1)

    def _affine(self) -> Affine:
        return np.eye(self.n_features_in_)[:, self.kept_], np.zeros(len(self.kept_))


class Truncate(KeepDimensions):
    """Keep the first k dimensions of every row. Learns nothing, affine.

    Use it with models that were trained for it (Matryoshka models, Kusupati 2022). In other models, the first dimensions are
    no better than the rest.

    Parameters
    ----------
    n_components
        How many dimensions to keep, at most d; all by default.
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def _learn(self, data: Source) -> None:
        self.kept_ = np.arange(dimensions_to_keep(self.n_components, data.d))
        super()._learn(data)


class DropRogueDimensions(KeepDimensions):
    """Drop the dimensions that add most to the mean cosine (Timkey & van Schijndel 2021). One pass, affine.

    Dimension j adds (s_j^2 - sum_i u_ij^2) / (n (n - 1)) to the mean cosine of all pairs, where s is the sum of the unit
    vectors u. The rows are not centred.

    Parameters
    ----------
    n_dimensions
        How many dimensions to drop, at most d - 1; of equal ones the first. None means 3, or d - 1 if that is less.
    """

    contributions_: Doubles  # (d,) what each dimension adds; together the mean cosine
    dropped_: NDArray[np.int64]  # dropped dimensions, the largest contribution first

    def __init__(self, n_dimensions: int | None = None) -> None:
        self.n_dimensions = n_dimensions

    def _learn(self, data: Source) -> None:
        count = directions_to_remove(self.n_dimensions, PAPER_ROGUE_DIMENSIONS, data.d, name="n_dimensions")
        moments = Moments.of(data)
        if moments.directed_rows < 2:
            raise ValueError(
                f"a cosine needs two rows that are not zero; there are {moments.directed_rows} (n_samples={moments.n})"
            )
        self.contributions_ = moments.cosine_contributions()
        order = np.argsort(-self.contributions_, kind="stable")
        self.dropped_ = order[:count].astype(np.int64)
        self.kept_ = np.sort(order[count:]).astype(np.int64)


def scaled_count(paper_count: int, d: int) -> int:
    """The number of directions that is the same share of d as a paper's count is of 768.

    Parameters
    ----------
    paper_count
        A number of directions of 768.
    d
        Number of dimensions.

    Examples
    --------
    >>> scaled_count(12, 384)
    6
    """
    return int(np.round(paper_count * d / PAPER_DIMENSION))


@dataclass(frozen=True, eq=False)
class Removal:
    """A subspace to remove from centred rows."""

    basis: Doubles
    keeps: bool

    def apply(self, rows: Floats) -> Floats:
        """The rows without the subspace."""
        basis = self.basis.astype(rows.dtype)
        shadow = (rows @ basis) @ basis.T
        if self.keeps:
            return shadow
        rows -= shadow
        return rows

    def matrix(self) -> Doubles:
        """The (d, d) projection that `apply` performs."""
        onto = self.basis @ self.basis.T
        return onto if self.keeps else np.eye(len(onto)) - onto


def principal_removal(moments: Moments, count: int, which: Which, dtype: np.dtype[Any]) -> Removal:
    """The removal of the principal directions with the most or the least variance."""
    if which == "top":
        return Removal(leading_directions(moments, count, dtype), keeps=False)
    if which != "bottom":
        raise ValueError(f"which={which!r} must be 'top' or 'bottom'")
    directions = complete_basis(eigenpairs(moments).vectors)
    remaining = moments.d - count
    if count > remaining:
        return Removal(directions[:, :remaining], keeps=True)  # the smaller of the two bases is faster, with the same result
    return Removal(directions[:, remaining:], keeps=False)


def leading_directions(moments: Moments, count: int, dtype: np.dtype[Any]) -> Doubles:
    """(d, m) principal directions of most variance as columns; m is the count, or the rank if that is less."""
    size = moments.d if moments.rows is None else moments.n
    # Lanczos iteration is faster than a full decomposition only for a few of many directions.
    few = _few_eigenpairs(moments, count) if size >= 256 and 0 < count <= size // 16 else None
    if few is None:
        pairs = eigenpairs(moments)
        few = pairs.values[:count], pairs.vectors[:, :count]
    values, vectors = few
    return vectors[:, : significant_rank(values, moments, dtype)]


def significant_rank(values: Doubles, moments: Moments, dtype: np.dtype[Any]) -> int:
    """How many eigenvalues of the scatter are more than rounding error, of the stored rows and of their products."""
    stored = float(np.finfo(dtype).eps) * float(np.abs(moments.mean).max(initial=0.0))
    floor = noise_floor(values, moments.d, eps=moments.eps) + moments.n * stored**2
    return int(np.count_nonzero(values > floor))


def complete_basis(vectors: Doubles) -> Doubles:
    """(d, d) the given orthonormal columns, followed by a fixed orthonormal basis of the rest of the space."""
    d, r = vectors.shape
    if r == d:
        return vectors
    completed, _ = np.linalg.qr(vectors, mode="complete")
    return np.hstack([vectors, fixed_signs(completed[:, r:])])


def _few_eigenpairs(moments: Moments, count: int) -> tuple[Doubles, Doubles] | None:
    """The few largest eigenpairs by Lanczos iteration, as exact as the products are, at a tenth of the cost of all d."""
    from scipy.sparse.linalg import ArpackError, eigsh

    matrix = moments.smaller_product
    start = np.random.default_rng(0).standard_normal(len(matrix))
    try:
        with one_blas_thread():  # a thousand products too small to share: threads would only wait
            values, vectors = eigsh(matrix, k=count, which="LA", v0=start, tol=1e-3 * moments.eps)
    except ArpackError:  # no convergence, or a matrix of zeros
        return None
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if moments.rows is not None:
        vectors, _ = np.linalg.qr((moments.rows - moments.mean).T @ vectors)
    return values, fixed_signs(vectors)
