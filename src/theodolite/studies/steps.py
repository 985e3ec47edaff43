"""A step of a study: one piece of work with a content address, so that what is done already is never done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.pictures import Picture, write_picture
from theodolite.core.rows import Row
from theodolite.tasks.declarations import find_task
from theodolite.tasks.examples import Examples
from theodolite.tasks.loading import load_task
from theodolite.tasks.task import Task

if TYPE_CHECKING:
    import pyarrow

PICTURE = "picture.parquet"
RECORDS = "records"

Progress: TypeAlias = Callable[[int, int], None]
"""Called inside a step with how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Sources:
    """Where a run finds what its steps read; it decides no result, because steps know models and data by their hashes.

    Parameters
    ----------
    models
        The folder or Hub id of each model, by its name.
    data
        The folder with the releases of the tasks; None reads them from the Hub.
    tasks
        Tasks of the user's own by name; they know their own files.
    """

    models: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    tasks: Mapping[str, Task] = field(default_factory=dict)

    def task(self, name: str) -> Task:
        """The task of a name: the user's own, or one that comes with the package."""
        return self.tasks[name] if name in self.tasks else find_task(name)

    def data_for(self, name: str) -> str | None:
        """The folder to look for a task's files in; None for a task of the user's own."""
        return None if name in self.tasks else self.data

    def examples(self, name: str, split: str) -> Examples:
        """The examples of a split of a task."""
        return load_task(self.task(name), split, self.data_for(name))


@dataclass(frozen=True, eq=False)
class Work:
    """What an action is given to do one step.

    Parameters
    ----------
    settings
        The settings of the step.
    inputs
        The folder of each step that it needs, by the role that this plays.
    folder
        Where to write.
    sources
        Where models and data are.
    progress
        Called with how much is done; None if nothing shows it.
    """

    settings: Mapping[str, Any]
    inputs: Mapping[str, Path]
    folder: Path
    sources: Sources
    progress: Progress | None = None

    def report(self, done: int, total: int) -> None:
        """Report how much is done, if something shows it."""
        if self.progress is not None:
            self.progress(done, total)

    def write_picture(self, picture: Picture) -> None:
        """Keep a picture for the report."""
        write_picture(picture, self.folder / PICTURE)

    def write_records(self, name: str, records: pyarrow.Table) -> None:
        """Keep item-level records; those of the same name from all steps become one table of the result."""
        import pyarrow.parquet as parquet

        (self.folder / RECORDS).mkdir(exist_ok=True)  # exists if a killed process came this far before
        parquet.write_table(records, self.folder / RECORDS / f"{name}.parquet")


@dataclass(frozen=True)
class Action:
    """How a kind of step is done.

    Parameters
    ----------
    kind
        Its name, which begins the names of the steps' folders.
    run
        Does the work in `Work.folder` and returns the rows it measured.
    version
        To be raised when the results change, so that old ones are not used again.
    resumable
        Whether `run` can continue from what a killed process left in the folder.
    """

    kind: str
    run: Callable[[Work], list[Row]]
    version: int = 1
    resumable: bool = False


# Not compared by fields: mappings have no hash. The key says which steps are the same.
@dataclass(frozen=True, eq=False)
class Step:
    """An action with its settings, on what other steps made. Steps with equal keys have equal results.

    Parameters
    ----------
    action
        What is done.
    settings
        Plain values that say everything that decides the result: weights and data by their hashes, never by their place.
    needs
        The steps whose results it reads, by the role that they play.
    title
        What people read; it decides nothing.
    """

    action: Action
    settings: Mapping[str, Any]
    needs: Mapping[str, Step] = field(default_factory=dict)
    title: str = ""

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that decides the result, as a hexadecimal string."""
        identity = {
            "kind": self.action.kind,
            "version": self.action.version,
            "settings": self.settings,
            "needs": {role: step.key for role, step in self.needs.items()},
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> str:
        """The name of its folder: the kind for people, the key for certainty."""
        return f"{self.action.kind}-{self.key[:20]}"


def in_order(steps: Iterable[Step]) -> list[Step]:
    """All steps and all that they need, each once, every step after what it needs."""
    ordered: dict[str, Step] = {}

    def visit(step: Step) -> None:
        for need in step.needs.values():
            visit(need)
        ordered.setdefault(step.key, step)

    for step in steps:
        visit(step)
    return list(ordered.values())
