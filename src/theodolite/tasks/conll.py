"""Two-column files: `word<TAB>label` on a line, a blank line between sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from theodolite.tasks.assemble import Sentence, from_sentences
from theodolite.tasks.errors import DataError
from theodolite.tasks.examples import Examples
from theodolite.tasks.lines import numbered_lines
from theodolite.tasks.task import Task


def read_conll(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """Every word of every sentence with its label."""
    return from_sentences(task, split, (sentence for file in files for sentence in _sentences(task, file)), files)


def _sentences(task: Task, file: Path) -> Iterator[Sentence]:
    rows: list[tuple[str, str, int]] = []
    for line, text in numbered_lines(file, task.layout.encoding):
        if text.strip():
            rows.append(_row(task, file, line, text))
        elif rows:
            yield _sentence(file, rows)
            rows = []
    if rows:
        yield _sentence(file, rows)


def _row(task: Task, file: Path, line: int, text: str) -> tuple[str, str, int]:
    cells = text.split(task.layout.delimiter)
    if len(cells) != 2 or not cells[0].strip():
        raise DataError(
            f"the line has {len(cells)} columns; it must be a word, {task.layout.delimiter!r} and its label: "
            "give another delimiter= (--delimiter), or use CoNLL-U (.conllu) for more columns",
            file=file,
            line=line,
        )
    return cells[0], cells[1], line


def _sentence(file: Path, rows: Sequence[tuple[str, str, int]]) -> Sentence:
    marks = tuple(((i,), label, line) for i, (_, label, line) in enumerate(rows))
    return Sentence(file, tuple(word for word, _, _ in rows), marks)
