"""Where a file is: on this machine, or behind a URL that fsspec opens; its bytes, its lines, its neighbours."""

from __future__ import annotations

import codecs
import difflib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from theodolite.core.files import natural_key
from theodolite.core.options import option
from theodolite.spaces.readers.errors import DataError, EmptyFileError

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class File:
    """A file or folder by its path or URL.

    Parameters
    ----------
    name
        The path or URL, as it appears in messages.
    local
        The path on this machine; None for a file behind a URL, which can be streamed but not memory-mapped.
    """

    name: str
    local: Path | None

    def __str__(self) -> str:
        return self.name

    @property
    def ending(self) -> str:
        """The suffix in lower case, such as `.npy`."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def is_folder(self) -> bool:
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
        except LookupError:
            raise DataError(f"encoding {encoding!r} is not known; examples are utf-8, latin-1, cp1252 and utf-16") from None
        # Decoding in chunks by TextIOWrapper keeps memory flat and also works for UTF-16, whose newline is two bytes.
        with self.open() as stream, io.TextIOWrapper(stream, encoding=codec, newline="\n") as text:
            try:
                if first := text.readline():
                    yield first.removeprefix("\ufeff")
                yield from text
            except UnicodeDecodeError:
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
                raise DataError("the line is blank; every line stands for one example: fill or drop it", self, blank)
            yield number, line

    def entries(self) -> list[File]:
        """The content of a folder in natural order (`shard-2` before `shard-10`), without hidden files."""
        if self.local is not None:
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
        with self.open() as stream:
            mark = stream.read(2)
            stream.seek(0)
            try:
                for raw in stream:
                    end, line = end + len(raw), line + 1
                    decoder.decode(raw)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError as error:
                # A decoder keeps the bytes of an unfinished character, so the error may count from before the last line.
                offset = end - len(error.object) + error.start
                other = "utf-16" if mark in _UTF16_MARKS else "latin-1" if codec == "utf-8" else "utf-8"
                hint = (
                    f"name its encoding, for example {option('encoding', other)}" if can_choose else "convert it to UTF-8 first"
                )
                return DataError(
                    f"byte 0x{error.object[error.start]:02X} at offset {offset} is not {codec} text ({error.reason}); {hint}",
                    self,
                    line,
                )
        return DataError("the file changed while it was read; read it again", self)


def locate(path: str | os.PathLike[str]) -> File:
    """The file or folder at a path or URL.

    Parameters
    ----------
    path
        A path, `~` included, or a URL such as `s3://bucket/vectors.npy`.

    Raises
    ------
    FileNotFoundError
        There is no such file; the message suggests names that are close.
    """
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
