"""`.npy` and `.npz`: mapped or streamed, never unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from theodolite.core.vectors import BLOCK_BYTES, Source
from theodolite.spaces.files import EmptyFileError, File, file_source
from theodolite.spaces.spool import Spool


@dataclass(frozen=True)
class Layout:
    """How an array lies in a file: what its header says, and where its numbers begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def read_npy(file: File) -> Source:
    """A `.npy` file: memory-mapped where it lies on this machine, streamed from anywhere else."""
    with file.open() as opened:
        layout = read_layout(opened, str(file))
    require_matrix(layout.shape, layout.dtype, str(file))
    if file.size < layout.offset + layout.nbytes:
        raise ValueError(
            f"{file} is cut short: its header promises {layout.nbytes:,} bytes of vectors {layout.shape}, "
            f"the file has {max(0, file.size - layout.offset):,}; copy or write it again"
        )
    if file.local is None:
        return streamed(file, file.open, layout)
    mapped = np.memmap(file.local, layout.dtype, "r", layout.offset, layout.shape, order="F" if layout.fortran else "C")
    return mapped_source(file, mapped)


def read_npz(file: File, *, key: str | None) -> Source:
    """One matrix of a `.npz` file, streamed: the only one, or the one called `key`."""
    try:
        with file.open() as opened, zipfile.ZipFile(opened) as archive:
            members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            layouts = {name: _member(archive, name, file) for name in members}
            packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise ValueError(f"{file} is not a whole .npz archive ({error}); write it again with numpy.savez") from error
    name = choose_key(str(file), {name: layout.shape for name, layout in layouts.items()}, key)
    layout = layouts[name]
    require_matrix(layout.shape, layout.dtype, f"{file}, array {name!r}")

    @contextmanager
    def member() -> Iterator[IO[bytes]]:
        with file.open() as opened, zipfile.ZipFile(opened) as archive, archive.open(f"{name}.npy") as inner:
            yield inner

    return streamed(file, member, layout, spool=packed)


def streamed(
    file: File, opener: Callable[[], AbstractContextManager[IO[bytes]]], layout: Layout, *, spool: bool = False
) -> Source:
    """A source that reads rows from the front of a byte stream, one block at a time, anew on every pass."""
    n, d = layout.shape

    def chunks() -> Iterator[NDArray[Any]]:
        with opener() as stream:
            stream.read(layout.offset)
            step = max(1, BLOCK_BYTES // (d * layout.dtype.itemsize))
            if layout.fortran:  # columns first: no row is whole before the last column is read
                yield _values(stream, n * d, layout, file).reshape((n, d), order="F")
                return
            for start in range(0, n, step):
                rows = min(step, n - start)
                yield _values(stream, rows * d, layout, file).reshape(rows, d)

    if not spool:
        return file_source(file, chunks, n=n, d=d, dtype=layout.dtype)
    kept = Spool(chunks, d, layout.dtype)
    return file_source(file, kept.chunks, n=n, d=d, dtype=layout.dtype, take=kept.take)


def mapped_source(file: File, mapped: NDArray[Any]) -> Source:
    """A source over a memory-mapped (n, d) array."""
    n, d = mapped.shape
    return file_source(file, lambda: iter([mapped]), n=n, d=d, dtype=mapped.dtype, take=lambda rows: mapped[rows])


def read_layout(stream: IO[bytes], name: str) -> Layout:
    """The header of a `.npy` stream."""
    try:
        version = npy.read_magic(stream)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = header(stream)
    except ValueError as error:
        if stream.tell() == 0:
            raise EmptyFileError(f"{name} is empty; there must be at least one vector") from None
        raise ValueError(f"{name} is not a .npy array ({error}); write it with numpy.save") from error
    return Layout(tuple(shape), bool(fortran), dtype, stream.tell())


def require_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
    """Raise unless the array is an (n, d) table of numbers."""
    if dtype.hasobject:
        raise ValueError(
            f"{name} holds pickled Python objects, which can run code when opened, and is refused; "
            "save it as numbers: numpy.save(path, numpy.stack(list(X)).astype('float32'))"
        )
    if len(shape) == 2:
        return
    advice = (
        "X.reshape(1, -1) for one vector, X.reshape(-1, 1) for one dimension"
        if len(shape) < 2
        else "drop padding, then flatten with X.reshape(-1, X.shape[-1])"
    )
    raise ValueError(f"{name} has shape {shape}; vectors are an (n, d) array: {advice}")


def choose_key(name: str, shapes: dict[str, tuple[int, ...]], key: str | None) -> str:
    """The key asked for, or the only matrix; an error that lists what there is."""
    listed = ", ".join(f"{known} {shape}" for known, shape in shapes.items())
    if key is not None:
        if key not in shapes:
            raise ValueError(f"{name} has no array {key!r}; it holds {listed or 'nothing'}")
        return key
    matrices = [known for known, shape in shapes.items() if len(shape) == 2]
    if len(matrices) == 1:
        return matrices[0]
    if not shapes:
        raise EmptyFileError(f"{name} holds no array; there must be one (n, d) array")
    if not matrices:
        raise ValueError(f"{name} holds no (n, d) array, only {listed}; save the vectors as one two-dimensional array")
    raise ValueError(f"{name} holds several arrays, say which with key= (--key): {listed}")


def _member(archive: zipfile.ZipFile, name: str, file: File) -> Layout:
    with archive.open(f"{name}.npy") as inner:
        return read_layout(inner, f"{file}, array {name!r}")


def _values(stream: IO[bytes], count: int, layout: Layout, file: File) -> NDArray[Any]:
    data = stream.read(count * layout.dtype.itemsize)
    if len(data) < count * layout.dtype.itemsize:
        raise ValueError(f"{file} is cut short: {len(data):,} bytes where {count * layout.dtype.itemsize:,} were promised")
    return np.frombuffer(data, layout.dtype)
