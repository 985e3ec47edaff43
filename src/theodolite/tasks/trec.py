"""TREC questions: `COARSE:fine question` on every line, in Latin-1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from theodolite.tasks.assemble import Record, from_records
from theodolite.tasks.errors import DataError, clipped
from theodolite.tasks.examples import Examples
from theodolite.tasks.lines import numbered_lines
from theodolite.tasks.task import Task


def read_trec(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """The questions with their fine or coarse labels, as the task says."""
    return from_records(task, split, (record for file in files for record in _records(task, file)), files)


def _records(task: Task, file: Path) -> Iterator[Record]:
    for line, text in numbered_lines(file, task.layout.encoding):
        if not text.strip():
            continue
        fine, _, question = text.partition(" ")
        coarse, colon, detail = fine.partition(":")
        if not (coarse and colon and detail):
            raise DataError(f"{clipped(fine)} is no label such as NUM:dist before the question", file=file, line=line)
        yield Record(file, line, question.strip(), label=coarse if task.layout.columns["label"] == "coarse" else fine)
