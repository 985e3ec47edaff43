"""`.npy`, `.npz` and `.safetensors`: arrays of raw numbers, memory-mapped or streamed, never unpickled."""

from __future__ import annotations

import math
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from theodolite.core.files import parse_json
from theodolite.core.spelling import option
from theodolite.core.vectors import BLOCK_BYTES, Source
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, file_source, require_numbers

_SAFETENSORS_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "<i1", "U8": "<u1", "BOOL": "?",
}  # fmt: skip


@dataclass(frozen=True)
class ArrayLayout:
    """How an array is stored in a file: what its header says, and at which byte its numbers begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def end(self) -> int:
        """The byte after the last number."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_npy(file: File) -> Source:
    """The vectors of a `.npy` file: memory-mapped if it is on this machine, streamed otherwise."""
    with file.open() as stream:
        layout = read_layout(stream, file)
    _require_matrix(layout, file, file.size)
    return _array_source(file, layout)


def read_npz(file: File, *, key: str | None = None) -> Source:
    """One matrix of a `.npz` file, streamed."""
    layouts: dict[str, ArrayLayout] = {}
    sizes: dict[str, int] = {}
    if file.size == 0:
        raise EmptyFileError("the file is empty; there must be at least one vector", file)
    with _open_archive(file) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                name = member.filename.removesuffix(".npy")
                with archive.open(member) as inner:
                    layouts[name] = read_layout(inner, f"{file}, array {name!r}")
                sizes[name] = member.file_size
        is_compressed = any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist())
    name = _choose_array(file, {name: layout.shape for name, layout in layouts.items()}, key)
    _require_matrix(layouts[name], f"{file}, array {name!r}", sizes[name])

    @contextmanager
    def open_member() -> Iterator[IO[bytes]]:
        with _open_archive(file) as archive, archive.open(f"{name}.npy") as inner:
            yield inner

    # A compressed member cannot be read from the middle, so later passes read a copy on disk.
    return _streamed(file, open_member, layouts[name], spool=is_compressed)


def read_safetensors(file: File, *, key: str | None = None) -> Source:
    """One matrix of a `.safetensors` file, in any float format including bfloat16, without torch."""
    # The header is read here rather than by the safetensors package: that has no bfloat16 without torch, and no mapping.
    tensors, start = _safetensors_header(file)
    name = _choose_array(file, {name: tensor.shape for name, tensor in tensors.items()}, key)
    tensor, location = tensors[name], f"{file}, tensor {name!r}"
    if tensor.dtype not in _SAFETENSORS_TYPES:
        raise DataError(f"it is stored as {tensor.dtype}; convert it to one of {', '.join(_SAFETENSORS_TYPES)}", location)
    layout = ArrayLayout(tensor.shape, False, np.dtype(_SAFETENSORS_TYPES[tensor.dtype]), start + tensor.begin)
    _require_matrix(layout, location, file.size)
    if layout.end != start + tensor.end:
        raise DataError("its header is damaged: shape and length do not match; copy the file again", location)
    numbers = _array_source(file, layout)
    return _widened(file, numbers) if tensor.dtype == "BF16" else numbers


