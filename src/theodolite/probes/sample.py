"""Seeded samples that keep the labels' shares, and every label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.sample import row_keys

Places = NDArray[np.intp]


def sample_by_label(y: ArrayLike, size: int, *, seed: int = 0) -> Places:
    """`size` row numbers, ascending, each label with its share of them and at least one; all rows where size >= n."""
    labels, codes, counts = _counted(y)
    if size >= len(codes):
        return np.arange(len(codes))
    if size < len(labels):
        raise ValueError(f"a sample of {size} rows cannot hold all {len(labels)} labels; take at least {len(labels)}")
    return _drawn(codes, _shares(counts, size, least=np.ones_like(counts), most=counts), seed)


def hold_out(y: ArrayLike, share: float, *, seed: int = 0) -> Places:
    """Row numbers, ascending, of `share` of the rows, each label with its share of them; one row of each label stays outside."""
    if not 0 < share < 1:
        raise ValueError(f"share={share} must lie between 0 and 1")
    _, codes, counts = _counted(y)
    size = min(max(1, round(share * len(codes))), int((counts - 1).sum()))
    if size < 1:
        raise ValueError("every label has a single row, so none can be held out; give test rows of their own")
    return _drawn(codes, _shares(counts, size, least=np.zeros_like(counts), most=counts - 1), seed)


def _counted(y: ArrayLike) -> tuple[NDArray[Any], Places, Places]:
    given = np.asarray(y)
    if given.ndim != 1 or not len(given):
        raise ValueError(f"labels have shape {given.shape}; there must be one for each row, and at least one row")
    labels, codes, counts = np.unique(given, return_inverse=True, return_counts=True)
    return labels, codes, counts.astype(np.intp)


def _shares(counts: Places, size: int, *, least: Places, most: Places) -> Places:
    """How many rows each label gives: its share, rounded so that the sum is right, between `least` and `most`."""
    quota = size * counts / counts.sum()
    given: Places = np.clip(np.floor(quota).astype(np.intp), least, most)
    while given.sum() != size:
        short = given.sum() < size
        room = given < most if short else given > least
        # Whoever is furthest from its share gives or takes one; of equals the first label.
        wants = np.where(room, (quota - given) if short else (given - quota), -np.inf)
        given[int(wants.argmax())] += 1 if short else -1
    return given


def _drawn(codes: Places, sizes: Places, seed: int) -> Places:
    keys = row_keys(np.arange(len(codes)), seed=seed)
    order = np.lexsort((keys, codes))
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))[:-1]])
    chosen = [order[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    return np.sort(np.concatenate(chosen))
