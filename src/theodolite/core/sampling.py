"""Seeded samples of rows: uniform or by label, and the same however the rows are chunked, stored or read."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.vectors import Floats, Indices


def sample_rows(n: int, size: int, *, seed: int = 0) -> Indices:
    """Row numbers of a uniform sample without replacement, ascending; all rows if `size` is n or more."""
    if size >= n:
        return np.arange(n)
    sample = np.empty(0, np.intp)
    # In windows, so that the keys of very many rows need not be in memory at once.
    for start in range(0, n, 2**20):
        sample = np.concatenate([sample, np.arange(start, min(n, start + 2**20))])
        if len(sample) > size:
            sample = sample[_smallest(sample, size, seed)]
    return np.sort(sample)


class RowSample:
    """The sample that `sample_rows` would choose, gathered from blocks whose total number is not known beforehand.

    `index` are the numbers of the rows sampled so far, ascending, and `rows` the rows themselves.
    """

    def __init__(self, size: int, d: int, dtype: np.dtype[np.floating], *, seed: int = 0) -> None:
        self.size = size
        self.seed = seed
        self.index: Indices = np.empty(0, np.intp)
        self.rows: Floats = np.empty((0, d), dtype)

    def add(self, start: int, block: Floats) -> None:
        """Offer the rows of a block."""
        index = np.arange(start, start + len(block))
        if len(self.index) >= self.size:
            # Rows with a larger key than the sample's largest cannot enter it: most blocks are dropped here without a copy.
            is_smaller = _row_keys(index, self.seed) < _row_keys(self.index, self.seed).max()
            index, block = index[is_smaller], block[is_smaller]
        self.index = np.concatenate([self.index, index])
        self.rows = np.concatenate([self.rows, block])
        if len(self.index) > self.size:
            best = np.sort(_smallest(self.index, self.size, self.seed))
            self.index, self.rows = self.index[best], self.rows[best]


def sample_by_label(y: ArrayLike, size: int, *, seed: int = 0) -> Indices:
    """Row numbers of a stratified sample, ascending: every label keeps its share and at least one row."""
    codes, counts = _label_codes(y)
    if size >= len(codes):
        return np.arange(len(codes))
    if size < len(counts):
        raise ValueError(f"a sample of {size} rows cannot hold all {len(counts)} labels; take at least {len(counts)}")
    return _stratified(codes, _quotas(counts, size, least=np.ones_like(counts), most=counts), seed)


def hold_out(y: ArrayLike, share: float, *, seed: int = 0) -> Indices:
    """Row numbers of a stratified share of the rows, ascending; at least one row of every label is not among them."""
    if not 0 < share < 1:
        raise ValueError(f"share={share} must be between 0 and 1")
    codes, counts = _label_codes(y)
    size = min(max(1, round(share * len(codes))), int((counts - 1).sum()))
    if size < 1:
        raise ValueError("every label has only one row, so no row can be held out; give separate test rows")
    return _stratified(codes, _quotas(counts, size, least=np.zeros_like(counts), most=counts - 1), seed)


def _row_keys(index: Indices, seed: int) -> NDArray[np.uint64]:
    """A random 64-bit key for each row number (splitmix64); a sample is the rows with the smallest keys."""
    with np.errstate(over="ignore"):
        key = index.astype(np.uint64) + np.uint64(1) + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        key *= np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return key ^ (key >> np.uint64(31))


def _smallest(index: Indices, size: int, seed: int) -> Indices:
    """Positions of the row numbers with the smallest keys, in no particular order."""
    return np.argpartition(_row_keys(index, seed), size - 1)[:size]


def _label_codes(y: ArrayLike) -> tuple[Indices, Indices]:
    """The code of each row's label, and the number of rows of each code."""
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"labels have shape {labels.shape}; there must be one label for each row, and at least one row")
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return codes, counts.astype(np.intp)


def _quotas(counts: Indices, size: int, *, least: Indices, most: Indices) -> Indices:
    """How many rows each label gives: its share, rounded so that the sum is `size`, between `least` and `most`."""
    shares = size * counts / counts.sum()
    quotas: Indices = np.clip(np.floor(shares).astype(np.intp), least, most)
    while quotas.sum() != size:
        step = 1 if quotas.sum() < size else -1
        has_room = quotas < most if step > 0 else quotas > least
        # The label furthest from its share gives or takes one row; of equals the first label.
        quotas[int(np.where(has_room, step * (shares - quotas), -np.inf).argmax())] += step
    return quotas


def _stratified(codes: Indices, quotas: Indices, seed: int) -> Indices:
    """The rows with the smallest keys of each label, as many as its quota."""
    order = np.lexsort((_row_keys(np.arange(len(codes)), seed), codes))
    by_label = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return np.sort(np.concatenate([rows[:quota] for rows, quota in zip(by_label, quotas, strict=True)]))
