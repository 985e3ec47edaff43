"""One way to the examples of any task: `load_task`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from theodolite.tasks.conll import read_conll
from theodolite.tasks.conllu import read_conllu
from theodolite.tasks.demo import EMBEDDED, read_embedded
from theodolite.tasks.errors import DataError, close_to, listed
from theodolite.tasks.examples import Examples
from theodolite.tasks.glue import read_cola, read_glue
from theodolite.tasks.hub import read_hub
from theodolite.tasks.lines import folder_content
from theodolite.tasks.streusle import read_streusle
from theodolite.tasks.sts import read_sts
from theodolite.tasks.table import read_jsonl, read_table
from theodolite.tasks.task import TASKS, Format, Task
from theodolite.tasks.trec import read_trec

READERS: dict[Format, Callable[[Task, str, Sequence[Path]], Examples]] = {
    "sts": read_sts,
    "glue": read_glue,
    "cola": read_cola,
    "trec": read_trec,
    "conllu": read_conllu,
    "streusle": read_streusle,
    "table": read_table,
    "jsonl": read_jsonl,
    "conll": read_conll,
    "embedded": read_embedded,
}
"""A reader for each format."""


def load_task(
    task: str | Task,
    split: str,
    data: str | os.PathLike[str] | None = None,
    *,
    empty_nodes: bool = False,
    encoding: str | None = None,
) -> Examples:
    """The examples of a split: from the release's own files in the folder `data`, otherwise from the hub.

    `data` is the task's folder or the one that holds it (`stsb/`, `rte/`, …). `empty_nodes` counts the empty nodes of a treebank
    as words. A task made by `own_task` knows its files, those of the demo's tasks come inside the package.
    """
    chosen = find_task(task)
    if split not in chosen.splits:
        known = list(chosen.splits)
        raise DataError(f"task {chosen.name!r} has no split {split!r}; it has {listed(known)}{close_to(split, known)}")
    if data is None and chosen.layout.format == "embedded":
        data = EMBEDDED
    local = data is not None or not chosen.layout.folders
    if empty_nodes and not (local and chosen.layout.format in ("conllu", "streusle")):
        raise DataError(f"empty_nodes=True is for treebanks read from files; {chosen.name!r} here is none: leave it out")
    if not local:
        return read_hub(chosen, split)
    layout = replace(chosen.layout, empty_nodes=empty_nodes, encoding=encoding or chosen.layout.encoding)
    return READERS[layout.format](replace(chosen, layout=layout), split, find_files(chosen, split, data))


def find_task(task: str | Task) -> Task:
    """The declared task of a name, or the task itself."""
    if isinstance(task, Task):
        return task
    if task not in TASKS:
        raise DataError(f"there is no task {task!r}; there are {listed(list(TASKS))}{close_to(task, list(TASKS))}")
    return TASKS[task]


def find_files(task: Task, split: str, data: str | os.PathLike[str] | None) -> list[Path]:
    """The files of a split: under `data` or a release's usual folder in it."""
    folder = Path(data).expanduser() if data is not None else Path()
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; data= (--data) names the folder with the files of task {task.name!r}")
    places = [folder / name for name in task.layout.folders if (folder / name).is_dir()] + [folder]
    return [_find_file(task, name, places) for name in task.splits[split]]


def _find_file(task: Task, name: str, places: Sequence[Path]) -> Path:
    if not task.layout.folders:
        return places[-1] / Path(name).expanduser()
    found = next((place / name for place in places if (place / name).is_file()), None)
    if found is None:
        looked = "; ".join(f"{place} has {folder_content(place)}" for place in places)
        raise DataError(f"there is no file {name} of task {task.name!r}: {looked}")
    return found
