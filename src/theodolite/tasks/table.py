"""Tables with named columns: CSV, TSV and JSON lines, as users and GLUE write them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.tasks.assemble import Record, from_records
from theodolite.tasks.errors import DataError, clipped, close_to, listed
from theodolite.tasks.examples import Examples
from theodolite.tasks.lines import numbered_lines, read_text
from theodolite.tasks.task import Task

LONGEST_CELL = 2**24


def read_table(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """The examples of delimited files whose first line names the columns."""
    return from_records(task, split, (record for file in files for record in table_records(task, file)), files)


def read_jsonl(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """The examples of files with one JSON object a line."""
    return from_records(task, split, (record for file in files for record in _objects(task, file)), files)


def needed(task: Task) -> tuple[str, ...]:
    """What an example of the task is made of."""
    texts = ("text", "text_b") if task.paired else ("text",)
    return (*texts, "score" if task.kind == "similarity" else "label")


def table_records(task: Task, file: Path) -> Iterator[Record]:
    """The records of one delimited file."""
    rows = _quoted_rows(task, file) if task.layout.quoting else _plain_rows(task, file)
    line, header = next(rows)
    position = {role: _find(file, line, header, task.layout.columns.get(role, role), role) for role in needed(task)}
    for line, cells in rows:
        if len(cells) != len(header):
            other = "off" if task.layout.quoting else "on"
            raise DataError(
                f"the line has {len(cells)} cells, the header has {len(header)}; repair the line, or check the delimiter "
                f"({task.layout.delimiter!r}) and whether quoting should be {other} (quoting={not task.layout.quoting})",
                file=file,
                line=line,
            )
        yield _record(file, line, {role: cells[i] for role, i in position.items()})


def _plain_rows(task: Task, file: Path) -> Iterator[tuple[int, list[str]]]:
    for line, text in numbered_lines(file, task.layout.encoding):
        if text.strip():
            yield line, text.split(task.layout.delimiter)


def _quoted_rows(task: Task, file: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    text = io.StringIO(read_text(file, task.layout.encoding), newline="")
    # strict: a lone quote is an error, where the default would join the lines up to the next quote.
    reader = csv.reader(text, delimiter=task.layout.delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{error}; double the quotes inside a quoted cell, or read quotes as text with quoting=False (--no-quoting)",
            file=file,
            line=line,
        ) from None


def _find(file: Path, line: int, header: Sequence[str], name: str, role: str) -> int:
    if name in header:
        if header.count(name) > 1:
            raise DataError(f"column {name!r} is there twice; give every column a name of its own", file=file, line=line)
        return header.index(name)
    raise DataError(
        f"there is no column {name!r} for the {role}; the columns are {listed(header)}{close_to(name, header)}; "
        f"name it with columns={{{role!r}: ...}} (--columns {role}=NAME)",
        file=file,
        line=line,
    )


def _objects(task: Task, file: Path) -> Iterator[Record]:
    for line, text in numbered_lines(file, task.layout.encoding):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except ValueError as error:
            raise DataError(f"this is not JSON ({error}); every line must be one object", file=file, line=line) from None
        if not isinstance(value, dict):
            raise DataError(f"this is {type(value).__name__}, not an object such as {{'text': ...}}", file=file, line=line)
        names = {role: task.layout.columns.get(role, role) for role in needed(task)}
        for role, name in names.items():
            _find(file, line, list(value), name, role)
        yield _record(file, line, {role: _plain(file, line, role, value[name]) for role, name in names.items()})


def _plain(file: Path, line: int, role: str, value: Any) -> str:
    """A JSON value as the text a table would have: a label may be a number or true, a score only a number, a text only text."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(value, str) and role != "score":
        return value
    if (is_number and role in ("label", "score")) or (isinstance(value, bool) and role == "label"):
        return json.dumps(value)
    rule = "a number" if role == "score" else "text"
    raise DataError(f"the {role} is {clipped(json.dumps(value))}; it must be {rule}", file=file, line=line)


def _record(file: Path, line: int, values: Mapping[str, str]) -> Record:
    return Record(file, line, values["text"], values.get("text_b"), values.get("label"), values.get("score"))
