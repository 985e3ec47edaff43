"""What is known of each row: named columns of strings, ints or floats, with None where nothing is known."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["str", "int", "float"]
Rows: TypeAlias = Mapping[str, Sequence[Any]]

BATCH = 2**16
"""Rows converted at a time, and rows of a Parquet row group: memory while writing does not grow with the table."""


class Column(Sequence[Any]):
    """A column read from disk: a sequence of str, int, float or None that keeps repeated strings once."""

    def __init__(self, arrow: Any) -> None:
        self._arrow = arrow

    @property
    def kind(self) -> Kind:
        name = str(self._arrow.type)
        return "int" if name == "int64" else "float" if name == "double" else "str"

    def __len__(self) -> int:
        return len(self._arrow)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                return [self[i] for i in range(start, stop, step)]
            return list(Column(self._arrow.slice(start, max(0, stop - start))))
        place = operator.index(at)
        if not -len(self) <= place < len(self):
            raise IndexError(f"row {place} is out of range; the column has {len(self)} rows")
        return self._arrow[place % len(self)].as_py()

    def __iter__(self) -> Iterator[Any]:
        for chunk in self._arrow.chunks:
            if not hasattr(chunk, "dictionary"):
                yield from chunk.to_pylist()
                continue
            values = [*chunk.dictionary.to_pylist(), None]
            places = chunk.indices.fill_null(len(values) - 1).to_pylist()
            yield from map(values.__getitem__, places)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a stored column cannot become an array without a copy")
        plain = list(self)
        return np.array(plain, dtype if dtype is not None or None not in plain else object)

    def __repr__(self) -> str:
        return f"Column({self[:3]!r}{', …' if len(self) > 3 else ''} n={len(self)})"


class StoredRows(Mapping[str, Sequence[Any]]):
    """The columns of a `rows.parquet`, each read when first asked for."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        with pq.ParquetFile(path) as file:
            self.n = int(file.metadata.num_rows)
            self._names = list(file.schema_arrow.names)
        self._read: dict[str, Sequence[Any]] = {}

    def __getitem__(self, name: str) -> Sequence[Any]:
        if name not in self._names:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self._names)}")
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def _load(self, name: str) -> Sequence[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, read_dictionary=[name]) as file:
            arrow = file.read(columns=[name]).column(0)
        column = Column(arrow)
        if column.kind == "str" or arrow.null_count:
            return column
        return _frozen(arrow.to_numpy())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def checked_rows(rows: Rows | None, n: int) -> Rows:
    """The columns in their working form, or an error that names the column and the row.

    Numbers without a gap become a read-only array, everything else a list. Numbers are int64 or float64; True is 1.
    """
    if isinstance(rows, StoredRows) and rows.n == n:
        return rows
    checked: dict[str, Sequence[Any]] = {}
    for name, values in (rows or {}).items():
        if not name:
            raise ValueError("a column is called ''; give every column a name")
        if isinstance(values, (str, bytes)):
            raise ValueError(f"column {name!r} is one string; it must be a sequence with a value for each of the n={n} rows")
        column = _checked(name, values)
        if len(column) != n:
            raise ValueError(f"column {name!r} has {len(column)} values, there are n={n} vectors; give one value a row, or None")
        checked[name] = column
    return checked


def write_row_table(rows: Rows, n: int, path: Path) -> None:
    """Write checked columns to a Parquet file; the same columns give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = dict(rows)
    schema = pa.schema([(name, kinds[_kind(name, column)]) for name, column in columns.items()])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, n, BATCH):
            arrays = [_arrow(name, columns[name][start : start + BATCH], schema.field(name).type) for name in columns]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _arrow(name: str, values: Sequence[Any], kind: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise ValueError(f"column {name!r} cannot be stored ({error}); it must hold text, 64-bit ints or floats") from error


def _checked(name: str, values: Any) -> Sequence[Any]:
    if isinstance(values, Column):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "if":
        return _frozen(values.astype(np.int64 if values.dtype.kind == "i" else np.float64))
    given = values.tolist() if hasattr(values, "tolist") else list(values)
    plain = [value.item() if isinstance(value, np.generic) else value for value in given]
    kind = _kind(name, plain)
    if kind == "str":
        return plain
    convert = int if kind == "int" else float
    if None in plain:
        return [None if value is None else convert(value) for value in plain]
    try:
        return _frozen(np.array(plain, np.int64 if kind == "int" else np.float64))
    except OverflowError as error:
        raise ValueError(f"column {name!r} holds an int that needs more than 64 bits; give it as text") from error


def _kind(name: str, values: Any) -> Kind:
    """What a column holds. Ints among floats are floats; anything else mixed is an error."""
    if isinstance(values, Column):
        return values.kind
    if isinstance(values, np.ndarray):
        return "int" if values.dtype.kind == "i" else "float"
    kinds = {_kind_of(each) for each in set(map(type, values))} - {None}
    if kinds <= {"int", "float"} and kinds:
        return "float" if "float" in kinds else "int"
    if kinds <= {"str"}:
        return "str"
    first: dict[Any, int] = {}
    for row, value in enumerate(values):
        first.setdefault(_kind_of(type(value)), row)
    shown = ", ".join(f"row {row}: {values[row]!r:.40}" for kind, row in first.items() if kind is not None)
    raise ValueError(
        f"column {name!r} holds {shown}; a column is all text, all ints or all floats, and None where nothing is known"
    )


def _kind_of(each: type) -> str | None:
    if each is type(None):
        return None
    return next((kind for kind, base in (("str", str), ("int", int), ("float", float)) if issubclass(each, base)), each.__name__)


def _frozen(values: NDArray[Any]) -> Sequence[Any]:
    values.flags.writeable = False
    return cast("Sequence[Any]", values)  # an array does all that is asked of a column
