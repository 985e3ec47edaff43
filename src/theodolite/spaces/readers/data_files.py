"""Data files: where they are, their bytes and lines, what is wrong with them, and how they become a `Source`."""

from __future__ import annotations

import codecs
import difflib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar, TypeAlias
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from theodolite.core.files import natural_key, require_regular
from theodolite.core.spelling import option
from theodolite.core.vectors import Indices, Source

AnyPath: TypeAlias = str | os.PathLike[str]
Chunks: TypeAlias = Callable[[], Iterator[NDArray[Any]]]
Take: TypeAlias = Callable[[Indices], NDArray[Any]]

# Copies of parsed files that are kept at a time: each holds a file open.
_MOST_COPIES = 256
# Numbers held as Python objects while a text is parsed: they take ten times the memory of float64.
_PARSED_NUMBERS = 2**16
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class DataError(ValueError):
    """A fault in a data file, or in the choice of one.

    Parameters
    ----------
    message
        What is wrong and what to do about it.
    file
        The file, if the fault is in one; the message begins with it.
    line
        The line of the file, counted from 1.
    """

    def __init__(self, message: str, file: object = "", line: int | None = None) -> None:
        self.file = str(file)
        self.line = line
        location = f"{self.file}, line {line}" if line is not None else self.file
        super().__init__(f"{location}: {message}" if location else message)


class EmptyFileError(DataError):
    """A file without a single vector, label or example. A folder of shards skips such files."""


def excerpt(text: str) -> str:
    """The beginning of a text in quotes, at most forty characters, for a message."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True)
class File:
    """A file or folder by its path or URL.

    Parameters
    ----------
    name
        The path or URL, as it appears in messages.
    local
        The path on this machine; None for a file behind a URL, which can be streamed but not memory-mapped.
    is_pattern
        Whether the name is a pattern such as `shards/*.npy`, which is read like a folder of the files that match it.
    """

    name: str
    local: Path | None
    is_pattern: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def ending(self) -> str:
        """The suffix in lower case, such as `.npy`."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def is_folder(self) -> bool:
        if self.is_pattern:
            return True
        return self.local.is_dir() if self.local is not None else bool(_filesystem(self.name).isdir(self.name))

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.local.stat().st_size if self.local is not None else int(_filesystem(self.name).size(self.name))

    def open(self) -> IO[bytes]:
        """A binary stream of the file, from its start."""
        if self.local is not None:
            return self.local.open("rb")
        stream: IO[bytes] = _filesystem(self.name).open(self.name, "rb")
        return stream

    def lines(self, encoding: str | None = None) -> Iterator[str]:
        """The lines of a text with their ends, without a byte-order mark.

        Lines end at a newline only: U+0085, U+2028 and the like belong to the text.

        Parameters
        ----------
        encoding
            Encoding of the file; None is UTF-8, and means that the caller has no option to choose another.

        Raises
        ------
        DataError
            The encoding is not known, or a byte does not fit it; the message names byte, offset and line.
        """
        try:
            codec = codecs.lookup(encoding or "utf-8").name
            "".encode(codec)  # a codec may be known and yet not be one of text, such as hex
        except (LookupError, ValueError):
            raise DataError(f"encoding {encoding!r} is not known; examples are utf-8, latin-1, cp1252 and utf-16") from None
        # Decoding in chunks by TextIOWrapper keeps memory flat and also works for UTF-16, whose newline is two bytes.
        with self.open() as stream, io.TextIOWrapper(stream, encoding=codec, newline="\n") as text:
            try:
                if first := text.readline():
                    yield first.removeprefix("\ufeff")
                yield from text
            except UnicodeError:
                raise self._undecodable(codec, can_choose=encoding is not None) from None

    def numbered_lines(self, encoding: str | None = None) -> Iterator[tuple[int, str]]:
        """(line number from 1, line without its end) of a text; an error if all lines are blank.

        Parameters
        ----------
        encoding
            See `lines`.

        Raises
        ------
        EmptyFileError
            The file is empty or has only blank lines.
        """
        is_blank = True
        for number, line in enumerate(self.lines(encoding), start=1):
            is_blank = is_blank and not line.strip()
            yield number, line.removesuffix("\n").removesuffix("\r")
        if is_blank:
            raise EmptyFileError("the file is empty", self)

    def gapless_lines(self) -> Iterator[tuple[int, str]]:
        """(line number from 1, line without its end) of a text in which every line stands for one example.

        Raises
        ------
        DataError
            A line between others is blank, which would shift all that follow.
        """
        blank = 0
        for number, line in self.numbered_lines():
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                raise DataError("the line is blank; every line is one example: fill it in or drop it", self, blank)
            yield number, line

    def entries(self) -> list[File]:
        """The content of a folder or pattern in natural order (`shard-2` before `shard-10`), without hidden files."""
        if self.is_pattern:
            system = _filesystem(self.name)
            is_remote = "://" in self.name
            files = [locate(system.unstrip_protocol(name) if is_remote else name) for name in system.glob(self.name)]
        elif self.local is not None:
            files = [File(str(path), path) for path in self.local.iterdir()]
        else:
            system = _filesystem(self.name)
            files = [File(system.unstrip_protocol(name), None) for name in system.ls(self.name, detail=False)]
        # Hadoop and Spark write files such as _SUCCESS next to their shards.
        visible = [file for file in files if not PurePosixPath(file.name).name.startswith((".", "_"))]
        return sorted(visible, key=lambda file: natural_key(file.name))

    def _undecodable(self, codec: str, *, can_choose: bool) -> DataError:
        """The error for the first byte that does not fit the encoding, found by decoding the file again line by line."""
        decoder = codecs.getincrementaldecoder(codec)()
        end = line = 0
        try:
            with self.open() as stream:
                for raw in stream:
                    end, line = end + len(raw), line + 1
                    decoder.decode(raw)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            # A decoder keeps the bytes of an unfinished character, so the error may count from before the last line.
            offset = end - len(error.object) + error.start
            is_utf16 = offset == 0 and error.object.startswith(_UTF16_MARKS)
            other = "utf-16" if is_utf16 else "latin-1" if codec == "utf-8" else "utf-8"
            hint = f"name its encoding, for example {option('encoding', other)}" if can_choose else "convert it to UTF-8 first"
            problem = f"byte 0x{error.object[error.start]:02X} at offset {offset} is not {codec} text ({error.reason})"
            return DataError(f"{problem}; {hint}", self, line)
        except UnicodeError as error:  # such as UTF-16 without its mark
            return DataError(f"this is not {codec} text ({error}); name its encoding, or convert it to UTF-8 first", self)
        return DataError("the file changed while it was read; read it again", self)


