"""Tables with named columns, `.csv`, `.tsv` and `.jsonl`: the one reader for vectors, for labels and for a user's own tasks."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from theodolite.core.files import parse_json
from theodolite.core.frames import ColumnKind, choose_columns
from theodolite.core.frames import vector_columns as columns_of_vectors
from theodolite.core.spelling import name_list, option, switched_off
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, excerpt

# Characters of one cell; the default of the csv module is too short for a list of 8,192 numbers.
_LONGEST_CELL = 2**24
# What may separate cells, if the user does not say. The comma comes last, because texts, lists and numbers have it too.
_DELIMITERS = ("\t", ";", "|", ",")
# Rows that show whether numbers above them are names.
_ROWS_BELOW = 3


class DelimitedTable:
    """A table of cells between delimiters, one row per line unless a quoted cell has line ends in it."""

    def __init__(
        self,
        file: File,
        *,
        encoding: str | None = None,
        delimiter: str | None = None,
        quoting: bool = True,
        decimal: str | None = None,
        has_header: bool | None = None,
        is_own: bool = False,
    ) -> None:
        self.file = file
        self._encoding = encoding
        self.decimal = checked_decimal(decimal)
        self.delimiter = self._find_delimiter() if delimiter is None else checked_delimiter(delimiter)
        self._quoting = quoting and self.delimiter is not None
        self._is_own = is_own
        rows = self._all_rows()
        first = next(rows, None)
        if first is None:
            raise EmptyFileError("the file is empty", file)
        self.line, cells = first  # blank lines may come before the header
        if has_header is None:
            below = [cells for _, cells in islice(rows, _ROWS_BELOW)]
            has_header = is_header(file, cells, below, self.decimal, needs_fractions=self.delimiter is None)
        self.has_header = has_header
        self.names = cells if self.has_header else [str(i) for i in range(len(cells))]

    @property
    def header_hint(self) -> str:
        """What an error about a missing column ends with: that the first line was taken as the names, and what to do about it."""
        off = switched_off("header")
        hint = f". The first line was read as column names; if it is data, use {off}, and name the columns 0, 1, 2, …"
        return hint if self.has_header else ""

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number from 1, cells) of every row after the header; all have as many cells as the first row."""
        first = "header" if self.has_header else "first line"
        hint = f", or give the separator with {option('delimiter', 'TEXT')}"
        if self._is_own:
            hint += f", or change how quotes are read: in Python, own_task(..., quoting={not self._quoting})"
        for line, cells in islice(self._all_rows(), int(self.has_header), None):
            if len(cells) != len(self.names):
                problem = f"the line has {len(cells)} cells, but the {first} has {len(self.names)}"
                raise DataError(f"{problem}; correct or drop that line{hint}", self.file, line)
            yield line, cells

    def select(self, columns: Mapping[str, str], hint: str = "") -> Iterator[tuple[int, dict[str, str]]]:
        """(line number, cells) of every row, with the cells under names of your own."""
        _require_columns(self.file, self.line, self.names, columns, hint + self.header_hint)
        positions = {role: self.names.index(name) for role, name in columns.items()}
        for line, cells in self.rows():
            yield line, {role: cells[position] for role, position in positions.items()}

    def _all_rows(self) -> Iterator[tuple[int, list[str]]]:
        if self.delimiter is None:
            yield from token_lines(self.file, self._encoding)
            return
        if not self._quoting:
            for line, text in self.file.numbered_lines(self._encoding):
                if text.strip():
                    yield line, text.split(self.delimiter)
            return
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
        # strict: a lone quote is an error; without it, csv joins all lines up to the next quote.
        reader = csv.reader(self.file.lines(self._encoding), delimiter=self.delimiter, strict=True)
        line = 1
        try:
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            hint = ", or read quotes as text: in Python, own_task(..., quoting=False)" if self._is_own else ""
            raise DataError(f"{error}; double the quotes inside a quoted cell{hint}", self.file, line) from None

    def _find_delimiter(self) -> str | None:
        if self.file.ending in (".tsv", ".tab"):
            return "\t"
        mark = find_delimiter(list(islice(self.file.lines(self._encoding), 2)), self.decimal)
        return mark or (None if self.file.ending == ".txt" else ";" if self.decimal == "," else ",")


