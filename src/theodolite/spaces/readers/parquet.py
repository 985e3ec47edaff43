"""`.parquet`: vectors from number columns or from one list column, and single columns; read in batches, so memory stays flat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.options import option
from theodolite.core.vectors import BLOCK_BYTES, Source
from theodolite.spaces.readers.errors import DataError, EmptyFileError
from theodolite.spaces.readers.location import File
from theodolite.spaces.readers.sources import file_source
from theodolite.spaces.readers.tables import choose_columns, only_column, only_list_column, refuse_row_names


def read_parquet(file: File, *, columns: Sequence[str] | None) -> Source:
    """The vectors of a Parquet file, in row order.

    Parameters
    ----------
    file
        The file.
    columns
        Which columns hold the vectors: names, ranges `first:last`, patterns `dim_*`, or one column of lists. None takes the
        only list column, or all columns if they are plain dimensions.
    """
    table = _open(file)
    n = table.metadata.num_rows
    if n == 0:
        raise EmptyFileError("the file has no rows; there must be at least one vector", file)
    schema = table.schema_arrow
    names = _vector_columns(file, schema, columns)
    return _list_source(file, names[0], n) if _is_list(schema.field(names[0]).type) else _columns_source(file, names, n)


def read_parquet_column(file: File, column: str) -> Iterator[tuple[int, Any]]:
    """(row number from 0, value) of one column of a Parquet file.

    Parameters
    ----------
    file
        The file.
    column
        Name of the column, or a pattern that fits one column.
    """
    table = _open(file)
    name = only_column(file, list(table.schema_arrow.names), column)
    row = 0
    # One column is small enough to be read in the default batches.
    for batch in table.iter_batches(columns=[name]):
        for value in batch.column(0).to_pylist():
            yield row, value
            row += 1


def _open(file: File) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A small buffer, nothing ahead and no mapping: otherwise a file of one row group is in memory as a whole.
        path_or_stream: Any = str(file.local) if file.local is not None else file.open()
        return pq.ParquetFile(path_or_stream, pre_buffer=False, buffer_size=2**20)
    except pa.ArrowInvalid as error:
        raise DataError(f"this is not a whole Parquet file ({error}); write it again", file) from error


def _vector_columns(file: File, schema: Any, columns: Sequence[str] | None) -> list[str]:
    names = list(schema.names)
    if columns is not None:
        selected = [names[i] for i in choose_columns(file, names, columns)]
        _require_numbers(file, schema, selected)
        return selected
    lists = only_list_column(file, [name for name in names if _is_list(schema.field(name).type)])
    if lists:
        return lists
    refuse_row_names(file, names)
    _require_numbers(file, schema, names)
    whole = [name for name in names if str(schema.field(name).type).startswith(("int", "uint"))]
    if whole and len(whole) < len(names):
        raise DataError(
            f"column {whole[0]!r} holds whole numbers, {len(names) - len(whole)} other columns hold floats; "
            f"name the columns of the vector with {option('columns', 'NAMES')}",
            file,
        )
    return names


def _require_numbers(file: File, schema: Any, names: Sequence[str]) -> None:
    for name in names:
        kind = schema.field(name).type
        if _is_list(kind) and len(names) > 1:
            raise DataError(f"column {name!r} holds whole vectors; choose it alone, not with {len(names) - 1} more", file)
        if not _is_number(kind.value_type if _is_list(kind) else kind):
            raise DataError(
                f"column {name!r} holds {kind}, not numbers; name the columns of the vector with {option('columns', 'NAMES')}",
                file,
            )


def _list_source(file: File, column: str, n: int) -> Source:
    # A list column does not say how long its lists are; the first row does.
    first = next(iter(_open(file).iter_batches(batch_size=1, columns=[column]))).column(0)
    d = _length_of_lists(file, column, first, 0, None)
    dtype = np.dtype(first.type.value_type.to_pandas_dtype())

    def chunks() -> Iterator[NDArray[Any]]:
        start = 0
        for batch in _open(file).iter_batches(batch_size=_batch_rows(d), columns=[column]):
            lists = batch.column(0)
            _length_of_lists(file, column, lists, start, d)
            values = lists.flatten()
            if values.null_count:
                row = start + _first_null(values) // d
                raise DataError(f"row {row} of column {column!r} has a missing entry; every entry must be a number", file)
            yield values.to_numpy(zero_copy_only=False).reshape(-1, d)
            start += len(lists)

    return file_source(file, chunks, n=n, d=d, dtype=dtype)


def _columns_source(file: File, names: Sequence[str], n: int) -> Source:
    dtype = np.result_type(*(_open(file).schema_arrow.field(name).type.to_pandas_dtype() for name in names))

    def chunks() -> Iterator[NDArray[Any]]:
        start = 0
        for batch in _open(file).iter_batches(batch_size=_batch_rows(len(names)), columns=list(names)):
            block = np.empty((batch.num_rows, len(names)), dtype)
            for i, name in enumerate(names):
                values = batch.column(batch.schema.get_field_index(name))
                if values.null_count:
                    row = start + _first_null(values)
                    raise DataError(f"row {row} of column {name!r} is missing; every entry must be a number", file)
                block[:, i] = values.to_numpy(zero_copy_only=False)
            yield block
            start += batch.num_rows

    return file_source(file, chunks, n=n, d=len(names), dtype=dtype)


def _length_of_lists(file: File, column: str, lists: Any, start: int, d: int | None) -> int:
    """The one length of all lists, or an error that names the first row with another."""
    import pyarrow.compute as compute

    if lists.null_count:
        raise DataError(f"row {start + _first_null(lists)} of column {column!r} has no vector; drop such rows", file)
    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    length = int(lengths[0]) if d is None else d
    others = np.flatnonzero(lengths != length)
    if len(others):
        row = int(others[0])
        raise DataError(
            f"row {start + row} of column {column!r} has {int(lengths[row])} entries, the first has {length}; drop such rows",
            file,
        )
    if length == 0:
        raise EmptyFileError(f"the vectors in column {column!r} have no entries", file)
    return length


def _first_null(values: Any) -> int:
    return int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])


def _batch_rows(d: int) -> int:
    return max(64, BLOCK_BYTES // (8 * d))


def _is_list(kind: Any) -> bool:
    return hasattr(kind, "value_type") and "list" in str(kind) and _is_number(kind.value_type)


def _is_number(kind: Any) -> bool:
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool"))
