"""Write vectors block by block, with other columns if there are any, to a file that is whole or absent."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from theodolite.core.files import atomic_file, require_free
from theodolite.spaces.readers.data_files import AnyPath, DataError

# Files of vectors that may have other columns.
TABLES = (".parquet", ".csv", ".tsv", ".jsonl")
# Room for the header of a .safetensors file, whose length may not depend on the number of rows: it is written last.
_HEADER_BYTES = 248

Blocks: TypeAlias = Iterable[NDArray[Any]]
# The name of a column, and which entry of the vector it holds: all of them (-1), or None for another column.
_Column: TypeAlias = tuple[str, int | None]
# The header of a file with an (n, d) array of a type.
_Header: TypeAlias = Callable[[int, int, np.dtype[Any]], bytes]


class OtherColumns:
    """The columns of a table that are not its vectors, in order, taken batch by batch as the vectors are written.

    `names` are all columns, those of the `vector` too; a batch is a table of Arrow or a list of records.
    """

    def __init__(
        self, names: Sequence[str], vector: Sequence[str], batches: Iterable[Any], *, is_list: bool, has_names: bool = True
    ) -> None:
        double = next((name for name in names if list(names).count(name) > 1), None)
        if double is not None:
            raise DataError(f"column {double!r} occurs twice; give each column its own name")
        self.names, self.vector = tuple(names), tuple(vector)
        self.is_list, self.has_names = is_list, has_names
        self.others = tuple(name for name in names if name not in self.vector)
        self._batches = iter(batches)
        self._rest: Any = None

    @classmethod
    def of_rows(cls, rows: Mapping[str, Sequence[Any]]) -> OtherColumns:
        """What a space knows of its rows, with the vectors as a last column."""
        import pyarrow as pa

        table = pa.table({name: list(values) for name, values in rows.items()})
        return cls([*rows, "vector"], ["vector"], [table], is_list=True)

    @classmethod
    def none(cls, width: int, ending: str) -> OtherColumns:
        """No other columns: vectors as a column of lists, or, where cells are numbers, as one column per dimension."""
        is_list = ending not in (".csv", ".tsv")
        names = ["vector"] if is_list else _dimensions(width)
        return cls(names, names, (), is_list=is_list)

    def with_vectors(self, width: int) -> list[_Column]:
        """All columns of a table of vectors with so many dimensions, in order."""
        columns: list[_Column] = []
        for name in self.names:
            if name in self.others:
                columns.append((name, None))
            elif self.is_list or len(self.vector) == width:
                columns.append((name, -1 if self.is_list else self.vector.index(name)))
            elif name == self.vector[0]:
                # Fewer dimensions than before are not the first ones of them: they get names of their own, where the first was.
                columns.extend((dimension, i) for i, dimension in enumerate(_dimensions(width)))
        return columns

    def take(self, count: int) -> Any:
        """The next rows, as a table of Arrow or a list of records."""
        if not self.others:
            return [{}] * count
        batches = []
        while count > 0:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                raise DataError("the other columns have fewer rows than the vectors; write the table again")
            batches.append(batch[:count])
            self._rest = batch[count:] if len(batch) > count else None
            count -= len(batches[-1])
        if isinstance(batches[0], list):
            return list(chain.from_iterable(batches))
        import pyarrow as pa

        try:
            return pa.concat_tables(batches, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"the shards hold columns of different types ({error}); repair one file at a time") from None


def _dimensions(width: int) -> list[str]:
    return [f"dim_{i}" for i in range(width)]


def write_vectors(
    blocks: Blocks,
    path: AnyPath,
    *,
    n: int | None = None,
    d: int | None = None,
    dtype: Any = np.float32,
    beside: OtherColumns | None = None,
    overwrite: bool = False,
) -> int:
    """Write (m, d) blocks to a file, which appears under its name only once it is complete and on disk.

    Parameters
    ----------
    blocks
        The vectors, in order.
    path
        A `.npy`, `.safetensors`, `.parquet`, `.csv`, `.tsv` or `.jsonl` file.
    n
        Number of rows to expect, to check against; None if it is not known.
    d
        Number of columns; None takes that of the first block.
    dtype
        float16, float32 or float64; None takes that of the first block.
    beside
        Columns that a table gets next to the vectors, which keep their names and places; `.npy` and `.safetensors` have none.
    overwrite
        Whether a file of that name may be replaced.

    Returns
    -------
    int
        The number of rows written.
    """
    path = require_vectors_file(path, overwrite=overwrite)
    blocks = iter(blocks)
    # Only the first block tells how wide a repair's output is.
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"there are no vectors to write to {path}; give at least one block")
    width = first.shape[1] if d is None else d
    kind = require_float_type(first.dtype if dtype is None else dtype)
    with atomic_file(path, overwrite=overwrite) as unfinished:
        checked = _checked(chain([first], blocks), width, kind)
        ending = path.suffix.lower()
        if ending in TABLES:
            beside = beside or OtherColumns.none(width, ending)
            rows = _write_table(ending, checked, unfinished, beside.with_vectors(width), beside)
        else:
            rows = _write_raw(_HEADERS[ending], checked, unfinished, n or 0, width, kind)
        if n is not None and rows != n:
            raise ValueError(f"the blocks have {rows} rows, not n={n}; {path} was not written")
    return rows


def require_vectors_file(path: AnyPath, *, overwrite: bool) -> Path:
    """The path, if vectors could be written there; called before long work rather than after it."""
    path = Path(path)
    endings = (*_HEADERS, *TABLES)
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path.name!r} has no known ending for vectors; use {', '.join(endings)}")
    return require_free(path, overwrite=overwrite)


def npy_header(n: int, d: int, dtype: np.dtype[Any]) -> bytes:
    """The header of a `.npy` file with an (n, d) array in C order; its length does not depend on n."""
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"shape": (n, d), "fortran_order": False, "descr": npy.dtype_to_descr(dtype)})
    return header.getvalue()


def require_float_type(dtype: Any) -> np.dtype[Any]:
    """The type in this machine's byte order, if vectors can be stored in it: float16, float32 or float64."""
    kind: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    # A longer float than 64 bits is not the same on every machine.
    if kind.kind != "f" or kind.itemsize > 8:
        raise ValueError(f"dtype={kind} cannot be stored; use float16, float32 or float64")
    return kind


