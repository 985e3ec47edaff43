"""GLUE's RTE and MRPC (tab-separated with a header, quotes are text) and CoLA (four columns, no header)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from theodolite.tasks.assemble import Record, from_records
from theodolite.tasks.errors import DataError, clipped
from theodolite.tasks.examples import Examples
from theodolite.tasks.lines import numbered_lines
from theodolite.tasks.table import table_records
from theodolite.tasks.task import Task

COLA_WIDTH, COLA_LABEL, COLA_TEXT = 4, 1, 3


def read_glue(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """The labelled pairs of a GLUE file with a header."""
    records = (_named(task, record) for file in files for record in table_records(task, file))
    return from_records(task, split, records, files)


def read_cola(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """The judged sentences of CoLA: source, 0 or 1, the author's mark, sentence."""
    return from_records(task, split, (_named(task, record) for file in files for record in _cola(task, file)), files)


def _cola(task: Task, file: Path) -> Iterator[Record]:
    for line, text in numbered_lines(file, task.layout.encoding):
        if not text.strip():
            continue
        cells = text.split("\t")
        if len(cells) != COLA_WIDTH:
            raise DataError(f"the line has {len(cells)} tab-separated columns, CoLA has {COLA_WIDTH}", file=file, line=line)
        yield Record(file, line, cells[COLA_TEXT], label=cells[COLA_LABEL])


def _named(task: Task, record: Record) -> Record:
    """The record with its label by name: some releases write 0 and 1, RTE writes words."""
    assert task.labels is not None
    label = record.label or ""
    if label in task.labels:
        return record
    if label not in ("0", "1"):
        raise DataError(
            f"label {clipped(label)} must be 0 ({task.labels[0]}) or 1 ({task.labels[1]})", file=record.file, line=record.line
        )
    return replace(record, label=task.labels[int(label)])
