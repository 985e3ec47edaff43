"""The files that a space is written to part by part: layers filled in any order, and a journal of the parts that are on disk."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.spaces.writers import npy_header

# Rows as ranges [start, stop), ascending.
Runs: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True)
class LayerFile:
    """The `.npy` file of one layer, filled in any order. It is not mapped: mapped pages count as memory of the process."""

    path: Path
    n: int
    d: int
    dtype: np.dtype[Any]

    def create(self) -> None:
        """Make the file at its full length; on most file systems, what is not filled yet takes no room."""
        with self.path.open("wb") as file:
            file.write(self._header)
            file.truncate(len(self._header) + self.n * self._row_bytes)

    def is_whole(self) -> bool:
        """Whether the file is there, at its full length."""
        return self.path.is_file() and self.path.stat().st_size == len(self._header) + self.n * self._row_bytes

    def fill(self, runs: Runs, block: NDArray[Any]) -> None:
        """Write the rows of a block, in order, to the rows that `runs` name."""
        raw = block.view(np.uint8)
        begin = len(self._header)
        first = 0
        with self.path.open("r+b", buffering=0) as file:
            for start, stop in runs:
                file.seek(begin + start * self._row_bytes)
                rest = raw[first : first + stop - start].reshape(-1)
                while len(rest):  # a single call writes at most 2 GB, and less if the disk is nearly full
                    rest = rest[os.write(file.fileno(), rest.data) :]
                first += stop - start

    @property
    def _row_bytes(self) -> int:
        return self.d * self.dtype.itemsize

    @property
    def _header(self) -> bytes:
        return npy_header(self.n, self.d, self.dtype)


def runs_of(rows: NDArray[np.intp]) -> Runs:
    """Ascending row numbers as ranges of neighbours.

    >>> runs_of(np.array([2, 3, 4, 8]))
    [(2, 5), (8, 9)]
    """
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, cuts) if len(run)]


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Append a record; when this returns, it is on disk.

    Parameters
    ----------
    path
        The journal; it is made if it does not exist.
    record
        Plain values for JSON.
    """
    with path.open("ab") as file:
        file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        # flush hands the line to the system, fsync waits until the disk has it.
        file.flush()
        os.fsync(file.fileno())


def recover_records(path: Path) -> list[dict[str, Any]]:
    """The complete records of a journal; none if there is no file.

    What a crash left of a further record is cut off, so that the next one does not continue it. A damaged line in the middle ends
    the journal there: the work recorded after it is repeated.

    Parameters
    ----------
    path
        The journal.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    records: list[dict[str, Any]] = []
    end = 0
    for line in content.splitlines(keepends=True):
        record = _parse_record(line)
        if record is None:
            break
        records.append(record)
        end += len(line)
    if end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())
    return records


def _parse_record(line: bytes) -> dict[str, Any] | None:
    # A line without its end was being written when the process died, even if it happens to be complete JSON.
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
