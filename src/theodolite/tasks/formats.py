"""Readers of texts with labels or scores: STS-Benchmark, GLUE, CoLA, TREC, the demo's sets, and a user's own tables.

Each takes a task and one of its files, and gives what the file holds as records, in file order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from theodolite.core.options import ON_COMMAND_LINE, option
from theodolite.spaces.readers.errors import DataError, excerpt, name_list
from theodolite.spaces.readers.location import locate
from theodolite.spaces.readers.tables import DelimitedTable, JsonTable
from theodolite.tasks.records import Record
from theodolite.tasks.task import Task

# The folder of the demo's files, inside the package.
EMBEDDED = Path(__file__).parent / "embedded"

_STS_WIDTHS = (7, 9)  # two columns of licences follow the sentences in some lines
_STS_SCORE, _STS_FIRST, _STS_SECOND = 4, 5, 6
_COLA_WIDTH, _COLA_LABEL, _COLA_TEXT = 4, 1, 3


def read_sts(task: Task, file: Path) -> Iterator[Record]:
    """The pairs of an STS-Benchmark file: tab-separated whatever its ending says, no header, quotes are text."""
    # Split by hand: for the csv module a lone quote would open a cell and swallow the lines that follow.
    for line, cells in _tab_lines(task, file):
        if len(cells) not in _STS_WIDTHS:
            raise DataError(
                f"the line has {len(cells)} tab-separated columns, an STS-Benchmark file has 7 or 9; "
                "read another layout as a task of your own",
                file,
                line,
            )
        yield Record(file, line, cells[_STS_FIRST], cells[_STS_SECOND], score=cells[_STS_SCORE])


def read_glue(task: Task, file: Path) -> Iterator[Record]:
    """The pairs of GLUE's RTE and MRPC: tab-separated with a header, quotes are text."""
    for record in read_table(task, file):
        yield _with_label_name(task, record)


def read_cola(task: Task, file: Path) -> Iterator[Record]:
    """The sentences of CoLA, without a header: source, 0 or 1, the author's mark, sentence."""
    for line, cells in _tab_lines(task, file):
        if len(cells) != _COLA_WIDTH:
            raise DataError(f"the line has {len(cells)} tab-separated columns, CoLA has {_COLA_WIDTH}", file, line)
        yield _with_label_name(task, Record(file, line, cells[_COLA_TEXT], label=cells[_COLA_LABEL]))


def read_trec(task: Task, file: Path) -> Iterator[Record]:
    """The questions of TREC, `COARSE:fine question` on every line, with the label that the task asks for."""
    for line, text in locate(file).numbered_lines(task.layout.encoding):
        if not text.strip():
            continue
        fine, _, question = text.partition(" ")
        coarse, colon, detail = fine.partition(":")  # "NUM:dist" is a fine label, "NUM" its coarse one
        if not (coarse and colon and detail):
            raise DataError(f"{excerpt(fine)} before the question is not a label such as NUM:dist", file, line)
        yield Record(file, line, question.strip(), label=coarse if task.layout.columns["label"] == "coarse" else fine)


def read_table(task: Task, file: Path, *, extra: tuple[str, ...] = ()) -> Iterator[Record]:
    """The examples of a table with named columns: `.csv`, `.tsv` or `.jsonl`.

    Parameters
    ----------
    task
        The task; its layout names the columns and says how the table is written.
    file
        The file.
    extra
        Columns to read besides those that an example is made of.
    """
    layout, place = task.layout, locate(file)
    table: DelimitedTable | JsonTable
    if layout.format == "jsonl":
        table = JsonTable(place, encoding=layout.encoding)
    else:
        table = DelimitedTable(
            place, encoding=layout.encoding, delimiter=layout.delimiter, quoting=layout.quoting, has_header=True
        )
    columns = {role: layout.columns.get(role, role) for role in (*task.roles, *extra)}
    for line, cells in table.select(columns, hint=_columns_hint()):
        if layout.format == "jsonl":
            cells = {role: _json_text(file, line, role, value) for role, value in cells.items()}
        yield Record(file, line, cells["text"], *(cells.get(role) for role in ("text_b", "label", "score", "split")))


def read_embedded(task: Task, file: Path) -> Iterator[Record]:
    """The examples of the demo's sets: all splits are in one file, whose column `split` names them."""
    for record in read_table(task, file, extra=("split",)):
        if record.split not in task.splits:
            splits = name_list(list(task.splits))
            raise DataError(f"split {excerpt(record.split or '')} is not one of {splits}", file, record.line)
        yield record


def _tab_lines(task: Task, file: Path) -> Iterator[tuple[int, list[str]]]:
    for line, text in locate(file).numbered_lines(task.layout.encoding):
        if text.strip():
            yield line, text.split("\t")


def _with_label_name(task: Task, record: Record) -> Record:
    """The record with its label by name: some releases write 0 and 1, RTE writes words."""
    assert task.labels is not None
    label = record.label or ""
    if label in task.labels:
        return record
    if label not in ("0", "1"):
        raise DataError(f"label {excerpt(label)} must be 0 ({task.labels[0]}) or 1 ({task.labels[1]})", record.file, record.line)
    return replace(record, label=task.labels[int(label)])


def _columns_hint() -> str:
    # On the command line a column is named as ROLE=NAME, in Python in a dict.
    choice = option("columns", "{role}=NAME") if ON_COMMAND_LINE.get() else "columns={{{role!r}: NAME}}"
    return f"choose it with {choice}"


def _json_text(file: Path, line: int, role: str, value: Any) -> str:
    """A JSON value as the text of a cell: a label may be a number or true, a score only a number, a text only text."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(value, str) and role != "score":
        return value
    if (is_number and role in ("label", "score")) or (isinstance(value, bool) and role == "label"):
        return json.dumps(value)
    rule = "a number" if role == "score" else "text"
    raise DataError(f"the {role} is {excerpt(json.dumps(value))}; it must be {rule}", file, line)
