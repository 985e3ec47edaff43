"""One label or one score per vector, from a file: one per line, a column of a table, or an array."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.options import option
from theodolite.core.vectors import array
from theodolite.spaces.folder import is_space
from theodolite.spaces.opening import read
from theodolite.spaces.readers.errors import DataError, EmptyFileError
from theodolite.spaces.readers.location import File, locate
from theodolite.spaces.readers.parquet import read_parquet_column
from theodolite.spaces.readers.tables import DelimitedTable, JsonTable, only_column
from theodolite.spaces.space import Space

# The column that holds the labels if none is named.
LABEL = "label"
TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl")


def labels_for(
    vectors: str | os.PathLike[str], labels: str | os.PathLike[str] | None = None, *, n: int | None = None
) -> list[str]:
    """The labels of the rows of a file or folder of vectors.

    Parameters
    ----------
    vectors
        Where the vectors are: a file, or the folder of a space.
    labels
        `FILE` or `FILE:COLUMN` as in `read_labels`; if the vectors are in a table or a space, also the name of one of its
        columns. None is the column `label` of a space.
    n
        Number of vectors, to check that each has a label.

    Raises
    ------
    DataError
        A row has no label, or there are more or fewer labels than vectors.
    """
    vectors = os.fspath(vectors)
    if is_space(vectors):
        # The vectors are verified when they are opened; their hashes say nothing about the labels.
        space = Space.open(vectors, verify=False)
        column = LABEL if labels is None else os.fspath(labels)
        # A column comes first: a file may be called like it by chance.
        if labels is None or column in space.rows or not _is_file(column):
            return space.labels(column)
    if labels is None:
        raise DataError(f"there are vectors but no labels; give them with {option('labels', 'FILE')}", vectors)
    is_column = vectors.endswith(TABLE_ENDINGS) and not _is_file(labels)
    result = read_labels(f"{vectors}:{os.fspath(labels)}" if is_column else labels)
    if n is not None and len(result) != n:
        raise DataError(f"there are {len(result):,} labels for the {n:,} rows of {vectors}; row i needs label i", labels)
    return result


def read_labels(place: str | os.PathLike[str]) -> list[str]:
    """The labels of a file, in its order, as text.

    Parameters
    ----------
    place
        `FILE` or `FILE:COLUMN`. A `.csv`, `.tsv`, `.parquet` or `.jsonl` file gives its column (`label` if none is named), a
        `.npy` file its one axis of text or whole numbers, any other file one label per line.

    Raises
    ------
    DataError
        A label is missing or is not text or a whole number; the message names the line or row.
    """
    file, column = _split_place(os.fspath(place))
    if file.ending in TABLE_ENDINGS:
        values = _column_values(file, column or LABEL)
    elif column is not None:
        raise DataError(f"the file has no columns; leave :{column} out, or give a table ({', '.join(TABLE_ENDINGS)})", file)
    else:
        values = _array_values(file) if file.ending == ".npy" else _line_values(file)
    labels = [_checked(source, value) for source, value in values]
    if not labels:
        raise EmptyFileError("the file holds no label; there must be one for each vector", file)
    return labels


def read_scores(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """One number per pair: from a text with one number per line, from a table with one column, or from a `.npy` array.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    DataError
        The file has more than one number per row, or something other than numbers.
    """
    values: NDArray[Any] = _load_npy(locate(path)) if os.fspath(path).endswith(".npy") else array(read(path))
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1) or values.dtype.kind not in "fiub":
        raise DataError(f"the file has shape {values.shape} of {values.dtype}; scores are one number per pair", path)
    return values.ravel().astype(np.float64)


def _is_file(place: str | os.PathLike[str]) -> bool:
    """Whether `FILE` or `FILE:COLUMN` names a file that exists."""
    text = os.fspath(place)
    return Path(text).is_file() or Path(text.rpartition(":")[0] or text).is_file()


def _split_place(place: str) -> tuple[File, str | None]:
    """The file and the column. A name that exists with its colon is a file."""
    path, colon, column = place.rpartition(":")
    if colon and path and not column.startswith("//") and not os.path.exists(place):  # noqa: PTH110  # a URL is not a path
        return locate(path), column
    return locate(place), None


def _column_values(file: File, column: str) -> Iterator[tuple[str, Any]]:
    if file.ending == ".parquet":
        for row, value in read_parquet_column(file, column):
            yield f"{file}, row {row}", value
        return
    table = JsonTable(file) if file.ending == ".jsonl" else DelimitedTable(file)
    name = only_column(file, table.names, column)
    for line, values in table.select({LABEL: name}, hint="every line must have it"):
        yield f"{file}, line {line}", values[LABEL]


def _array_values(file: File) -> Iterator[tuple[str, Any]]:
    values = _load_npy(file)
    if values.ndim != 1 or values.dtype.kind not in "USiub":
        raise DataError(f"the array has shape {values.shape} of {values.dtype}; labels are one axis of text or ints", file)
    for row, value in enumerate(values.tolist()):
        yield f"{file}, row {row}", value.decode() if isinstance(value, bytes) else value


def _load_npy(file: File) -> NDArray[Any]:
    with file.open() as stream:
        try:
            values: NDArray[Any] = np.load(stream, allow_pickle=False)
        except ValueError as error:
            raise DataError(f"this is not a .npy array of text or numbers ({error}); write it with numpy.save", file) from error
    return values


def _line_values(file: File) -> Iterator[tuple[str, Any]]:
    for line, text in file.gapless_lines():
        if "\t" in text:
            raise DataError(
                "the line has a tab; a file of labels has one label per line. "
                f"DirectProbe's files of examples and labels are read with {option('entities', 'FILE')}",
                file,
                line,
            )
        yield f"{file}, line {line}", text


def _checked(source: str, value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with gaps is read as floats
    if value is None or isinstance(value, (float, list, dict)) or not str(value).strip():
        raise DataError(f"{value!r} is not a label; every vector needs one, as text or a whole number", source)
    return str(value).strip()
