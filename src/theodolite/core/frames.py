"""Frames, tables and series in memory: the columns that hold the vectors, and any other column by its name.

pandas, polars, Arrow and Hugging Face datasets are recognised by their module, so that none of them has to be imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.columns import SAMPLED_ROWS, ColumnKind, choose_columns, vector_columns

_MODULES = ("pandas", "polars", "pyarrow", "datasets")


def is_frame(X: Any) -> bool:
    """Whether something is a frame, a table, a dataset, or a series of one of the libraries that are known here."""
    return type(X).__module__.partition(".")[0] in _MODULES


def is_plain_frame(X: Any) -> bool:
    """Whether every column of a frame is one dimension, so that the frame can be taken as a whole."""
    module = type(X).__module__.partition(".")[0]
    if module not in ("pandas", "polars") or not hasattr(X, "columns") or not hasattr(X, "dtypes") or hasattr(X, "collect"):
        return False
    # pandas has kinds of NumPy, polars has names such as Float32.
    kinds = {getattr(each, "kind", str(each)[:1].lower()) for each in X.dtypes}
    if len(X.columns) < 2 or kinds not in ({"f"}, {"i"}):
        return False
    try:
        return len(vector_columns(column_names(X), ["floats"] * len(X.columns))) == len(X.columns)
    except ValueError:  # raised again by whoever looks for the vectors
        return False


def frame_vectors(frame: Any, columns: Sequence[str] | None = None) -> NDArray[Any]:
    """The vectors of a frame with number columns or one column of vectors, or of a series of vectors."""
    if isinstance(columns, str):
        columns = columns.split(",")
    table = _arrow_table(frame)
    if table is not None:
        return _from_arrow(table, columns)
    if not hasattr(frame, "columns"):
        return _stacked(list(frame))
    names = [str(name) for name in frame.columns]
    series = [frame.iloc[:, i] for i in range(len(names))]
    kinds = [_pandas_kind(each) for each in series]
    places = vector_columns(names, kinds, columns, first_values=lambda i: series[i].iloc[:SAMPLED_ROWS].tolist())
    if kinds[places[0]] == "vectors":
        return _stacked(list(series[places[0]]))
    chosen = frame if len(places) == len(names) and places == sorted(places) else frame.iloc[:, places]
    # Only types of pandas' own need it: a missing number becomes nan, which the gate names by row and column.
    if any(not isinstance(each, np.dtype) for each in chosen.dtypes):
        return np.asarray(chosen.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(chosen.to_numpy())


def frame_column(frame: Any, name: str) -> list[Any]:
    """The values of one column of a frame, such as the labels of its rows."""
    names = column_names(frame)
    places = choose_columns(names, [name])
    if len(places) > 1:
        raise ValueError(f"{name!r} names {len(places)} columns; name one of them")
    table = _arrow_table(frame, [names[places[0]]])
    return list(frame.iloc[:, places[0]]) if table is None else table.column(names[places[0]]).to_pylist()


def column_names(frame: Any) -> list[str]:
    """The names of a frame's columns; none for a series."""
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):  # a frame of polars that is not computed yet
        return list(frame.collect_schema().names())
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    return [] if names is None else [str(name) for name in names]


def arrow_kind(kind: Any) -> ColumnKind:
    """What a column of an Arrow type holds."""
    name = str(kind)
    if hasattr(kind, "value_type") and "list" in name:
        return "vectors" if arrow_kind(kind.value_type) in ("floats", "ints") else "other"
    if name.startswith(("float", "double", "halffloat")):
        return "floats"
    return "ints" if name.startswith(("int", "uint", "bool")) else "other"


