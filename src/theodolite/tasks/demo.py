"""The demo's tasks, whose examples come inside the package: no hub, no download, no folder to name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from theodolite.tasks.assemble import Record, from_records
from theodolite.tasks.errors import DataError, clipped, listed
from theodolite.tasks.examples import Examples
from theodolite.tasks.lines import numbered_lines
from theodolite.tasks.table import table_records
from theodolite.tasks.task import TASKS, Layout, Task

EMBEDDED = Path(__file__).parent / "embedded"
"""The folder of the files."""

_CITATION = "Written for Theodolite; Apache-2.0, as the project"
_NOTE = "Not on the hub: the files come inside the package. Small and made for a demonstration: no benchmark. "


def read_embedded(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """The examples of one split: all splits are in one file, whose first column names them."""
    return from_records(task, split, (record for file in files for record in _records(task, split, file)), files)


def _records(task: Task, split: str, file: Path) -> Iterator[Record]:
    splits = {line: text.partition(task.layout.delimiter)[0] for line, text in numbered_lines(file, task.layout.encoding)}
    for record in table_records(task, file):
        found = splits[record.line]
        if found not in task.splits:
            raise DataError(f"split {clipped(found)} is none of {listed(list(task.splits))}", file=file, line=record.line)
        if found == split:
            yield record


_DEMO = (
    Task(
        name="demo-pairs",
        kind="similarity",
        score="spearman",
        score_range=(0.0, 5.0),
        splits={"train": ("pairs.tsv",), "dev": ("pairs.tsv",)},
        layout=Layout(format="embedded", folders=("embedded",)),
        citation=_CITATION,
        note=_NOTE + "220 and 100 pairs, graded as they were written from 0 (unrelated) to 5 (same meaning).",
    ),
    Task(
        name="demo-topics",
        kind="classification",
        score="accuracy",
        labels=("cooking", "health", "money", "sport", "technology", "travel"),
        splits={"train": ("topics.tsv",), "dev": ("topics.tsv",)},
        layout=Layout(format="embedded", folders=("embedded",)),
        citation=_CITATION,
        note=_NOTE + "Six topics with 40 and 20 sentences each, labelled by their main subject.",
    ),
)

TASKS.update({task.name: task for task in _DEMO})
