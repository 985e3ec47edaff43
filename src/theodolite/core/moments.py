"""One pass over the rows gives everything a mean, a covariance, a spectrum or a mean cosine is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.blocks import map_blocks
from theodolite.core.sample import RowSample
from theodolite.core.vectors import Floats, Vectors, source

Doubles = NDArray[np.float64]

FORMAT = 1
LONGEST = 1e70  # traces of squares are fourth powers, and must fit float64
SUM_RUN = 128  # rows summed in the block's own precision before float64 takes over
_NOTHING = np.zeros((0, 0))
GROUP = 256  # blocks whose means are kept before they are folded: bounds the memory of very long streams


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of a cloud: counts, mean, scatter about the mean, and sums of unit vectors.

    `a | b` is the moments of both clouds together. As long as there are no more rows than dimensions the rows themselves are
    kept (`rows`), because they are smaller than the scatter matrix and give its spectrum through their Gram matrix;
    beyond that, only `scatter`. Exactly one of the two is set.
    """

    n: int
    mean: Doubles
    scatter: Doubles | None
    """(d, d): sum over rows of (x - mean)(x - mean)^T."""
    rows: Doubles | None
    """(n, d), n <= d: the rows themselves."""
    unit_sum: Doubles
    """Sum of x / |x| over the rows that are not zero."""
    unit_squares: Doubles
    """Sum of (x / |x|)^2 per dimension."""
    zero_rows: int
    norm_sum: float
    norm_squares: float
    norm_min: float
    norm_max: float
    eps: float
    """Rounding unit of the products in `scatter`: that of float32 where any block was float32."""

    @classmethod
    def of(cls, X: Vectors, *, sample: RowSample | None = None) -> Moments:
        """Moments of anything that holds vectors, in one pass; a `Moments` is returned as it is.

        Every row is offered to `sample` on the way, for streams that cannot be read twice.
        """
        if isinstance(X, cls):
            return X
        data = source(X)
        few: list[Floats] = []

        def parts() -> Iterator[BlockMoments]:
            for start, block, part in map_blocks(lambda start, block: (start, block, BlockMoments.of(block)), data):
                if sample is not None:
                    sample.add(start, block)
                if start < data.d and (data.n is None or data.n <= data.d):
                    few.append(block)
                yield part

        total = merge_blocks(parts(), data.d)
        return _of_few_rows(np.concatenate(few).astype(np.float64)) if total.n <= data.d else total

    @property
    def d(self) -> int:
        return len(self.mean)

    def __or__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        if self.d != other.d:
            raise ValueError(f"moments of d={self.d} and d={other.d} describe different spaces and cannot be merged")
        n = self.n + other.n
        if self.rows is not None and other.rows is not None and n <= self.d:
            return _of_few_rows(np.concatenate([self.rows, other.rows]))
        step = other.mean - self.mean
        return Moments(
            n=n,
            mean=self.mean + step * (other.n / n),
            scatter=self.full_scatter() + other.full_scatter() + np.outer(step, step * (self.n * other.n / n)),
            rows=None,
            unit_sum=self.unit_sum + other.unit_sum,
            unit_squares=self.unit_squares + other.unit_squares,
            zero_rows=self.zero_rows + other.zero_rows,
            norm_sum=self.norm_sum + other.norm_sum,
            norm_squares=self.norm_squares + other.norm_squares,
            norm_min=min(self.norm_min, other.norm_min),
            norm_max=max(self.norm_max, other.norm_max),
            eps=max(self.eps, other.eps),
        )

    def full_scatter(self) -> Doubles:
        """(d, d) sum of centred outer products, made from the rows where only those are kept."""
        if self.scatter is not None:
            return self.scatter
        assert self.rows is not None
        centred = self.rows - self.mean
        return centred.T @ centred

    def covariance(self, *, ddof: int = 1) -> Doubles:
        """Covariance with denominator n - ddof; needs more than ddof rows."""
        if self.n <= ddof:
            raise ValueError(f"a covariance with ddof={ddof} needs at least {ddof + 1} rows; there are {self.n}")
        return self.full_scatter() / (self.n - ddof)

    @cached_property
    def gram(self) -> Doubles | None:
        """(n, n) products of the centred rows where the rows are kept, else None."""
        if self.rows is None:
            return None
        centred = self.rows - self.mean
        return centred @ centred.T

    @cached_property
    def trace(self) -> float:
        """Trace of the scatter matrix: the summed squared distance to the mean."""
        small = self.gram if self.gram is not None else self.scatter
        assert small is not None
        return float(np.trace(small))

    @cached_property
    def trace_of_square(self) -> float:
        """Trace of the squared scatter matrix, without an eigendecomposition."""
        small = self.gram if self.gram is not None else self.scatter
        assert small is not None
        return float(np.vdot(small, small))

    @cached_property
    def squared_deviations(self) -> Doubles:
        """(d,) summed squared distance to the mean in each dimension: the diagonal of the scatter matrix."""
        if self.scatter is not None:
            return np.diagonal(self.scatter).copy()
        assert self.rows is not None
        return np.asarray(np.square(self.rows - self.mean).sum(axis=0), dtype=np.float64)

    @property
    def directed_rows(self) -> int:
        """Rows that are not zero, and so have a direction."""
        return self.n - self.zero_rows

    def cosine_contributions(self) -> Doubles:
        """(d,) what each dimension adds to the mean cosine over all pairs of rows that are not zero; needs two of them."""
        n = self.directed_rows
        return (np.square(self.unit_sum) - self.unit_squares) / (n * (n - 1))

    @property
    def mean_norm(self) -> float:
        """Mean length of the rows."""
        return self.norm_sum / self.n

    @property
    def has_spread(self) -> bool:
        """False where all rows are one point, up to the rounding that centring leaves behind."""
        rounding = float(np.finfo(np.float64).eps) * float(np.abs(self.mean).max(initial=0.0))
        return self.trace > self.n * self.d * rounding**2

    def save(self, path: str | PathLike[str]) -> None:
        """Write to an `.npz` file, without pickle."""
        kept = {"scatter": self.scatter} if self.rows is None else {"rows": self.rows}
        counts = np.array([FORMAT, self.n, self.zero_rows], dtype=np.int64)
        norms = np.array([self.norm_sum, self.norm_squares, self.norm_min, self.norm_max, self.eps])
        vectors = np.stack([self.mean, self.unit_sum, self.unit_squares])
        arrays: dict[str, Any] = {"counts": counts, "norms": norms, "vectors": vectors, **kept}
        with open(path, "wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Moments:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            if "counts" not in stored or int(stored["counts"][0]) != FORMAT:
                raise ValueError(f"{path} does not hold moments in format {FORMAT}; write it with Moments.save")
            _, n, zero_rows = (int(count) for count in stored["counts"])
            norm_sum, norm_squares, norm_min, norm_max, eps = (float(value) for value in stored["norms"])
            mean, unit_sum, unit_squares = stored["vectors"]
            return cls(
                n=n,
                mean=mean,
                scatter=stored["scatter"] if "scatter" in stored else None,
                rows=stored["rows"] if "rows" in stored else None,
                unit_sum=unit_sum,
                unit_squares=unit_squares,
                zero_rows=zero_rows,
                norm_sum=norm_sum,
                norm_squares=norm_squares,
                norm_min=norm_min,
                norm_max=norm_max,
                eps=eps,
            )


@dataclass(frozen=True, eq=False)
class BlockMoments:
    """What one block adds: its products are taken about a point `offset` away from its mean, close enough not to cancel."""

    n: int
    mean: Doubles
    offset: Doubles
    products: Floats
    unit_sum: Doubles
    unit_squares: Doubles
    zero_rows: int
    norms: Doubles
    eps: float

    @classmethod
    def of(cls, block: Floats) -> BlockMoments:
        norms = row_norms(block)
        longest = norms.max()
        if longest > LONGEST:
            raise ValueError(f"vectors as long as {longest:.1e} overflow when squared; divide them all by that length")
        if not 1e-12 < longest < 1e15:  # squares of such entries leave float32
            block = block.astype(np.float64)
        shift = block[:: -(-len(block) // SUM_RUN)].mean(axis=0)
        centred = block - shift
        offset = column_sums(centred) / len(block)
        products = centred.T @ centred
        live = norms > 0
        inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=live).astype(block.dtype)
        unit_sum = column_sums(block, inverse)
        squares = np.square(block, out=centred)
        return cls(
            n=len(block),
            mean=shift + offset,
            offset=offset,
            products=products,
            unit_sum=unit_sum,
            unit_squares=column_sums(squares, np.square(inverse)),
            zero_rows=int(len(block) - live.sum()),
            norms=norms,
            eps=float(np.finfo(products.dtype).eps),
        )


def merge_blocks(parts: Iterable[BlockMoments], d: int) -> Moments:
    """Fold block statistics, in order, into moments: Chan's pairwise update, one group of blocks at a time."""
    total: Moments | None = None
    group: list[BlockMoments] = []
    products = np.zeros((d, d))
    for part in parts:
        products += part.products
        group.append(replace(part, products=_NOTHING))  # summed: what is left of a block is small
        if len(group) == GROUP:
            total = _fold(total, group, products)
            group, products = [], np.zeros((d, d))
    if group:
        total = _fold(total, group, products)
    if total is None:
        raise ValueError("there are no vectors: give at least one row")
    return total


def column_sums(block: Floats, weights: Floats | None = None) -> Doubles:
    """(Weighted) sum over rows, in float64 over short runs: as fast as BLAS, as exact as float64 to a few roundings."""
    weights = np.ones(len(block), block.dtype) if weights is None else weights
    total = np.zeros(block.shape[1])
    for start in range(0, len(block), SUM_RUN):
        total += weights[start : start + SUM_RUN] @ block[start : start + SUM_RUN]
    return total


def row_norms(block: Floats) -> Doubles:
    """Euclidean length of each row in float64, also where squares under- or overflow the block's own precision."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", block, block).astype(np.float64)
    limits = np.finfo(block.dtype)
    risky = ~((squares > 1e6 * float(limits.tiny)) & (squares < 1e-6 * float(limits.max)))
    norms = np.sqrt(squares)
    if risky.any():
        rows = block[risky].astype(np.float64)
        scale = np.abs(rows).max(axis=1)
        safe = np.where(scale > 0, scale, 1.0)
        norms[risky] = scale * np.sqrt(np.square(rows / safe[:, None]).sum(axis=1))
    return np.asarray(norms, dtype=np.float64)


def _fold(total: Moments | None, group: list[BlockMoments], products: Doubles) -> Moments:
    """Moments of a group of blocks, from their products, what those were off centre, and the spread of their means."""
    counts = np.array([part.n for part in group], dtype=np.float64)
    means = np.stack([part.mean for part in group])
    n = int(counts.sum())
    mean = counts @ means / n
    spread = (means - mean) * np.sqrt(counts)[:, None]
    offsets = np.stack([part.offset for part in group]) * np.sqrt(counts)[:, None]
    norms = np.concatenate([part.norms for part in group])
    scatter = products + spread.T @ spread - offsets.T @ offsets
    merged = Moments(
        n=n,
        mean=mean,
        scatter=scatter,
        rows=None,
        unit_sum=np.sum([part.unit_sum for part in group], axis=0),
        unit_squares=np.sum([part.unit_squares for part in group], axis=0),
        zero_rows=sum(part.zero_rows for part in group),
        norm_sum=float(norms.sum()),
        norm_squares=float(np.square(norms).sum()),
        norm_min=float(norms.min()),
        norm_max=float(norms.max()),
        eps=max(part.eps for part in group),
    )
    return merged if total is None else total | merged


def _of_few_rows(rows: Doubles) -> Moments:
    norms = row_norms(rows)
    live = norms > 0
    units = rows[live] / norms[live, None]
    return Moments(
        n=len(rows),
        mean=rows.mean(axis=0),
        scatter=None,
        rows=rows,
        unit_sum=units.sum(axis=0),
        unit_squares=np.square(units).sum(axis=0),
        zero_rows=int(len(rows) - live.sum()),
        norm_sum=float(norms.sum()),
        norm_squares=float(np.square(norms).sum()),
        norm_min=float(norms.min()),
        norm_max=float(norms.max()),
        eps=float(np.finfo(np.float64).eps),
    )