def find_delimiter(lines: Sequence[str], decimal: str = ".") -> str | None:
    """What separates the cells of a table: a tab, semicolon, bar or comma outside of quotes; None if the first line has none.

    Examples
    --------
    >>> find_delimiter(["id;[0.1, 0.2]"]), find_delimiter(["a,b;c", "1,2"]), find_delimiter(["a b"])
    (';', ',', None)
    """
    # A comma can be both only next to quotes, inside of which it is in a number.
    marks = [mark for mark in _DELIMITERS if mark != decimal or any(f'"{mark}' in line for line in lines)]
    counts = [["".join(line.split('"')[::2]).count(mark) for line in lines] for mark in marks]
    present = [(len(set(count)) > 1, i) for i, count in enumerate(counts) if count and count[0]]
    return marks[min(present)[1]] if present else None


def token_lines(file: File, encoding: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """(line number, tokens between blanks), without blank lines and without the lines of comment that may come first."""
    has_begun = False
    for line, text in file.numbered_lines(encoding):
        tokens = text.split()
        # "#" may also be the word of a vector: a comment has something other than numbers behind it.
        is_comment = text.startswith("#") and not has_begun and not (len(tokens) > 2 and all(map(is_number, tokens[1:])))
        if tokens and not is_comment:
            has_begun = True
            yield line, tokens


def checked_delimiter(text: str) -> str:
    r"""A delimiter as the user typed it: one character, or `tab` or `\t` for a tab."""
    mark = "\t" if text in ("tab", "\\t") else text
    if len(mark) != 1 or mark in '"\r\n\0':
        raise ValueError(f"{option('delimiter', text or 'TEXT')} must be one character, such as ; or |, or tab")
    return mark


def checked_decimal(text: str | None) -> str:
    """What separates the digits of a fraction: a point, unless the user typed a comma."""
    if text not in (None, ".", ","):
        raise ValueError(f"{option('decimal', text or 'TEXT')} must be a point or a comma")
    return text or "."


class JsonTable:
    """A table of JSON values, one per line: usually objects, whose keys name the columns."""

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
            if re.search(r"\\u[dD][89a-fA-F]", text):
                try:
                    json.dumps(value, ensure_ascii=False).encode()
                except UnicodeEncodeError:
                    problem = "the line holds half of a surrogate pair, such as \\ud800, which is not text"
                    raise DataError(f"{problem}; write the whole character, or leave it out", self.file, line) from None
            yield line, value

    def select(self, columns: Mapping[str, str], hint: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
        """(line number, values) of every line, with the values under names of your own; see `DelimitedTable.select`."""
        for line, record in self.rows():
            if not isinstance(record, dict):
                raise DataError(f"this is {type(record).__name__}, not an object such as {{'text': ...}}", self.file, line)
            _require_columns(self.file, line, list(record), columns, hint)
            yield line, {role: record[name] for role, name in columns.items()}


def vector_columns(
    file: File,
    names: Sequence[str],
    kinds: Sequence[ColumnKind],
    columns: Sequence[str] | None,
    hint: str = "",
    **sampled: Any,
) -> list[int]:
    """The columns that hold the vectors, as `core.frames.vector_columns` finds them, with errors that name the file."""
    try:
        return columns_of_vectors(names, kinds, columns, **sampled)
    except ValueError as error:
        raise DataError(f"{error}{hint if columns is not None else ''}", file) from None


def only_column(file: File, names: Sequence[str], column: str, hint: str = "") -> str:
    """The name of the one column that a name or pattern fits; an error, which ends with the hint, if it fits none or several."""
    try:
        positions = choose_columns(names, [column])
    except ValueError as error:
        raise DataError(f"{error}{hint}", file) from None
    if len(positions) > 1:
        raise DataError(f"{column!r} names {len(positions)} columns; name one of them", file)
    return names[positions[0]]


def parse_number(cell: str, decimal: str = ".") -> float:
    """The number that a text is; a ValueError if it is none, or has a point if the comma is the decimal mark."""
    return float(cell if decimal == "." else cell.replace(".", "?").replace(decimal, "."))


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a text is a number."""
    try:
        parse_number(cell, decimal)
    except ValueError:
        return False
    return True


def has_decimal_comma(cell: str) -> bool:
    """Whether a text is a number with a decimal comma, and perhaps points between thousands."""
    return re.fullmatch(r"[+-]?[\d.]*,\d+([eE][+-]?\d+)?", cell.strip()) is not None


def decimal_hint(decimal: str = ".") -> str:
    """How an error about a comma in a number ends."""
    return f"if that is a decimal comma, use {option('decimal', ',')}" if decimal == "." else "leave out marks between thousands"


def refuse_decimal_commas(file: File, lines: Sequence[str]) -> None:
    """Raise an error if commas are inside of numbers between blanks, or next to a zero that only a fraction would have there."""
    for line in lines:
        tokens = line.split()
        cells = re.split(r"[,\s]+", line.strip())
        commas = [token for token in tokens if has_decimal_comma(token)]
        is_spaced = len(commas) > 1 and all(is_number(token) or token in commas for token in tokens[1:])
        is_odd = all(map(is_whole, cells)) and any(re.fullmatch(r"-0|[+-]?0\d+", cell) for cell in cells)
        if is_spaced or is_odd:
            found = commas[0] if commas else line.strip()
            delimiter = f", if it separates cells, {option('delimiter', ',')}"
            raise DataError(f"{excerpt(found)} has a comma in a number; {decimal_hint()}{delimiter}", file)


def is_whole(cell: str) -> bool:
    """Whether a text is a number of digits alone, and not more of them than a float has."""
    return re.fullmatch(r"[+-]?[0-9]{1,308}", cell.strip()) is not None


def is_list(cell: str) -> bool:
    """Whether a cell begins like a list of numbers."""
    return cell.lstrip().startswith("[")


def text_kinds(rows: Sequence[Sequence[str]], decimal: str = ".") -> list[ColumnKind]:
    """What the columns of text hold: what the first cell is that is not blank. A later one that differs is an error, not a text.

    Columns of whole numbers are told from others only if those have fractions, and unless they hold one number throughout: zeros
    may be all that the first rows of a sparse vector show.
    """
    kinds: list[ColumnKind] = []
    for cells in zip(*rows, strict=True):
        first = next((cell for cell in cells if cell.strip()), "0")
        if is_number(first, decimal) or has_decimal_comma(first):
            numbers = {cell for cell in cells if is_number(cell, decimal)}
            kinds.append("ints" if len(numbers) > 1 and all(map(is_whole, numbers)) else "floats")
        else:
            kinds.append("vectors" if is_list(first) else "other")
    has_fraction = any(is_number(cell, decimal) and not is_whole(cell) for row in rows for cell in row)
    return kinds if has_fraction else ["floats" if kind == "ints" else kind for kind in kinds]


def first_numbers(rows: Sequence[Sequence[str]], decimal: str = ".") -> Callable[[int], list[float]]:
    """What gives the numbers at the top of a column of text."""
    return lambda i: [parse_number(row[i], decimal) for row in rows if is_number(row[i], decimal)]


def _require_columns(file: File, line: int, names: Sequence[str], columns: Mapping[str, str], hint: str) -> None:
    for role, name in columns.items():
        if name not in names:
            others = f"{name_list(names, near=name)}{hint.replace('ROLE', role)}"
            raise DataError(f"there is no column {name!r} for the {role}; the columns are {others}", file, line)
        if names.count(name) > 1:
            raise DataError(f"column {name!r} occurs twice; give each column its own name", file, line)


def is_header(
    file: File, cells: Sequence[str], below: Sequence[Sequence[str]], decimal: str = ".", *, needs_fractions: bool = False
) -> bool:
    """Whether cells are names: none is a number, or they count 0, 1, 2, … as data frames name columns, or stand above fractions.

    With `needs_fractions`, what is counted must stand above fractions too. Other whole numbers above fractions are an error.
    """
    positions = [i for i, cell in enumerate(cells) if is_number(cell, decimal)]
    if not positions:
        return not any(is_list(cell) or has_decimal_comma(cell) for cell in cells)
    if len(positions) < 2 or not all(is_whole(cells[i]) for i in positions):
        return False
    numbers = [int(cells[i]) for i in positions]
    is_counted = numbers in (list(range(len(numbers))), list(range(1, len(numbers) + 1)))
    # More than two: "0,1" is as likely a row of data.
    if is_counted and len(numbers) > 2 and not needs_fractions:
        return True
    rows = [row for row in below if len(row) == len(cells)]
    fractions = [[is_number(row[i], decimal) and not is_whole(row[i]) for i in positions] for row in rows]
    if not fractions or not all(map(any if is_counted else all, fractions)):
        return False
    if not is_counted and len(set(numbers)) == len(numbers) > 2:
        ways = f"{option('header')} if it names the columns, or {switched_off('header')} if it is data"
        raise DataError(f"the first line holds whole numbers, but the next ones hold fractions; use {ways}", file)
    return is_counted
