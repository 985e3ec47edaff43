"""What is wrong with a data file: the file, the line, the rule and the way out, in one message."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence


class DataError(ValueError):
    """A fault in a data file or in the choice of one. `file` and `line` say where; the message says both and the way out."""

    def __init__(self, message: str, *, file: str | os.PathLike[str] = "", line: int | None = None) -> None:
        self.file = os.fspath(file)
        self.line = line
        where = f"{self.file}, line {line}" if line is not None else self.file
        super().__init__(f"{where}: {message}" if where else message)


def listed(names: Sequence[str], *, most: int = 12) -> str:
    """Names for a message: all of a few, the first of many and their number."""
    if len(names) <= most:
        return ", ".join(names) or "nothing"
    return f"{', '.join(names[:most])}, … ({len(names)} in all)"


def close_to(name: str, known: Sequence[str]) -> str:
    """A hint such as ` (did you mean 'label'?)`, or nothing where no known name is close."""
    by_small = {other.strip().lower(): other for other in known}
    found = difflib.get_close_matches(name.strip().lower(), list(by_small), n=1, cutoff=0.6)
    return f" (did you mean {by_small[found[0]]!r}?)" if found else ""


def clipped(text: str) -> str:
    """A value for a message, quoted, at most forty characters of it."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
