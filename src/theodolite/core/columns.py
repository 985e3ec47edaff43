"""Which columns of a table hold the vectors: those that the user names, or those that can only be it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from theodolite.core.spelling import name_list, option

# What a column holds: one vector per row, one number per row, or anything else.
ColumnKind: TypeAlias = Literal["vectors", "floats", "ints", "other"]

# Names of columns that number, label or date a row. As a dimension they would dominate all others.
_ROW_NAME = re.compile(
    r"|unnamed: 0|__index_level_0__|pmid|rowid|docid|uid|(.*[_ .-])?"
    r"(id|ids|idx|index|row|doc|label|labels|target|class|cluster|score|price|year|date|time|timestamp)"
)
# Rows that show what a column holds.
SAMPLED_ROWS = 20


def choose_columns(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Positions of the columns that a user names, in the user's order."""
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
            raise ValueError(f"there is no column {column!r}; the columns are {name_list(names, most=8, near=column)}")
        places += matches
    if not places:
        raise ValueError("no column is chosen; name at least one")
    place, count = Counter(places).most_common(1)[0]
    if count > 1:
        raise ValueError(f"column {names[place]!r} is chosen twice; name every column once")
    return places


def vector_columns(
    names: Sequence[str],
    kinds: Sequence[ColumnKind],
    columns: Sequence[str] | None = None,
    *,
    first_values: Callable[[int], Sequence[Any]] = lambda _: (),
    is_named: bool = True,
) -> list[int]:
    """Positions of the columns that hold the vectors: those the user names, the only column of vectors, or the number columns.

    Columns of text are left out. Columns whose names are counted (d0, d1, d2, …) are taken without any others. If none are, row
    numbers, labels and whole numbers among the number columns are an error rather than a guess.
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
    double, count = Counter(names[i] for i in numbers).most_common(1)[0]
    if count > 1:
        raise ValueError(f"column {double!r} is there twice; give every column a name of its own")
    groups = _counted_groups(names, numbers) if is_named else {}
    for prefix, group in groups.items():
        counts = sorted(int(names[i].removeprefix(prefix)) for i in group)
        is_gapless = counts in (list(range(len(group))), list(range(1, len(group) + 1)))
        if len(groups) > 1 or (not is_gapless and len(group) < len(numbers)):
            fault = f"are {len(groups)} groups" if len(groups) > 1 else "have a gap, and there are other numbers"
            listed = name_list([f"{names[each[0]]}:{names[each[-1]]}" for each in groups.values()], most=4)
            longest = max(groups.values(), key=len)
            choice = option("columns", f"{names[longest[0]]}:{names[longest[-1]]}")
            raise ValueError(f"the counted columns {listed} {fault}; choose the columns of the vector, such as {choice}")
        numbers = group
        # Numbers alone also name the columns of a table that was read without its header, in which one may number the rows.
        if prefix and is_gapless:
            return group
    if fault := _suspicion(names, kinds, numbers, first_values, is_named=is_named):
        raise ValueError(fault)
    return numbers


def _suspicion(
    names: Sequence[str],
    kinds: Sequence[ColumnKind],
    numbers: Sequence[int],
    first_values: Callable[[int], Sequence[Any]],
    *,
    is_named: bool,
) -> str:
    """What is wrong with taking all number columns for dimensions: one of them numbers, labels or dates the rows."""
    if len(names) == 1:
        return ""
    others = [name for name, kind in zip(names, kinds, strict=True) if kind == "other"]
    named = [i for i in numbers if is_named and _ROW_NAME.fullmatch(names[i].strip().lower())]
    whole = [i for i in numbers if kinds[i] == "ints"]
    if named:
        suspects, fault = named, "looks like a row number or label, not a dimension"
    elif 0 < len(whole) < len(numbers):
        suspects, fault = whole, f"holds whole numbers, {len(numbers) - len(whole)} other columns hold floats"
    elif len(numbers) == 1 and others:
        suspects, fault = list(numbers), f"alone holds numbers, next to {name_list(others, most=4)}"
    else:
        suspects, fault = [i for i in numbers if _counts_rows(first_values(i))], "counts up like a row number, others do not"
        if len(suspects) == len(numbers):
            return ""
    if not suspects:
        return ""
    rest = [i for i in numbers if i not in suspects]
    is_range = bool(rest) and rest[-1] - rest[0] == len(rest) - 1
    choice = option("columns", f"{names[rest[0]]}:{names[rest[-1]]}" if is_range else "NAMES")
    return f"column {names[suspects[0]]!r} {fault}; choose the columns of the vector with {choice}"


def _counts_rows(values: Sequence[Any]) -> bool:
    """Whether numbers are whole and each is one more than the last; ten may also rise by other steps, as no vector's would."""
    if len(values) < 3 or not all(
        isinstance(value, int) or (isinstance(value, float) and value.is_integer()) for value in values
    ):
        return False
    steps = [after - before for before, after in pairwise(values)]
    return set(steps) == {1} or (len(values) >= 10 and min(steps) > 0)


def _require_numbers(names: Sequence[str], kinds: Sequence[ColumnKind], places: Sequence[int]) -> None:
    for i in places:
        if names.count(names[i]) > 1:
            raise ValueError(f"column {names[i]!r} is there twice; give every column a name of its own")
        if kinds[i] == "vectors" and len(places) > 1:
            raise ValueError(f"column {names[i]!r} holds whole vectors; choose it alone, not with {len(places) - 1} more")
        if kinds[i] == "other":
            choice = option("columns", "NAMES")
            raise ValueError(f"column {names[i]!r} does not hold numbers; choose the columns of the vector with {choice}")


def _counted_groups(names: Sequence[str], numbers: Sequence[int]) -> dict[str, list[int]]:
    """The number columns that have a count at the end of their name, by what is before it, if two or more share that."""
    groups: dict[str, list[int]] = {}
    for i in numbers:
        if match := re.fullmatch(r"(.*?)[0-9]{1,9}", names[i]):
            groups.setdefault(match[1], []).append(i)
    return {prefix: group for prefix, group in groups.items() if len(group) > 1}
