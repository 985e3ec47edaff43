"""Vectors in the columns of `.csv`, `.tsv` and `.jsonl` tables: number columns, or one column of lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from theodolite.core.options import option
from theodolite.core.vectors import Source
from theodolite.spaces.readers.errors import DataError, EmptyFileError, excerpt
from theodolite.spaces.readers.location import File
from theodolite.spaces.readers.sources import parsed_source
from theodolite.spaces.readers.tables import (
    DelimitedTable,
    JsonTable,
    choose_columns,
    is_list,
    is_number,
    only_list_column,
    refuse_row_names,
)


def read_delimited(file: File, *, columns: Sequence[str] | None) -> Source:
    """The vectors of a `.csv` or `.tsv` file, in file order.

    Parameters
    ----------
    file
        The file, with or without a header.
    columns
        Which columns hold the vectors: names (numbers from 0 if there is no header), ranges `first:last`, patterns `dim_*`, or
        one column of lists such as "[0.1, 0.2]". None takes the only list column, or all columns.
    """
    table = DelimitedTable(file)
    sample = next(table.rows(), None)
    if sample is None:
        raise EmptyFileError("the file has a header but no row; there must be at least one vector", file)
    lists = [table.names[i] for i, cell in enumerate(sample[1]) if is_list(cell)]
    if columns is not None:
        places = choose_columns(file, table.names, columns)
    elif name := only_list_column(file, lists):
        places = [table.names.index(name[0])]
    else:
        if table.has_header:
            refuse_row_names(file, table.names)
        places = list(range(len(table.names)))
    if len(places) > 1 or table.names[places[0]] not in lists:
        return parsed_source(file, lambda: _number_cells(table, places), d=len(places))
    return _source_of_lists(file, lambda: ((line, _list_cell(table, places[0], line, cells)) for line, cells in table.rows()))


def read_jsonl(file: File, *, columns: Sequence[str] | None) -> Source:
    """The vectors of a `.jsonl` file, in file order.

    Parameters
    ----------
    file
        The file: a list on every line, or an object with one list or with number fields.
    columns
        Which fields hold the vectors; see `read_delimited`. None takes the only list of numbers, or all fields.
    """
    table = JsonTable(file)
    line, first = next(table.rows())
    fields = _vector_fields(table, line, first, columns)
    return _source_of_lists(file, lambda: ((line, _json_vector(table, fields, line, value)) for line, value in table.rows()))


def _source_of_lists(file: File, vectors: Callable[[], Iterator[tuple[int, list[float]]]]) -> Source:
    """A source of (line, vector) pairs; the first vector says how long all must be."""
    line, first = next(vectors())
    d = len(first)
    if d == 0:
        raise EmptyFileError("the vector has no entries", file, line)

    def checked() -> Iterator[list[float]]:
        for line, vector in vectors():
            if len(vector) != d:
                fault = f"the vector has {len(vector)} entries, the first vector has {d}; all must be of one length"
                raise DataError(fault, file, line)
            yield vector

    return parsed_source(file, checked, d=d)


def _number_cells(table: DelimitedTable, places: Sequence[int]) -> Iterator[list[float]]:
    for line, cells in table.rows():
        try:
            yield [float(cells[i]) for i in places]
        except ValueError:
            bad = next(i for i in places if not is_number(cells[i]))
            name = repr(table.names[bad]) if table.has_header else bad
            hint = f"choose the columns of the vector with {option('columns', 'NAMES')}"
            raise DataError(f"column {name}: {excerpt(cells[bad])} is not a number; {hint}", table.file, line) from None


def _list_cell(table: DelimitedTable, place: int, line: int, cells: Sequence[str]) -> list[float]:
    """The numbers of "[0.1, 0.2]", or of "[0.1 0.2]" as NumPy prints it."""
    text = cells[place].strip()
    try:
        if text[:1] + text[-1:] != "[]":  # a list that was cut off must not pass for a shorter one
            raise ValueError("not in brackets")
        return [float(value) for value in text[1:-1].replace(",", " ").split()]
    except ValueError:
        fault = f"{excerpt(cells[place])} is not a list of numbers such as [0.1, 0.2]"
        raise DataError(f"column {table.names[place]!r}: {fault}", table.file, line) from None


def _vector_fields(table: JsonTable, line: int, first: Any, columns: Sequence[str] | None) -> list[str] | None:
    """Names of the fields that hold the vector; None if the line itself is the vector."""
    if isinstance(first, list):
        if columns is not None:
            raise DataError(f"the lines are lists, which have no names; leave {option('columns', 'NAMES')} out", table.file)
        return None
    if not isinstance(first, dict):
        raise DataError(f"this is {type(first).__name__}; every line must be a list or an object", table.file, line)
    if columns is not None:
        return [table.names[i] for i in choose_columns(table.file, table.names, columns)]
    lists = [name for name, value in first.items() if isinstance(value, list) and _are_numbers(value)]
    fields = only_list_column(table.file, lists)
    if not fields:
        refuse_row_names(table.file, table.names)
    return fields or table.names


def _json_vector(table: JsonTable, fields: list[str] | None, line: int, record: Any) -> list[float]:
    """The numbers of one line, or an error that names line and field."""
    vector = record
    if fields is not None:
        missing = next((name for name in fields if not isinstance(record, dict) or name not in record), None)
        if missing is not None:
            raise DataError(f"there is no field {missing!r}; every line must have the same fields", table.file, line)
        vector = [record[name] for name in fields]
        if len(vector) == 1 and isinstance(vector[0], list):
            vector, fields = vector[0], None
    if not isinstance(vector, list):
        raise DataError(f"this is {type(vector).__name__}; every line must be a list like the first", table.file, line)
    if not _are_numbers(vector):
        bad = next(i for i, value in enumerate(vector) if not _are_numbers([value]))
        place = f"field {fields[bad]!r}" if fields is not None else f"entry {bad}"
        hint = f"choose the fields of the vector with {option('columns', 'NAMES')}"
        raise DataError(f"{place}: {json.dumps(vector[bad])[:40]} is not a number; {hint}", table.file, line)
    return vector


def _are_numbers(values: list[Any]) -> bool:
    return set(map(type, values)) <= {int, float}  # the type of true is bool
