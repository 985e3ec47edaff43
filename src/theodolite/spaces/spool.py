"""Files that are slow to parse are parsed once: the first pass leaves the numbers in an unnamed temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

CELLS = 2**16  # numbers held as Python objects while a text is parsed: they take ten times the room of float64


def parsed_rows(d: int) -> int:
    """Rows of d cells to parse before they are handed on."""
    return max(1, CELLS // max(1, d))


class Spool:
    """Chunks that come from `parse` on the first full pass, and from a memory-mapped temporary file on all later ones.

    Memory stays flat, and the file vanishes with the process. Where the temporary folder is full, every pass parses again.
    """

    def __init__(self, parse: Callable[[], Iterator[NDArray[Any]]], d: int, dtype: Any) -> None:
        self._parse = parse
        self._d = d
        self._dtype = np.dtype(dtype)
        self._kept: NDArray[Any] | None = None

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All rows in order."""
        if self._kept is not None:
            yield self._kept
            return
        with tempfile.TemporaryFile(prefix="theodolite-") as file:
            rows, has_room = 0, True
            for chunk in self._parse():
                has_room = has_room and self._keep(chunk, file)
                rows += len(chunk)
                yield chunk
            if has_room and rows:
                file.flush()
                # The mapping keeps the unnamed file alive after it is closed here.
                self._kept = np.memmap(file, self._dtype, mode="r", shape=(rows, self._d))

    def _keep(self, chunk: NDArray[Any], file: IO[bytes]) -> bool:
        try:
            file.write(np.ascontiguousarray(chunk, self._dtype).data)
        except OSError:
            return False
        return True

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """The given rows, ascending."""
        if self._kept is None:
            parts = [np.empty((0, self._d), self._dtype)]
            start = 0
            for chunk in self.chunks():
                low, high = np.searchsorted(rows, (start, start + len(chunk)))
                parts.append(chunk[rows[low:high] - start])
                start += len(chunk)
            return np.concatenate(parts)
        return np.asarray(self._kept[rows])