def arrow_block(columns: dict[str, Any], *, d: int | None = None, start: int = 0) -> NDArray[Any]:
    """The vectors of some rows: of one column of lists, or of several columns of numbers."""
    import pyarrow.compute as compute

    name, values = next(iter(columns.items()))
    if arrow_kind(values.type) != "vectors":
        for name, values in columns.items():
            _refuse_nulls(name, values, start, "is missing; every entry must be a number")
        dtype = np.result_type(*(values.type.to_pandas_dtype() for values in columns.values()))
        block = np.empty((len(values), len(columns)), dtype)
        for i, values in enumerate(columns.values()):
            block[:, i] = _numbers(values)
        return block
    _refuse_nulls(name, values, start, "has no vector; drop such rows")
    lengths = compute.list_value_length(values).to_numpy(zero_copy_only=False) if len(values) else np.zeros(0, int)
    d = d if d is not None else int(lengths[0]) if len(lengths) else 0
    for row in np.flatnonzero(lengths != d)[:1]:
        fault = f"row {start + row} of column {name!r} has {lengths[row]} entries, the first has {d}"
        raise ValueError(f"{fault}; drop such rows")
    entries = values.flatten()
    _refuse_nulls(name, entries, start, "has a missing entry; every entry must be a number", width=max(1, d))
    return _numbers(entries).reshape(len(values), d)


def _numbers(values: Any) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _refuse_nulls(column: str, values: Any, start: int, fault: str, *, width: int = 1) -> None:
    """Raise an error that names the first row with a gap; `values` has `width` entries per row, from row `start` on."""
    if values.null_count:
        place = int(np.flatnonzero(_numbers(values.is_null()))[0])
        raise ValueError(f"row {start + place // width} of column {column!r} {fault}")


def _arrow_table(frame: Any, names: Sequence[str] | None = None) -> Any:
    """A frame as an Arrow table, if it is polars', Arrow's or a dataset; with `names` only those columns. None for pandas'."""
    module = type(frame).__module__.partition(".")[0]
    if module == "pandas":
        return None
    import pyarrow as pa

    if module == "datasets":
        if not hasattr(frame, "with_format") or not hasattr(frame, "__getitem__") or isinstance(frame, dict):
            kind = type(frame).__name__
            raise TypeError(f"a {kind} has no rows to take; choose a split, and load it without streaming: dataset['train']")
        frame = frame.select_columns(list(names or _vector_features(frame))).with_format("arrow")[:]
    elif module == "polars":
        frame = frame.collect() if hasattr(frame, "collect") else frame
        frame = frame.to_arrow()
    if isinstance(frame, (pa.Array, pa.ChunkedArray)):
        return pa.table({"vectors": frame})
    return frame


def _vector_features(dataset: Any) -> list[str]:
    """Columns of a dataset that could hold vectors: texts and images are not read."""
    schema = dataset.features.arrow_schema
    return [field.name for field in schema if arrow_kind(field.type) != "other"] or list(dataset.column_names)


def _from_arrow(table: Any, columns: Sequence[str] | None) -> NDArray[Any]:
    import pyarrow as pa

    names = list(table.schema.names)
    kinds = [arrow_kind(field.type) for field in table.schema]
    places = vector_columns(names, kinds, columns, first_values=lambda i: table.column(i)[:SAMPLED_ROWS].to_pylist())
    whole = {}
    for i in places:
        chunks = getattr(table.column(i), "chunks", [table.column(i)])
        whole[names[i]] = pa.concat_arrays(chunks) if chunks else pa.array([], table.schema.field(i).type)
    return arrow_block(whole)


def _pandas_kind(series: Any) -> ColumnKind:
    kind = getattr(series.dtype, "kind", "O")
    if kind == "f":
        return "floats"
    if kind in "iub":
        return "ints"
    first = next((value for value in series if value is not None), None)
    is_vector = not isinstance(first, (str, bytes)) and np.ndim(first) == 1 if first is not None else False
    return "vectors" if is_vector else "other"


def _stacked(values: Sequence[Any]) -> NDArray[Any]:
    """Vectors one below the other."""
    rows = [np.asarray(row) for row in values]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1 or (rows and rows[0].ndim != 1):
        different = ", ".join(map(str, sorted(shapes)[:3]))
        raise ValueError(f"the entries of the series have the shapes {different}; each must be a vector, and all of one length")
    return np.asarray(rows)
