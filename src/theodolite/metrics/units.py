"""Rows as directions: the unit vectors of a cloud's sample, and which of its rows are copies of one another."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles, row_norms
from theodolite.core.vectors import Floats
from theodolite.metrics.cloud import Cloud, Undefined

CHUNK = 1024  # rows normalised at a time, so that float64 copies stay small


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The sample's rows x / |x|, less their common mean; rows of zeros, which have no direction, are left out and counted.

    Differences of unit vectors do not feel the shift, while products do: where all rows point nearly the same way, products of
    plain unit vectors lose in rounding exactly what tells the rows apart.
    """

    shifted: Floats
    """(m, d): unit vectors minus `mean`, in the sample's precision."""
    mean: Doubles
    """(d,): mean of the unit vectors."""
    norms: Doubles
    """(m,): length of each row before it was scaled."""
    rows: NDArray[np.intp]
    """(m,): number of each row in the whole cloud."""
    zero_rows: int

    @property
    def m(self) -> int:
        return len(self.rows)


def units_of(cloud: Cloud) -> UnitRows:
    """Unit rows of the cloud's sample, made once. Fewer than two rows that are not zero: undefined."""
    units = cloud.cached("unit rows", lambda: unit_rows(cloud.sample, cloud.sample_index))
    if units.m < 2:
        left_out = f" ({units.zero_rows} rows of zeros have no direction)" if units.zero_rows else ""
        raise Undefined(f"comparing rows needs at least two that are not zero, there are {units.m}{left_out}")
    return units


def unit_rows(X: Floats, index: NDArray[np.intp]) -> UnitRows:
    """Scale the rows of X, which are the rows `index` of the cloud, to unit length; normalised in float64, kept in X's dtype."""
    norms = row_norms(X)
    live = np.flatnonzero(norms > 0)
    starts = range(0, len(live), CHUNK)
    mean = np.zeros(X.shape[1])
    for start in starts:
        mean += _scaled(X, norms, live[start : start + CHUNK]).sum(axis=0)
    mean /= max(1, len(live))
    shifted = np.empty((len(live), X.shape[1]), X.dtype)
    for start in starts:
        shifted[start : start + CHUNK] = _scaled(X, norms, live[start : start + CHUNK]) - mean
    return UnitRows(shifted, mean, norms[live], index[live], len(X) - len(live))


def distinct_rows(X: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(first, group): the first row of each set of identical rows, in order, and the number of every row's set."""
    seen: dict[bytes, int] = {}
    first: list[int] = []
    group = np.empty(len(X), np.intp)
    for row, values in enumerate(X):
        # Adding zero makes -0.0, which equals 0.0, the same bytes; digests take less room than the rows.
        digest = blake2b(values + values.dtype.type(0), digest_size=16).digest()
        group[row] = seen.setdefault(digest, len(first))
        if group[row] == len(first):
            first.append(row)
    return np.array(first, np.intp), group


def _scaled(X: Floats, norms: Doubles, rows: NDArray[np.intp]) -> Doubles:
    # Two steps: the reciprocal of a tiny norm would overflow.
    return np.asarray(X[rows].astype(np.float64) / norms[rows, None], dtype=np.float64)
