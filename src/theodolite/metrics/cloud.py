"""A cloud: vectors together with what has been computed from them, so that no metric repeats another's work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar, cast

import numpy as np

from theodolite.core.engines import take_rows
from theodolite.core.moments import Doubles, Moments, row_norms
from theodolite.core.sampling import RowSample, sample_rows
from theodolite.core.spectrum import Spectrum, eigenpairs, eigenvalues
from theodolite.core.vectors import REPLAYABLE, Floats, Indices, Source, Vectors, source

Value = TypeVar("Value")

SAMPLE = 10_000  # rows used by metrics that compare rows with rows, if there are more
CHUNK = 1024  # rows normalised at a time, so that float64 copies stay small


class Undefined(ValueError):
    """A metric has no value for this cloud; the message says why. Direct calls return nan, surveys report the reason."""


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The directions x / |x| of a sample's rows, minus their mean; rows of zeros have no direction and are left out.

    The shift does not change differences of unit vectors, but it does change products: if all rows point nearly the same way,
    products of plain unit vectors lose in rounding exactly what distinguishes the rows.
    """

    shifted: Floats
    norms: Doubles
    rows: Indices
    zero_rows: int

    @property
    def m(self) -> int:
        """Number of rows that are not zero."""
        return len(self.rows)


class Cloud:
    """Vectors and the intermediate results that metrics share, each computed once and only when needed.

    Metrics accept a cloud wherever they accept vectors.

    Parameters
    ----------
    X
        The vectors.
    sample
        Number of rows on which metrics that compare rows with rows are computed, at least 2.
    seed
        Seed of that sample.
    """

    def __init__(self, X: Vectors, *, sample: int = SAMPLE, seed: int = 0) -> None:
        if sample < 2:
            raise ValueError(f"sample={sample} must be at least 2 rows")
        self.source: Source = source(X)
        self.d = self.source.d
        """Number of dimensions."""
        self.sample_size = sample
        self.seed = seed
        # Moments that are kept elsewhere; called with whether to compute them if they are not.
        self.stored_moments: Callable[[bool], Moments | None] | None = None
        self.moments_are_cached = False
        """Whether the moments are of an earlier reading of a file that was too large to be compared as a whole."""
        self._cache: dict[Hashable, object] = {}

    @classmethod
    def of(cls, X: Vectors) -> Cloud:
        """The cloud itself, or a new one over the vectors.

        Parameters
        ----------
        X
            Vectors or a cloud.
        """
        return X if isinstance(X, Cloud) else cls(X)

    def __repr__(self) -> str:
        # Never reads the rows: the length of a stream is known once its moments are.
        n = self.moments.n if "moments" in self.__dict__ else self.source.n
        return f"Cloud({'?' if n is None else f'{n:,}'} × {self.d}, {self.source.dtype})"

    @property
    def n(self) -> int:
        """Number of rows; of a stream, this reads it."""
        return self.source.n if self.source.n is not None else self.moments.n

    @cached_property
    def moments(self) -> Moments:
        """Moments, in one pass; a stream that can be read only once gives its sample of rows in the same pass."""
        if self.stored_moments is not None and (stored := self.stored_moments(True)) is not None:
            return stored
        if self.source.replayable:
            return Moments.of(self.source)
        sample = RowSample(self.sample_size, self.d, self.source.dtype, seed=self.seed)
        moments = Moments.of(self.source, sample=sample)
        self._sampled = sample.index, sample.rows
        return moments

    @cached_property
    def sums(self) -> Moments:
        """Moments of which only the mean, the lengths and the sums of unit vectors are used: those of all, or a cheaper pass."""
        if "moments" in self.__dict__ or not self.source.replayable:
            return self.moments
        stored = self.stored_moments(False) if self.stored_moments is not None else None
        return stored if stored is not None else Moments.of(self.source, sums_only=True)

    @cached_property
    def _sampled(self) -> tuple[Indices, Floats]:
        """Numbers of the sampled rows, ascending, and the rows."""
        if not self.source.replayable:
            self.moments  # noqa: B018  # reads the stream, and sets this attribute
            return self._sampled
        if self.source.is_one_block and not self.is_sampled:
            return np.arange(self.n), self.source.block
        index = sample_rows(self.n, self.sample_size, seed=self.seed)
        return index, take_rows(self.source, index)

    def replay(self) -> Source:
        """The rows for a second pass; a stream that can be read only once has them only if its sample holds all of them."""
        if self.source.replayable:
            return self.source
        if not self.is_sampled:
            return source(self.sample)
        raise Undefined(f"it needs a second pass over the rows, but this stream can be read only once: {REPLAYABLE}")

    def cached(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """A value that is computed once per cloud, which is how metrics share intermediate results.

        Parameters
        ----------
        key
            Name of the value.
        compute
            Called if there is no value of that name yet.
        """
        if key not in self._cache:
            self._cache[key] = compute()
        return cast(Value, self._cache[key])

    def with_cached(self, values: Mapping[Hashable, object]) -> Self:
        """This cloud, with values that the caller has computed already.

        Parameters
        ----------
        values
            The values by the names that `cached` knows them by.
        """
        self._cache.update(values)
        return self

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenpairs of the scatter about the mean."""
        return eigenpairs(self.moments)

    @cached_property
    def uncentered_spectrum(self) -> Spectrum:
        """Eigenpairs of X^T X."""
        return eigenpairs(self.moments, centered=False)

    @cached_property
    def eigenvalues(self) -> Doubles:
        """Eigenvalues of the scatter about the mean, descending, d of them."""
        if "spectrum" in self.__dict__:  # computed already, with its vectors
            return np.concatenate([self.spectrum.values, np.zeros(self.d - len(self.spectrum.values))])
        return eigenvalues(self.moments)

    @property
    def sample_index(self) -> Indices:
        """Numbers of the sampled rows, ascending; all rows if there are no more than `sample_size`."""
        return self._sampled[0]

    @property
    def sample(self) -> Floats:
        """The sampled rows."""
        return self._sampled[1]

    @property
    def is_sampled(self) -> bool:
        """Whether `sample` is less than the whole cloud."""
        return self.n > self.sample_size

    @property
    def units(self) -> UnitRows:
        """Unit vectors of the sampled rows, computed once; undefined if fewer than two of them are not zero."""
        units = self.cached("unit rows", lambda: _unit_rows(self.sample, self.sample_index))
        if units.m < 2:
            zeros = f" ({units.zero_rows} rows of zeros have no direction)" if units.zero_rows else ""
            raise Undefined(f"comparing rows needs at least two that are not zero; there are {units.m}{zeros}")
        return units


def moments_of(X: Vectors | Moments | Cloud) -> Moments:
    """Moments of vectors or of a cloud; moments are returned as they are."""
    return X.moments if isinstance(X, Cloud) else Moments.of(X)


def sums_of(X: Vectors | Moments | Cloud) -> Moments:
    """The same for what needs no second moments, in n·d operations; see `Cloud.sums`."""
    return X.sums if isinstance(X, Cloud) else Moments.of(X, sums_only=True)


def moments_with_spread(X: Vectors | Moments | Cloud) -> Moments:
    """Moments of vectors or of a cloud whose rows are not all the same point; undefined otherwise."""
    moments = moments_of(X)
    if moments.n < 2:
        raise Undefined("one row has no covariance; give at least two")
    # Vectors of one point come out of an encoder with different roundings, depending on the batch they were in.
    single = getattr(X.source if isinstance(X, Cloud) else X, "dtype", None) == np.float32
    rounding = 4 * float(np.finfo(np.float32).eps) * float(np.abs(moments.mean).max(initial=0.0)) if single else 0.0
    if not moments.has_spread or moments.trace <= moments.n * moments.d * rounding**2:
        raise Undefined("all rows are the same point, so there is no variance")
    return moments


def _unit_rows(X: Floats, index: Indices) -> UnitRows:
    """Rows scaled to unit length, in float64 but stored in X's precision; `index` are their numbers in the cloud."""
    # In float64: if all rows point nearly the same way, an error along that way would be larger than what distinguishes them.
    norms = np.concatenate([row_norms(X[start : start + CHUNK].astype(np.float64)) for start in range(0, len(X), CHUNK)])
    directed = np.flatnonzero(norms > 0)
    chunks = [directed[start : start + CHUNK] for start in range(0, len(directed), CHUNK)]

    def scaled(rows: Indices) -> Doubles:
        # A division, not a product with the reciprocal: that of a tiny norm would overflow.
        return np.asarray(X[rows].astype(np.float64) / norms[rows, None], dtype=np.float64)

    # Scaled twice, once for the mean and once to subtract it: float64 unit vectors of all rows would double the memory.
    mean = np.zeros(X.shape[1])
    for rows in chunks:
        mean += scaled(rows).sum(axis=0)
    mean /= max(1, len(directed))
    shifted = np.empty((len(directed), X.shape[1]), X.dtype)
    for number, rows in enumerate(chunks):
        shifted[number * CHUNK : number * CHUNK + len(rows)] = scaled(rows) - mean
    return UnitRows(shifted, norms[directed], index[directed], len(X) - len(directed))
