"""The one gate for input: whatever holds vectors becomes a `Source` of checked float blocks.

Every metric, repair and reader takes its data through `source`. A source knows its width, yields its rows in blocks small
enough for the cache, casts them to float32 or float64, and refuses NaN and infinity by row and column.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]

Vectors: TypeAlias = Any
"""Anything `source` accepts: an (n, d) array or memmap, a nested list, a torch tensor, a pandas or polars frame, an iterable
of (m, d) chunks, a function that returns such an iterable, a folder of `.npy` shards, or a `Source`."""

BLOCK_BYTES = 8 * 2**20
"""Target size of one block: large enough for BLAS to run at full speed, small enough to stay in the last-level cache."""


class Source:
    """Rows of vectors that can be read block by block: the form all input takes inside the package.

    `n` is None for a stream whose length is not known yet. `replayable` says whether `blocks` may be called again.
    """

    def __init__(
        self,
        chunks: Callable[[], Iterator[NDArray[Any]]],
        *,
        n: int | None,
        d: int,
        dtype: np.dtype[Any],
        replayable: bool = True,
        take: Callable[[NDArray[np.intp]], NDArray[Any]] | None = None,
    ) -> None:
        self._chunks = chunks
        self.n = n
        self.d = d
        self.dtype = working_dtype(dtype)
        self.replayable = replayable
        self._take = take

    def __repr__(self) -> str:
        return f"Source(n={self.n}, d={self.d}, dtype={self.dtype})"

    @property
    def block_rows(self) -> int:
        return max(64, BLOCK_BYTES // (self.d * self.dtype.itemsize))

    def raw_blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """(first row, block) pairs as they lie in the source: neither cast nor checked, so that workers can do both."""
        start = 0
        for block in _regroup(self._chunks(), self.block_rows, self.d):
            yield start, block
            start += len(block)

    def prepare(self, start: int, raw: NDArray[Any], *, check: bool = True) -> Floats:
        """A block as C-ordered float32 or float64, or an error that names the first row and column that is not finite."""
        block = np.ascontiguousarray(raw, dtype=self.dtype)
        if check:
            require_finite(block, first_row=start)
        return block

    def blocks(self) -> Iterator[Floats]:
        """The rows in order, as checked float blocks."""
        for start, raw in self.raw_blocks():
            yield self.prepare(start, raw)

    def take(self, rows: NDArray[np.intp]) -> Floats:
        """The given rows (ascending), as one array. Reads only those rows where the source allows it."""
        if self._take is not None:
            picked = np.ascontiguousarray(self._take(rows), dtype=self.dtype)
            bad = np.argwhere(~np.isfinite(picked))
            if len(bad):
                raise _not_finite(picked[tuple(bad[0])], int(rows[bad[0][0]]), int(bad[0][1]))
            return picked
        parts = [np.empty((0, self.d), self.dtype)]
        start = 0
        for block in self.blocks():
            low, high = np.searchsorted(rows, (start, start + len(block)))
            parts.append(block[rows[low:high] - start])
            start += len(block)
        return np.concatenate(parts)

    def watched(self, seen: Callable[[int], None]) -> Source:
        """The same source, calling `seen(rows)` as blocks are handed out: how a caller shows progress."""

        def chunks() -> Iterator[NDArray[Any]]:
            for _, block in self.raw_blocks():
                yield block
                seen(len(block))

        return Source(chunks, n=self.n, d=self.d, dtype=self.dtype, replayable=self.replayable, take=self._take)


def source(X: Vectors) -> Source:
    """Open anything that holds vectors. See `Vectors` for what is accepted; everything else is an error that says why."""
    if isinstance(X, Source):
        return X
    if isinstance(X, (str, os.PathLike)):
        return _from_folder(Path(X))
    if hasattr(X, "toarray"):
        raise TypeError("a sparse matrix is not a cloud of embeddings; pass X.toarray() if its dense form fits in memory")
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
    """All rows as one checked float array, for algorithms that need them at hand."""
    opened = source(X)
    blocks = list(opened.blocks())
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def working_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 for what fits in it (half floats, small integers), float64 for the rest; an error for what is no number."""
    kind = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise TypeError(f"vectors of dtype {kind} are not real numbers; convert them to float32 or float64 first")
    small = kind.itemsize <= 2 or kind == np.float32
    return np.dtype(np.float32 if small else np.float64)


