"""STS-Benchmark: tab-separated whatever the ending says, no header, quotes are text, score in column 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from theodolite.tasks.assemble import Record, from_records
from theodolite.tasks.errors import DataError
from theodolite.tasks.examples import Examples
from theodolite.tasks.lines import numbered_lines
from theodolite.tasks.task import Task

WIDTHS = (7, 9)  # two columns of licences follow the sentences in some lines
SCORE, FIRST, SECOND = 4, 5, 6


def read_sts(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """The scored pairs of an STS-Benchmark file."""
    return from_records(task, split, (record for file in files for record in _records(file, task.layout.encoding)), files)


def _records(file: Path, encoding: str) -> Iterator[Record]:
    for line, text in numbered_lines(file, encoding):
        if not text.strip():
            continue
        # A lone quote opens no field here: the csv module's default would swallow lines without a word.
        cells = text.split("\t")
        if len(cells) not in WIDTHS:
            raise DataError(
                f"the line has {len(cells)} tab-separated columns, an STS-Benchmark file has 7 or 9; "
                "describe another layout as a task of your own",
                file=file,
                line=line,
            )
        yield Record(file, line, cells[FIRST], cells[SECOND], score=cells[SCORE])
