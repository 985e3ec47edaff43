"""The folder of a space: `space.json`, one `.npy` file per layer and `rows.parquet`; opened only if it is whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from theodolite.core.declared import as_declared
from theodolite.core.files import Marker, atomic_folder, parse_json, recover_folder, sha256_of, write_json
from theodolite.core.numbers import bytes_text
from theodolite.core.parallel import in_threads
from theodolite.core.rows import current_versions
from theodolite.core.spelling import option
from theodolite.core.vectors import BLOCK_BYTES, Floats, Source, source
from theodolite.spaces.readers.arrays import read_layout
from theodolite.spaces.row_table import Rows, StoredRows, write_row_table
from theodolite.spaces.writers import require_float_type, write_vectors

# Goes up when an older version could not read the folder any more.
FORMAT = 1
ABOUT = "space.json"
ROWS = "rows.parquet"
MARKER = Marker(ABOUT, "extract", FORMAT)

_AGAIN = "copy the whole folder again, or extract it again"


class StoredSpaceError(ValueError):
    """A folder does not hold a space as it was written; the message says what is wrong."""


@dataclass(frozen=True)
class StoredFile:
    """Length and hash of a file of a space."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class About:
    """The content of `space.json`: the shape of the space, its origin, and length and SHA-256 of every file."""

    layers: tuple[int, ...]
    n: int
    d: int
    dtype: str
    origin: Mapping[str, Any]
    files: Mapping[str, StoredFile]


