"""Tables with named columns, `.csv`, `.tsv` and `.jsonl`: the one reader for vectors, for labels and for a user's own tasks."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from theodolite.core.options import option
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, name_list, suggestion

# Characters of one cell; the default of the csv module is too short for a list of 8,192 numbers.
_LONGEST_CELL = 2**24
# Names of columns that number or label a row. As a dimension they would dominate all others, so they are refused.
_ROW_NAMES = {"", "id", "ids", "idx", "index", "row", "row_id", "rowid", "label", "labels", "unnamed: 0", "__index_level_0__"}


class DelimitedTable:
    """A table of cells between delimiters, one row per line unless a quoted cell has line ends in it.

    Parameters
    ----------
    file
        The file.
    encoding
        Its encoding; None is UTF-8.
    delimiter
        What separates cells; None is a tab for `.tsv` and `.tab`, and the first of comma, semicolon and tab that the first line
        has for anything else.
    quoting
        Whether quotes around a cell are marks; otherwise they are text.
    has_header
        Whether the first row names the columns; None decides by its cells. Columns without names are called 0, 1, 2, …
    """

    def __init__(
        self,
        file: File,
        *,
        encoding: str | None = None,
        delimiter: str | None = None,
        quoting: bool = True,
        has_header: bool | None = None,
    ) -> None:
        self.file = file
        self._encoding = encoding
        self._is_of_task = delimiter is not None  # only tasks state it, so only their errors may name options of own_task
        self._delimiter = delimiter or self._find_delimiter()
        self._quoting = quoting
        first = next(self._all_rows(), None)
        if first is None:
            raise EmptyFileError("the file is empty", file)
        self.line, cells = first  # blank lines may come before the header
        self.has_header = _is_header(cells) if has_header is None else has_header
        self.names = cells if self.has_header else [str(i) for i in range(len(cells))]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number from 1, cells) of every row after the header; all have as many cells as the first row."""
        first = "header" if self.has_header else "first line"
        options = f"own_task(..., delimiter=TEXT, quoting={not self._quoting})"
        hint = f", or read the table in another way: in Python, {options}" if self._is_of_task else ""
        for line, cells in islice(self._all_rows(), int(self.has_header), None):
            if len(cells) != len(self.names):
                fault = f"the line has {len(cells)} cells, the {first} has {len(self.names)}"
                raise DataError(f"{fault}; repair or drop that line{hint}", self.file, line)
            yield line, cells

    def select(self, columns: Mapping[str, str], hint: str = "") -> Iterator[tuple[int, dict[str, str]]]:
        """(line number, cells) of every row, with the cells under names of your own.

        Parameters
        ----------
        columns
            What to call a cell, and the name of its column.
        hint
            How to choose another column: the end of the error if one is missing, with `ROLE` for your own name.
        """
        _require_columns(self.file, self.line, self.names, columns, hint)
        places = {role: self.names.index(name) for role, name in columns.items()}
        for line, cells in self.rows():
            yield line, {role: cells[place] for role, place in places.items()}

    def _all_rows(self) -> Iterator[tuple[int, list[str]]]:
        if not self._quoting:
            for line, text in self.file.numbered_lines(self._encoding):
                if text.strip():
                    yield line, text.split(self._delimiter)
            return
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
        # strict: a lone quote is an error; without it, csv joins all lines up to the next quote.
        reader = csv.reader(self.file.lines(self._encoding), delimiter=self._delimiter, strict=True)
        line = 1
        try:
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            hint = ", or read quotes as text: in Python, own_task(..., quoting=False)" if self._is_of_task else ""
            raise DataError(f"{error}; double the quotes inside a quoted cell{hint}", self.file, line) from None

    def _find_delimiter(self) -> str:
        if self.file.ending in (".tsv", ".tab"):
            return "\t"
        # In countries with decimal commas, spreadsheets write semicolons into a .csv file.
        first = next(self.file.lines(self._encoding), "")
        return next((mark for mark in (",", ";", "\t") if mark in first), ",")


