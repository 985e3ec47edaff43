"""The folder a space lies in: `space.json`, one `.npy` a layer, `rows.parquet`; opened only if it is whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from theodolite.core.blocks import in_threads
from theodolite.core.files import sha256_of, whole_file
from theodolite.core.rows import current_versions
from theodolite.core.vectors import Floats, Source
from theodolite.spaces.files import File
from theodolite.spaces.numpy_files import mapped_source, read_layout
from theodolite.spaces.row_table import Rows, StoredRows
from theodolite.spaces.space import Origin, Space

FORMAT = 1
ABOUT = "space.json"
ROWS = "rows.parquet"

AGAIN = "copy the whole folder again, or extract it again"


class StoredSpaceError(ValueError):
    """A folder does not hold a space as it was written; the message says what is wrong."""


@dataclass(frozen=True)
class About:
    """What `space.json` says: the shape of the space, where it comes from, and length and SHA-256 of every file."""

    layers: tuple[int, ...]
    n: int
    d: int
    dtype: str
    origin: Origin
    files: dict[str, tuple[int, str]]


def is_space(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the folder of a stored space."""
    return (Path(path) / ABOUT).is_file()


def layer_name(layer: int) -> str:
    """The file of a layer."""
    return f"layer-{layer:02d}.npy"


def open_space(folder: str | os.PathLike[str], *, verify: bool = True) -> Space:
    """See `Space.open`."""
    folder = Path(folder).expanduser()
    about = read_about(folder, verify=verify)
    check_files(folder, about, list(about.files), verify=verify)
    vectors = {layer: map_layer(folder, about, layer) for layer in about.layers}
    return Space(vectors, rows=_open_rows(folder, about), origin=about.origin)


def read_space(folder: Path, *, key: str | None) -> Source:
    """One layer of a stored space, memory-mapped, after checking its hash: the layer numbered `key`, or the only one."""
    about = read_about(folder, verify=True)
    known = {str(layer): layer for layer in about.layers}
    if key is None and len(known) > 1:
        raise ValueError(f"{folder} is a space of {len(known)} layers, say which with key= (--key): {', '.join(known)}")
    layer = about.layers[0] if key is None else known.get(key)
    if layer is None:
        raise ValueError(f"{folder} has no layer {key!r}; it has {', '.join(known)}")
    name = layer_name(layer)
    check_files(folder, about, [name], verify=True)
    return mapped_source(File(str(folder / name), folder / name), map_layer(folder, about, layer))


def write_about(folder: Path, *, layers: Sequence[int], n: int, d: int, dtype: np.dtype[Any], origin: Origin) -> None:
    """Write `space.json` for the files that lie in the folder."""
    names = [layer_name(layer) for layer in layers] + ([ROWS] if (folder / ROWS).exists() else [])
    hashes = in_threads(lambda name: sha256_of(folder / name), names)
    content: dict[str, Any] = {
        "format": FORMAT,
        "origin": asdict(origin),
        "layers": list(layers),
        "n": n,
        "d": d,
        "dtype": dtype.name,
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": found} for name, found in zip(names, hashes, strict=True)
        },
        "written_by": current_versions(),
    }
    content["sha256"] = _own_hash(content)
    with whole_file(folder / ABOUT, overwrite=True) as partial:
        partial.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_about(folder: Path, *, verify: bool) -> About:
    """What `space.json` says, or an error that names what is wrong with it."""
    path = folder / ABOUT
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{folder} holds no space: there is no {ABOUT} in it") from None
    except ValueError as error:
        raise StoredSpaceError(f"{path} is not JSON ({error}); {AGAIN}") from None
    form = content.get("format") if isinstance(content, dict) else None
    if isinstance(form, int) and form > FORMAT:
        raise StoredSpaceError(
            f"{path} has format {form}, this version of theodolite reads up to {FORMAT}: pip install --upgrade theodolite"
        )
    if form != FORMAT or isinstance(form, bool):
        raise StoredSpaceError(f"{path} has format {form!r}, which no version of theodolite writes; {AGAIN}")
    if verify and content.get("sha256") != _own_hash(content):
        raise StoredSpaceError(f"{path} was changed after it was written; {AGAIN}, or open with verify=False")
    try:
        return _about(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoredSpaceError(f"{path} is not as it was written ({type(error).__name__}: {error}); {AGAIN}") from None


def check_files(folder: Path, about: About, names: Sequence[str], *, verify: bool) -> None:
    """Raise unless the files are there, of the right length and, with `verify`, of the right SHA-256."""
    for name in names:
        path, size = folder / name, about.files[name][0]
        if not path.is_file():
            raise StoredSpaceError(f"{folder} has no {name}, which {ABOUT} lists; {AGAIN}")
        found = path.stat().st_size
        if found != size:
            what = "is cut short" if found < size else "is too long"
            raise StoredSpaceError(f"{path} {what}: it has {found:,} bytes, written were {size:,}; {AGAIN}")
    if not verify:
        return
    for name, digest in zip(names, in_threads(lambda name: sha256_of(folder / name), names), strict=True):
        written = about.files[name][1]
        if digest != written:
            raise StoredSpaceError(
                f"{folder / name} has SHA-256 {digest[:12]}…, written was {written[:12]}…: its bytes were changed; {AGAIN}"
            )


def map_layer(folder: Path, about: About, layer: int) -> Floats:
    """A layer as a read-only, memory-mapped (n, d) array."""
    path = folder / layer_name(layer)
    try:
        with path.open("rb") as file:
            layout = read_layout(file, str(path))
    except ValueError as error:
        raise StoredSpaceError(f"{error}; {AGAIN}") from None
    if layout.shape != (about.n, about.d) or layout.dtype.name != about.dtype or layout.fortran:
        raise StoredSpaceError(
            f"{path} holds {layout.shape} {layout.dtype.name}, {ABOUT} says {(about.n, about.d)} {about.dtype}; {AGAIN}"
        )
    if path.stat().st_size != layout.offset + layout.nbytes:
        raise StoredSpaceError(f"{path} is not of the length its header promises; {AGAIN}")
    # A plain array over the map: results taken from it are then plain arrays too.
    return np.asarray(np.memmap(path, layout.dtype, "r", layout.offset, layout.shape))


def _open_rows(folder: Path, about: About) -> Rows:
    if ROWS not in about.files:
        return MappingProxyType({})
    import pyarrow as pa

    try:
        rows = StoredRows(folder / ROWS)
    except pa.ArrowInvalid as error:
        raise StoredSpaceError(f"{folder / ROWS} is not a whole Parquet file ({error}); {AGAIN}") from None
    if rows.n != about.n:
        raise StoredSpaceError(f"{folder / ROWS} has {rows.n} rows, the layers have n={about.n}; {AGAIN}")
    return rows


def _about(content: dict[str, Any]) -> About:
    files = {name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in content["files"].items()}
    layers = tuple(int(layer) for layer in content["layers"])
    expected = {layer_name(layer) for layer in layers}
    if not layers or not expected <= set(files) <= expected | {ROWS}:
        raise ValueError(f"layers {list(layers)} do not go with the files {sorted(files)}")
    return About(layers, int(content["n"]), int(content["d"]), str(content["dtype"]), Origin(**content["origin"]), files)


def _own_hash(content: dict[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