def read_layout(stream: IO[bytes], name: object) -> ArrayLayout:
    """The header of a `.npy` stream."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2, and odd escapes in damaged ones
            version = npy.read_magic(stream)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = header(stream)
        if version not in ((1, 0), (2, 0), (3, 0)) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"version {version}, shape {shape}")
    # NumPy evaluates the header as Python: damaged ones raise whatever the parser, the evaluator and the types may.
    except Exception as error:
        # NumPy says the same of an empty file and of a wrong one.
        if stream.tell() == 0:
            raise EmptyFileError("the file is empty; there must be at least one vector", name) from None
        problem = " ".join(str(error).split())[:200]
        raise DataError(f"this is not a .npy array ({problem}); write it with numpy.save", name) from error
    return ArrayLayout(tuple(shape), bool(fortran), dtype, stream.tell())


@contextmanager
def _open_archive(file: File) -> Iterator[zipfile.ZipFile]:
    """The archive of a `.npz` file; damage becomes a `DataError` whenever it comes to light, also while members are read."""
    try:
        with file.open() as stream, zipfile.ZipFile(stream) as archive:
            yield archive
    except DataError:
        raise
    # Besides its own error, zipfile raises those of the decompressor, of an unknown method or encryption, and of wild offsets.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, KeyError, OverflowError, ValueError, OSError) as error:
        raise DataError(f"this is not a complete .npz archive ({error}); write it again with numpy.savez", file) from error


def _array_source(file: File, layout: ArrayLayout) -> Source:
    if file.local is None:
        return _streamed(file, file.open, layout)

    def mapped() -> NDArray[Any]:
        # Anew at every pass: a mapping keeps its file open, and a folder may have more shards than files may be open.
        _require_matrix(layout, file, file.size)
        order: Any = "F" if layout.fortran else "C"
        return np.memmap(str(file.local), layout.dtype, "r", layout.offset, layout.shape, order=order)

    n, d = layout.shape
    return Source(lambda: iter([mapped()]), n=n, d=d, dtype=layout.dtype, take=lambda rows: mapped()[rows])


def _streamed(
    file: File, open_stream: Callable[[], AbstractContextManager[IO[bytes]]], layout: ArrayLayout, *, spool: bool = False
) -> Source:
    """A source that reads rows from the front of a byte stream, one block at a time, and opens it again for every pass."""
    n, d = layout.shape

    def chunks() -> Iterator[NDArray[Any]]:
        # Columns first: no row is complete before the last column is read.
        step = n if layout.fortran else max(1, BLOCK_BYTES // (d * layout.dtype.itemsize))
        with open_stream() as stream:
            stream.read(layout.offset)  # read, not seek: a compressed stream may not seek
            for start in range(0, n, step):
                rows = min(step, n - start)
                size = rows * d * layout.dtype.itemsize
                data = stream.read(size)
                if len(data) < size:
                    raise DataError(f"the file is cut short: {len(data):,} bytes instead of {size:,}; copy it again", file)
                yield np.frombuffer(data, layout.dtype).reshape((rows, d), order="F" if layout.fortran else "C")

    return file_source(file, chunks, n=n, d=d, dtype=layout.dtype, spool=spool)


def _require_matrix(layout: ArrayLayout, name: object, size: int) -> None:
    """Raise an error unless an array is an (n, d) matrix of numbers that ends inside its file of `size` bytes."""
    if layout.dtype.hasobject:
        hint = "save it as numbers: numpy.save(path, numpy.stack(list(X)).astype('float32'))"
        raise DataError(f"it holds pickled Python objects, which can run code when opened; {hint}", name)
    axes = len(layout.shape)
    if axes != 2:
        for_few = "X.reshape(1, -1) for one vector, X.reshape(-1, 1) for one dimension"
        advice = for_few if axes < 2 else "drop padding, then flatten with X.reshape(-1, X.shape[-1])"
        raise DataError(f"the array has shape {layout.shape}; vectors are an (n, d) array: {advice}", name)
    require_numbers(layout.dtype, name)
    if 0 in layout.shape:
        raise EmptyFileError(f"the array is empty (shape {layout.shape}); there must be at least one vector", name)
    # Mapping a file that is too short would kill the process when the missing page is touched.
    if size < layout.end:
        problem = f"the file is cut short: vectors {layout.shape} end at byte {layout.end:,}, the file has {size:,}"
        raise DataError(f"{problem}; copy or write it again", name)


def _choose_array(file: File, shapes: Mapping[str, tuple[int, ...]], key: str | None) -> str:
    """The array named by `key`, or the only matrix."""
    arrays = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if key is not None:
        if key not in shapes:
            raise DataError(f"there is no array {key!r}; the file holds {arrays or 'nothing'}", file)
        return key
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(matrices) == 1:
        return matrices[0]
    if not shapes:
        raise EmptyFileError("the file holds no array; there must be one (n, d) array", file)
    if not matrices:
        raise DataError(f"the file holds no (n, d) array, only {arrays}; save the vectors as one matrix", file)
    raise DataError(f"the file holds several arrays ({arrays}); choose one with {option('key', 'NAME')}", file)


@dataclass(frozen=True)
class _Tensor:
    """The entry of a tensor in the header of a `.safetensors` file; its bytes are counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _safetensors_header(file: File) -> tuple[dict[str, _Tensor], int]:
    """The entries of all tensors, and the byte at which their numbers begin."""
    with file.open() as stream:
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if not start:
            raise EmptyFileError("the file is empty; there must be at least one vector", file)
        # Checked before the header is read: any other file would ask for an absurd number of bytes.
        if len(start) < 8 or length > file.size - 8:
            raise DataError("this is not a complete .safetensors file: its header is longer than the file; copy it again", file)
        try:
            header = parse_json(stream.read(length))
        except ValueError as error:
            raise DataError(f"this is not a .safetensors file: its header is not JSON ({error})", file) from error
    try:
        tensors = {
            name: _Tensor(str(entry["dtype"]), tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in header.items()
            if name != "__metadata__"
        }
        sizes = chain.from_iterable((*tensor.shape, tensor.begin, tensor.end) for tensor in tensors.values())
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise ValueError("sizes are whole numbers from 0 up")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"its header is damaged ({type(error).__name__}: {error}); copy the file again", file) from error
    return tensors, 8 + length


def _widened(file: File, bits: Source) -> Source:
    """bfloat16 as float32: the same bits, followed by sixteen zeros."""

    def widen(raw: NDArray[Any]) -> NDArray[Any]:
        return (raw.astype(np.uint32) << 16).view(np.float32)

    def chunks() -> Iterator[NDArray[Any]]:
        return (widen(block) for _, block in bits.raw_blocks())

    # The sixteen bits come through `take` as float32, which holds them exactly.
    return file_source(file, chunks, n=bits.n, d=bits.d, dtype=np.float32, take=lambda rows: widen(bits.take(rows)))
