"""Write vectors block by block, whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from theodolite.core.files import require_free, whole_file

ROOM = 248  # bytes kept for the header of a .safetensors file, so that it can be written last

Blocks = Iterable[NDArray[Any]]


def write_vectors(
    blocks: Blocks, path: str | os.PathLike[str], *, n: int | None, d: int, dtype: Any = np.float32, overwrite: bool = False
) -> int:
    """Write (m, d) blocks to a `.npy`, `.safetensors` or `.parquet` file, and return the number of rows.

    The file appears under its name only once it is complete and on disk; until then nothing is there, or what was there before.
    `n` is the number of rows to expect, None where it is not known.
    """
    path = check_target(path, overwrite=overwrite)
    writer = WRITERS[path.suffix.lower()]
    kind = np.dtype(dtype)
    if kind.kind != "f" or kind.itemsize > 8:
        raise ValueError(f"dtype={kind} cannot be written; use float16, float32 or float64")
    with whole_file(path, overwrite=overwrite) as partial:
        rows = writer(_checked(blocks, d, kind), partial, n, d, kind)
        if n is not None and rows != n:
            raise ValueError(f"{rows} rows came where n={n} were promised; {path} was not written")
    return rows


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """The path, if vectors could be written there; known before the work rather than after it."""
    path = Path(path)
    if path.suffix.lower() not in WRITERS:
        raise ValueError(f"{path.name!r} has no known ending for vectors; use {', '.join(WRITERS)}")
    return require_free(path, overwrite=overwrite)


def _checked(blocks: Blocks, d: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != d:
            raise ValueError(f"a block has shape {block.shape}; all must have d={d} columns")
        yield np.ascontiguousarray(block, dtype)


def _write_npy(blocks: Blocks, partial: Path, n: int | None, d: int, dtype: np.dtype[Any]) -> int:
    def header(file: IO[bytes], rows: int) -> None:
        # NumPy pads headers so that the number of rows can grow without moving the data.
        npy.write_array_header_1_0(file, {"shape": (rows, d), "fortran_order": False, "descr": npy.dtype_to_descr(dtype)})

    return _write_raw(blocks, partial, n or 0, header)


def _write_safetensors(blocks: Blocks, partial: Path, n: int | None, d: int, dtype: np.dtype[Any]) -> int:
    def header(file: IO[bytes], rows: int) -> None:
        end = rows * d * dtype.itemsize
        entry = {"dtype": f"F{8 * dtype.itemsize}", "shape": [rows, d], "data_offsets": [0, end]}
        text = json.dumps({"vectors": entry}).encode().ljust(ROOM)
        file.write(len(text).to_bytes(8, "little") + text)

    return _write_raw(blocks, partial, n or 0, header)


def _write_raw(blocks: Blocks, partial: Path, n: int, header: Callable[[IO[bytes], int], None]) -> int:
    rows = 0
    with partial.open("wb") as file:
        header(file, n)
        start = file.tell()
        for block in blocks:
            file.write(block.data)
            rows += len(block)
        if rows != n:
            file.seek(0)
            header(file, rows)
            assert file.tell() == start
    return rows


def _write_parquet(blocks: Blocks, partial: Path, _n: int | None, d: int, dtype: np.dtype[Any]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.list_(pa.from_numpy_dtype(dtype), d)
    schema = pa.schema([("vector", kind)])
    rows = 0
    with pq.ParquetWriter(partial, schema) as writer:
        for block in blocks:
            values = pa.array(block.reshape(-1))
            writer.write_table(pa.table([pa.FixedSizeListArray.from_arrays(values, d)], schema=schema))
            rows += len(block)
    return rows


WRITERS: dict[str, Callable[[Blocks, Path, int | None, int, np.dtype[Any]], int]] = {
    ".npy": _write_npy,
    ".safetensors": _write_safetensors,
    ".parquet": _write_parquet,
}
