"""Open vectors and what a table holds next to them: any file or folder, one layer of a space, the demonstration's vectors."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from theodolite.core.files import require_regular, sha256_of
from theodolite.core.spelling import option, switched_off
from theodolite.core.vectors import Floats, Source, array, joined
from theodolite.spaces.folder import is_space, layer_name, read_about, read_layer
from theodolite.spaces.readers.data_files import AnyPath, DataError, EmptyFileError, File, locate
from theodolite.spaces.writers import TABLES, OtherColumns

_TABLE = ("columns", "delimiter", "header", "decimal")
# The endings of files that can be read: the reader of each, imported when it is needed, and the options that it takes.
_READERS: dict[str, tuple[str, tuple[str, ...]]] = {
    ".npy": ("arrays.read_npy", ()),
    ".npz": ("arrays.read_npz", ("key",)),
    ".safetensors": ("arrays.read_safetensors", ("key",)),
    ".parquet": ("table_vectors.read_parquet", ("columns",)),
    ".csv": ("table_vectors.read_delimited", _TABLE),
    ".tsv": ("table_vectors.read_delimited", _TABLE),
    ".tab": ("table_vectors.read_delimited", _TABLE),
    ".jsonl": ("table_vectors.read_jsonl", ("columns",)),
    ".txt": ("table_vectors.read_text_file", _TABLE),
    ".vec": ("text_files.read_text_vectors", ("decimal",)),
    ".faiss": ("indexes.read_faiss", ()),
    ".index": ("indexes.read_faiss", ()),
}

# The hash of the demonstration's vectors: the numbers in the documentation hold for these alone.
_DEMO_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"


def read(
    path: AnyPath | Sequence[AnyPath],
    *,
    key: str | None = None,
    columns: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
) -> Source:
    """Open a file of vectors, shards, or one layer of a space.

    Local `.npy` and `.safetensors` files are memory-mapped; all others are read in blocks. A file of up to 4 MB that says how
    many rows it has is read at once. The shards of a folder or pattern are
    one cloud, in natural order (`shard-2` before `shard-10`), those of a list in its order; empty ones are skipped.

    Parameters
    ----------
    path
        A `.npy`, `.npz`, `.safetensors`, `.parquet`, `.csv`, `.tsv`, `.jsonl`, `.txt`, `.vec`, `.faiss` or `.index` file, a
        folder of such files, a pattern such as `shards/*.npy`, a list of files, or the folder of a space; URLs such as `s3://…`,
        `gs://…` or `hf://…` are opened through fsspec.
    key
        Name of the array in a `.npz` or `.safetensors` file that holds several, or number of the layer of a space.
    columns
        Which columns of a table hold the vectors: names, ranges `first:last`, patterns `dim_*`, or one column of lists, as a
        sequence or as text with commas. None takes the only column of lists, or the columns of numbers.
    delimiter
        What separates the cells of a `.csv`, `.tsv` or `.txt` table, such as `;`; None finds it.
    header
        Whether the first line of such a table names the columns; None decides by its cells.
    decimal
        `","` if the numbers of a `.csv`, `.tsv`, `.txt` or `.vec` file have decimal commas; None means decimal points.

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
    if isinstance(columns, str):
        columns = columns.split(",")
    options = {"key": key, "columns": columns, "delimiter": delimiter, "header": header, "decimal": decimal}
    options = {name: value for name, value in options.items() if value is not None}
    if not isinstance(path, (str, os.PathLike)):
        return _read_shards([locate(shard) for shard in path], options, f"the list of {len(path)} files")
    file = locate(path)
    # A space is a folder of .npy files too, but its layers are not shards of one cloud.
    if file.local is not None and is_space(file.local):
        if columns is not None:
            raise DataError(f"a space has layers, not columns; choose one with {option('key', 'NUMBER')}", file)
        return read_layer(file.local, key=key)
    return _read_shards(files_of(file), options, file) if file.is_folder else _read_file(file, options).loaded()


