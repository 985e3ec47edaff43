"""Moments of a cloud, gathered in one pass: the source of every mean, covariance, spectrum and mean cosine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from operator import or_
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from theodolite.core.engines import reduce_shards
from theodolite.core.parallel import map_blocks
from theodolite.core.sampling import RowSample
from theodolite.core.vectors import Floats, Source, Vectors, source

Doubles = NDArray[np.float64]
Real = TypeVar("Real", bound=np.floating[Any])

FORMAT = 2
SUMS = ("unit_sum", "unit_squares", "zero_rows", "norm_sum", "norm_squares")  # fields that add up when clouds are merged
NORMS = ("norm_sum", "norm_squares", "norm_min", "norm_max")
LONGEST = 1e70  # traces of squares are fourth powers, and must fit in float64
SUM_RUN = 128  # rows summed in the block's own precision before float64 takes over
GROUP = 256  # blocks whose means are stored before they are merged: bounds the memory of very long streams


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of a cloud: counts, mean, scatter about the mean, and sums of unit vectors.

    `a | b` is the moments of both clouds together. If there are no more rows than dimensions, the rows themselves are stored
    in `rows`: they are smaller than the scatter matrix, and give its spectrum through their Gram matrix. Otherwise only
    `scatter` is stored. Exactly one of the two is set, or neither in moments that have only sums.
    """

    n: int
    mean: Doubles
    scatter: Doubles | None
    rows: Doubles | None
    unit_sum: Doubles
    unit_squares: Doubles
    zero_rows: int
    norm_sum: float
    norm_squares: float
    norm_min: float
    norm_max: float
    eps: float

    @classmethod
    def of(cls, X: Vectors, *, sample: RowSample | None = None, sums_only: bool = False) -> Moments:
        """Moments of anything that holds vectors, in one pass; a `Moments` is returned as it is."""
        if isinstance(X, cls):
            return X
        data = source(X)
        if isinstance(data.moments, cls):
            return data.moments
        if sample is not None:
            return _in_one_pass(data, sample)
        size = 8 * data.d * (1 if sums_only else data.d)
        total: Moments = reduce_shards(partial(_in_one_pass, sums_only=sums_only), data, or_, result_bytes=size)
        return total

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return len(self.mean)

    def __or__(self, other: Moments) -> Moments:
        if self.d != other.d:
            raise ValueError(f"moments with d={self.d} and d={other.d} describe different spaces and cannot be merged")
        n = self.n + other.n
        if self.rows is not None and other.rows is not None and n <= self.d:
            return _of_few_rows(np.concatenate([self.rows, other.rows]))
        # Chan's update: the scatter of both is the sum of the two, plus the spread between their means.
        step, scatter = other.mean - self.mean, None
        if all(each.scatter is not None or each.rows is not None for each in (self, other)):
            scatter = self.full_scatter() + other.full_scatter() + np.outer(step, step * (self.n * other.n / n))
        return Moments(
            n=n,
            mean=self.mean + step * (other.n / n),
            scatter=scatter,
            rows=None,
            **{name: getattr(self, name) + getattr(other, name) for name in SUMS},
            norm_min=min(self.norm_min, other.norm_min),
            norm_max=max(self.norm_max, other.norm_max),
            eps=max(self.eps, other.eps),
        )

    def full_scatter(self) -> Doubles:
        """The (d, d) sum of centred outer products, computed from the rows if those are stored."""
        if self.scatter is not None:
            return self.scatter
        rows = self._centred_rows
        return rows.T @ rows  # of one array with itself: NumPy then computes half of the products

    def covariance(self, *, ddof: int = 1) -> Doubles:
        """The (d, d) covariance matrix."""
        if self.n <= ddof:
            raise ValueError(f"a covariance with ddof={ddof} needs at least {ddof + 1} rows; there are {self.n}")
        return self.full_scatter() / (self.n - ddof)

    @cached_property
    def smaller_product(self) -> Doubles:
        """The (n, n) Gram matrix if the rows are stored, else the scatter: both have the same eigenvalues other than 0."""
        if self.scatter is not None:
            return self.scatter
        rows = self._centred_rows
        return rows @ rows.T

    @cached_property
    def trace(self) -> float:
        """Trace of the scatter matrix: the summed squared distance to the mean."""
        return float(np.trace(self.smaller_product))

    @cached_property
    def trace_of_square(self) -> float:
        """Trace of the squared scatter matrix, without an eigendecomposition."""
        return float(np.vdot(self.smaller_product, self.smaller_product))

    @cached_property
    def squared_deviations(self) -> Doubles:
        """(d,) summed squared distance to the mean in each dimension: the diagonal of the scatter matrix."""
        if self.scatter is not None:
            return np.maximum(np.diagonal(self.scatter), 0.0)  # of a constant dimension it may be a little below 0 by rounding
        return np.asarray(np.square(self._centred_rows).sum(axis=0), dtype=np.float64)

    @property
    def _centred_rows(self) -> Doubles:
        assert self.rows is not None
        return self.rows - self.mean

    @property
    def directed_rows(self) -> int:
        """Number of rows that are not zero, and so have a direction."""
        return self.n - self.zero_rows

    def cosine_contributions(self) -> Doubles:
        """(d,) what each dimension adds to the mean cosine over all pairs of rows that are not zero; needs two such rows."""
        # The squared sum of unit vectors holds every ordered pair, and each row with itself, which is subtracted.
        n = self.directed_rows
        return (np.square(self.unit_sum) - self.unit_squares) / (n * (n - 1))

    @property
    def mean_norm(self) -> float:
        """Mean length of the rows."""
        return self.norm_sum / self.n

    @property
    def has_spread(self) -> bool:
        """Whether the rows are more than one point, beyond the rounding error of centring."""
        # Each entry of a centred row may be off by the rounding of the largest entry of the mean.
        rounding = float(np.finfo(np.float64).eps) * float(np.abs(self.mean).max(initial=0.0))
        return self.trace > self.n * self.d * rounding**2

    def save(self, path: str | PathLike[str]) -> None:
        """Write to an `.npz` file, without pickle."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        with open(path, "wb") as file:
            np.savez(file, format=FORMAT, **{name: value for name, value in values.items() if value is not None})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Moments:
        """Read what `save` wrote."""
        # Opened here: np.load leaves a damaged archive open.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            values: dict[str, Any] = dict(stored)
        if values.pop("format", 0) != FORMAT:
            raise ValueError(f"{path} does not hold moments in format {FORMAT}; write it with Moments.save")
        values = {name: value if value.ndim else value.item() for name, value in values.items()}  # numbers have no axes
        return cls(**{"scatter": None, "rows": None, **values})


@dataclass(frozen=True, eq=False)
class BlockMoments:
    """Statistics of one block. Its products are taken about a point `offset` away from its mean, close enough not to cancel."""

    mean: Doubles
    offset: Doubles
    products: Floats | None
    unit_sum: Doubles
    unit_squares: Doubles
    norms: Doubles

    @classmethod
    def of(cls, block: Floats, *, scatter_only: bool = False, sums_only: bool = False) -> BlockMoments:
        """Statistics of a block of rows, in the block's own precision as far as that is exact enough."""
        norms = row_norms(block)
        longest = _require_squarable(norms)
        # Squares of such entries do not fit in float32; and next to a row of 1000 times the usual length, float32 would round
        # the products of all others away.
        if not 1e-12 < longest < 1e15 or longest > 1000 * float(np.median(norms)):
            block = block.astype(np.float64)
        # The mean of a few rows is close enough to the mean of all: what remains is corrected through `offset`.
        shift = block[:: -(-len(block) // SUM_RUN)].mean(axis=0)
        centred = np.subtract(block, shift, out=block if scatter_only else None)
        offset = column_sums(centred) / len(block)
        mean = shift + offset
        if scatter_only:  # a few rows that are subtracted from twice cost less than a (d, d) correction
            centred -= offset.astype(centred.dtype)
            offset = np.zeros_like(offset)
        products = None if sums_only else centred.T @ centred
        unit_sum = unit_squares = np.full(block.shape[1], np.nan)
        if not scatter_only:
            unit_sum, unit_squares = unit_sums(block, norms, out=centred)  # reuses memory that is no longer needed
        return cls(mean, offset, products, unit_sum, unit_squares, norms)


def merge_blocks(parts: Iterable[BlockMoments]) -> Moments:
    """Moments from the statistics of blocks, in order: Chan's pairwise update, one group of blocks at a time."""
    total: Moments | None = None
    group: list[BlockMoments] = []
    products: Doubles | None = None
    for part in parts:
        if part.products is None:
            products = None
        elif group and products is not None:
            products += part.products
        else:
            products = part.products.astype(np.float64)
        # Summed above; the rest of a block's statistics is small.
        group.append(part if part.products is None else replace(part, products=np.zeros((0, 0), part.products.dtype)))
        if len(group) == GROUP:
            total = _merge_group(total, group, products)
            group = []
    if group:
        total = _merge_group(total, group, products)
    if total is None:
        raise ValueError("there are no vectors: give at least one row")
    return total


def unit_sums(block: Floats, norms: Doubles, *, out: Floats | None = None) -> tuple[Doubles, Doubles]:
    """Sums over the rows of x / |x| and of its square, per dimension; rows of zeros are left out."""
    # Of tiny rows the squares would underflow and the inverse overflow: they are scaled before they are squared.
    is_tiny = (norms > 0) & (norms < 1e-12)
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=(norms > 0) & ~is_tiny).astype(block.dtype)
    total, squares = column_sums(block, inverse), column_sums(np.square(block, out=out), np.square(inverse))
    if is_tiny.any():
        units = block[is_tiny].astype(np.float64) / norms[is_tiny, None]
        total, squares = total + units.sum(axis=0), squares + np.square(units).sum(axis=0)
    return total, squares


def column_sums(block: Floats, weights: Floats | None = None) -> Doubles:
    """Sums of the columns, as fast as BLAS and almost as exact as float64: short runs of rows, added in float64."""
    weights = np.ones(len(block), block.dtype) if weights is None else weights
    total = np.zeros(block.shape[1])
    for start in range(0, len(block), SUM_RUN):
        total += weights[start : start + SUM_RUN] @ block[start : start + SUM_RUN]
    return total


def row_norms(block: Floats) -> Doubles:
    """Euclidean length of each row in float64, also if squares under- or overflow in the block's own precision."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", block, block).astype(np.float64)
    limits = np.finfo(block.dtype)
    # A margin of 1e6 to the smallest and largest numbers: rows beyond it are scaled before they are squared.
    is_extreme = ~((squares > 1e6 * float(limits.tiny)) & (squares < 1e-6 * float(limits.max)))
    norms = np.sqrt(squares)
    if is_extreme.any():
        rows = block[is_extreme].astype(np.float64)
        scale = np.abs(rows).max(axis=1)
        safe = np.where(scale > 0, scale, 1.0)
        norms[is_extreme] = scale * np.sqrt(np.square(rows / safe[:, None]).sum(axis=1))
    return np.asarray(norms, dtype=np.float64)


def unit_rows(X: NDArray[Real]) -> NDArray[Real]:
    """Rows divided by their lengths; zero rows stay zero."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0))


def row_cosines(first: Floats, second: Floats) -> Doubles:
    """Cosine of row i of one array with row i of the other; 0 if one of them is zero."""
    products = np.einsum("ij,ij->i", first, second, dtype=np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines: Doubles = np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0)
    return cosines


def centred(rows: Floats, point: Doubles) -> Floats:
    """Rows minus a float64 point, in the precision of the rows, as a new array.

    The point is subtracted in two parts, its float32 value and the remainder: a float32 mean alone is off by up to 3e-5 at a
    mean of 1000, the same for every row.
    """
    coarse = point.astype(rows.dtype)
    shifted = rows - coarse
    remainder = (point - coarse).astype(rows.dtype)
    if remainder.any():
        shifted -= remainder
    return shifted


def _require_squarable(norms: Doubles) -> float:
    longest = float(norms.max())
    if longest > LONGEST:
        raise ValueError(f"vectors of length {longest:.1e} overflow when squared; divide them all by that length")
    return longest


def _in_one_pass(data: Source, sample: RowSample | None = None, *, sums_only: bool = False) -> Moments:
    few: list[Floats] = []
    # So few rows are kept as they are: their products, (d, d), would cost more than all that is computed from the rows.
    is_small = data.n is not None and data.n <= data.d
    if is_small and sample is None and data.n:
        for block in data.blocks():
            _require_squarable(row_norms(block))
            few.append(block)
        moments = _of_few_rows(np.concatenate(few).astype(np.float64))
        return replace(moments, rows=None) if sums_only else moments

    if data.is_one_block and sample is None:
        return merge_blocks([BlockMoments.of(data.block, sums_only=sums_only)])

    def parts() -> Iterator[BlockMoments]:
        def measured(start: int, block: Floats) -> tuple[int, Floats, BlockMoments]:
            return start, block, BlockMoments.of(block, sums_only=sums_only)

        for start, block, part in map_blocks(measured, data):
            if sample is not None:
                sample.add(start, block)
            if start < data.d and (data.n is None or is_small):
                few.append(block)
            yield part

    total = merge_blocks(parts())
    return _of_few_rows(np.concatenate(few).astype(np.float64)) if total.n <= data.d else total


def _merge_group(total: Moments | None, group: Sequence[BlockMoments], products: Doubles | None) -> Moments:
    """Moments of a group of blocks, from their products (overwritten), their offsets, and the spread of the blocks' means."""
    counts = np.array([len(part.norms) for part in group], dtype=np.float64)
    means = np.stack([part.mean for part in group])
    n = int(counts.sum())
    mean = counts @ means / n
    offsets = np.stack([part.offset for part in group]) * np.sqrt(counts)[:, None]
    if products is not None and offsets.any():
        products -= offsets.T @ offsets
    if products is not None and len(group) > 1:  # the mean of a single block has no spread
        spread = (means - mean) * np.sqrt(counts)[:, None]
        products += spread.T @ spread
    merged = Moments(
        n=n,
        mean=mean,
        scatter=products,
        rows=None,
        unit_sum=np.sum([part.unit_sum for part in group], axis=0),
        unit_squares=np.sum([part.unit_squares for part in group], axis=0),
        **_norm_statistics(np.concatenate([part.norms for part in group])),
        eps=max((float(np.finfo(part.products.dtype).eps) for part in group if part.products is not None), default=np.nan),
    )
    return merged if total is None else total | merged


def _of_few_rows(rows: Doubles) -> Moments:
    norms = row_norms(rows)
    is_directed = norms > 0
    units = rows[is_directed] / norms[is_directed, None]
    return Moments(
        n=len(rows),
        mean=rows.mean(axis=0),
        scatter=None,
        rows=rows,
        unit_sum=units.sum(axis=0),
        unit_squares=np.square(units).sum(axis=0),
        **_norm_statistics(norms),
        eps=float(np.finfo(np.float64).eps),
    )


def _norm_statistics(norms: Doubles) -> dict[str, Any]:
    values = (norms.sum(), np.square(norms).sum(), norms.min(), norms.max())
    return {"zero_rows": int((norms == 0).sum()), **dict(zip(NORMS, map(float, values), strict=True))}
