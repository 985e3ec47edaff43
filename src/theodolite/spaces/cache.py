"""The cache folder: moments of files that were read before, and vectors of texts that were encoded before."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.core.files import Lock, Marker, atomic_file, write_json
from theodolite.core.moments import FORMAT, Moments
from theodolite.core.spelling import command
from theodolite.core.vectors import Floats, Source
from theodolite.spaces.opening import files_of, read
from theodolite.spaces.readers.data_files import AnyPath, locate

MARKER = Marker("cache.json", "cache")
# Entries have a name of this form; so has what a process that was killed left of one.
ENTRY = r"[0-9a-f]{32}\.npz"
OWN_NAMES = re.compile(rf"{ENTRY}|\.{ENTRY}\.lock|\.{ENTRY}\.theodolite-[0-9a-f]{{16}}\.partial")
# Bytes of a file, or of all files of a folder, that are hashed: all of them up to here, blocks spread over them above it.
HASHED = 256 * 2**20
BLOCK = 2**20
# Seconds in which a file that is not hashed as a whole must not have changed.
SETTLED = 60.0
# Bytes the cache may hold; the entries that were not used for longest are deleted first.
LIMIT = 2**30
FOLDERS = ("moments", "vectors")


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
        name = re.search(ENTRY, entry.name)
        assert name is not None
        with suppress(OSError), Lock(entry.with_name(name[0])):  # busy, or gone already
            freed += entry.stat().st_size
            entry.unlink()
    for folder in (where() / name for name in FOLDERS):
        if MARKER.is_in(folder) and [path.name for path in folder.iterdir()] == [MARKER.file]:
            (folder / MARKER.file).unlink()
            folder.rmdir()
    return freed


class VectorCache:
    """Encoded vectors in the cache folder, by what decides them; `hits` and `misses` count what was looked for."""

    def __init__(self) -> None:
        self.hits = self.misses = 0

    def load(self, key: str) -> dict[int, Floats] | None:
        """The vectors of each layer that were stored under a key; None if there are none that can be read."""
        entry = self._entry(key)
        try:
            with entry.open("rb") as file, np.load(file, allow_pickle=False) as content:
                vectors = {int(layer): content[layer] for layer in content.files}
            os.utime(entry)
        except Exception:  # whatever is wrong with an entry, the texts can still be encoded
            self.misses += 1
            return None
        self.hits += 1
        return vectors

    def store(self, key: str, vectors: Mapping[int, Floats]) -> None:
        """Keep vectors under a key, unless they would fill more than half of the cache."""
        if 2 * sum(array.nbytes for array in vectors.values()) > LIMIT:
            return

        def save(partial: Path) -> None:
            with partial.open("wb") as file:
                np.savez(file, **{str(layer): array for layer, array in vectors.items()})  # type: ignore[arg-type]

        _write(self._entry(key), save)

    @property
    def note(self) -> str:
        """Says where the vectors are, and how to delete them; empty if none were looked for."""
        if not self.hits + self.misses:
            return ""
        verb = "read from" if not self.misses else "kept in"
        return f"encoded vectors: {verb} {where() / 'vectors'}; {command('cache clean')} deletes them"

    def _entry(self, key: str) -> Path:
        return where() / "vectors" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz"


class OnlyCached(VectorCache):
    """The same for vectors that must be there already: what is not is a KeyError, before anything is encoded."""

    def load(self, key: str) -> dict[int, Floats]:
        """The vectors of each layer that were stored under a key."""
        vectors = super().load(key)
        if vectors is None:
            raise KeyError(key)
        return vectors


@dataclass(frozen=True)
class FileState:
    """What the files of an input held when they were looked at."""

    digest: str
    is_sampled: bool
    is_settled: bool = field(compare=False)

    @classmethod
    def of(cls, path: AnyPath) -> FileState | None:
        """The state of a file, or of a folder of shards, as it is now; None for a URL."""
        file = locate(path)
        if file.local is None:
            return None
        shards = [shard.local for shard in files_of(file) if shard.local]
        share = HASHED / max(1, sum(shard.stat().st_size for shard in shards))
        digest, youngest = hashlib.sha256(), 0.0
        for shard in shards:
            with shard.open("rb", buffering=0) as content:
                known = os.fstat(content.fileno())
                digest.update(f"{shard.resolve()}\0{known.st_size}\0".encode("utf-8", "surrogateescape"))
                if share >= 1:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
                    continue
                # A program can set the time of modification back, as `cp -p` does, but not the time of change, nor the inode.
                # Both miss a page of a mapped file that is written to again before it is on disk.
                digest.update(repr((known.st_mtime_ns, known.st_ctime_ns, known.st_ino)).encode())
                count = max(2, int(known.st_size * share / BLOCK))
                for at in np.linspace(0, max(0, known.st_size - BLOCK), count, dtype=np.int64).tolist():
                    digest.update(os.pread(content.fileno(), BLOCK, at))
                youngest = max(youngest, known.st_mtime, known.st_ctime)
        return cls(digest.hexdigest(), share < 1, time.time() - youngest > SETTLED)


def require_unchanged(path: AnyPath, state: FileState | None) -> None:
    """Raise an error if a file is not as it was when its state was taken: what was computed from it would mix two contents."""
    if state is not None and FileState.of(path) != state:
        raise ValueError(f"{path} changed while it was being read, so its numbers would mix two states; run this again")


def cached_moments(
    path: AnyPath, *, data: Source | None = None, state: FileState | None = None, compute: bool = True, **reading: Any
) -> tuple[Moments | None, bool]:
    """Moments of a file of vectors, and whether they are from the cache: if the file has not changed since they were stored.

    `reading` are the options of `theodolite.read`; `data` is what it returned, if the file is open already.
    An entry that cannot be read is ignored and written again. Files behind a URL, files that are smaller than their own moments,
    and large files that changed in the last minute are not cached.
    """
    state = FileState.of(path) if state is None else state
    source = data if data is not None else read(path, **reading)
    entry = None
    if state is not None and state.is_settled:
        if isinstance(reading.get("columns"), str):
            reading["columns"] = reading["columns"].split(",")
        options = [reading.get(name) for name in ("key", "columns", "delimiter", "header", "decimal")]
        name = hashlib.sha256(json.dumps([FORMAT, state.digest, *options], default=list).encode()).hexdigest()[:32]
        entry = where() / "moments" / f"{name}.npz"
    moments = _load(entry, source) if entry else None
    if moments is not None:
        return moments, True
    if not compute:
        return None, False
    moments = Moments.of(source)
    if entry is not None and moments.scatter is not None:
        file_size = sum(file.size for file in files_of(locate(path)))
        # A larger entry would take as long to read as the file. Nothing is stored of a file that changed while it was read.
        if moments.scatter.nbytes < file_size and FileState.of(path) == state:
            _write(entry, moments.save)
    return moments, False


def _load(entry: Path, source: Source) -> Moments | None:
    try:
        moments = Moments.load(entry)
        os.utime(entry)
    except Exception:  # whatever is wrong with an entry, the file itself can still be read
        return None
    return moments if moments.d == source.d and source.n in (None, moments.n) else None


def _write(entry: Path, save: Callable[[Path], None]) -> None:
    """Write an entry, and delete those not used for longest beyond the limit."""
    try:
        if not _is_ours(entry.parent):
            return
        with atomic_file(entry) as partial:
            save(partial)
        total = 0
        for other in sorted(_entries(), key=lambda path: path.stat().st_mtime, reverse=True):
            total += other.stat().st_size
            if total > LIMIT:
                other.unlink(missing_ok=True)
    except OSError:
        return  # a cache that cannot be written costs time, not the result


def _is_ours(folder: Path) -> bool:
    """Whether the folder of entries is ours: it is made and marked, unless somebody else keeps files in one of that name."""
    folder.mkdir(parents=True, exist_ok=True)
    if not MARKER.is_in(folder) and all(OWN_NAMES.fullmatch(path.name) for path in folder.iterdir()):
        write_json(folder / MARKER.file, MARKER.about)
    return MARKER.is_in(folder)


def _entries() -> list[Path]:
    folders = [folder for folder in (where() / name for name in FOLDERS) if MARKER.is_in(folder)]
    return [path for folder in folders for path in folder.iterdir() if OWN_NAMES.fullmatch(path.name)]
