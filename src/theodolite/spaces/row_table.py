"""What is known of each row: named columns of text, ints or floats, with None for what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["str", "int", "float"]
Rows: TypeAlias = Mapping[str, Sequence[Any]]

# Rows converted at a time, and rows of a Parquet row group, so that memory while writing does not grow with the table.
BATCH = 2**16


class StoredRows(Mapping[str, Sequence[Any]]):
    """The columns of a `rows.parquet`, each read when it is first used."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        with pq.ParquetFile(path) as file:
            self.n = int(file.metadata.num_rows)
            self._names = list(file.schema_arrow.names)
        self._columns: dict[str, Sequence[Any]] = {}

    def __getitem__(self, name: str) -> Sequence[Any]:
        if name not in self._names:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self._names)}")
        if name not in self._columns:
            import pyarrow.parquet as pq

            # As a dictionary, a text that many rows share is in memory once.
            with pq.ParquetFile(self.path, read_dictionary=[name]) as file:
                arrow = file.read(columns=[name]).column(0)
            is_plain = str(arrow.type) in ("int64", "double") and not arrow.null_count
            self._columns[name] = _frozen(arrow.to_numpy()) if is_plain else _values(arrow)
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _values(arrow: Any) -> list[Any]:
    """The values of a column as Python objects; a string that several rows share is one object."""
    values: list[Any] = []
    for chunk in arrow.chunks:
        if hasattr(chunk, "dictionary"):
            strings = [*chunk.dictionary.to_pylist(), None]  # the last one stands for what is not known
            values.extend(map(strings.__getitem__, chunk.indices.fill_null(len(strings) - 1).to_pylist()))
        else:
            values.extend(chunk.to_pylist())
    return values


def checked_rows(rows: Rows | None, n: int) -> Rows:
    """The columns in their working form: numbers without a gap as a read-only array, everything else as a list."""
    if isinstance(rows, StoredRows) and rows.n == n:
        return rows
    columns: dict[str, Sequence[Any]] = {}
    for name, values in (rows or {}).items():
        if not name:
            raise ValueError("a column has the empty name ''; give every column a name")
        if isinstance(values, (str, bytes)):
            raise ValueError(f"column {name!r} is one string; it must be a sequence with a value for each of the n={n} rows")
        columns[name] = _working_form(name, values)
        if len(columns[name]) != n:
            problem = f"column {name!r} has {len(columns[name])} values, but there are n={n} vectors"
            raise ValueError(f"{problem}; give one per row, or None")
    return columns


def write_row_table(rows: Rows, n: int, path: Path) -> None:
    """Write columns to a Parquet file; the same columns give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = dict(rows)
    schema = pa.schema([(name, types[_kind(name, column)]) for name, column in columns.items()])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, n, BATCH):
            arrays = []
            for name, column in columns.items():
                try:
                    arrays.append(pa.array(column[start : start + BATCH], schema.field(name).type))
                except (pa.ArrowException, OverflowError, UnicodeError) as error:
                    rule = "it must hold text, 64-bit ints or floats"
                    raise ValueError(f"column {name!r} cannot be stored ({error}); {rule}") from error
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _working_form(name: str, values: Any) -> Sequence[Any]:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "if":
        return _frozen(values.astype(np.int64 if values.dtype.kind == "i" else np.float64))
    items = values.tolist() if hasattr(values, "tolist") else list(values)
    # NumPy's scalars are not the Python types that Parquet and JSON know.
    plain = [value.item() if isinstance(value, np.generic) else value for value in items]
    kind = _kind(name, plain)
    if kind == "str":
        return plain
    if None in plain:
        convert = int if kind == "int" else float
        return [None if value is None else convert(value) for value in plain]
    try:
        return _frozen(np.array(plain, np.int64 if kind == "int" else np.float64))
    except OverflowError as error:
        raise ValueError(f"column {name!r} holds an int that needs more than 64 bits; give it as text") from error


def _kind(name: str, values: Any) -> Kind:
    """What a column holds. Ints among floats are floats; any other mixture is an error."""
    if isinstance(values, np.ndarray):
        return "int" if values.dtype.kind == "i" else "float"
    # The set of types is small, however long the column is.
    kinds = {_kind_of(entry) for entry in set(map(type, values))} - {None}
    if kinds <= {"int", "float"} and kinds:
        return "float" if "float" in kinds else "int"
    if kinds <= {"str"}:
        return "str"
    first: dict[Any, int] = {}
    for row, value in enumerate(values):
        first.setdefault(_kind_of(type(value)), row)
    examples = ", ".join(f"row {row}: {values[row]!r:.40}" for kind, row in first.items() if kind is not None)
    rule = "a column is all text, all ints or all floats, and None for what is not known"
    raise ValueError(f"column {name!r} holds {examples}; {rule}")


def _kind_of(entry: type) -> str | None:
    if entry is type(None):
        return None
    return next(
        (kind for kind, base in (("str", str), ("int", int), ("float", float)) if issubclass(entry, base)), entry.__name__
    )


def _frozen(values: NDArray[Any]) -> Sequence[Any]:
    values.flags.writeable = False
    return cast("Sequence[Any]", values)  # an array does all that a column must do
