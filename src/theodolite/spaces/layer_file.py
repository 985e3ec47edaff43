"""A `.npy` file whose shape is known beforehand, filled in any order."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Runs: TypeAlias = list[tuple[int, int]]
"""Rows as ranges [start, stop), ascending."""


@dataclass(frozen=True)
class LayerFile:
    """The (n, d) array of one layer on disk. It is written, not mapped: pages of a map would count as memory of the process."""

    path: Path
    n: int
    d: int
    dtype: np.dtype[Any]

    def create(self) -> None:
        """Make the file at its full length; what is not filled yet takes no room on most file systems."""
        with self.path.open("wb") as file:
            file.write(self._header())
            file.truncate(self.size)

    def is_whole(self) -> bool:
        """Whether the file is there, at its full length."""
        return self.path.is_file() and self.path.stat().st_size == self.size

    @property
    def size(self) -> int:
        return len(self._header()) + self.n * self.d * self.dtype.itemsize

    def fill(self, runs: Runs, block: NDArray[Any]) -> None:
        """Write the rows of a block, in order, to the rows that `runs` name."""
        raw = block.view(np.uint8)
        begin, width = len(self._header()), self.d * self.dtype.itemsize
        first = 0
        with self.path.open("r+b", buffering=0) as file:
            for start, stop in runs:
                file.seek(begin + start * width)
                _write_all(file, raw[first : first + stop - start].reshape(-1))
                first += stop - start

    def _header(self) -> bytes:
        header = io.BytesIO()
        layout = {"shape": (self.n, self.d), "fortran_order": False, "descr": npy.dtype_to_descr(self.dtype)}
        npy.write_array_header_1_0(header, layout)
        return header.getvalue()


def runs_of(rows: NDArray[np.intp]) -> Runs:
    """Ascending row numbers as ranges of neighbours.

    >>> runs_of(np.array([2, 3, 4, 8]))
    [(2, 5), (8, 9)]
    """
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, cuts) if len(run)]


def _write_all(file: io.FileIO, raw: NDArray[np.uint8]) -> None:
    while len(raw):  # a single call writes at most 2 GB, and less where the disk is nearly full
        raw = raw[os.write(file.fileno(), raw.data) :]
