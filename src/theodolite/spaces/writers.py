"""Write vectors block by block to a file that is whole or absent."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from theodolite.core.files import require_free, whole_file
from theodolite.spaces.readers.data_files import AnyPath

# Room for the header of a .safetensors file, whose length may not depend on the number of rows: it is written last.
_HEADER_BYTES = 248

Blocks: TypeAlias = Iterable[NDArray[Any]]
# The header of a file with an (n, d) array of a type.
_Header: TypeAlias = Callable[[int, int, np.dtype[Any]], bytes]


def write_vectors(
    blocks: Blocks, path: AnyPath, *, n: int | None = None, d: int | None = None, dtype: Any = np.float32, overwrite: bool = False
) -> int:
    """Write (m, d) blocks to a file, which appears under its name only once it is complete and on disk.

    Parameters
    ----------
    blocks
        The vectors, in order.
    path
        A `.npy`, `.safetensors` or `.parquet` file.
    n
        Number of rows to expect, to check against; None if it is not known.
    d
        Number of columns; None takes that of the first block.
    dtype
        float16, float32 or float64; None takes that of the first block.
    overwrite
        Whether a file of that name may be replaced.

    Returns
    -------
    int
        The number of rows written.
    """
    path = require_vectors_file(path, overwrite=overwrite)
    blocks = iter(blocks)
    # Only the first block tells how wide a repair's output is.
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"there are no vectors to write to {path}; give at least one block")
    width = first.shape[1] if d is None else d
    kind = require_float_type(first.dtype if dtype is None else dtype)
    with whole_file(path, overwrite=overwrite) as unfinished:
        rows = _WRITERS[path.suffix.lower()](_checked(chain([first], blocks), width, kind), unfinished, n or 0, width, kind)
        if n is not None and rows != n:
            raise ValueError(f"the blocks have {rows} rows, not n={n}; {path} was not written")
    return rows


def require_vectors_file(path: AnyPath, *, overwrite: bool) -> Path:
    """The path, if vectors could be written there; called before long work rather than after it.

    Parameters
    ----------
    path
        The file that is going to be written.
    overwrite
        Whether a file of that name may be replaced.
    """
    path = Path(path)
    if path.suffix.lower() not in _WRITERS:
        raise ValueError(f"{path.name!r} has no known ending for vectors; use {', '.join(_WRITERS)}")
    return require_free(path, overwrite=overwrite)


def npy_header(n: int, d: int, dtype: np.dtype[Any]) -> bytes:
    """The header of a `.npy` file with an (n, d) array in C order; its length does not depend on n."""
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"shape": (n, d), "fortran_order": False, "descr": npy.dtype_to_descr(dtype)})
    return header.getvalue()


def require_float_type(dtype: Any) -> np.dtype[Any]:
    """The type in this machine's byte order, if vectors can be stored in it: float16, float32 or float64."""
    kind: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    # A longer float than 64 bits is not the same on every machine.
    if kind.kind != "f" or kind.itemsize > 8:
        raise ValueError(f"dtype={kind} cannot be stored; use float16, float32 or float64")
    return kind


def _checked(blocks: Blocks, d: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != d:
            raise ValueError(f"a block has shape {block.shape}; all must have d={d} columns")
        yield np.ascontiguousarray(block, dtype)


def _safetensors_header(n: int, d: int, dtype: np.dtype[Any]) -> bytes:
    entry = {"dtype": f"F{8 * dtype.itemsize}", "shape": [n, d], "data_offsets": [0, n * d * dtype.itemsize]}
    text = json.dumps({"vectors": entry}).encode().ljust(_HEADER_BYTES)
    return len(text).to_bytes(8, "little") + text


def _write_raw(header: _Header, blocks: Blocks, path: Path, n: int, d: int, dtype: np.dtype[Any]) -> int:
    rows = 0
    with path.open("wb") as file:
        start = file.write(header(n, d, dtype))
        for block in blocks:
            file.write(block.data)
            rows += len(block)
        # The number of rows is part of the header, and may be known only now.
        if rows != n:
            file.seek(0)
            end = file.write(header(rows, d, dtype))
            assert end == start
    return rows


def _write_parquet(blocks: Blocks, path: Path, _: int, d: int, dtype: np.dtype[Any]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("vector", pa.list_(pa.from_numpy_dtype(dtype), d))])
    rows = 0
    with pq.ParquetWriter(path, schema) as writer:
        for block in blocks:
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), d)
            writer.write_table(pa.table([vectors], schema=schema))
            rows += len(block)
    return rows


# Each takes (blocks, path, n or 0, d, dtype), and returns the number of rows.
_WRITERS: dict[str, Callable[[Blocks, Path, int, int, np.dtype[Any]], int]] = {
    ".npy": partial(_write_raw, npy_header),
    ".safetensors": partial(_write_raw, _safetensors_header),
    ".parquet": _write_parquet,
}
