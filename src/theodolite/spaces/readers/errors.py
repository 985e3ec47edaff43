"""What is wrong with a data file: the file, the line, the rule and the way out, in one message."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


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
        place = f"{self.file}, line {line}" if line is not None else self.file
        super().__init__(f"{place}: {message}" if place else message)


class EmptyFileError(DataError):
    """A file without a single vector, label or example. A folder of shards skips such files."""


def name_list(names: Sequence[str], *, most: int = 12) -> str:
    """Names for a message: all of a few, or the first of many with their number.

    Parameters
    ----------
    names
        The names, in order.
    most
        How many to list.

    Examples
    --------
    >>> name_list(["a", "b", "c"], most=2)
    'a, b, … (3 in all)'
    """
    if len(names) <= most:
        return ", ".join(names) or "nothing"
    return f"{', '.join(names[:most])}, … ({len(names)} in all)"


def suggestion(name: str, names: Sequence[str]) -> str:
    """The closest of the names as ` (did you mean 'label'?)`, or nothing if none is close.

    Parameters
    ----------
    name
        What the user typed.
    names
        What it could have been.

    Examples
    --------
    >>> suggestion("lable", ["text", "label"])
    " (did you mean 'label'?)"
    """
    by_lower_case = {other.strip().lower(): other for other in names}
    matches = difflib.get_close_matches(name.strip().lower(), list(by_lower_case), n=1, cutoff=0.6)
    return f" (did you mean {by_lower_case[matches[0]]!r}?)" if matches else ""


def excerpt(text: str) -> str:
    """The beginning of a text in quotes, at most forty characters, for a message.

    Parameters
    ----------
    text
        A value from a file.
    """
    return repr(text if len(text) <= 40 else text[:37] + "...")
