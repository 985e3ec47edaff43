"""The one gate for input: anything that holds vectors becomes a `Source` of checked float blocks.

Every metric, repair and reader takes its data through `source`. A source knows its width, yields its rows in blocks small
enough for the cache, casts them to float32 or float64, and names the row and column of a NaN or an infinity.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.frames import frame_vectors, is_frame

Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.intp]
# Anything `source` accepts: an (n, d) array or memmap, a nested list, a torch tensor, a pandas or polars frame or series, an
# Arrow table, a dataset of Hugging Face, an iterable of (m, d) chunks, a function that returns such an iterable, or a `Source`,
# which is what `theodolite.read` opens files and folders of shards as.
Vectors: TypeAlias = Any
# The ways out that an error names if a stream would have to be read twice.
REPLAYABLE = "pass a function that returns a fresh iterator, a list of chunks, a memory-mapped array or an opened file"
# Target size of one block: large enough for BLAS to run at full speed, small enough to stay in the last-level cache, and for its
# temporary arrays to be taken from memory that was used before, not from the system, which would clear every page of them.
BLOCK_BYTES = 4 * 2**20


class Source:
    """Rows of vectors that can be read block by block: the form all input takes inside the package."""

    def __init__(
        self,
        chunks: Callable[[], Iterator[NDArray[Any]]],
        *,
        n: int | None,
        d: int,
        dtype: np.dtype[Any],
        replayable: bool = True,
        take: Callable[[Indices], NDArray[Any]] | None = None,
        moments: Any = None,
        parts: Sequence[Source] = (),
        first_row: int = 0,
        rows: NDArray[Any] | None = None,
    ) -> None:
        self._chunks = chunks
        self.n = n
        self.d = d
        self.dtype = working_dtype(dtype)
        self.replayable = replayable
        self._take = take
        self.moments = moments
        self.parts = parts
        self.first_row = first_row
        self._rows = rows
        self.on_rows: Callable[[int], None] = lambda _: None

    # The columns of a table that the rows come from, if they do.
    columns: tuple[str, ...] = ()
    # What a result must say of how the rows were read.
    notes: tuple[str, ...] = ()
    # Opens the same rows again, in another process or on another machine, if they are in a file; it can be pickled.
    opener: Callable[[], Source | None] | None = None

    def __repr__(self) -> str:
        return f"Source(n={self.n}, d={self.d}, dtype={self.dtype})"

    @property
    def nbytes(self) -> int:
        """Bytes of all rows in the type that is computed in; their number must be known."""
        assert self.n is not None
        return self.n * self.d * self.dtype.itemsize

    @property
    def block_rows(self) -> int:
        """Rows in a block; the last one may have fewer."""
        # At least 64, so that products of very wide rows are still products of matrices.
        return max(64, BLOCK_BYTES // (self.d * self.dtype.itemsize))

    @property
    def is_one_block(self) -> bool:
        """Whether all rows are in memory and no more than one block: what takes milliseconds then goes no other way."""
        return self._rows is not None and len(self._rows) <= self.block_rows

    @cached_property
    def block(self) -> Floats:
        """All rows of a source that is one block, cast and checked once."""
        assert self._rows is not None
        return self.prepare(0, self._rows)

    def loaded(self) -> Source:
        """The same rows in memory, if they are no more than one block; the source itself otherwise."""
        if self._rows is not None or self.parts or self.n is None or self.n > self.block_rows:
            return self
        loaded = _from_array(np.concatenate(list(self._chunks())))
        loaded.columns, loaded.notes, loaded.opener = self.columns, self.notes, self.opener
        return loaded

    def raw_blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Pairs of first row and block as stored: neither cast nor checked, so that worker threads can do both."""
        for number, block in enumerate(_regroup(self._chunks(), self.block_rows, self.d, self.dtype)):
            yield number * self.block_rows, block

    def prepare(self, start: int, raw: NDArray[Any], *, check: bool = True) -> Floats:
        """A stored block as C-ordered float32 or float64."""
        block = np.ascontiguousarray(raw, dtype=self.dtype)
        if check:
            require_finite(block, first_row=self.first_row + start)
        return block

    def blocks(self) -> Iterator[Floats]:
        """The rows in order, as checked float blocks."""
        for start, raw in self.raw_blocks():
            yield self.prepare(start, raw)

    def take(self, rows: Indices) -> Floats:
        """Some rows as one array, reading only those rows if the source can."""
        if self._take is not None:
            selection = np.ascontiguousarray(self._take(rows), dtype=self.dtype)
            require_finite(selection, rows=rows + self.first_row)
            return selection
        parts = [np.empty((0, self.d), self.dtype)]
        for start, raw in self.raw_blocks():
            low, high = np.searchsorted(rows, (start, start + len(raw)))
            parts.append(self.prepare(start, raw)[rows[low:high] - start])
        return np.concatenate(parts)

    def watched(self, on_rows: Callable[[int], None]) -> Source:
        """The same source with a callback, which is how a caller shows progress."""

        def chunks() -> Iterator[NDArray[Any]]:
            for _, block in self.raw_blocks():
                yield block
                on_rows(len(block))

        about: dict[str, Any] = {"replayable": self.replayable, "take": self._take, "first_row": self.first_row}
        watched = Source(chunks, n=self.n, d=self.d, dtype=self.dtype, parts=self.parts, **about)
        watched.on_rows, watched.notes = on_rows, self.notes
        return watched

    def pieces(self, size: int) -> list[Piece]:
        """The rows as groups of consecutive shards; one piece if they are not in shards."""
        pieces: list[Piece] = []
        rows = first = 0
        for number, part in enumerate(self.parts, start=1):
            rows += part.n or 0
            if rows * self.d * self.dtype.itemsize >= size or number == len(self.parts):
                start = pieces[-1].start + pieces[-1].n if pieces else 0
                openers = tuple(part.opener for part in self.parts[first:number] if part.opener is not None)
                pieces.append(Piece(first, number, start, rows, self.dtype, openers))
                first, rows = number, 0
        return pieces or [Piece(0, 0, 0, self.n or 0, self.dtype)]