def _checked(blocks: Blocks, d: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != d:
            raise ValueError(f"a block has shape {block.shape}; all must have d={d} columns")
        yield np.ascontiguousarray(block, dtype)


def _safetensors_header(n: int, d: int, dtype: np.dtype[Any]) -> bytes:
    entry = {"dtype": f"F{8 * dtype.itemsize}", "shape": [n, d], "data_offsets": [0, n * d * dtype.itemsize]}
    text = json.dumps({"vectors": entry}).encode().ljust(_HEADER_BYTES)
    return len(text).to_bytes(8, "little") + text


def _write_raw(header: _Header, blocks: Blocks, path: Path, n: int, d: int, dtype: np.dtype[Any]) -> int:
    rows = 0
    with path.open("wb") as file:
        start = file.write(header(n, d, dtype))
        for block in blocks:
            file.write(block.data)
            rows += len(block)
        # The number of rows is part of the header, and may be known only now.
        if rows != n:
            file.seek(0)
            end = file.write(header(rows, d, dtype))
            assert end == start
    return rows


_HEADERS: dict[str, _Header] = {".npy": npy_header, ".safetensors": _safetensors_header}


def _write_table(ending: str, blocks: Blocks, path: Path, columns: Sequence[_Column], beside: OtherColumns) -> int:
    if ending == ".parquet":
        return _write_parquet(blocks, path, columns, beside)
    rows = 0
    names = [name for name, _ in columns]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if ending == ".tsv" else ",", lineterminator="\n")
        if ending != ".jsonl" and beside.has_names:
            writer.writerow(names)
        for block in blocks:
            batch = beside.take(len(block))
            for record, vector in zip(batch if isinstance(batch, list) else batch.to_pylist(), _floats(block), strict=True):
                values = record | {name: vector if at == -1 else vector[at] for name, at in columns if at is not None}
                if ending == ".jsonl":
                    # A record may lack a column of the first one, or have a column that the first one does not have.
                    cells = {name: values[name] for name in dict.fromkeys([*names, *values]) if name in values}
                    file.write(json.dumps(cells, ensure_ascii=False, default=str) + "\n")
                else:
                    writer.writerow([_cell(values.get(name)) for name in names])
            rows += len(block)
    return rows


def _floats(block: NDArray[Any]) -> list[list[float]]:
    """The vectors of a block as Python floats with the fewest digits that are read back as the same number."""
    import pyarrow as pa

    texts = pa.array(block.astype(np.promote_types(block.dtype, np.float32), copy=False).reshape(-1)).cast(pa.string())
    numbers = list(map(float, texts.to_pylist()))
    d = block.shape[1]
    return [numbers[start : start + d] for start in range(0, len(numbers), d)]


def _cell(value: Any) -> Any:
    """A value as the text of a cell; lists and objects as JSON."""
    return "" if value is None else json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value


def _write_parquet(blocks: Blocks, path: Path, columns: Sequence[_Column], beside: OtherColumns) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    writer: Any = None
    try:
        for block in blocks:
            batch = beside.take(len(block))
            others = pa.Table.from_pylist(batch) if isinstance(batch, list) else batch
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), block.shape[1])
            arrays = [
                others[name] if at is None else vectors if at == -1 else pa.array(np.ascontiguousarray(block[:, at]))
                for name, at in columns
            ]
            table = pa.table(arrays, names=[name for name, _ in columns])
            writer = writer or pq.ParquetWriter(path, table.schema)
            try:
                table = table.cast(writer.schema)
            except (pa.ArrowException, ValueError) as error:
                problem = f"a column does not hold one type of values ({error})"
                raise ValueError(f"{problem}; write a .jsonl file, which may") from None
            writer.write_table(table)
            rows += len(block)
    finally:
        if writer is not None:
            writer.close()
    return rows
