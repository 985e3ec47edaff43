"""Vectors in the columns of `.csv`, `.tsv`, `.jsonl` and `.parquet` tables: number columns, or one column of lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.frames import SAMPLED_ROWS, ColumnKind, arrow_block, arrow_kind
from theodolite.core.spelling import name_list, option
from theodolite.core.vectors import BLOCK_BYTES, Source
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, excerpt, file_source, parsed_source
from theodolite.spaces.readers.delimited import (
    DelimitedTable,
    JsonTable,
    checked_decimal,
    decimal_hint,
    find_delimiter,
    first_numbers,
    has_decimal_comma,
    is_number,
    only_column,
    parse_number,
    refuse_decimal_commas,
    text_kinds,
    vector_columns,
)
from theodolite.spaces.readers.text_files import read_text_vectors
from theodolite.spaces.row_table import BATCH


def read_delimited(
    file: File,
    *,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
) -> Source:
    """The vectors of a `.csv` or `.tsv` file, in file order."""
    table = DelimitedTable(file, delimiter=delimiter, has_header=header, decimal=decimal)
    if (delimiter, table.delimiter, table.decimal) == (None, ",", "."):
        refuse_decimal_commas(file, list(islice(file.lines(), 2)))
    # Several rows, because a cell of the first one may be blank.
    sample = [cells for _, cells in islice(table.rows(), SAMPLED_ROWS)]
    if not sample:
        raise EmptyFileError("the file has a header but no row; there must be at least one vector", file)
    kinds = text_kinds(sample, table.decimal)
    if columns is not None:  # what is named is read as numbers, so that an error can name the cell
        kinds = ["floats" if kind == "other" else kind for kind in kinds]
    sampled = {"first_values": first_numbers(sample, table.decimal), "is_named": table.has_header}
    positions = vector_columns(file, table.names, kinds, columns, table.header_hint, **sampled)
    parse = _list_cell if kinds[positions[0]] == "vectors" else _number_cells
    source = _source_of_lists(file, lambda: ((line, parse(table, positions, line, cells)) for line, cells in table.rows()))
    return _of_columns(source, table.names, kinds, positions, columns)


def read_text_file(file: File, *, decimal: str | None = None, **reading: Any) -> Source:
    """The vectors of a `.txt` file: numbers between blanks, or a table, which it also is if an option of tables is given."""
    mark = checked_decimal(decimal)
    lines = [line for line in islice(file.lines(), SAMPLED_ROWS) if line.strip()][:2]
    tokens = [[is_number(token, mark) for token in line.split()] for line in lines]
    # A word may be a number, and a vector may have one entry.
    is_table = bool(lines) and not all(tokens[0][1:] or tokens[0]) and find_delimiter(lines, mark) is not None
    is_table = is_table or (len(tokens) == 2 and not any(tokens[0]) and any(tokens[1]) and len(tokens[0]) == len(tokens[1]))
    return read_delimited(file, decimal=decimal, **reading) if is_table or reading else read_text_vectors(file, decimal=decimal)


def read_jsonl(file: File, *, columns: Sequence[str] | None = None) -> Source:
    """The vectors of a `.jsonl` file, in file order."""
    table = JsonTable(file)
    sample = list(islice(table.rows(), SAMPLED_ROWS))
    line, first = sample[0]
    if isinstance(first, list):
        if columns is not None:
            raise DataError(f"the lines are lists, which have no names; leave {option('columns', 'NAMES')} out", file)
        return _source_of_lists(file, lambda: ((line, _json_vector(table, None, line, value)) for line, value in table.rows()))
    if not isinstance(first, dict):
        raise DataError(f"this is {type(first).__name__}; every line must be a list or an object", file, line)
    values = [[record.get(name) for _, record in sample if isinstance(record, dict)] for name in table.names]
    kinds = [_json_kind(entry) for entry in values]
    if columns is not None:  # what is named is read as numbers, so that an error can name the field
        kinds = ["floats" if kind == "other" else kind for kind in kinds]
    positions = vector_columns(file, table.names, kinds, columns, first_values=values.__getitem__)
    fields = [table.names[i] for i in positions]
    source = _source_of_lists(file, lambda: ((line, _json_vector(table, fields, line, value)) for line, value in table.rows()))
    return _of_columns(source, table.names, kinds, positions, columns)


def read_parquet(file: File, *, columns: Sequence[str] | None = None) -> Source:
    """The vectors of a Parquet file, in row order, read in batches so that memory stays flat."""
    with open_parquet(file) as table:
        n, fields = int(table.metadata.num_rows), list(table.schema_arrow)
    if n == 0:
        raise EmptyFileError("the file has no rows; there must be at least one vector", file)
    names, kinds = [field.name for field in fields], [arrow_kind(field.type) for field in fields]

    @cache
    def sample() -> dict[str, list[Any]]:
        numbers = [name for name, kind in zip(names, kinds, strict=True) if kind in ("floats", "ints")]
        with open_parquet(file) as table:
            batch = next(iter(table.iter_batches(batch_size=SAMPLED_ROWS, columns=numbers)), None)
            return {name: [] if batch is None else batch.column(name).to_pylist() for name in numbers}

    positions = vector_columns(file, names, kinds, columns, first_values=lambda i: sample()[names[i]])
    chosen = [fields[i] for i in positions]
    for field in chosen:
        if names.count(field.name) > 1:
            raise DataError(f"column {field.name!r} occurs twice; give each column its own name", file)
    is_list = arrow_kind(chosen[0].type) == "vectors"
    d = _list_length(file, chosen[0].name) if is_list else len(chosen)
    dtype = np.result_type(*((field.type.value_type if is_list else field.type).to_pandas_dtype() for field in chosen))

    def chunks() -> Iterator[NDArray[Any]]:
        start = 0
        with open_parquet(file) as table:
            for batch in table.iter_batches(batch_size=max(64, BLOCK_BYTES // (8 * d)), columns=[field.name for field in chosen]):
                yield arrow_block({field.name: batch.column(field.name) for field in chosen}, d=d, start=start)
                start += batch.num_rows

    return _of_columns(file_source(file, chunks, n=n, d=d, dtype=dtype), names, kinds, positions, columns)


def read_parquet_column(file: File, column: str) -> Iterator[tuple[int, Any]]:
    """(row number from 0, value) of one column of a Parquet file."""
    with open_parquet(file) as table:
        name = only_column(file, list(table.schema_arrow.names), column)
        # One column is small enough to be read in the default batches.
        batches = (batch.column(name).to_pylist() for batch in table.iter_batches(columns=[name]))
        yield from enumerate(chain.from_iterable(batches))


def _of_columns(
    source: Source, names: Sequence[str], kinds: Sequence[ColumnKind], positions: Sequence[int], columns: Sequence[str] | None
) -> Source:
    """The source with the names of its columns, and a note if they were found among more columns of numbers."""
    source.columns = tuple(names[i] for i in positions)
    numbers = [i for i, kind in enumerate(kinds) if kind in ("floats", "ints")]
    left_out = [names[i] or "''" for i in numbers if i not in positions]
    if left_out and columns is None and positions[0] in numbers:
        source.notes = (f"vectors from columns {name_list(source.columns, most=3)}; left out: {name_list(left_out, most=4)}",)
    return source


def _hint() -> str:
    return f"choose the columns of the vector with {option('columns', 'NAMES')}"


# Text


def _source_of_lists(file: File, vectors: Callable[[], Iterator[tuple[int, list[float]]]]) -> Source:
    """A source of (line, vector) pairs; the first vector says how long all must be."""
    line, first = next(vectors())
    d = len(first)
    if d == 0:
        raise EmptyFileError("the vector has no entries", file, line)

    def checked() -> Iterator[list[float]]:
        for line, vector in vectors():
            if len(vector) != d:
                problem = f"the vector has {len(vector)} entries, but the first vector has {d}; all must have the same length"
                raise DataError(problem, file, line)
            yield vector

    return parsed_source(file, checked, d=d)


def _number_cells(table: DelimitedTable, positions: Sequence[int], line: int, cells: Sequence[str]) -> list[float]:
    try:
        if table.decimal == ".":
            return [float(cells[i]) for i in positions]
        return [parse_number(cells[i], table.decimal) for i in positions]
    except ValueError:
        bad = next(i for i in positions if not is_number(cells[i], table.decimal))
        name = repr(table.names[bad]) if table.has_header else bad
        hint = decimal_hint(table.decimal) if has_decimal_comma(cells[bad]) else _hint()
        raise DataError(f"column {name}: {excerpt(cells[bad])} is not a number; {hint}", table.file, line) from None


def _list_cell(table: DelimitedTable, positions: Sequence[int], line: int, cells: Sequence[str]) -> list[float]:
    """The numbers of "[0.1, 0.2]", or of "[0.1 0.2]" as NumPy prints it."""
    text = cells[positions[0]].strip()
    hint = ""
    try:
        if text[:1] + text[-1:] != "[]":  # a list that was cut off must not pass for a shorter one
            raise ValueError("not in brackets")
        if table.decimal == ",":
            return [parse_number(value, ",") for value in re.split(r"\s*;\s*|,?\s+", text[1:-1].strip()) if value]
        # Commas both with and without a blank behind them, or next to blanks alone, are in numbers too: [0,5, 0,25].
        if re.search(r"[\s;]", text[1:-1].strip()) and any(map(has_decimal_comma, re.split(r",?[\s;]+", text[1:-1]))):
            hint = f"; {decimal_hint()}"
            raise ValueError("decimal commas")
        return [float(value) for value in text[1:-1].replace(",", " ").split()]
    except ValueError:
        problem = f"{excerpt(cells[positions[0]])} is not a list of numbers such as [0.1, 0.2]{hint}"
        raise DataError(f"column {table.names[positions[0]]!r}: {problem}", table.file, line) from None


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
        location = f"field {fields[bad]!r}" if fields is not None else f"entry {bad}"
        raise DataError(f"{location}: {json.dumps(vector[bad])[:40]} is not a number; {_hint()}", table.file, line)
    try:
        return list(map(float, vector))
    except OverflowError:
        raise DataError("a whole number is too large for a float; every entry must be finite", table.file, line) from None


def _json_kind(values: Sequence[Any]) -> ColumnKind:
    first = next((value for value in values if value is not None), 0.0)
    if isinstance(first, list):
        return "vectors" if _are_numbers(first) else "other"
    if not _are_numbers([first]):
        return "other"
    return "ints" if {type(value) for value in values} == {int} and len(set(values)) > 1 else "floats"


def _are_numbers(values: list[Any]) -> bool:
    return set(map(type, values)) <= {int, float}  # the type of true is bool


# Parquet


@contextmanager
def open_parquet(file: File) -> Iterator[Any]:
    """A Parquet file; damage becomes a `DataError` whenever it comes to light, also while batches are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A small buffer, nothing ahead and no mapping: otherwise a file of one row group is in memory as a whole.
        path_or_stream: Any = str(file.local) if file.local is not None else file.open()
        with pq.ParquetFile(path_or_stream, pre_buffer=False, buffer_size=2**20) as table:
            yield table
    except DataError:
        raise
    except (pa.ArrowException, OSError, UnicodeError, LookupError, TypeError, OverflowError, RecursionError) as error:
        problem = " ".join(str(error).split())[:200]
        raise DataError(f"this is not a complete Parquet file ({problem}); write it again", file) from error
    except ValueError as error:  # ours, of a row
        raise DataError(str(error), file) from error


