"""Which columns of a table hold the vectors: those that the user names, or those that can only be it."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from theodolite.core.options import option

# What a column holds: one vector per row, one number per row, or anything else.
ColumnKind: TypeAlias = Literal["vectors", "floats", "ints", "other"]

# Names of columns that number or label a row. As a dimension they would dominate all others.
_ROW_NAMES = {"", "id", "ids", "idx", "index", "row", "row_id", "rowid", "label", "labels", "unnamed: 0", "__index_level_0__"}


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


def choose_columns(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Positions of the columns that a user names, in the user's order.

    Parameters
    ----------
    names
        Names of all columns.
    columns
        Names, ranges `first:last` (both included) and patterns such as `dim_*`.

    Raises
    ------
    ValueError
        No column is named, a name fits none, or two names fit the same one.
    """
    # Reversed, so that the first of two columns of one name counts.
    position = {name: i for i, name in reversed(list(enumerate(names)))}
    places: list[int] = []
    for column in columns:
        first, colon, last = column.partition(":")
        # A plain name first: it may hold a colon or an asterisk itself.
        if column in position:
            matches = [position[column]]
        elif colon and first in position and last in position:
            matches = list(range(position[first], position[last] + 1))
        else:
            matches = [i for i, name in enumerate(names) if fnmatchcase(name, column)]
        if not matches:
            others = f"{name_list(names, most=8)}{suggestion(column, names)}"
            raise ValueError(f"there is no column {column!r}; the columns are {others}")
        places += matches
    if not places:
        raise ValueError("no column is chosen; name at least one")
    place, count = Counter(places).most_common(1)[0]
    if count > 1:
        raise ValueError(f"column {names[place]!r} is chosen twice; name every column once")
    return places


def vector_columns(names: Sequence[str], kinds: Sequence[ColumnKind], columns: Sequence[str] | None = None) -> list[int]:
    """Positions of the columns that hold the vectors: those the user names, the only column of vectors, or the number columns.

    Columns of text are left out. If there are also row numbers, labels or other numbers, the columns of the vector are those
    whose names are counted, such as d0, d1, d2; if none are, it is an error rather than a guess.

    Parameters
    ----------
    names
        Names of all columns.
    kinds
        What each of them holds.
    columns
        What the user names, as in `choose_columns`; None if nothing.

    Raises
    ------
    ValueError
        The columns cannot be found, or those named do not hold numbers.
    """
    if columns is not None:
        places = choose_columns(names, columns)
        _require_numbers(names, kinds, places)
        return places
    vectors = [i for i, kind in enumerate(kinds) if kind == "vectors"]
    if len(vectors) > 1:
        several = ", ".join(names[i] for i in vectors)
        raise ValueError(f"there are several list columns ({several}); choose with {option('columns', 'NAME')}")
    if vectors:
        return vectors
    numbers = [i for i, kind in enumerate(kinds) if kind in ("floats", "ints")]
    if not numbers:
        raise ValueError(f"no column holds numbers or vectors; the columns are {name_list(names, most=8)}")
    others = [name for name, kind in zip(names, kinds, strict=True) if kind == "other"]
    suspects = [names[i] for i in numbers if names[i].strip().lower() in _ROW_NAMES]
    whole = [names[i] for i in numbers if kinds[i] == "ints"]
    is_mixed = 0 < len(whole) < len(numbers)
    if not others and not suspects and not is_mixed:
        return numbers
    counted = _counted(names, numbers)
    if counted:
        return counted
    if suspects or is_mixed or len(numbers) == 1:
        rest = [names[i] for i in numbers if names[i] not in (suspects or whole)]
        choice = option("columns", f"{rest[0]}:{rest[-1]}" if rest else "NAMES")
        if suspects:
            fault = f"column {suspects[0]!r} looks like a row number or label, not a dimension"
        elif is_mixed:
            fault = f"column {whole[0]!r} holds whole numbers, {len(rest)} other columns hold floats"
        else:
            fault = f"column {names[numbers[0]]!r} alone holds numbers, next to {name_list(others, most=4)}"
        raise ValueError(f"{fault}; choose the columns of the vector with {choice}")
    return numbers


def _require_numbers(names: Sequence[str], kinds: Sequence[ColumnKind], places: Sequence[int]) -> None:
    for i in places:
        if names.count(names[i]) > 1:
            raise ValueError(f"column {names[i]!r} is there twice; give every column a name of its own")
        if kinds[i] == "vectors" and len(places) > 1:
            raise ValueError(f"column {names[i]!r} holds whole vectors; choose it alone, not with {len(places) - 1} more")
        if kinds[i] == "other":
            choice = option("columns", "NAMES")
            raise ValueError(f"column {names[i]!r} does not hold numbers; choose the columns of the vector with {choice}")


def _counted(names: Sequence[str], numbers: Sequence[int]) -> list[int]:
    """The number columns of one name with a count behind it, if there is one such family; otherwise none."""
    families: dict[str, dict[int, int]] = {}
    for i in numbers:
        if match := re.fullmatch(r"(.*?)([0-9]{1,9})", names[i]):
            families.setdefault(match[1], {})[int(match[2])] = i
    whole = [family for family in families.values() if len(family) > 1 and max(family) - min(family) == len(family) - 1]
    return list(whole[0].values()) if len(whole) == 1 else []
