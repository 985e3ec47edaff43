"""The text of a data file: decoded whole, so that a wrong encoding is an error that names its byte and line."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from theodolite.tasks.errors import DataError, listed

_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The whole text of a file, without a byte-order mark; an empty file is an error."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise DataError(f"encoding {encoding!r} is not known; such are utf-8, latin-1, cp1252 and utf-16") from None
    raw = _bytes(path)
    try:
        text = raw.decode("utf-8-sig" if name == "utf-8" else name)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        other = _MARKS.get(raw[:2]) or ("latin-1" if name == "utf-8" else "utf-8")
        raise DataError(
            f"byte 0x{raw[error.start]:02X} at offset {error.start} is not {name} text ({error.reason}); "
            f"say how the file is encoded, for example encoding={other!r} (--encoding {other})",
            file=path,
            line=line,
        ) from None
    if not text.strip():
        raise DataError("the file is empty; there must be at least one example", file=path)
    return text


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """(line number, line without its end). Lines end in a newline only: other separators belong to the text."""
    lines = read_text(path, encoding).split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        yield number, line.removesuffix("\r")


def folder_content(folder: Path) -> str:
    """What a folder holds, for a message."""
    return listed(sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir()))


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"this is a folder, not a file; it has {folder_content(path)}", file=path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        has = f"its folder has {folder_content(path.parent)}" if path.parent.is_dir() else f"there is no folder {path.parent}"
        raise DataError(f"there is no such file; {has}", file=path) from None