@dataclass(frozen=True, eq=False)
class Piece:
    """Some consecutive shards of a cloud, which can be opened anywhere."""

    first: int
    last: int
    start: int
    n: int
    dtype: np.dtype[Any]
    openers: tuple[Callable[[], Source | None], ...] = ()

    def open(self) -> Source:
        """The rows, from files that are opened here and now."""
        shards = [shard for opener in self.openers if (shard := opener()) is not None]
        rows = sum(shard.n or 0 for shard in shards)
        if rows != self.n:
            problem = (
                f"the shards from row {self.start} on have {rows} rows on the worker but {self.n} where the work was started"
            )
            raise ValueError(f"{problem}; do not change them while they are read")
        return self._joined(shards)

    def here(self, whole: Source) -> Source:
        """The rows, from the files that the cloud has open already, and watched as the cloud is."""
        return self._joined(whole.parts[self.first : self.last]).watched(whole.on_rows)

    def _joined(self, parts: Sequence[Source]) -> Source:
        piece = joined(parts)
        piece.dtype, piece.first_row, piece.parts = self.dtype, self.start, ()
        return piece


def source(X: Vectors) -> Source:
    """Open anything that holds vectors."""
    if isinstance(X, Source):
        return X
    if isinstance(X, (str, os.PathLike)):
        raise TypeError(f"{os.fspath(X)!r} is a path, not vectors; open it with theodolite.read, which reads all formats")
    if is_frame(X):
        return _from_array(frame_vectors(X))
    if isinstance(X, (Mapping, Set)):
        raise TypeError(f"a {type(X).__name__} is not a table of vectors; pass one array of it, such as X['embeddings']")
    if hasattr(X, "toarray"):
        raise TypeError("a sparse matrix is not a cloud of embeddings; pass X.toarray() if its dense form fits in memory")
    # Arrays and frames may be callable or iterable too, so `__array__` decides before both.
    if callable(X) and not hasattr(X, "__array__"):
        return _from_chunks(X)
    if isinstance(X, Iterator):
        return _from_stream(X)
    if isinstance(X, (list, tuple)) and X and all(np.ndim(_plain(part)) == 2 for part in X):
        return _from_sequence([_plain(part) for part in X])
    if isinstance(X, Iterable) and not hasattr(X, "__array__") and not isinstance(X, (list, tuple)):
        return _from_chunks(lambda: iter(X))
    return _from_array(_plain(X))


