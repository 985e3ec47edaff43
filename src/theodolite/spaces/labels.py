"""Labels from a file: one a line, a column of a table, or an array."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from theodolite.spaces.columns import choose_columns
from theodolite.spaces.delimited import Table
from theodolite.spaces.directprobe_text import filled_lines
from theodolite.spaces.files import EmptyFileError, File, locate
from theodolite.spaces.jsonl import Records

DEFAULT = "label"
"""The column that holds the labels where none is named."""

Found = Iterator[tuple[str, Any]]


def read_labels(place: str | os.PathLike[str]) -> list[str]:
    """The labels of a file, in its order, as text.

    `place` is `FILE` or `FILE:COLUMN`. A `.csv`, `.tsv`, `.parquet` or `.jsonl` file gives its column (`label` where none is
    named), a `.npy` file its one axis of text or whole numbers, any other file one label a line.
    """
    file, column = _located(os.fspath(place))
    if column is not None and file.ending not in TABLES:
        raise ValueError(f"{file} has no columns; leave :{column} out, or give a table ({', '.join(TABLES)})")
    found = TABLES[file.ending](file, column or DEFAULT) if file.ending in TABLES else PLAIN.get(file.ending, _lines)(file)
    labels = [_checked(where, value) for where, value in found]
    if not labels:
        raise EmptyFileError(f"{file} holds no label; there must be one for each vector")
    return labels


def _located(place: str) -> tuple[File, str | None]:
    """The file and the column. A name that exists with its colon is a file."""
    path, colon, column = place.rpartition(":")
    if colon and path and not column.startswith("//") and not os.path.exists(place):  # noqa: PTH110  # a URL is no path
        return locate(path), column
    return locate(place), None


def _lines(file: File) -> Found:
    for number, line in filled_lines(file):
        if "\t" in line:
            raise ValueError(
                f"{file}, line {number} has a tab; a file of labels has one a line: is it DirectProbe's entities (--entities)?"
            )
        yield f"{file}, line {number}", line


def _delimited(file: File, column: str) -> Found:
    table = Table(file, [column])
    place = _only(file, table.chosen, column)
    for line, cells in islice(table.records(), int(table.has_header), None):
        if len(cells) != table.width:
            raise ValueError(f"{file}, line {line} has {len(cells)} cells, the first line has {table.width}; repair that line")
        yield f"{file}, line {line}", cells[place]


class _Fields(Records):
    """The lines of a .jsonl file, without looking for vectors in them."""

    def __init__(self, file: File) -> None:
        self.file = file


def _jsonl(file: File, column: str) -> Found:
    for number, record in _Fields(file).lines():
        if not isinstance(record, dict) or column not in record:
            there = ", ".join(record) if isinstance(record, dict) else type(record).__name__
            raise ValueError(f"{file}, line {number} has no field {column!r} but {there}; name the field with FILE:FIELD")
        yield f"{file}, line {number}", record[column]


def _parquet(file: File, column: str) -> Found:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(str(file.local) if file.local is not None else file.open())
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file} is not a whole Parquet file ({error}); write it again") from error
    names = list(table.schema_arrow.names)
    name = names[_only(file, choose_columns(str(file), names, [column]), column)]
    row = 0
    for batch in table.iter_batches(columns=[name]):
        for value in batch.column(0).to_pylist():
            yield f"{file}, row {row}", value
            row += 1


def _npy(file: File) -> Found:
    with file.open() as opened:
        try:
            values = np.load(opened, allow_pickle=False)
        except ValueError as error:
            raise ValueError(
                f"{file} is not a .npy array of text or whole numbers ({error}); write it with numpy.save"
            ) from error
    if values.ndim != 1 or values.dtype.kind not in "USiub":
        raise ValueError(f"{file} has shape {values.shape} of {values.dtype}; labels are one axis of text or whole numbers")
    for row, value in enumerate(values.tolist()):
        yield f"{file}, row {row}", value.decode() if isinstance(value, bytes) else value


def _only(file: File, places: list[int], column: str) -> int:
    if len(places) > 1:
        raise ValueError(f"{file}: {column!r} names {len(places)} columns; the label is one of them")
    return places[0]


def _checked(where: str, value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers beside gaps is read as floats
    if value is None or isinstance(value, (float, list, dict)) or not str(value).strip():
        raise ValueError(f"{where}: {value!r} is no label; every vector needs one, as text or a whole number")
    return str(value).strip()


PLAIN: dict[str, Callable[[File], Found]] = {".npy": _npy}
TABLES: dict[str, Callable[[File, str], Found]] = {
    ".csv": _delimited,
    ".tsv": _delimited,
    ".parquet": _parquet,
    ".jsonl": _jsonl,
}
