"""`read`: open a file or folder of vectors, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.options import option
from theodolite.core.vectors import Source
from theodolite.spaces.folder import is_space, layer_name, read_about, read_layer
from theodolite.spaces.readers.arrays import read_npy, read_npz, read_safetensors
from theodolite.spaces.readers.errors import DataError, EmptyFileError
from theodolite.spaces.readers.location import File, locate
from theodolite.spaces.readers.parquet import read_parquet
from theodolite.spaces.readers.sources import file_source
from theodolite.spaces.readers.table_vectors import read_delimited, read_jsonl
from theodolite.spaces.readers.text import read_text_vectors

PLAIN: dict[str, Callable[[File], Source]] = {".npy": read_npy, ".txt": read_text_vectors, ".vec": read_text_vectors}
KEYED: dict[str, Callable[..., Source]] = {".npz": read_npz, ".safetensors": read_safetensors}
TABLES: dict[str, Callable[..., Source]] = {
    ".parquet": read_parquet,
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".jsonl": read_jsonl,
}
# Endings of the files that `read` opens.
ENDINGS = (*PLAIN, *KEYED, *TABLES)


def read(path: str | os.PathLike[str], *, key: str | None = None, columns: str | Sequence[str] | None = None) -> Source:
    """Open a file of vectors, a folder of shards, or one layer of a space.

    Local `.npy` and `.safetensors` files are memory-mapped; all others are read in blocks. The shards of a folder are one cloud,
    in natural order (`shard-2` before `shard-10`); empty ones are skipped.

    Parameters
    ----------
    path
        A `.npy`, `.npz`, `.safetensors`, `.parquet`, `.csv`, `.tsv`, `.jsonl`, `.txt` or `.vec` file, a folder of such files, or
        the folder of a space; a URL such as `s3://…` is opened through fsspec.
    key
        Name of the array in a `.npz` or `.safetensors` file that holds several, or number of the layer of a space.
    columns
        Which columns of a table hold the vectors: names, ranges `first:last`, patterns `dim_*`, or one column of lists, as a
        sequence or as text with commas.

    Returns
    -------
    Source
        The rows, to be read block by block; every metric and repair takes it.

    Raises
    ------
    DataError
        The file does not hold vectors, or is damaged; the message names file, line and column.
    FileNotFoundError
        There is no such file; the message suggests names that are close.
    """
    file = locate(path)
    if isinstance(columns, str):
        columns = columns.split(",")
    # A space is a folder of .npy files too, but its layers are not shards of one cloud.
    if file.local is not None and is_space(file.local):
        if columns is not None:
            raise DataError(f"a space has layers, not columns; choose one with {option('key', 'NUMBER')}", file)
        return read_layer(file.local, key=key)
    return _read_shards(file, key, columns) if file.is_folder else _read_file(file, key, columns)


def files_of(file: File) -> list[File]:
    """The files that `read` would open, in order: the file itself, the shards of a folder, or the layers of a space.

    Parameters
    ----------
    file
        A file or folder that exists.
    """
    if not file.is_folder:
        return [file]
    if file.local is not None and is_space(file.local):
        paths = [file.local / layer_name(layer) for layer in read_about(file.local, verify=False).layers]
        return [File(str(path), path) for path in paths]
    files = [entry for entry in file.entries() if entry.ending in ENDINGS]
    if len({entry.ending for entry in files}) > 1:  # a README.txt or LICENSE.txt among shards is prose
        files = [entry for entry in files if entry.ending != ".txt"]
    if not files:
        raise FileNotFoundError(f"{file} holds no file of vectors; the known endings are {', '.join(ENDINGS)}")
    endings = sorted({entry.ending for entry in files})
    if len(endings) > 1:
        raise DataError(f"the folder holds {' and '.join(endings)} files; all shards must have one format", file)
    return files


def _read_file(file: File, key: str | None, columns: Sequence[str] | None) -> Source:
    ending = file.ending
    if ending not in ENDINGS:
        problem = f"the ending {ending!r} is not known" if ending else "the file has no ending"
        raise DataError(f"{problem}; known are {', '.join(ENDINGS)}, and folders of such files", file)
    if key is not None and ending not in KEYED:
        raise DataError(f"the file holds one array; {option('key', key)} is for {' and '.join(KEYED)} files: leave it out", file)
    if columns is not None and ending not in TABLES:
        raise DataError(
            f"the file has no columns; {option('columns', ','.join(columns))} is for {', '.join(TABLES)} files: leave it out",
            file,
        )
    if ending in PLAIN:
        return PLAIN[ending](file)
    return KEYED[ending](file, key=key) if ending in KEYED else TABLES[ending](file, columns=columns)


def _read_shards(folder: File, key: str | None, columns: Sequence[str] | None) -> Source:
    shards: dict[File, Source] = {}
    files = files_of(folder)
    for file in files:
        try:
            shards[file] = _read_file(file, key, columns)
        except EmptyFileError:
            continue
        first, d = next((file, shard.d) for file, shard in shards.items())
        if shards[file].d != d:
            raise DataError(f"{file} has {shards[file].d} columns, {first} has {d}; all shards must have the same number")
    if not shards:
        raise EmptyFileError(f"all {len(files)} shards are empty; there must be at least one vector", folder)
    return _joined(folder, list(shards.values()))


def _joined(folder: File, parts: list[Source]) -> Source:
    """Sources one after the other, as one."""
    counts = [part.n for part in parts if part.n is not None]
    is_counted = len(counts) == len(parts)
    ends = np.cumsum(counts)

    def chunks() -> Iterator[NDArray[Any]]:
        for part in parts:
            for _, block in part.raw_blocks():  # raw: the joined source casts and checks
                yield block

    def take(rows: NDArray[np.intp]) -> NDArray[Any]:
        owner = np.searchsorted(ends, rows, side="right")
        picks = [part.take(rows[owner == i] - (ends[i] - counts[i])) for i, part in enumerate(parts) if np.any(owner == i)]
        return np.concatenate(picks)

    return file_source(
        folder,
        chunks,
        n=sum(counts) if is_counted else None,
        d=parts[0].d,
        dtype=np.result_type(*(part.dtype for part in parts)),
        take=take if is_counted else None,
    )