def array(X: Vectors) -> Floats:
    """All rows as one checked float array, for algorithms that need all of them in memory."""
    data = source(X)
    blocks = [data.block] if data.is_one_block else list(data.blocks())
    # One block needs no copy: it may be the caller's own array.
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def working_dtype(dtype: Any) -> np.dtype[Any]:
    """The data type computed in: float32 for what fits in it (half floats, small integers), float64 for other numbers."""
    kind = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise TypeError(f"vectors of dtype {kind} are not real numbers; convert them to float32 or float64 first")
    small = kind.itemsize <= 2 or kind == np.float32  # float32 holds all integers up to 2^24, so those of two bytes
    return np.dtype(np.float32 if small else np.float64)


def require_finite(block: Floats, *, first_row: int = 0, rows: Indices | None = None) -> None:
    """Raise a ValueError that names the first entry that is NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        # One reduction decides the usual case; a sum that overflowed without a bad entry is sorted out below.
        if np.isfinite(block.sum()):
            return
    bad = np.argwhere(~np.isfinite(block))
    if len(bad):
        row, column = bad[0]
        name = "NaN" if np.isnan(block[row, column]) else str(block[row, column])
        raise ValueError(
            f"the vectors contain {name} at row {first_row + row if rows is None else rows[row]}, column {column}; "
            "every entry must be finite: drop such rows, or find the step that produced them"
        )


def _plain(X: Any) -> NDArray[Any]:
    """A NumPy array of whatever converts to one: tensors and frames without importing their libraries."""
    module = type(X).__module__.partition(".")[0]
    if module == "torch":
        try:
            X = X.detach().cpu()  # bfloat16, which NumPy lacks, becomes float32 below
            return np.asarray(X.float() if str(X.dtype) == "torch.bfloat16" else X)
        except (TypeError, RuntimeError) as error:  # quantised, sparse, nested, or without data
            problem = str(error).strip().partition("\n")[0].rstrip(".")
            raise TypeError(
                f"this tensor does not become an array ({problem}); pass X.dequantize(), X.to_dense() or the like"
            ) from None
    if is_frame(X):
        return frame_vectors(X)
    if "numpy.ma" in sys.modules and np.ma.is_masked(X):
        raise ValueError("the array has masked entries; every entry must be a number: fill or drop them first")
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(f"rows of different length do not make an (n, d) array: {error}") from error


def _from_array(X: NDArray[Any]) -> Source:
    _require_table(X)
    return Source(lambda: iter([X]), n=X.shape[0], d=X.shape[1], dtype=X.dtype, take=lambda rows: X[rows], rows=X)


def _from_sequence(parts: Sequence[NDArray[Any]]) -> Source:
    parts = [part for part in parts if len(part)]
    if not parts:
        raise ValueError("there are no vectors: every chunk is empty; give at least one row")
    for part in parts:
        _require_table(part)
    return joined([_from_array(part) for part in parts])


def joined(parts: Sequence[Source]) -> Source:
    """Sources one after the other, as one."""
    counts = [part.n for part in parts if part.n is not None]
    is_counted = len(counts) == len(parts)
    ends = np.cumsum(counts)

    def chunks() -> Iterator[NDArray[Any]]:
        for part in parts:
            for _, block in part.raw_blocks():  # raw: the joined source casts and checks
                yield block

    def take(rows: Indices) -> NDArray[Any]:
        owner = np.searchsorted(ends, rows, side="right")
        # Unchecked if possible: a part does not know the number that a row has in the whole.
        pick = [part._take or part.take for part in parts]
        return np.concatenate([pick[i](rows[owner == i] - (ends[i] - counts[i])) for i in np.unique(owner)])

    n, dtype = sum(counts) if is_counted else None, np.result_type(*(part.dtype for part in parts))
    shards = parts if is_counted and all(part.opener is not None for part in parts) else ()
    whole = Source(chunks, n=n, d=parts[0].d, dtype=dtype, take=take if is_counted else None, parts=shards)
    whole.notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return whole


def _from_chunks(open_chunks: Callable[[], Any]) -> Source:
    """A source whose chunks are opened again on every pass."""

    def chunks() -> Iterator[NDArray[Any]]:
        return (_plain(chunk) for chunk in open_chunks())

    first = _first_chunk(chunks(), "the chunks are empty")
    return Source(chunks, n=None, d=first.shape[1], dtype=first.dtype)


def _from_stream(stream: Iterator[Any]) -> Source:
    """A source that can be read once, which is all that a generator allows."""
    plain = (_plain(chunk) for chunk in stream)
    first = _first_chunk(plain, "the stream is empty")
    is_spent = False

    def chunks() -> Iterator[NDArray[Any]]:
        nonlocal is_spent
        if is_spent:
            raise ValueError(f"this stream of chunks has been read already and cannot be read again; {REPLAYABLE}")
        is_spent = True
        yield first
        yield from plain

    return Source(chunks, n=None, d=first.shape[1], dtype=first.dtype, replayable=False)


def _first_chunk(chunks: Iterator[NDArray[Any]], otherwise: str) -> NDArray[Any]:
    first = next((chunk for chunk in chunks if len(chunk)), None)
    if first is None:
        raise ValueError(f"there are no vectors: {otherwise}; give at least one row")
    _require_table(first)
    return first


def _require_table(X: NDArray[Any]) -> None:
    working_dtype(X.dtype)
    hints = {
        0: "a single number is not a vector",
        1: f"one axis of length {X.size} is X.reshape(1, -1) if it is one vector, X.reshape(-1, 1) if it is one dimension",
    }
    if X.ndim != 2:
        hint = hints.get(X.ndim, "drop padding, then flatten with X.reshape(-1, X.shape[-1])")
        raise ValueError(f"got shape {X.shape}; vectors are an (n, d) array: {hint}")
    if 0 in X.shape:
        raise ValueError(f"got shape {X.shape}; there must be at least one row and one column")


def _regroup(chunks: Iterable[NDArray[Any]], rows: int, d: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Blocks of exactly `rows` rows, but for the last, so that speed does not depend on how a caller chunks."""
    waiting: list[NDArray[Any]] = []
    count = 0  # rows waiting
    start = 0
    for chunk in chunks:
        if chunk.ndim != 2 or chunk.shape[1] != d:
            raise ValueError(f"the chunk at row {start} has shape {chunk.shape}, but the first one has {d} columns")
        if not np.can_cast(working_dtype(chunk.dtype), dtype):
            problem = (
                f"the chunk at row {start} holds {chunk.dtype}, which loses digits when cast to the {dtype} of the first one"
            )
            raise ValueError(f"{problem}; give all chunks one type")
        start += len(chunk)
        # What waits of the chunk before is copied if it is mapped: it would keep its file open.
        waiting = [np.array(piece) if isinstance(piece, np.memmap) else piece for piece in waiting]
        for low in range(0, len(chunk), rows):
            piece = chunk[low : low + rows]
            waiting.append(piece)
            count += len(piece)
            if count >= rows:
                joined = waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
                yield joined[:rows]
                # The rest is a view, not a copy, and shorter than a block.
                waiting = [joined[rows:]] if count > rows else []
                count = max(0, count - rows)
    if count:
        yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