def files_of(file: File) -> list[File]:
    """The files that `read` would open, in order: the file itself, the shards of a folder, or the layers of a space."""
    if not file.is_folder:
        return [file]
    if file.local is not None and is_space(file.local):
        paths = [file.local / layer_name(layer) for layer in read_about(file.local, verify=False).layers]
        return [File(str(path), path) for path in paths]
    files = [entry for entry in file.entries() if entry.ending in _READERS]
    if len({entry.ending for entry in files}) > 1:  # a README.txt or LICENSE.txt among shards is prose
        files = [entry for entry in files if entry.ending != ".txt"]
    if not files:
        raise FileNotFoundError(f"{file} holds no file of vectors; the known endings are {', '.join(_READERS)}")
    endings = sorted({entry.ending for entry in files})
    if len(endings) > 1:
        raise DataError(f"the folder holds {' and '.join(endings)} files; all shards must have one format", file)
    return files


def other_columns(path: AnyPath, *, columns: Sequence[str] | None = None, **reading: Any) -> OtherColumns | None:
    """What a table, or a folder of tables, holds next to its vectors; None for a file without columns."""
    files = files_of(locate(path))
    if files[0].ending not in (*TABLES, ".tab", ".txt"):
        return None
    reading = reading if files[0].ending not in (".parquet", ".jsonl") else {}
    shards = {}
    for file in files:
        with suppress(EmptyFileError):  # a folder may have empty shards
            shards[file] = read(file.name, columns=columns, **reading)
    first, vectors = next(iter(shards.items()))
    if not vectors.columns:  # lines of JSON that are the vectors themselves
        return None
    from theodolite.spaces.readers.table_vectors import open_table

    names, has_names, _ = open_table(first, vectors.columns, **reading)
    batches = chain.from_iterable(open_table(file, vectors.columns, **reading)[2] for file in shards)
    # A column of lists is one column; a vector of one number has one column too, and stays a number.
    is_list = len(vectors.columns) == 1 and vectors.d > 1
    return OtherColumns(names, vectors.columns, batches, is_list=is_list, has_names=has_names)


def demo_vectors() -> Floats:
    """Real vectors: 32,000 tokens in 256 dimensions as float32 (l2_supercat, MIT), from the optional package wordllama."""
    # wordllama itself is not imported: its dependencies are heavy.
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError('the demo vectors are part of the package wordllama; install it with: pip install "theodolite[demo]"')
    path = Path(spec.submodule_search_locations[0]) / "weights" / "l2_supercat_256.safetensors"
    hint = "get the release that has them: pip install wordllama==0.4.0.post1"
    if not path.exists():
        raise FileNotFoundError(f"the installed wordllama lacks the vectors {path.name}; {hint}")
    digest = sha256_of(path)
    if digest != _DEMO_SHA256:
        hashes = f"{digest[:16]}…, not {_DEMO_SHA256[:16]}…"
        raise ValueError(f"{path} has the hash {hashes}, so its vectors are not those of the demo; {hint}")
    return array(read(path))


def _read_file(file: File, options: Mapping[str, Any]) -> Source:
    ending = file.ending
    if ending not in _READERS:
        problem = f"the ending {ending!r} is not known" if ending else "the file has no ending"
        raise DataError(f"{problem}; use one of {', '.join(_READERS)}, or a folder of such files", file)
    reader, known = _READERS[ending]
    for name, value in options.items():
        if name not in known:
            takers = [other for other, (_, names) in _READERS.items() if name in names]
            typed = ",".join(value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
            choice = option(name, typed) if not isinstance(value, bool) else option(name) if value else switched_off(name)
            problem = "holds one array" if name == "key" else "has no columns" if name == "columns" else "is not such a table"
            raise DataError(f"the file {problem}; {choice} is for {', '.join(takers)} files: leave it out", file)
    if file.local is not None:
        require_regular(file.local)
    module, _, function = reader.partition(".")
    vectors: Source = getattr(import_module(f"theodolite.spaces.readers.{module}"), function)(file, **options)
    if not file.name.startswith("memory://"):  # which no other process sees
        elsewhere = file if file.local is None else replace(file, local=file.local.absolute())
        vectors.opener = partial(_read_file, elsewhere, options)
    return vectors


def _read_shards(files: Sequence[File], options: Mapping[str, Any], name: object) -> Source:
    shards: dict[File, Source] = {}
    for file in files:
        try:
            shards[file] = _read_file(file, options)
        except EmptyFileError:
            continue
        first, d = next((file, shard.d) for file, shard in shards.items())
        if shards[file].d != d:
            raise DataError(f"{file} has {shards[file].d} columns and {first} has {d}; all shards must have the same number")
    if not shards:
        raise EmptyFileError(f"all {len(files)} shards are empty; there must be at least one vector", name)
    return joined(list(shards.values()))
