"""Removal of principal directions from the whole cloud: all-but-the-top, and its opposite."""

from __future__ import annotations

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from theodolite.core.centre import centred
from theodolite.core.moments import Doubles, Moments
from theodolite.core.vectors import Floats, Source
from theodolite.repairs.base import Affine, Repair, directions_to_remove
from theodolite.repairs.subspace import Removal, Which, removal

PAPER_DIRECTIONS = 12
PAPER_DIMENSION = 768


class RemoveDirections(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Centre, then remove principal directions of the centred data: all-but-the-top (Mu & Viswanath 2018). One pass, affine.

    x becomes (x - mean) minus its part along the `n_directions` directions of most variance (`which="top"`), or of least
    (`which="bottom"`: least-dominant removal of Rajaee & Pilehvar 2021, who take 100 and 700 of 768). New rows lose the mean
    and the directions of the fit. None stands for that paper's 12, or d - 1 where that is less; `scaled_count` carries a
    count from 768 dimensions to another d. Where the data have a lower rank than `n_directions`, "top" removes as many as the
    rank.
    """

    mean_: Doubles
    basis_: Doubles
    """(d, m): what is removed, or what is kept where `keeps_basis_`."""
    keeps_basis_: bool
    n_removed_: int

    def __init__(self, n_directions: int | None = None, *, which: Which = "top") -> None:
        self.n_directions = n_directions
        self.which = which

    def _learn(self, data: Source) -> None:
        count = directions_to_remove(self.n_directions, PAPER_DIRECTIONS, data.d)
        moments = Moments.of(data)
        found = removal(moments, count, self.which, data.dtype)
        self.mean_ = moments.mean
        self.basis_, self.keeps_basis_ = found.basis, found.keeps
        self.n_removed_ = data.d - found.basis.shape[1] if found.keeps else found.basis.shape[1]

    def _apply(self, block: Floats) -> Floats:
        return Removal(self.basis_, self.keeps_basis_).apply(centred(block, self.mean_))

    def _affine(self) -> Affine:
        matrix = Removal(self.basis_, self.keeps_basis_).matrix()
        return matrix, -self.mean_ @ matrix


def scaled_count(paper_count: int, d: int) -> int:
    """The number of directions that is the same share of d as `paper_count` is of 768: round(paper_count d / 768)."""
    return int(np.round(paper_count * d / PAPER_DIMENSION))
