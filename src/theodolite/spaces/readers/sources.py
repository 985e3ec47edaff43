"""From a file to a `Source`: checked, and parsed only once if parsing is slow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Source
from theodolite.spaces.readers.errors import DataError, EmptyFileError
from theodolite.spaces.readers.location import File

# Numbers held as Python objects while a text is parsed: they take ten times the memory of float64.
PARSED_NUMBERS = 2**16


def file_source(
    file: File,
    chunks: Callable[[], Iterator[NDArray[Any]]],
    *,
    n: int | None,
    d: int,
    dtype: Any,
    take: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
) -> Source:
    """A source over the chunks of a file.

    Parameters
    ----------
    file
        The file, for messages.
    chunks
        Gives all rows, in order, as (m, d) arrays; called once per pass.
    n
        Number of rows; None if it is not known before the file was read.
    d
        Number of columns.
    dtype
        Type of the numbers as stored.
    take
        Gives the rows of ascending numbers without reading the others, if the file allows it.

    Raises
    ------
    DataError
        The file does not hold real numbers, or holds none at all.
    """
    kind = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise DataError(f"it holds {kind} values; vectors are real numbers: convert them to float32 first", file)
    if n == 0 or d == 0:
        raise EmptyFileError(f"the file is empty (shape {(n, d)}); there must be at least one row and one column", file)
    return Source(chunks, n=n, d=d, dtype=kind, take=take)


def parsed_source(file: File, vectors: Callable[[], Iterator[Sequence[float]]], *, d: int, n: int | None = None) -> Source:
    """A source of float64 vectors parsed from a text one by one.

    Parameters
    ----------
    file
        The file, for messages.
    vectors
        Parses the file from its start and gives the vectors in order, all of length `d`.
    d
        Number of columns.
    n
        Number of rows, if the file states it.
    """

    def chunks() -> Iterator[NDArray[np.float64]]:
        rows = vectors()
        while part := list(islice(rows, max(1, PARSED_NUMBERS // d))):
            yield np.array(part, dtype=np.float64)

    next(chunks(), None)  # a fault near the top is reported at once, before anything is computed
    spool = Spool(chunks, d, np.float64)
    return file_source(file, spool.chunks, n=n, d=d, dtype=np.float64, take=spool.take)


class Spool:
    """Chunks that are parsed on the first full pass, and come from a memory-mapped temporary file on all later ones.

    Memory stays flat, and the unnamed file is gone when the process ends. If the temporary folder is full, every pass parses
    again.

    Parameters
    ----------
    parse
        Gives all rows, in order, as (m, d) arrays.
    d
        Number of columns.
    dtype
        Type of the numbers.
    """

    def __init__(self, parse: Callable[[], Iterator[NDArray[Any]]], d: int, dtype: Any) -> None:
        self._parse = parse
        self._d = d
        self._dtype = np.dtype(dtype)
        self._rows: NDArray[Any] | None = None

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All rows in order."""
        if self._rows is not None:
            yield self._rows
            return
        # Unnamed: nothing has to be cleaned up, however the process ends.
        with tempfile.TemporaryFile(prefix="theodolite-") as file:
            n, has_room = 0, True
            for chunk in self._parse():
                has_room = has_room and self._append(chunk, file)
                n += len(chunk)
                yield chunk
            if has_room and n:
                file.flush()
                # The mapping keeps the unnamed file alive after it is closed here.
                self._rows = np.memmap(file, self._dtype, mode="r", shape=(n, self._d))

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """The rows of these numbers, which must be ascending."""
        if self._rows is None:
            parts = [np.empty((0, self._d), self._dtype)]
            start = 0
            for chunk in self.chunks():
                low, high = np.searchsorted(rows, (start, start + len(chunk)))
                parts.append(chunk[rows[low:high] - start])
                start += len(chunk)
            return np.concatenate(parts)
        return np.asarray(self._rows[rows])

    def _append(self, chunk: NDArray[Any], file: IO[bytes]) -> bool:
        try:
            file.write(np.ascontiguousarray(chunk, self._dtype).data)
        except OSError:
            return False
        return True