class JsonTable:
    """A table of JSON values, one per line: usually objects, whose keys name the columns.

    Parameters
    ----------
    file
        The file.
    encoding
        Its encoding; None is UTF-8.
    """

    def __init__(self, file: File, *, encoding: str | None = None) -> None:
        self.file = file
        self._encoding = encoding
        first = next(self.rows())[1]
        self.names = list(first) if isinstance(first, dict) else []

    def rows(self) -> Iterator[tuple[int, Any]]:
        """(line number from 1, value) of every line that is not blank."""
        for line, text in self.file.numbered_lines(self._encoding):
            if not text.strip():
                continue
            try:
                value = json.loads(text)
            except ValueError as error:
                raise DataError(f"this is not JSON ({error}); every line must be one JSON value", self.file, line) from None
            yield line, value

    def select(self, columns: Mapping[str, str], hint: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
        """(line number, values) of every line, with the values under names of your own; see `DelimitedTable.select`."""
        for line, record in self.rows():
            if not isinstance(record, dict):
                raise DataError(f"this is {type(record).__name__}, not an object such as {{'text': ...}}", self.file, line)
            _require_columns(self.file, line, list(record), columns, hint)
            yield line, {role: record[name] for role, name in columns.items()}


def choose_columns(file: File, names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Positions of the columns that a user names, in the user's order.

    Parameters
    ----------
    file
        The file, for messages.
    names
        Names of all columns.
    columns
        Names, ranges `first:last` (both included) and patterns such as `dim_*`.

    Raises
    ------
    DataError
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
            raise DataError(f"there is no column {column!r}; the columns are {others}", file)
        places += matches
    if not places:
        raise DataError("no column is chosen; name at least one", file)
    place, count = Counter(places).most_common(1)[0]
    if count > 1:
        raise DataError(f"column {names[place]!r} is chosen twice; name every column once", file)
    return places


def only_column(file: File, names: Sequence[str], column: str) -> str:
    """The name of the one column that a name or pattern fits; an error if it fits none or several."""
    places = choose_columns(file, names, [column])
    if len(places) > 1:
        raise DataError(f"{column!r} names {len(places)} columns; name one of them", file)
    return names[places[0]]


def vector_columns(
    file: File, names: Sequence[str], lists: Sequence[int], columns: Sequence[str] | None, *, has_names: bool = True
) -> list[int]:
    """Positions of the columns that hold the vectors: those the user names, the only column of lists, or all.

    Parameters
    ----------
    file
        The file, for messages.
    names
        Names of all columns.
    lists
        Positions of the columns that hold lists.
    columns
        What the user names, as in `choose_columns`; None if nothing.
    has_names
        Whether the names are the file's own, and not only counted.

    Raises
    ------
    DataError
        There are several columns of lists, or a column looks like a row number or a label and was not asked for by name.
    """
    if columns is not None:
        return choose_columns(file, names, columns)
    if len(lists) > 1:
        several = ", ".join(names[i] for i in lists)
        raise DataError(f"there are several list columns ({several}); choose with {option('columns', 'NAME')}", file)
    if lists:
        return list(lists)
    suspects = [name for name in names if name.strip().lower() in _ROW_NAMES]
    if has_names and suspects:
        others = [name for name in names if name not in suspects]
        choice = option("columns", f"{others[0]}:{others[-1]}" if others else "NAMES")
        fault = f"column {suspects[0]!r} looks like a row number or label, not a dimension"
        raise DataError(f"{fault}; choose the columns of the vector with {choice}", file)
    return list(range(len(names)))


def is_number(cell: str) -> bool:
    """Whether a text is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_list(cell: str) -> bool:
    """Whether a cell begins like a list of numbers."""
    return cell.lstrip().startswith("[")


def _require_columns(file: File, line: int, names: Sequence[str], columns: Mapping[str, str], hint: str) -> None:
    for role, name in columns.items():
        if name not in names:
            others = f"{name_list(names)}{suggestion(name, names)}{hint.replace('ROLE', role)}"
            raise DataError(f"there is no column {name!r} for the {role}; the columns are {others}", file, line)
        if names.count(name) > 1:
            raise DataError(f"column {name!r} is there twice; give every column a name of its own", file, line)


def _is_header(cells: Sequence[str]) -> bool:
    """True for names: no cell is a number, or the numbers are the names 0, 1, 2, … that data frames give by default."""
    numbers = [cell for cell in cells if is_number(cell)]
    if not numbers:
        return not any(is_list(cell) for cell in cells)
    counted = [str(i) for i in range(len(numbers) + 1)]
    # More than two: "0,1" is as likely a row of data.
    return len(numbers) > 2 and numbers in (counted[:-1], counted[1:])
