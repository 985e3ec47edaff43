"""Vectors in the columns of `.csv`, `.tsv`, `.jsonl` and `.parquet` tables: number columns, or one column of lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.options import option
from theodolite.core.vectors import BLOCK_BYTES, Source
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, excerpt, file_source, parsed_source
from theodolite.spaces.readers.tables import DelimitedTable, JsonTable, is_list, is_number, only_column, vector_columns


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
    lists = [i for i, cell in enumerate(sample[1]) if is_list(cell)]
    places = vector_columns(file, table.names, lists, columns, has_names=table.has_header)
    parse = _list_cell if len(places) == 1 and places[0] in lists else _number_cells
    source = _source_of_lists(file, lambda: ((line, parse(table, places, line, cells)) for line, cells in table.rows()))
    source.columns = tuple(table.names[i] for i in places)
    return source


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
    source = _source_of_lists(file, lambda: ((line, _json_vector(table, fields, line, value)) for line, value in table.rows()))
    source.columns = tuple(fields or ())
    return source


def read_parquet(file: File, *, columns: Sequence[str] | None) -> Source:
    """The vectors of a Parquet file, in row order, read in batches so that memory stays flat.

    Parameters
    ----------
    file
        The file.
    columns
        Which columns hold the vectors: names, ranges `first:last`, patterns `dim_*`, or one column of lists. None takes the
        only list column, or all columns if they are plain dimensions.
    """
    table = _open_parquet(file)
    if table.metadata.num_rows == 0:
        raise EmptyFileError("the file has no rows; there must be at least one vector", file)
    fields = list(table.schema_arrow)
    lists = [i for i, field in enumerate(fields) if _is_list(field.type)]
    vectors = [fields[i] for i in vector_columns(file, [field.name for field in fields], lists, columns)]
    for field in vectors:
        if _is_list(field.type) and len(vectors) > 1:
            raise DataError(f"column {field.name!r} holds whole vectors; choose it alone, not with {len(vectors) - 1} more", file)
        if not _is_list(field.type) and not _is_number(field.type):
            raise DataError(f"column {field.name!r} holds {field.type}, not numbers; {_hint()}", file)
    whole = [field.name for field in vectors if str(field.type).startswith(("int", "uint"))]
    if columns is None and 0 < len(whole) < len(vectors):
        floats = f"{len(vectors) - len(whole)} other columns hold floats"
        raise DataError(f"column {whole[0]!r} holds whole numbers, {floats}; {_hint()}", file)
    open_source = _list_source if _is_list(vectors[0].type) else _columns_source
    source = open_source(file, vectors, table.metadata.num_rows)
    source.columns = tuple(field.name for field in vectors)
    return source


def read_parquet_column(file: File, column: str) -> Iterator[tuple[int, Any]]:
    """(row number from 0, value) of one column of a Parquet file.

    Parameters
    ----------
    file
        The file.
    column
        Name of the column, or a pattern that fits one column.
    """
    table = _open_parquet(file)
    name = only_column(file, list(table.schema_arrow.names), column)
    # One column is small enough to be read in the default batches.
    batches = (batch.column(0).to_pylist() for batch in table.iter_batches(columns=[name]))
    yield from enumerate(chain.from_iterable(batches))


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
                fault = f"the vector has {len(vector)} entries, the first vector has {d}; all must be of one length"
                raise DataError(fault, file, line)
            yield vector

    return parsed_source(file, checked, d=d)


def _number_cells(table: DelimitedTable, places: Sequence[int], line: int, cells: Sequence[str]) -> list[float]:
    try:
        return [float(cells[i]) for i in places]
    except ValueError:
        bad = next(i for i in places if not is_number(cells[i]))
        name = repr(table.names[bad]) if table.has_header else bad
        raise DataError(f"column {name}: {excerpt(cells[bad])} is not a number; {_hint()}", table.file, line) from None


def _list_cell(table: DelimitedTable, places: Sequence[int], line: int, cells: Sequence[str]) -> list[float]:
    """The numbers of "[0.1, 0.2]", or of "[0.1 0.2]" as NumPy prints it."""
    text = cells[places[0]].strip()
    try:
        if text[:1] + text[-1:] != "[]":  # a list that was cut off must not pass for a shorter one
            raise ValueError("not in brackets")
        return [float(value) for value in text[1:-1].replace(",", " ").split()]
    except ValueError:
        fault = f"{excerpt(cells[places[0]])} is not a list of numbers such as [0.1, 0.2]"
        raise DataError(f"column {table.names[places[0]]!r}: {fault}", table.file, line) from None


def _vector_fields(table: JsonTable, line: int, first: Any, columns: Sequence[str] | None) -> list[str] | None:
    """Names of the fields that hold the vector; None if the line itself is the vector."""
    if isinstance(first, list):
        if columns is not None:
            raise DataError(f"the lines are lists, which have no names; leave {option('columns', 'NAMES')} out", table.file)
        return None
    if not isinstance(first, dict):
        raise DataError(f"this is {type(first).__name__}; every line must be a list or an object", table.file, line)
    lists = [i for i, value in enumerate(first.values()) if isinstance(value, list) and _are_numbers(value)]
    return [table.names[i] for i in vector_columns(table.file, table.names, lists, columns)]


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
        raise DataError(f"{place}: {json.dumps(vector[bad])[:40]} is not a number; {_hint()}", table.file, line)
    return vector


def _are_numbers(values: list[Any]) -> bool:
    return set(map(type, values)) <= {int, float}  # the type of true is bool


# Parquet


def _open_parquet(file: File) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A small buffer, nothing ahead and no mapping: otherwise a file of one row group is in memory as a whole.
        path_or_stream: Any = str(file.local) if file.local is not None else file.open()
        return pq.ParquetFile(path_or_stream, pre_buffer=False, buffer_size=2**20)
    except pa.ArrowInvalid as error:
        raise DataError(f"this is not a whole Parquet file ({error}); write it again", file) from error


def _list_source(file: File, fields: Sequence[Any], n: int) -> Source:
    import pyarrow.compute as compute

    column = fields[0].name
    # A list column does not say how long its lists are; the first row does.
    first = next(iter(_open_parquet(file).iter_batches(batch_size=1, columns=[column]))).column(0)
    _refuse_nulls(file, column, first, 0, "has no vector; drop such rows")
    d = len(first[0])
    if d == 0:
        raise EmptyFileError(f"the vectors in column {column!r} have no entries", file)

    def chunks() -> Iterator[NDArray[Any]]:
        start = 0
        for batch in _open_parquet(file).iter_batches(batch_size=_batch_rows(d), columns=[column]):
            lists = batch.column(0)
            _refuse_nulls(file, column, lists, start, "has no vector; drop such rows")
            lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(lengths != d)[:1]:
                fault = f"row {start + row} of column {column!r} has {lengths[row]} entries, the first has {d}"
                raise DataError(f"{fault}; drop such rows", file)
            values = lists.flatten()
            _refuse_nulls(file, column, values, start, "has a missing entry; every entry must be a number", width=d)
            yield values.to_numpy(zero_copy_only=False).reshape(-1, d)
            start += len(lists)

    return file_source(file, chunks, n=n, d=d, dtype=first.type.value_type.to_pandas_dtype())


def _columns_source(file: File, fields: Sequence[Any], n: int) -> Source:
    names = [field.name for field in fields]
    dtype = np.result_type(*(field.type.to_pandas_dtype() for field in fields))

    def chunks() -> Iterator[NDArray[Any]]:
        start = 0
        for batch in _open_parquet(file).iter_batches(batch_size=_batch_rows(len(names)), columns=names):
            block = np.empty((batch.num_rows, len(names)), dtype)
            for i, name in enumerate(names):
                values = batch.column(name)
                _refuse_nulls(file, name, values, start, "is missing; every entry must be a number")
                block[:, i] = values.to_numpy(zero_copy_only=False)
            yield block
            start += batch.num_rows

    return file_source(file, chunks, n=n, d=len(names), dtype=dtype)


def _refuse_nulls(file: File, column: str, values: Any, start: int, fault: str, *, width: int = 1) -> None:
    """Raise an error that names the first row with a gap; `values` has `width` entries per row, from row `start` on."""
    if values.null_count:
        place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"row {start + place // width} of column {column!r} {fault}", file)


def _batch_rows(d: int) -> int:
    return max(64, BLOCK_BYTES // (8 * d))


def _is_list(kind: Any) -> bool:
    return hasattr(kind, "value_type") and "list" in str(kind) and _is_number(kind.value_type)


def _is_number(kind: Any) -> bool:
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool"))
