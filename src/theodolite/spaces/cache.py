"""The cache folder: moments of files that were read before, so that a second survey of a file skips its first pass."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from theodolite.core.files import BusyError, Lock, whole_file
from theodolite.core.moments import FORMAT, Moments
from theodolite.core.vectors import Source
from theodolite.spaces.opening import files_of, read
from theodolite.spaces.readers.data_files import AnyPath, locate

# Bytes at either end of a file that are part of what it is known by.
ENDS = 2**16
# Bytes the cache may hold; the entries that were not used for longest are deleted first.
LIMIT = 2**30


def where() -> Path:
    """The cache folder: THEODOLITE_CACHE, or the platform's folder for caches. It is made when first written to."""
    folder = os.environ.get("THEODOLITE_CACHE")
    if folder:
        return Path(folder).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "theodolite"
    # The XDG specification says that a relative path must be ignored.
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "theodolite"


def size() -> int:
    """Bytes in the cache."""
    return sum(entry.stat().st_size for entry in _entries())


def clean() -> int:
    """Delete everything that this package put into the cache folder, and nothing else; the result is the bytes freed."""
    freed = 0
    for entry in _entries():
        # What a killed process left is removed with the entry that it was writing; what is being written stays.
        name = entry.name.removeprefix(".").removesuffix(".partial").removesuffix(".lock")
        with suppress(BusyError, FileNotFoundError), Lock(entry.with_name(name)):
            freed += entry.stat().st_size
            entry.unlink()
    folder = where() / "moments"
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return freed


def cached_moments(
    path: AnyPath,
    *,
    key: str | None = None,
    columns: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    data: Source | None = None,
) -> Moments:
    """Moments of a file of vectors: from the cache if the file has not changed since, otherwise computed and stored.

    An entry that cannot be read is ignored and written again. Files behind a URL, and files that are smaller than their own
    moments, are not cached.

    Parameters
    ----------
    path, key, columns, delimiter, header, decimal
        What to read, as in `read`.
    data
        The file, if it is open already.
    """
    options = (key, columns.split(",") if isinstance(columns, str) else columns, delimiter, header, decimal)
    fingerprint = _fingerprint(path, options)
    reading: dict[str, Any] = {"key": key, "columns": columns, "delimiter": delimiter, "header": header, "decimal": decimal}
    source = data if data is not None else read(path, **reading)
    entry = where() / "moments" / f"{fingerprint}.npz" if fingerprint else None
    moments = _load(entry, source) if entry else None
    if moments is None:
        moments = Moments.of(source)
        if entry is not None and fingerprint == _fingerprint(path, options):  # unchanged while it was read
            _store(moments, entry, sum(file.size for file in files_of(locate(path))))
    return moments


def _fingerprint(path: AnyPath, options: Sequence[Any]) -> str | None:
    """A name for the file as it is now: path, what the file system knows of every part, both its ends, and how it is read."""
    file = locate(path)
    if file.local is None:
        return None
    parts = [part.local for part in files_of(file) if part.local]
    state = [_state(part) for part in parts]
    return hashlib.sha256(json.dumps([FORMAT, state, *options], default=list).encode()).hexdigest()[:32]


def _state(path: Path) -> tuple[object, ...]:
    # A hash of the whole content would cost the pass over the file that the cache is there to save.
    with path.open("rb") as file:
        known = os.fstat(file.fileno())
        ends = hashlib.sha256(file.read(ENDS))
        file.seek(max(0, known.st_size - ENDS))
        ends.update(file.read(ENDS))
    # A program can set the time of modification back, as `cp -p` does, but not the time of change, nor the inode.
    return str(path.resolve()), known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino, ends.hexdigest()


def _load(entry: Path, source: Source) -> Moments | None:
    try:
        moments = Moments.load(entry)
        os.utime(entry)
    except Exception:  # whatever is wrong with an entry, the file itself can still be read
        return None
    return moments if moments.d == source.d and source.n in (None, moments.n) else None


def _store(moments: Moments, entry: Path, file_size: int) -> None:
    # Reading such an entry would take as long as reading the file.
    if moments.scatter is None or moments.scatter.nbytes >= file_size:
        return
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(entry) as partial:
            moments.save(partial)
        total = 0
        for other in sorted(_entries(), key=lambda path: path.stat().st_mtime, reverse=True):
            total += other.stat().st_size
            if total > LIMIT:
                other.unlink(missing_ok=True)
    except OSError:
        return  # a cache that cannot be written costs time, not the result


def _entries() -> list[Path]:
    folder = where() / "moments"
    return [path for path in folder.iterdir() if path.name.endswith((".npz", ".partial", ".lock"))] if folder.is_dir() else []
