"""Seeded samples of rows that do not depend on how the rows are chunked, stored or read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Floats


def sample_rows(n: int, size: int, *, seed: int = 0) -> NDArray[np.intp]:
    """`size` of n row numbers, ascending, every subset equally likely; all of them where size >= n."""
    if size >= n:
        return np.arange(n)
    chosen = np.empty(0, np.intp)
    for start in range(0, n, 2**20):
        chosen = np.concatenate([chosen, np.arange(start, min(n, start + 2**20))])
        if len(chosen) > size:
            chosen = chosen[np.argpartition(row_keys(chosen, seed=seed), size - 1)[:size]]
    return np.sort(chosen)


class RowSample:
    """The same sample as `sample_rows`, gathered from blocks whose total number is not known beforehand."""

    def __init__(self, size: int, d: int, dtype: np.dtype[np.floating], *, seed: int = 0) -> None:
        self.size = size
        self.seed = seed
        self._index = np.empty(0, np.intp)
        self._rows = np.empty((0, d), dtype)

    def add(self, start: int, block: Floats) -> None:
        """Offer the rows of a block whose first row has number `start`."""
        offered = np.arange(start, start + len(block))
        if len(self._index) >= self.size:
            limit = row_keys(self._index, seed=self.seed).max()
            keep = row_keys(offered, seed=self.seed) < limit
            offered, block = offered[keep], block[keep]
        self._index = np.concatenate([self._index, offered])
        self._rows = np.concatenate([self._rows, block])
        if len(self._index) > self.size:
            best = np.sort(np.argpartition(row_keys(self._index, seed=self.seed), self.size - 1)[: self.size])
            self._index, self._rows = self._index[best], self._rows[best]

    @property
    def index(self) -> NDArray[np.intp]:
        """Numbers of the sampled rows, ascending."""
        return self._index

    @property
    def rows(self) -> Floats:
        """The sampled rows, in the order of `index`."""
        return self._rows


def row_keys(index: NDArray[np.intp], *, seed: int) -> NDArray[np.uint64]:
    """A random 64-bit key for each row number (splitmix64): the sample is the rows with the smallest keys."""
    with np.errstate(over="ignore"):
        key = index.astype(np.uint64) + np.uint64(1) + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        key *= np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return key ^ (key >> np.uint64(31))
