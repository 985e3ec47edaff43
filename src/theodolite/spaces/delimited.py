"""`.csv` and `.tsv`: numeric vector columns with or without a header, or one column of lists such as "[0.1, 0.2]"."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Source
from theodolite.spaces.columns import choose_columns, refuse_row_names
from theodolite.spaces.files import EmptyFileError, File, file_source
from theodolite.spaces.spool import Spool, parsed_rows

LONGEST_CELL = 2**24


class Table:
    """What the first rows of a delimited file say: delimiter, header, and where the vectors are."""

    def __init__(self, file: File, columns: Sequence[str] | None) -> None:
        self.file = file
        self.delimiter = "\t" if file.ending == ".tsv" else _delimiter(next(file.lines(), ""))
        first = next(self.records(), None)
        if first is None:
            raise EmptyFileError(f"{file} is empty; there must be at least one vector")
        self.has_header = is_header(first[1])
        self.names = first[1] if self.has_header else [str(i) for i in range(len(first[1]))]
        sample = next(islice(self.records(), int(self.has_header), None), None)
        if sample is None:
            raise EmptyFileError(f"{file} has a header but no row; there must be at least one vector")
        self.width = len(first[1])
        lists = [i for i, cell in enumerate(sample[1]) if is_list(cell)]
        self.chosen = self._choose(columns, lists)
        self.is_list = len(self.chosen) == 1 and self.chosen[0] in lists
        self.d = len(parse_list(sample[1][self.chosen[0]])) if self.is_list else len(self.chosen)

    def _choose(self, columns: Sequence[str] | None, lists: Sequence[int]) -> list[int]:
        if columns is not None:
            return choose_columns(str(self.file), self.names, columns)
        if len(lists) > 1:
            found = ", ".join(self.names[i] for i in lists)
            raise ValueError(f"{self.file} has several list columns ({found}); say which to read with columns= (--columns)")
        if lists:
            return list(lists)
        if self.has_header:
            refuse_row_names(str(self.file), self.names)
        return list(range(len(self.names)))

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, cells) of every record; blank lines are skipped."""
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))  # the default is too short for a list of 8,192 numbers
        reader = csv.reader(self.file.lines(), delimiter=self.delimiter)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise ValueError(f"{self.file}, line {reader.line_num}: {error}") from error

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """The vectors in file order."""
        records = islice(self.records(), int(self.has_header), None)
        while part := list(islice(records, parsed_rows(self.width))):
            yield np.array([self.vector(line, cells) for line, cells in part], dtype=np.float64)

    def vector(self, line: int, cells: list[str]) -> list[float]:
        """The numbers of one record, or an error that names line and column."""
        if len(cells) != self.width:
            raise ValueError(
                f"{self.file}, line {line} has {len(cells)} cells, the first line has {self.width}; "
                "every line must have the same number: repair or drop that line"
            )
        if self.is_list:
            return self._listed(line, cells[self.chosen[0]])
        try:
            return [float(cells[i]) for i in self.chosen]
        except ValueError:
            bad = next(i for i in self.chosen if not is_number(cells[i]))
            name = f"column {self.names[bad]!r}" if self.has_header else f"column {bad}"
            raise ValueError(
                f"{self.file}, line {line}, {name}: {_clipped(cells[bad])} is not a number; "
                "choose the vector columns with columns= (--columns)"
            ) from None

    def _listed(self, line: int, cell: str) -> list[float]:
        where = f"{self.file}, line {line}, column {self.names[self.chosen[0]]!r}"
        try:
            values = parse_list(cell)
        except ValueError:
            raise ValueError(f"{where}: {_clipped(cell)} is not a list of numbers such as [0.1, 0.2]") from None
        if len(values) != self.d:
            raise ValueError(f"{where} has {len(values)} entries, the first vector has {self.d}; all must be of one length")
        return values


def read_delimited(file: File, *, columns: Sequence[str] | None) -> Source:
    """The vectors of a CSV or TSV file, in file order."""
    table = Table(file, columns)
    kept = Spool(table.chunks, table.d, np.float64)
    next(iter(table.chunks()))  # a fault near the top shows at once, before anything is computed
    return file_source(file, kept.chunks, n=None, d=table.d, dtype=np.float64, take=kept.take)


def is_header(cells: Sequence[str]) -> bool:
    """True for names: no cell is a number, or the numbers are the names 0, 1, 2, … that data frames write by themselves."""
    numbers = [cell for cell in cells if is_number(cell)]
    if not numbers:
        return not any(is_list(cell) for cell in cells)
    counted = [str(i) for i in range(len(numbers) + 1)]
    return len(numbers) > 2 and numbers in (counted[:-1], counted[1:])


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_list(cell: str) -> bool:
    return cell.lstrip().startswith("[")


def parse_list(cell: str) -> list[float]:
    """The numbers of "[0.1, 0.2]" or of "[0.1 0.2]" as NumPy prints it."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("not in brackets")
    try:
        return [float(value) for value in json.loads(text)]
    except (ValueError, TypeError):
        return [float(value) for value in text[1:-1].replace(",", " ").split()]


def _delimiter(line: str) -> str:
    # A spreadsheet in a country with decimal commas writes semicolons into a .csv.
    return next((mark for mark in (",", ";", "\t") if mark in line), ",")


def _clipped(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")