def is_space(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the folder of a stored space.

    Parameters
    ----------
    path
        Any path; it need not exist.
    """
    recover_folder(Path(path))
    return (Path(path) / ABOUT).is_file()


def layer_name(layer: int) -> str:
    """The name of a layer's file."""
    return f"layer-{layer:02d}.npy"


def open_folder(folder: Path, *, verify: bool) -> tuple[About, dict[int, Floats], Rows]:
    """What a folder says of its space, its layers as read-only memory-mapped arrays, and its table of rows."""
    recover_folder(folder)
    stored = read_about(folder, verify=verify)
    _check_files(folder, stored, list(stored.files), verify=verify)
    return stored, {layer: _map_layer(folder, stored, layer) for layer in stored.layers}, _open_rows(folder, stored)


def write_folder(folder: Path, vectors: Mapping[int, Floats], rows: Rows, origin: Mapping[str, Any], *, overwrite: bool) -> None:
    """Write a space that is in memory, whole or not at all."""
    first = next(iter(vectors.values()))
    (n, d), dtype = first.shape, require_float_type(first.dtype)
    step = max(1, BLOCK_BYTES // (d * dtype.itemsize))
    with atomic_folder(folder, overwrite=overwrite, marker=MARKER) as partial:
        require_disk_space(partial, len(vectors) * n * d * dtype.itemsize, folder)
        if rows:
            write_row_table(rows, n, partial / ROWS)
        for layer, array in vectors.items():
            blocks = (array[start : start + step] for start in range(0, n, step))
            write_vectors(blocks, partial / layer_name(layer), n=n, d=d, dtype=dtype)
        write_about(partial, layers=list(vectors), n=n, d=d, dtype=dtype, origin=origin)


def read_about(folder: Path, *, verify: bool) -> About:
    """The content of a folder's `space.json`."""
    path = folder / ABOUT
    try:
        content = parse_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{folder} holds no space: there is no {ABOUT} in it") from None
    except ValueError as error:
        raise StoredSpaceError(f"{path} is not JSON ({error}); {_AGAIN}") from None
    form = content.get("format") if isinstance(content, dict) else None
    # Before anything else is looked at: a newer format may have changed everything but this number.
    if isinstance(form, int) and form > FORMAT:
        hint = f"this version of theodolite reads up to {FORMAT}: pip install -U theodolite"
        raise StoredSpaceError(f"{path} has format {form}, {hint}")
    if form != FORMAT or isinstance(form, bool):  # in Python, true equals 1
        raise StoredSpaceError(f"{path} has format {form!r}, which no version of theodolite writes; {_AGAIN}")
    if verify and content.get("sha256") != _own_hash(content):
        raise StoredSpaceError(f"{path} was changed after it was written; {_AGAIN}, or use Space.open(..., verify=False)")
    try:
        stored: About = as_declared(About, {name: content[name] for name in content if name in About.__dataclass_fields__})
        names = {layer_name(layer) for layer in stored.layers}
        # The names are checked here, so that no file outside the folder is ever opened.
        if not names or not names <= set(stored.files) <= names | {ROWS}:
            raise ValueError(f"layers {list(stored.layers)} do not match the files {sorted(stored.files)}")
        return stored
    except ValueError as error:
        raise StoredSpaceError(f"{path} is damaged or was changed ({error}); {_AGAIN}") from None


def write_about(folder: Path, *, layers: Sequence[int], n: int, d: int, dtype: np.dtype[Any], origin: Mapping[str, Any]) -> None:
    """Write `space.json` for the files that are in the folder."""
    names = [layer_name(layer) for layer in layers] + ([ROWS] if (folder / ROWS).exists() else [])
    # Hashing releases the interpreter lock, so threads use all cores.
    digests = in_threads(lambda name: sha256_of(folder / name), names)
    sizes = [(folder / name).stat().st_size for name in names]
    content: dict[str, Any] = {
        **MARKER.about,
        "origin": dict(origin),
        "layers": list(layers),
        "n": n,
        "d": d,
        "dtype": dtype.name,
        "files": {name: {"bytes": size, "sha256": digest} for name, size, digest in zip(names, sizes, digests, strict=True)},
        "written_by": current_versions(),
    }
    write_json(folder / ABOUT, {**content, "sha256": _own_hash(content)})


def read_layer(folder: Path, *, key: str | None) -> Source:
    """One layer of a stored space, memory-mapped, after checking its hash."""
    stored = read_about(folder, verify=True)
    layers = {str(layer): layer for layer in stored.layers}
    layer = stored.layers[0] if key is None and len(layers) == 1 else layers.get(key or "")
    if layer is None:
        problem = f"is a space of {len(layers)} layers" if key is None else f"has no layer {key!r}"
        raise ValueError(f"{folder} {problem}; choose one of {', '.join(layers)} with {option('key', 'NUMBER')}")
    _check_files(folder, stored, [layer_name(layer)], verify=True)
    return source(_map_layer(folder, stored, layer))


def _check_files(folder: Path, stored: About, names: Sequence[str], *, verify: bool) -> None:
    """Raise an error unless the files are there, as long as they were written, and with `verify` the same bytes."""
    for name in names:
        path, size = folder / name, stored.files[name].bytes
        if not path.is_file():
            raise StoredSpaceError(f"{folder} has no {name}, which {ABOUT} lists; {_AGAIN}")
        length = path.stat().st_size
        if length != size:
            problem = "is cut short" if length < size else "is too long"
            raise StoredSpaceError(f"{path} {problem}: it has {length:,} bytes instead of {size:,}; {_AGAIN}")
    if not verify:
        return
    for name, digest in zip(names, in_threads(lambda name: sha256_of(folder / name), names), strict=True):
        if digest != stored.files[name].sha256:
            hashes = f"{digest[:12]}… instead of {stored.files[name].sha256[:12]}…"
            raise StoredSpaceError(f"{folder / name} has SHA-256 {hashes}: its content was changed; {_AGAIN}")


def _map_layer(folder: Path, stored: About, layer: int) -> Floats:
    """A layer as a read-only, memory-mapped (n, d) array."""
    path = folder / layer_name(layer)
    try:
        with path.open("rb") as file:
            layout = read_layout(file, path)
    except ValueError as error:
        raise StoredSpaceError(f"{error}; {_AGAIN}") from None
    if layout.shape != (stored.n, stored.d) or layout.dtype.name != stored.dtype or layout.fortran:
        content = f"{layout.shape} {layout.dtype.name}, {ABOUT} says {(stored.n, stored.d)} {stored.dtype}"
        raise StoredSpaceError(f"{path} holds {content}; {_AGAIN}")
    # Mapping a file that is too short would kill the process when the missing page is touched.
    if path.stat().st_size != layout.end:
        raise StoredSpaceError(f"{path} is not as long as its header says; {_AGAIN}")
    # A plain array over the map: results taken from it are then plain arrays too.
    return np.asarray(np.memmap(path, layout.dtype, "r", layout.offset, layout.shape))


def _open_rows(folder: Path, stored: About) -> Rows:
    """The table of what is known of each row; empty if none was stored."""
    if ROWS not in stored.files:
        return MappingProxyType({})
    import pyarrow as pa

    try:
        rows = StoredRows(folder / ROWS)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoredSpaceError(f"{folder / ROWS} is not a complete Parquet file ({error}); {_AGAIN}") from None
    if rows.n != stored.n:
        raise StoredSpaceError(f"{folder / ROWS} has {rows.n} rows, but the layers have n={stored.n}; {_AGAIN}")
    return rows


def require_disk_space(partial: Path, size: int, target: Path) -> None:
    """Raise an error unless the disk has `size` bytes free for a space that is written in `partial` and goes to `target`."""
    free = shutil.disk_usage(partial).free
    if size > free:
        raise OSError(f"{target} needs {bytes_text(size)}, but only {bytes_text(free)} are free; choose fewer layers or rows")


def _own_hash(content: dict[str, Any]) -> str:
    # Keys are sorted, so that a file that was only reordered or indented again is still the same.
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