def require_finite(block: Floats, *, first_row: int = 0) -> None:
    """Raise an error that names the first entry that is NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        # One reduction decides the usual case; a sum that overflowed without a bad entry is told apart below.
        if np.isfinite(block.sum()):
            return
    bad = np.argwhere(~np.isfinite(block))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise _not_finite(block[row, column], first_row + row, column)


def _not_finite(value: Any, row: int, column: int) -> ValueError:
    name = "NaN" if np.isnan(value) else str(value)
    return ValueError(
        f"the vectors hold {name} at row {row}, column {column}; every entry must be finite: "
        "drop such rows, or find the step that made them"
    )


def _plain(X: Any) -> NDArray[Any]:
    """A NumPy array of whatever converts to one: tensors and frames without importing their libraries."""
    module = type(X).__module__.partition(".")[0]
    if module == "torch":
        X = X.detach().cpu()
        return np.asarray(X.float() if str(X.dtype) == "torch.bfloat16" else X)
    if module in ("pandas", "polars"):
        return _from_frame(X)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("the array has masked entries; every entry must be a number: fill or drop them first")
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(f"rows of different length do not make an (n, d) array: {error}") from error


def _from_frame(frame: Any) -> NDArray[Any]:
    columns = [str(name) for name in frame.columns]
    if len(columns) == 1:
        first = frame[frame.columns[0]]
        if len(first) and np.ndim(first[0] if not hasattr(first, "iloc") else first.iloc[0]) == 1:
            return np.asarray([np.asarray(row) for row in first])
    for name, label in zip(columns, frame.columns, strict=True):
        dtype = getattr(frame[label].to_numpy(), "dtype", None)
        if dtype is None or dtype.kind not in "fiub":
            raise TypeError(
                f"column {name!r} of the frame is not numeric ({dtype}); select the vector columns first, "
                "or pass a frame with one column of lists"
            )
    return np.asarray(frame.to_numpy())


def _from_array(X: NDArray[Any]) -> Source:
    _require_table(X)

    def chunks() -> Iterator[NDArray[Any]]:
        yield X

    return Source(chunks, n=X.shape[0], d=X.shape[1], dtype=X.dtype, take=lambda rows: X[rows])


def _from_sequence(parts: Sequence[NDArray[Any]]) -> Source:
    parts = [part for part in parts if len(part)]
    if not parts:
        raise ValueError("there are no vectors: every chunk is empty; give at least one row")
    for part in parts:
        _require_table(part)
    ends = np.cumsum([len(part) for part in parts])
    starts = ends - [len(part) for part in parts]

    def take(rows: NDArray[np.intp]) -> NDArray[Any]:
        owner = np.searchsorted(ends, rows, side="right")
        picked = [part[rows[owner == i] - starts[i]] for i, part in enumerate(parts) if np.any(owner == i)]
        return np.concatenate(picked)

    return Source(
        lambda: iter(parts),
        n=int(ends[-1]),
        d=parts[0].shape[1],
        dtype=np.result_type(*parts),
        take=take,
    )


def _from_chunks(make: Callable[[], Any]) -> Source:
    """A source read anew from `make()` on every pass."""

    def chunks() -> Iterator[NDArray[Any]]:
        return (_plain(chunk) for chunk in make())

    first = next((chunk for chunk in chunks() if len(chunk)), None)
    if first is None:
        raise ValueError("there are no vectors: the chunks are empty; give at least one row")
    _require_table(first)
    return Source(chunks, n=None, d=first.shape[1], dtype=first.dtype)


def _from_stream(stream: Iterator[Any]) -> Source:
    """A source that can be read once: what a generator allows."""
    plain = (_plain(chunk) for chunk in stream)
    first = next((chunk for chunk in plain if len(chunk)), None)
    if first is None:
        raise ValueError("there are no vectors: the stream is empty; give at least one row")
    _require_table(first)
    spent = False

    def chunks() -> Iterator[NDArray[Any]]:
        nonlocal spent
        if spent:
            raise ValueError(
                "this stream of chunks was read already and cannot be read twice; pass a function that returns "
                "a fresh iterator, a list of chunks, or a memory-mapped array"
            )
        spent = True
        yield first
        yield from plain

    return Source(chunks, n=None, d=first.shape[1], dtype=first.dtype, replayable=False)


def _from_folder(folder: Path) -> Source:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder of .npy shards; open single files with theodolite.spaces.read")
    if (folder / "space.json").exists():
        raise ValueError(f"{folder} is a space with layers; open it with theodolite.spaces.Space.open and take one of them")
    shards = sorted(folder.glob("*.npy"))
    if not shards:
        raise FileNotFoundError(f"{folder} holds no .npy shard")
    return _from_sequence([np.load(path, mmap_mode="r", allow_pickle=False) for path in shards])


def _require_table(X: NDArray[Any]) -> None:
    working_dtype(X.dtype)
    if X.ndim == 1:
        raise ValueError(
            f"got one axis of length {len(X)}; vectors are an (n, d) array: X.reshape(1, -1) for one vector, "
            "X.reshape(-1, 1) for one dimension"
        )
    if X.ndim != 2:
        raise ValueError(
            f"got shape {X.shape}; vectors are an (n, d) array: drop padding, then flatten with X.reshape(-1, X.shape[-1])"
            if X.ndim > 2
            else "got a single number; vectors are an (n, d) array"
        )
    if 0 in X.shape:
        raise ValueError(f"got shape {X.shape}; there must be at least one row and one column")


def _regroup(chunks: Iterable[NDArray[Any]], rows: int, d: int) -> Iterator[NDArray[Any]]:
    """Cut long chunks and join short ones, so that no caller's chunking costs speed."""
    waiting: list[NDArray[Any]] = []
    held = 0
    start = 0
    for chunk in chunks:
        if chunk.ndim != 2 or chunk.shape[1] != d:
            raise ValueError(f"the chunk at row {start} has shape {chunk.shape}; the first one had {d} columns")
        start += len(chunk)
        for low in range(0, len(chunk), rows):
            piece = chunk[low : low + rows]
            waiting.append(piece)
            held += len(piece)
            if held >= rows:
                joined = waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
                yield joined[:rows]
                waiting = [joined[rows:]] if held > rows else []
                held = max(0, held - rows)
    if held:
        yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
