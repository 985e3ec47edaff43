"""A cloud: vectors together with what has been computed of them, so that no metric repeats another's work."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles, Moments
from theodolite.core.sample import RowSample, sample_rows
from theodolite.core.spectrum import Spectrum, eigenvalues, spectrum
from theodolite.core.vectors import Floats, Source, Vectors, source

Made = TypeVar("Made")

SAMPLE = 10_000
"""Rows on which metrics that compare rows with rows are computed when there are more."""


class Undefined(ValueError):
    """A metric has no value for this cloud; the message says why. Functions turn it into nan, surveys into a reason."""


class Cloud:
    """Vectors and the intermediate results that metrics share, each computed once and only when asked for.

    Metrics accept a cloud wherever they accept vectors. `sample` and `seed` fix the rows on which metrics that compare rows
    with rows work.
    """

    def __init__(self, X: Vectors, *, sample: int = SAMPLE, seed: int = 0) -> None:
        if sample < 2:
            raise ValueError(f"sample={sample} must be at least 2 rows")
        self.source: Source = source(X)
        self.sample_size = sample
        self.seed = seed
        self._made: dict[str, object] = {}
        self._sampled: tuple[NDArray[np.intp], Floats] | None = None

    @classmethod
    def of(cls, X: Vectors) -> Cloud:
        """The cloud itself, or a new one over the vectors."""
        return X if isinstance(X, Cloud) else cls(X)

    @property
    def n(self) -> int:
        return self.source.n if self.source.n is not None else self.moments.n

    @property
    def d(self) -> int:
        return self.source.d

    @cached_property
    def moments(self) -> Moments:
        """Moments in one pass; a stream that cannot be read twice gives its sample of rows in the same pass."""
        if self.source.replayable:
            return Moments.of(self.source)
        picked = RowSample(self.sample_size, self.d, self.source.dtype, seed=self.seed)
        moments = Moments.of(self.source, sample=picked)
        self._sampled = picked.index, picked.rows
        return moments

    def replay(self) -> Source:
        """The rows for a second pass; a stream that can be read once gives them only where its sample holds them all."""
        if self.source.replayable:
            return self.source
        self.moments  # noqa: B018  # the first pass, which leaves the sample behind
        if not self.is_sampled:
            return source(self.sample)
        raise Undefined(
            "it needs a second pass over the rows, and this stream can be read once: pass a function that returns "
            "a fresh iterator, or a memory-mapped array"
        )

    def cached(self, key: str, make: Callable[[], Made]) -> Made:
        """`make()`, computed once under this key: how metrics share what they build on."""
        if key not in self._made:
            self._made[key] = make()
        return cast(Made, self._made[key])

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenpairs of the scatter about the mean."""
        return spectrum(self.moments)

    @cached_property
    def uncentered_spectrum(self) -> Spectrum:
        """Eigenpairs of X^T X."""
        return spectrum(self.moments, centered=False)

    @cached_property
    def eigenvalues(self) -> Doubles:
        """Eigenvalues of the scatter about the mean, descending, d of them."""
        return eigenvalues(self.moments)

    @property
    def sample_index(self) -> NDArray[np.intp]:
        """Numbers of the sampled rows, ascending; all rows where there are no more than `sample_size`."""
        return self._sample[0]

    @property
    def sample(self) -> Floats:
        """The sampled rows."""
        return self._sample[1]

    @property
    def is_sampled(self) -> bool:
        """True where `sample` is not the whole cloud."""
        return self.n > self.sample_size

    @property
    def _sample(self) -> tuple[NDArray[np.intp], Floats]:
        if self._sampled is None:
            if not self.source.replayable:
                self.moments  # noqa: B018  # reads the stream, and leaves the sample behind
                return self._sample
            index = sample_rows(self.n, self.sample_size, seed=self.seed)
            self._sampled = index, self.source.take(index)
        return self._sampled


def moments_of(X: Vectors | Moments | Cloud) -> Moments:
    """Moments of vectors, of a cloud, or those given."""
    return X.moments if isinstance(X, Cloud) else Moments.of(X)
