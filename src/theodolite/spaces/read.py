"""Open a file or folder of vectors, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Source
from theodolite.spaces.delimited import read_delimited
from theodolite.spaces.files import EmptyFileError, File, file_source, locate
from theodolite.spaces.jsonl import read_jsonl
from theodolite.spaces.numpy_files import read_npy, read_npz
from theodolite.spaces.parquet import read_parquet
from theodolite.spaces.safetensors_files import read_safetensors
from theodolite.spaces.space_folder import is_space, read_space
from theodolite.spaces.text import read_text

PLAIN: dict[str, Callable[[File], Source]] = {".npy": read_npy, ".txt": read_text, ".vec": read_text}
KEYED: dict[str, Callable[..., Source]] = {".npz": read_npz, ".safetensors": read_safetensors}
TABLES: dict[str, Callable[..., Source]] = {
    ".parquet": read_parquet,
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".jsonl": read_jsonl,
}
ENDINGS = (*PLAIN, *KEYED, *TABLES)


def read(path: str | os.PathLike[str], *, key: str | None = None, columns: Sequence[str] | None = None) -> Source:
    """Open a file of vectors, or a folder of shards, of any format in `ENDINGS`.

    `key` names the array of an `.npz` or `.safetensors` file that holds several, or the layer of a space. `columns` chooses the
    columns of a table: names, ranges `first:last`, patterns `dim_*`, or one column of lists. Local `.npy` and `.safetensors`
    files are memory-mapped; all others are read in blocks. A URL such as `s3://…` is opened through fsspec.
    """
    file = locate(path)
    if file.local is not None and is_space(file.local):
        if columns is not None:
            raise ValueError(f"columns= chooses columns of tables; {file} is a space, whose layers key= (--key) chooses")
        return read_space(file.local, key=key)
    return _read_folder(file, key, columns) if file.is_folder else _read_file(file, key, columns)


def _read_file(file: File, key: str | None, columns: Sequence[str] | None) -> Source:
    ending = file.ending
    if ending not in ENDINGS:
        what = f"the unknown ending {ending!r}" if ending else "no ending"
        raise ValueError(f"{file} has {what}; known are {', '.join(ENDINGS)}, and folders of them")
    if key is not None and ending not in KEYED:
        raise ValueError(f"key={key!r} names an array of {' or '.join(KEYED)} files; {file} holds just one: leave it out")
    if columns is not None and ending not in TABLES:
        raise ValueError(f"columns= chooses columns of {', '.join(TABLES)} files; {file} has none: leave it out")
    if ending in PLAIN:
        return PLAIN[ending](file)
    return KEYED[ending](file, key=key) if ending in KEYED else TABLES[ending](file, columns=columns)


def _read_folder(folder: File, key: str | None, columns: Sequence[str] | None) -> Source:
    """The shards of a folder as one cloud, in natural order; empty shards are skipped."""
    shards: list[tuple[File, Source]] = []
    files = shard_files(folder)
    for file in files:
        try:
            opened = _read_file(file, key, columns)
        except EmptyFileError:
            continue
        if shards and opened.d != shards[0][1].d:
            raise ValueError(
                f"{file} has {opened.d} columns, {shards[0][0]} has {shards[0][1].d}; all shards must be of the same width"
            )
        shards.append((file, opened))
    if not shards:
        raise EmptyFileError(f"{folder}: all {len(files)} shards are empty; there must be at least one vector")
    return _joined(folder, [opened for _, opened in shards])


def shard_files(folder: File) -> list[File]:
    """The files of one format that a folder holds, in natural order; of a space its layers."""
    if folder.local is not None and is_space(folder.local):
        return [File(str(path), path) for path in sorted(folder.local.glob("layer-*.npy"))]
    files = [file for file in folder.entries() if file.ending in ENDINGS]
    endings = sorted({file.ending for file in files})
    if len(endings) > 1:  # a README.txt or LICENSE.txt among shards is prose
        files = [file for file in files if file.ending != ".txt"]
        endings = sorted({file.ending for file in files})
    if not files:
        raise FileNotFoundError(f"{folder} holds no file of vectors; known endings are {', '.join(ENDINGS)}")
    if len(endings) > 1:
        raise ValueError(f"{folder} holds {' and '.join(endings)} files; shards must be of one format: give the files one by one")
    return files


def _joined(folder: File, parts: list[Source]) -> Source:
    counts = [part.n for part in parts]
    known = [count for count in counts if count is not None]
    whole = len(known) == len(parts)

    def chunks() -> Iterator[NDArray[Any]]:
        for part in parts:
            for _, block in part.raw_blocks():
                yield block

    def take(rows: NDArray[np.intp]) -> NDArray[Any]:
        ends = np.cumsum(known)
        owner = np.searchsorted(ends, rows, side="right")
        picked = [part.take(rows[owner == i] - (ends[i] - known[i])) for i, part in enumerate(parts) if np.any(owner == i)]
        return np.concatenate(picked)

    dtype = np.result_type(*(part.dtype for part in parts))
    return file_source(folder, chunks, n=sum(known) if whole else None, d=parts[0].d, dtype=dtype, take=take if whole else None)
