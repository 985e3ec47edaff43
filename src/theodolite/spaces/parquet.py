"""`.parquet`: vector columns or one list column, read batch by batch so that memory stays flat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import BLOCK_BYTES, Source
from theodolite.spaces.columns import choose_columns, refuse_row_names, shortened
from theodolite.spaces.files import EmptyFileError, File, file_source


def read_parquet(file: File, *, columns: Sequence[str] | None) -> Source:
    """The vectors of a Parquet file, in row order."""
    table = _open(file)
    if table.metadata.num_rows == 0:
        raise EmptyFileError(f"{file} has no rows; there must be at least one vector")
    schema = table.schema_arrow
    names = _vector_columns(str(file), schema, columns)
    if _is_list(schema.field(names[0]).type):
        return _list_source(file, names[0], table.metadata.num_rows)
    return _columns_source(file, names, table.metadata.num_rows)


def _open(file: File) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A small buffer, nothing ahead and no mapping: else a file of one row group is in memory as a whole.
        where: Any = str(file.local) if file.local is not None else file.open()
        return pq.ParquetFile(where, pre_buffer=False, buffer_size=2**20)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file} is not a whole Parquet file ({error}); write it again") from error


def _vector_columns(name: str, schema: Any, columns: Sequence[str] | None) -> list[str]:
    known = list(schema.names)
    if columns is not None:
        names = [known[i] for i in choose_columns(name, known, columns)]
        _require_numbers(name, schema, names)
        return names
    lists = [column for column in known if _is_list(schema.field(column).type)]
    if len(lists) > 1:
        raise ValueError(f"{name} has several list columns ({shortened(lists)}); say which to read with columns= (--columns)")
    if lists:
        return lists
    refuse_row_names(name, known)
    _require_numbers(name, schema, known)
    whole = [column for column in known if str(schema.field(column).type).startswith(("int", "uint"))]
    if whole and len(whole) < len(known):
        raise ValueError(
            f"{name}: column {whole[0]!r} holds whole numbers beside {len(known) - len(whole)} float columns; "
            "say which columns are the vector with columns= (--columns)"
        )
    return known


def _require_numbers(name: str, schema: Any, names: Sequence[str]) -> None:
    lists = [column for column in names if _is_list(schema.field(column).type)]
    if lists and len(names) > 1:
        raise ValueError(f"{name}: column {lists[0]!r} holds whole vectors; ask for it alone, not with {len(names) - 1} more")
    for column in names:
        kind = schema.field(column).type
        value = kind.value_type if _is_list(kind) else kind
        if not _is_number(value):
            raise ValueError(
                f"{name}: column {column!r} holds {kind}, not numbers; choose the vector columns with columns= (--columns)"
            )


def _list_source(file: File, column: str, n: int) -> Source:
    first = next(iter(_open(file).iter_batches(batch_size=1, columns=[column]))).column(0)
    d = _width(file, column, first, 0, None)
    dtype = np.dtype(first.type.value_type.to_pandas_dtype())

    def chunks() -> Iterator[NDArray[Any]]:
        start = 0
        for batch in _open(file).iter_batches(batch_size=_batch(d), columns=[column]):
            lists = batch.column(0)
            _width(file, column, lists, start, d)
            values = lists.flatten()
            if values.null_count:
                row = start + int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]) // d
                raise ValueError(f"{file}: row {row} of column {column!r} has a missing entry; every entry must be a number")
            yield values.to_numpy(zero_copy_only=False).reshape(-1, d)
            start += len(lists)

    return file_source(file, chunks, n=n, d=d, dtype=dtype)


def _columns_source(file: File, names: Sequence[str], n: int) -> Source:
    dtype = np.result_type(*(_open(file).schema_arrow.field(name).type.to_pandas_dtype() for name in names))

    def chunks() -> Iterator[NDArray[Any]]:
        start = 0
        for batch in _open(file).iter_batches(batch_size=_batch(len(names)), columns=list(names)):
            block = np.empty((batch.num_rows, len(names)), dtype)
            for i, name in enumerate(names):
                values = batch.column(batch.schema.get_field_index(name))
                if values.null_count:
                    row = start + int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
                    raise ValueError(f"{file}: row {row} of column {name!r} is missing; every entry must be a number")
                block[:, i] = values.to_numpy(zero_copy_only=False)
            yield block
            start += batch.num_rows

    return file_source(file, chunks, n=n, d=len(names), dtype=dtype)


def _width(file: File, column: str, lists: Any, start: int, d: int | None) -> int:
    """The one length of all lists, or an error that names the first row with another."""
    import pyarrow.compute as compute

    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    if lists.null_count:
        row = start + int(np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{file}: row {row} of column {column!r} has no vector; drop such rows")
    width = int(lengths[0]) if d is None else d
    other = np.flatnonzero(lengths != width)
    if len(other):
        row, length = start + int(other[0]), int(lengths[other[0]])
        raise ValueError(f"{file}: row {row} of column {column!r} has {length} entries, the first has {width}; drop such rows")
    if width == 0:
        raise EmptyFileError(f"{file}: the vectors in column {column!r} have no entries")
    return width


def _batch(d: int) -> int:
    return max(64, BLOCK_BYTES // (8 * d))


def _is_list(kind: Any) -> bool:
    return hasattr(kind, "value_type") and "list" in str(kind) and _is_number(kind.value_type)


def _is_number(kind: Any) -> bool:
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool"))
