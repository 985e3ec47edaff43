"""Products with a matrix whose blocks off the diagonal have low rank, in less than half the time of a plain product."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats

BLOCKS = 8


@dataclass(frozen=True, eq=False)
class LowRankBlocks:
    """A matrix as blocks on its diagonal, and one product of two thin matrices for each block of columns beside its diagonal one.

    The eigenvectors of a symmetric matrix, expressed in those of the same matrix plus one outer product, are of this kind: entry
    (i, j) is z_i / (a_i - b_j) up to a factor of each column, and the a and b of two different blocks are far from each other.
    """

    cuts: list[slice]
    tall: Floats
    columns: list[tuple[slice, Floats]]

    @classmethod
    def of(cls, matrix: Doubles, dtype: np.dtype[Any]) -> Self:
        """A square matrix with entries of at most about 1, as exact as its rounding to a data type."""
        cuts = [slice(start, stop) for start, stop in pairwise(np.linspace(0, len(matrix), BLOCKS + 1).astype(int).tolist())]
        tall, columns, start = [], [], 0
        for cut in cuts:
            beside = matrix[:, cut].copy()
            beside[cut] = 0.0
            left, sizes, right = np.linalg.svd(beside, full_matrices=False)
            rank = int(np.count_nonzero(sizes > np.finfo(dtype).eps / 2))
            tall.append(left[:, :rank] * sizes[:rank])
            columns.append((slice(start, start + rank), np.vstack([matrix[cut, cut], right[:rank]]).astype(dtype)))
            start += rank
        return cls(cuts, np.hstack(tall).astype(dtype), columns)

    @property
    def saves(self) -> bool:
        """Whether a product takes clearly less than a plain one, skinny products being slower per entry."""
        size = self.cuts[-1].stop
        return bool(self.tall.size + sum(block.size for _, block in self.columns) < size**2 / 2)

    def after(self, rows: Floats) -> Floats:
        """The rows times the matrix."""
        beside = rows @ self.tall
        product = np.empty_like(rows)
        for cut, (part, block) in zip(self.cuts, self.columns, strict=True):
            width = cut.stop - cut.start
            np.matmul(rows[:, cut], block[:width], out=product[:, cut])
            product[:, cut] += beside[:, part] @ block[width:]
        return product