def _list_length(file: File, column: str) -> int:
    """The length of the first list of a column, which its type does not say."""
    with open_parquet(file) as table:
        first = next(iter(table.iter_batches(batch_size=1, columns=[column])), None)
        if first is None or not len(first):
            raise DataError("the file claims to have rows but has none; write it again", file)
        d = arrow_block({column: first.column(column)}).shape[1]
    if d == 0:
        raise EmptyFileError(f"the vectors in column {column!r} have no entries", file)
    return int(d)


# What a table holds next to its vectors


def open_table(
    file: File, vector: Sequence[str], *, header: bool | None = None, **reading: Any
) -> tuple[list[str], bool, Iterator[Any]]:
    """The names of a table's columns, whether the file has them, and batches of all columns but those of the vector."""
    if file.ending == ".parquet":
        with open_parquet(file) as parquet:
            names = list(parquet.schema_arrow.names)
        return names, True, _parquet_batches(file, [name for name in names if name not in vector])
    table = JsonTable(file) if file.ending == ".jsonl" else DelimitedTable(file, has_header=header, **reading)

    def batches() -> Iterator[Any]:
        rows = (row if isinstance(row, dict) else dict(zip(table.names, row, strict=True)) for _, row in table.rows())
        while batch := list(islice(rows, BATCH // 16)):
            yield [{name: value for name, value in record.items() if name not in vector} for record in batch]

    return table.names, isinstance(table, JsonTable) or table.has_header, batches()


def _parquet_batches(file: File, columns: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa

    with open_parquet(file) as parquet:
        for batch in parquet.iter_batches(batch_size=BATCH, columns=columns):
            yield pa.Table.from_batches([batch])
