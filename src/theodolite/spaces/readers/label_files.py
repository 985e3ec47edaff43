"""One label or one score per vector, from a file: one per line, a column of a table, or an array."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.spaces.opening import read
from theodolite.spaces.readers.arrays import read_layout
from theodolite.spaces.readers.data_files import AnyPath, DataError, EmptyFileError, File, locate
from theodolite.spaces.readers.delimited import DelimitedTable, JsonTable, only_column
from theodolite.spaces.readers.table_vectors import read_parquet_column

# The column that holds the labels if none is named.
LABEL = "label"
TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".jsonl")


def labels_for(
    vectors: AnyPath, labels: AnyPath, *, n: int, delimiter: str | None = None, header: bool | None = None
) -> list[str]:
    """The labels of the rows of a file or folder of vectors."""
    vectors, labels = os.fspath(vectors), os.fspath(labels)
    # A file comes first.
    location = labels if is_label_file(labels) or not vectors.endswith(TABLE_ENDINGS) else f"{vectors}:{labels}"
    values = read_labels(location, delimiter=delimiter, header=header)
    if len(values) != n:
        raise DataError(f"there are {len(values):,} labels for the {n:,} rows of {vectors}; row i needs label i", labels)
    return values


def is_label_file(labels: AnyPath) -> bool:
    """Whether labels are in a file that is there, with or without the name of a column behind it."""
    labels = os.fspath(labels)
    return Path(labels).is_file() or Path(labels.rpartition(":")[0] or labels).is_file()


def read_labels(location: AnyPath, *, delimiter: str | None = None, header: bool | None = None) -> list[str]:
    """The labels of a file, or of a column of a table (`FILE:COLUMN`), in its order, as text."""
    file, column = _split_location(os.fspath(location))
    if file.ending in TABLE_ENDINGS:
        values = _column_values(file, column or LABEL, delimiter, header)
    elif column is not None:
        raise DataError(f"the file has no columns; leave :{column} out, or give a table ({', '.join(TABLE_ENDINGS)})", file)
    else:
        values = _array_values(file) if file.ending == ".npy" else _line_values(file)
    labels = [checked_label(source, value) for source, value in values]
    if not labels:
        raise EmptyFileError("the file holds no label; there must be one for each vector", file)
    return labels


def read_scores(path: AnyPath) -> NDArray[np.float64]:
    """One number per pair: from a text with one number per line, from a table with one column, or from a `.npy` array."""
    file = locate(path)
    if file.ending == ".txt":
        return np.array([_score(text, f"{file}, line {line}") for line, text in file.gapless_lines()])
    # Not through `array`, which would call a missing score a fault of vectors; whoever pairs the scores names it.
    values: NDArray[Any] = (
        _load_npy(file) if file.ending == ".npy" else np.concatenate([block for _, block in read(path).raw_blocks()])
    )
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1) or values.dtype.kind not in "fiub":
        raise DataError(f"the file has shape {values.shape} of {values.dtype}; scores are one number per pair", path)
    return values.ravel().astype(np.float64)


def _score(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{text!r} is not a number; scores are one number per line", where) from None


def _split_location(location: str) -> tuple[File, str | None]:
    """The file and the column. A name that exists with its colon is a file."""
    path, colon, column = location.rpartition(":")
    if colon and path and not column.startswith("//") and not os.path.exists(location):  # noqa: PTH110  # a URL is not a path
        return locate(path), column
    return locate(location), None


def _column_values(file: File, column: str, delimiter: str | None, header: bool | None) -> Iterator[tuple[str, Any]]:
    if file.ending == ".parquet":
        for row, value in read_parquet_column(file, column):
            yield f"{file}, row {row}", value
        return
    if file.ending == ".jsonl":
        table: JsonTable | DelimitedTable = JsonTable(file)
        name = only_column(file, table.names, column)
    else:
        table = DelimitedTable(file, delimiter=delimiter, has_header=header)
        name = only_column(file, table.names, column, table.header_hint)
    for line, values in table.select({LABEL: name}):
        yield f"{file}, line {line}", values[LABEL]


def _array_values(file: File) -> Iterator[tuple[str, Any]]:
    values = _load_npy(file)
    if values.ndim != 1 or values.dtype.kind not in "USiub":
        raise DataError(f"the array has shape {values.shape} of {values.dtype}; labels are one axis of text or ints", file)
    try:
        plain = [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
    except (ValueError, SystemError) as error:  # bytes that are not UTF-8, and numbers beyond Unicode
        raise DataError(f"a label is not text ({error}); write the labels again", file) from error
    for row, value in enumerate(plain):
        yield f"{file}, row {row}", value


def _load_npy(file: File) -> NDArray[Any]:
    with file.open() as stream:
        layout = read_layout(stream, file)
        if layout.dtype.hasobject or layout.dtype.itemsize == 0 or file.size < layout.end:
            problem = "holds pickled objects" if layout.dtype.hasobject else "is cut short"
            raise DataError(f"the array {problem}; write it again with numpy.save, as text or numbers", file)
        count = math.prod(layout.shape)
        values: NDArray[Any] = np.frombuffer(stream.read(count * layout.dtype.itemsize), layout.dtype, count)
    try:
        return values.reshape(layout.shape, order="F" if layout.fortran else "C")
    except ValueError as error:  # more than 64 axes
        raise DataError(f"the array has shape {layout.shape} ({error}); labels and scores have one axis", file) from error


def _line_values(file: File) -> Iterator[tuple[str, Any]]:
    for line, text in file.gapless_lines():
        if "\t" in text:
            raise DataError(
                "the line has a tab; a file of labels has one label per line (cut -f2 keeps a second column)", file, line
            )
        yield f"{file}, line {line}", text


def checked_label(source: str, value: Any) -> str:
    """A label as text."""
    if isinstance(value, (float, np.floating)) and value.is_integer():
        value = int(value)  # a column of whole numbers with gaps is read as floats
    # Neither a list nor what libraries write for a missing value: None, nan, NaT, pandas.NA.
    if not isinstance(value, (str, int, np.integer, np.bool_)) or not str(value).strip():
        raise DataError(f"{value!r} is not a label; every vector needs one, as text or a whole number", source)
    label = str(value).strip()
    if not label.isprintable() and label.encode("utf-8", "replace").decode() != label:
        problem = f"the label {label!r} holds half of a surrogate pair, which is not text"
        raise DataError(f"{problem}; write the whole character, or leave it out", source)
    return label
