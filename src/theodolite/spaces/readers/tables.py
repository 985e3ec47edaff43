"""Tables with named columns, `.csv`, `.tsv` and `.jsonl`: the one reader for vectors, for labels and for a user's own tasks."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from theodolite.core.columns import ColumnKind, choose_columns
from theodolite.core.columns import vector_columns as columns_of_vectors
from theodolite.core.files import parse_json
from theodolite.core.options import option, switched_off
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, name_list, suggestion

# Characters of one cell; the default of the csv module is too short for a list of 8,192 numbers.
_LONGEST_CELL = 2**24
# What may separate cells, if the user does not say. The comma comes last, because texts, lists and numbers have it too.
_DELIMITERS = ("\t", ";", "|", ",")


class DelimitedTable:
    """A table of cells between delimiters, one row per line unless a quoted cell has line ends in it.

    Parameters
    ----------
    file
        The file.
    encoding
        Its encoding; None is UTF-8.
    delimiter
        What separates cells, one character; None is a tab for `.tsv` and `.tab`, and found in the first lines of anything else.
    quoting
        Whether quotes around a cell are marks; otherwise they are text.
    has_header
        Whether the first row names the columns; None decides by its cells. Columns without names are called 0, 1, 2, …
    is_own
        Whether the table is of a user's own task, so that errors may name the options of `own_task`.
    """

    def __init__(
        self,
        file: File,
        *,
        encoding: str | None = None,
        delimiter: str | None = None,
        quoting: bool = True,
        has_header: bool | None = None,
        is_own: bool = False,
    ) -> None:
        self.file = file
        self._encoding = encoding
        self._delimiter = self._find_delimiter() if delimiter is None else checked_delimiter(delimiter)
        self._quoting = quoting
        self._is_own = is_own
        first = next(self._all_rows(), None)
        if first is None:
            raise EmptyFileError("the file is empty", file)
        self.line, cells = first  # blank lines may come before the header
        self.has_header = _is_header(cells) if has_header is None else has_header
        self.names = cells if self.has_header else [str(i) for i in range(len(cells))]

    @property
    def header_hint(self) -> str:
        """What an error about a missing column ends with: that the first line was taken as the names, and what to do about it."""
        off = switched_off("header")
        hint = f". The first line was taken as the names; if it is data, use {off}, and call the columns 0, 1, 2, …"
        return hint if self.has_header else ""

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number from 1, cells) of every row after the header; all have as many cells as the first row."""
        first = "header" if self.has_header else "first line"
        hint = f", or say what separates the cells with {option('delimiter', 'TEXT')}"
        if self._is_own:
            hint += f", or how quotes are read: in Python, own_task(..., quoting={not self._quoting})"
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
        _require_columns(self.file, self.line, self.names, columns, hint + self.header_hint)
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
            hint = ", or read quotes as text: in Python, own_task(..., quoting=False)" if self._is_own else ""
            raise DataError(f"{error}; double the quotes inside a quoted cell{hint}", self.file, line) from None

    def _find_delimiter(self) -> str:
        if self.file.ending in (".tsv", ".tab"):
            return "\t"
        return find_delimiter(list(islice(self.file.lines(self._encoding), 2))) or ","


def find_delimiter(lines: Sequence[str]) -> str | None:
    """What separates the cells of a table: a tab, semicolon, bar or comma outside of quotes; None if the first line has none.

    Parameters
    ----------
    lines
        The first two lines of a table, or the only one; a mark that both have equally often is preferred.

    Examples
    --------
    >>> find_delimiter(["id;[0.1, 0.2]"]), find_delimiter(["a,b;c", "1,2"]), find_delimiter(["a b"])
    (';', ',', None)
    """
    counts = [["".join(line.split('"')[::2]).count(mark) for line in lines] for mark in _DELIMITERS]
    present = [(len(set(each)) > 1, i) for i, each in enumerate(counts) if each and each[0]]
    return _DELIMITERS[min(present)[1]] if present else None


def checked_delimiter(text: str) -> str:
    r"""A delimiter as the user typed it: one character, or `tab` or `\t` for a tab.

    Parameters
    ----------
    text
        What was typed.

    Raises
    ------
    ValueError
        It is not one character, or one that cannot separate cells.
    """
    mark = "\t" if text in ("tab", "\\t") else text
    if len(mark) != 1 or mark in '"\r\n\0':
        raise ValueError(f"{option('delimiter', text or 'TEXT')} must be one character, such as ; or |, or tab")
    return mark


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
                value = parse_json(text)
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


def vector_columns(
    file: File, names: Sequence[str], kinds: Sequence[ColumnKind], columns: Sequence[str] | None, hint: str = ""
) -> list[int]:
    """The columns that hold the vectors, as `core.columns.vector_columns` finds them, with errors that name the file.

    Parameters
    ----------
    file
        The file, for messages.
    names, kinds
        Names of all columns, and what they hold.
    columns
        What the user names; None if nothing.
    hint
        What the error ends with if there is no such column.
    """
    try:
        return columns_of_vectors(names, kinds, columns)
    except ValueError as error:
        raise DataError(f"{error}{hint if columns is not None else ''}", file) from None


def only_column(file: File, names: Sequence[str], column: str, hint: str = "") -> str:
    """The name of the one column that a name or pattern fits; an error, which ends with the hint, if it fits none or several."""
    try:
        places = choose_columns(names, [column])
    except ValueError as error:
        raise DataError(f"{error}{hint}", file) from None
    if len(places) > 1:
        raise DataError(f"{column!r} names {len(places)} columns; name one of them", file)
    return names[places[0]]


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
