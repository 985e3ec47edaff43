"""Where a file lies: on this machine, or behind a URL that fsspec opens."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Source


class EmptyFileError(ValueError):
    """A file without a single vector: an error for one file, skipped among shards."""


@dataclass(frozen=True)
class File:
    """A file or folder by its path or URL. `local` is set where it lies on this machine and can be memory-mapped."""

    name: str
    local: Path | None

    def __str__(self) -> str:
        return self.name

    @property
    def ending(self) -> str:
        """The suffix in small letters, such as `.npy`."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def is_folder(self) -> bool:
        return self.local.is_dir() if self.local is not None else bool(_filesystem(self.name).isdir(self.name))

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.local.stat().st_size if self.local is not None else int(_filesystem(self.name).size(self.name))

    def open(self) -> IO[bytes]:
        """The bytes, from the start."""
        if self.local is not None:
            return self.local.open("rb")
        opened: IO[bytes] = _filesystem(self.name).open(self.name, "rb")
        return opened

    def lines(self) -> Iterator[str]:
        """The lines of a UTF-8 text, without a byte order mark; an error names the line that is not UTF-8."""
        with self.open() as file:
            number = 0
            try:
                for number, line in enumerate(file, start=1):
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{self}, line {number} is not UTF-8 text ({error.reason}); convert the file first") from error

    def entries(self) -> list[File]:
        """What a folder holds, in natural order (`shard-2` before `shard-10`), hidden files left out."""
        if self.local is not None:
            found = [File(str(path), path) for path in self.local.iterdir()]
        else:
            system = _filesystem(self.name)
            found = [File(system.unstrip_protocol(name), None) for name in system.ls(self.name, detail=False)]
        shown = [file for file in found if not PurePosixPath(file.name).name.startswith((".", "_"))]
        return sorted(shown, key=lambda file: _natural(file.name))


def locate(path: str | os.PathLike[str]) -> File:
    """The file or folder at a path or URL; an error that suggests close names where there is none."""
    text = os.fspath(path)
    scheme = re.match(r"([a-z][a-z0-9+.-]+)://", text)
    if scheme is None or scheme[1] == "file":
        local = Path(unquote(urlsplit(text).path)) if scheme else Path(text).expanduser()
        if not local.exists():
            raise FileNotFoundError(_missing(local))
        return File(text, local)
    if not _filesystem(text).exists(text):
        raise FileNotFoundError(f"there is no file {text}; check the address and that you may read it")
    return File(text, None)


def file_source(
    file: File,
    chunks: Callable[[], Iterator[NDArray[Any]]],
    *,
    n: int | None,
    d: int,
    dtype: Any,
    take: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
) -> Source:
    """A source over a file's chunks; what cannot be a cloud of vectors is an error that names the file."""
    kind = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise ValueError(f"{file} holds {kind} values; vectors are real numbers: convert them to float32 first")
    if n == 0 or d == 0:
        raise EmptyFileError(f"{file} is empty (shape {(n, d)}); there must be at least one row and one column")
    return Source(chunks, n=n, d=d, dtype=kind, take=take)


def _filesystem(url: str) -> Any:
    import fsspec

    try:
        system, _ = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ImportError(f"opening {url} needs another package: {error}") from error
    return system


def _missing(path: Path) -> str:
    parent = path.parent
    if not parent.exists():
        return f"there is no folder {parent}, so no {path.name} in it; check the path"
    close = difflib.get_close_matches(path.name, [entry.name for entry in parent.iterdir()], n=3, cutoff=0.75)
    hint = f"did you mean {' or '.join(str(parent / name) for name in close)}?" if close else "check the path"
    return f"there is no file {path}; {hint}"


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]
