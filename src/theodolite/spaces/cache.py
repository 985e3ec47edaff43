"""The cache folder: moments of files already read, so that a second survey of a file skips its first pass."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from theodolite.core.files import whole_file
from theodolite.core.moments import FORMAT, Moments
from theodolite.core.vectors import Source
from theodolite.spaces.files import locate
from theodolite.spaces.read import read, shard_files

LIMIT = 2**30
"""Bytes the cache may hold; the entries not used for longest go first."""


def where() -> Path:
    """The cache folder: THEODOLITE_CACHE, or the platform's folder for caches. It is made when first written to."""
    named = os.environ.get("THEODOLITE_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "theodolite"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "theodolite"


def size() -> int:
    """Bytes in the cache."""
    return sum(entry.stat().st_size for entry in _entries())


def clean() -> int:
    """Delete everything this package put into the cache folder, and nothing else; returns the bytes freed."""
    freed = 0
    for entry in _entries():
        freed += entry.stat().st_size
        entry.unlink(missing_ok=True)
    folder = where() / "moments"
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return freed


def cached_moments(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    data: Source | None = None,
) -> Moments:
    """Moments of a file of vectors: from the cache where the file has not changed since, else computed and kept.

    `data` is the file as already opened. An entry that cannot be read is ignored and written again. Files behind a URL, and those
    smaller than their own moments, are not kept.
    """
    fingerprint = _fingerprint(path, key, columns)
    opened = data if data is not None else read(path, key=key, columns=columns)
    entry = where() / "moments" / f"{fingerprint}.npz" if fingerprint else None
    found = _load(entry, opened) if entry else None
    if found is not None:
        return found
    moments = Moments.of(opened)
    if entry is not None and fingerprint == _fingerprint(path, key, columns):  # unchanged while it was read
        _keep(moments, entry, _bytes_of(path))
    return moments


def _fingerprint(path: str | os.PathLike[str], key: str | None, columns: Sequence[str] | None) -> str | None:
    """A name for the file as it is now: path, size and time of change of every part, and how it is read."""
    file = locate(path)
    if file.local is None:
        return None
    parts = [part.local for part in shard_files(file) if part.local] if file.is_folder else [file.local]
    state = [(str(part.resolve()), part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    text = json.dumps([FORMAT, state, key, list(columns) if columns is not None else None])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _bytes_of(path: str | os.PathLike[str]) -> int:
    file = locate(path)
    return sum(part.size for part in (shard_files(file) if file.is_folder else [file]))


def _load(entry: Path, data: Source) -> Moments | None:
    if not entry.exists() or not zipfile.is_zipfile(entry):
        return None
    try:
        moments = Moments.load(entry)
        os.utime(entry)
    except Exception:  # whatever is wrong with an entry, the file itself is still there to be read
        return None
    return moments if moments.d == data.d and data.n in (None, moments.n) else None


def _keep(moments: Moments, entry: Path, file_size: int) -> None:
    if moments.scatter is None or moments.scatter.nbytes >= file_size:
        return
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(entry, overwrite=True) as partial:
            moments.save(partial)
        _trim()
    except OSError:
        return  # a cache that cannot be written costs time, not the result


def _trim() -> None:
    entries = sorted(_entries(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    held = 0
    for entry in entries:
        held += entry.stat().st_size
        if held > LIMIT:
            entry.unlink(missing_ok=True)


def _entries() -> list[Path]:
    folder = where() / "moments"
    return [path for path in folder.iterdir() if path.name.endswith((".npz", ".partial"))] if folder.is_dir() else []
