"""`.jsonl`: one vector a line, as a list, as a list field of an object, or as numeric fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Source
from theodolite.spaces.columns import choose_columns, refuse_row_names
from theodolite.spaces.files import EmptyFileError, File, file_source
from theodolite.spaces.spool import Spool, parsed_rows


class Records:
    """What the first line says about where the vectors are, and the vectors of all lines."""

    def __init__(self, file: File, columns: Sequence[str] | None) -> None:
        self.file = file
        first = next(self.lines(), None)
        if first is None:
            raise EmptyFileError(f"{file} is empty; there must be at least one vector")
        self.fields = self._choose(first[1], columns)
        self.d = 0
        self.d = len(self.vector(*first))
        if self.d == 0:
            raise EmptyFileError(f"{file}, line {first[0]}: the vector has no entries")

    def lines(self) -> Iterator[tuple[int, Any]]:
        """(line number, parsed line), blank lines skipped."""
        for number, line in enumerate(self.file.lines(), start=1):
            if not line.strip():
                continue
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise ValueError(f"{self.file}, line {number} is not JSON ({error}); every line must be one JSON value") from None

    def _choose(self, first: Any, columns: Sequence[str] | None) -> list[str] | None:
        """Names of the fields that hold the vector; None where the line itself is the vector."""
        if isinstance(first, list):
            if columns is not None:
                raise ValueError(f"{self.file} has lists on its lines, which have no names; leave columns= (--columns) out")
            return None
        if not isinstance(first, dict):
            raise ValueError(f"{self.file}, line 1 is {type(first).__name__}; every line must be a list or an object")
        names = list(first)
        if columns is not None:
            return [names[i] for i in choose_columns(str(self.file), names, columns)]
        lists = [name for name in names if isinstance(first[name], list) and all(map(_is_number, first[name]))]
        if len(lists) > 1:
            raise ValueError(
                f"{self.file} has several list fields ({', '.join(lists)}); say which to read with columns= (--columns)"
            )
        if not lists:
            refuse_row_names(str(self.file), names)
        return lists or names

    def vector(self, number: int, record: Any) -> list[float]:
        """The numbers of one line, or an error that names line and field."""
        values = record
        if self.fields is not None:
            missing = next((name for name in self.fields if not isinstance(record, dict) or name not in record), None)
            if missing is not None:
                raise ValueError(f"{self.file}, line {number} has no field {missing!r}; every line must have the same fields")
            values = [record[name] for name in self.fields]
            if len(values) == 1 and isinstance(values[0], list):
                values = values[0]
        if not isinstance(values, list):
            raise ValueError(f"{self.file}, line {number} is {type(values).__name__}; every line must be a list like the first")
        for position, value in enumerate(values):
            if not _is_number(value):
                named = self.fields is not None and len(self.fields) == len(values)
                where = f"field {self.fields[position]!r}" if named and self.fields else f"entry {position}"
                raise ValueError(
                    f"{self.file}, line {number}, {where}: {json.dumps(value)[:40]} is not a number; "
                    "choose the vector fields with columns= (--columns)"
                )
        if self.d and len(values) != self.d:
            raise ValueError(
                f"{self.file}, line {number} has {len(values)} entries, the first vector has {self.d}; all must be of one length"
            )
        return values

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """The vectors in file order."""
        lines = self.lines()
        while part := list(islice(lines, parsed_rows(self.d))):
            yield np.array([self.vector(number, record) for number, record in part], dtype=np.float64)


def read_jsonl(file: File, *, columns: Sequence[str] | None) -> Source:
    """The vectors of a JSON-lines file, in file order."""
    records = Records(file, columns)
    kept = Spool(records.chunks, records.d, np.float64)
    next(iter(records.chunks()))
    return file_source(file, kept.chunks, n=None, d=records.d, dtype=np.float64, take=kept.take)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
