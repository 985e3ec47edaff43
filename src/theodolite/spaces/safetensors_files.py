"""`.safetensors`: one tensor, memory-mapped, in any float format including bfloat16, without torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import BLOCK_BYTES, Source
from theodolite.spaces.files import EmptyFileError, File, file_source
from theodolite.spaces.numpy_files import Layout, choose_key, mapped_source, require_matrix, streamed

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "<i1", "U8": "<u1", "BOOL": "?",
}  # fmt: skip


def read_safetensors(file: File, *, key: str | None) -> Source:
    """One (n, d) tensor of a `.safetensors` file: the only matrix, or the one called `key`."""
    # The header is read here rather than by the safetensors package: that has no bfloat16 without torch, and no mapping.
    tensors, base = _header(file)
    name = choose_key(str(file), {known: tuple(entry["shape"]) for known, entry in tensors.items()}, key)
    entry = tensors[name]
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"{file}, tensor {name!r} is stored as {entry['dtype']}; known are {', '.join(DTYPES)}: convert it")
    shape = tuple(entry["shape"])
    layout = Layout(shape, False, np.dtype(DTYPES[entry["dtype"]]), base + entry["data_offsets"][0])
    require_matrix(shape, layout.dtype, f"{file}, tensor {name!r}")
    if file.size < layout.offset + layout.nbytes:
        end = layout.offset + layout.nbytes
        raise ValueError(f"{file} is cut short: tensor {name!r} ends at byte {end:,} of {file.size:,}; copy it again")
    if 0 in shape:
        raise EmptyFileError(f"{file}, tensor {name!r} is empty (shape {shape}); there must be at least one row and one column")
    if file.local is None:
        plain = streamed(file, file.open, layout)
    else:
        plain = mapped_source(file, np.memmap(file.local, layout.dtype, "r", layout.offset, shape))
    return _widened(file, plain, shape) if entry["dtype"] == "BF16" else plain


def _header(file: File) -> tuple[dict[str, Any], int]:
    with file.open() as opened:
        start = opened.read(8)
        length = int.from_bytes(start, "little")
        if not start:
            raise EmptyFileError(f"{file} is empty; there must be at least one vector")
        if len(start) < 8 or length > file.size - 8:
            raise ValueError(f"{file} is not a whole .safetensors file: its header does not fit in it; copy or write it again")
        try:
            header = json.loads(opened.read(length))
        except ValueError as error:
            raise ValueError(f"{file} is not a .safetensors file: its header is no JSON ({error})") from error
    return {name: entry for name, entry in header.items() if name != "__metadata__"}, 8 + length


def _widened(file: File, bits: Source, shape: tuple[int, ...]) -> Source:
    """bfloat16 as float32: the same bits, followed by sixteen zeros."""
    step = max(1, BLOCK_BYTES // (4 * shape[1]))

    def widen(raw: NDArray[Any]) -> NDArray[Any]:
        return (raw.astype(np.uint32) << 16).view(np.float32)

    def chunks() -> Iterator[NDArray[Any]]:
        for _, block in bits.raw_blocks():
            for start in range(0, len(block), step):
                yield widen(block[start : start + step])

    def take(rows: NDArray[np.intp]) -> NDArray[Any]:
        # The sixteen bits came through the gate as float32, which holds them exactly.
        return widen(bits.take(rows).astype(np.uint16))

    return file_source(file, chunks, n=shape[0], d=shape[1], dtype=np.float32, take=take)
