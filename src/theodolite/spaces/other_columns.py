"""What a table holds next to its vectors: ids, texts and all other columns, kept in order while the vectors are replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Self

from theodolite.spaces.opening import files_of, read
from theodolite.spaces.readers.data_files import AnyPath, DataError, EmptyFileError, File, locate
from theodolite.spaces.readers.delimited import DelimitedTable, JsonTable
from theodolite.spaces.readers.table_vectors import open_parquet
from theodolite.spaces.row_table import BATCH
from theodolite.spaces.writers import TABLES


class OtherColumns:
    """The columns of a table that are not its vectors, read again batch by batch as the vectors are written."""

    def __init__(
        self,
        names: Sequence[str],
        vector: Sequence[str],
        batches: Iterable[Any],
        *,
        is_list: bool,
        has_names: bool = True,
    ) -> None:
        double = next((name for name in names if list(names).count(name) > 1), None)
        if double is not None:
            raise DataError(f"column {double!r} is there twice; give every column a name of its own")
        self.names, self.vector = tuple(names), tuple(vector)
        self.is_list, self.has_names = is_list, has_names
        self.others = tuple(name for name in names if name not in self.vector)
        self._batches = iter(batches)
        self._rest: Any = None

    @classmethod
    def of_file(
        cls,
        path: AnyPath,
        *,
        columns: Sequence[str] | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        decimal: str | None = None,
    ) -> Self | None:
        """The other columns of a table or of a folder of tables; None if the vectors are in a file without columns."""
        files = files_of(locate(path))
        if files[0].ending not in (*TABLES, ".tab", ".txt"):
            return None
        is_text = files[0].ending not in (".parquet", ".jsonl")
        reading: dict[str, Any] = {"delimiter": delimiter, "header": header, "decimal": decimal} if is_text else {}
        shards = {}
        for file in files:
            with suppress(EmptyFileError):  # a folder may have empty shards
                shards[file] = read(file.name, columns=columns, **reading)
        first, vectors = next(iter(shards.items()))
        if not vectors.columns:  # lines of JSON that are the vectors themselves
            return None
        names, has_names = _names(first, reading)
        batches = chain.from_iterable(_batches(file, names, vectors.columns, reading) for file in shards)
        # A column of lists is one column; a vector of one number has one column too, and stays a number.
        is_list = len(vectors.columns) == 1 and vectors.d > 1
        return cls(names, vectors.columns, batches, is_list=is_list, has_names=has_names)

    @classmethod
    def of_rows(cls, rows: Mapping[str, Sequence[Any]]) -> Self:
        """What a space knows of its rows, with the vectors as a last column."""
        import pyarrow as pa

        table = pa.table({name: list(values) for name, values in rows.items()})
        return cls([*rows, "vector"], ["vector"], [table], is_list=True)

    def take(self, count: int) -> Any:
        """The next rows, as a table of Arrow or a list of records."""
        parts = []
        while count > 0:
            part = self._rest if self._rest is not None else next(self._batches, None)
            if part is None:
                raise DataError("the other columns have fewer rows than the vectors; write the table again")
            parts.append(part[:count])
            self._rest = part[count:] if len(part) > count else None
            count -= len(parts[-1])
        if isinstance(parts[0], list):
            return list(chain.from_iterable(parts))
        import pyarrow as pa

        try:
            return pa.concat_tables(parts, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"the shards hold columns of different types ({error}); repair one file at a time") from None


def _names(file: File, reading: Mapping[str, Any]) -> tuple[list[str], bool]:
    if file.ending == ".parquet":
        with open_parquet(file) as parquet:
            return list(parquet.schema_arrow.names), True
    if file.ending == ".jsonl":
        return JsonTable(file).names, True
    table = _table(file, **reading)
    return table.names, table.has_header


def _table(file: File, *, header: bool | None, **reading: Any) -> DelimitedTable:
    return DelimitedTable(file, has_header=header, **reading)


def _batches(file: File, names: Sequence[str], vector: Sequence[str], reading: Mapping[str, Any]) -> Iterator[Any]:
    if file.ending == ".parquet":
        import pyarrow as pa

        others = [name for name in names if name not in vector]
        with open_parquet(file) as parquet:
            for batch in parquet.iter_batches(batch_size=BATCH, columns=others):
                yield pa.Table.from_batches([batch])
        return
    rows: Iterator[dict[str, Any]]
    if file.ending == ".jsonl":
        rows = (record for _, record in JsonTable(file).rows())
    else:
        rows = (dict(zip(names, cells, strict=True)) for _, cells in _table(file, **reading).rows())
    while part := list(islice(rows, BATCH // 16)):
        yield [{name: value for name, value in record.items() if name not in vector} for record in part]