def locate(path: AnyPath) -> File:
    """The file or folder at a path or URL."""
    text = os.fspath(path)
    scheme = re.match(r"([a-z][a-z0-9+.-]+)://", text)
    if scheme is None:
        local: Path | None = Path(text).expanduser()
    else:
        local = Path(unquote(urlsplit(text).path)) if scheme[1] == "file" else None
    if local.exists() if local is not None else _filesystem(text).exists(text):
        return File(text, None if local is None else require_regular(local))
    if is_pattern(text) and _filesystem(text).glob(text):
        return File(text, None, is_pattern=True)
    problem = f"there is no file {text}; check the address and that you may read it" if local is None else _missing(local)
    raise FileNotFoundError(problem)


def is_pattern(text: str) -> bool:
    """Whether a path or URL has characters that a pattern of file names would have."""
    return any(sign in text for sign in "*?[")


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


def file_source(
    file: File, chunks: Chunks, *, n: int | None, d: int, dtype: Any, take: Take | None = None, spool: bool = False
) -> Source:
    """A source over the chunks of a file."""
    kind = require_numbers(dtype, file)
    if n == 0 or d == 0:
        raise EmptyFileError(f"the file is empty (shape {(n, d)}); there must be at least one row and one column", file)
    if spool:
        copy = _Spool(chunks, d, kind)
        chunks, take = copy.chunks, copy.take
    return Source(chunks, n=n, d=d, dtype=kind, take=take)


def require_numbers(dtype: Any, name: object) -> np.dtype[Any]:
    """The type of a file's values, if they are real numbers."""
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise DataError(f"it holds {kind} values; vectors are real numbers: convert them to float32 first", name)
    return kind


def parsed_source(file: File, vectors: Callable[[], Iterator[Sequence[float]]], *, d: int, n: int | None = None) -> Source:
    """A source of float64 vectors parsed from a text one by one."""

    def chunks() -> Iterator[NDArray[np.float64]]:
        rows = vectors()
        while batch := list(islice(rows, max(1, _PARSED_NUMBERS // d))):
            yield np.array(batch, dtype=np.float64)

    next(chunks(), None)  # a fault near the top is reported at once, before anything is computed
    return file_source(file, chunks, n=n, d=d, dtype=np.float64, spool=True)


class _Spool:
    """Chunks that are parsed on the first full pass, and come from a memory-mapped temporary file on all later ones.

    Memory stays flat. If the temporary folder is full, every pass parses again.
    """

    def __init__(self, parse: Chunks, d: int, dtype: np.dtype[Any]) -> None:
        self._parse = parse
        self._d = d
        self._dtype = dtype
        self._rows: NDArray[Any] | None = None

    # All copies that are alive, of whatever file.
    _kept: ClassVar[WeakSet[_Spool]] = WeakSet()

    def chunks(self) -> Iterator[NDArray[Any]]:
        if self._rows is not None:
            yield self._rows
            return
        if len(self._kept) >= _MOST_COPIES:
            yield from self._parse()
            return
        # Unnamed: nothing has to be cleaned up, however the process ends.
        with tempfile.TemporaryFile(prefix="theodolite-") as file:
            n, has_room = 0, True
            for chunk in self._parse():
                try:
                    if has_room:
                        file.write(np.ascontiguousarray(chunk, self._dtype).data)
                except OSError:
                    has_room = False
                n += len(chunk)
                yield chunk
            if has_room and n:
                file.flush()
                # The mapping keeps the unnamed file alive after it is closed here.
                self._rows = np.memmap(file, self._dtype, mode="r", shape=(n, self._d))
                self._kept.add(self)

    def take(self, rows: Indices) -> NDArray[Any]:
        if self._rows is not None:
            return np.asarray(self._rows[rows])
        # What was never read in full is read to its end, which leaves the copy for the next call.
        selected = [np.empty((0, self._d), self._dtype)]
        start = 0
        for chunk in self.chunks():
            low, high = np.searchsorted(rows, (start, start + len(chunk)))
            selected.append(chunk[rows[low:high] - start])
            start += len(chunk)
        return np.concatenate(selected)
