"""Steps of a study: pieces of work with a content address, kept in folders, so that what is done is never done again."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from theodolite.core.files import (
    Lock,
    changed_file,
    hashes_in,
    parse_json,
    read_json,
    reading,
    replace_folder,
    require_own_folder,
    sync_all,
    write_json,
)
from theodolite.core.parallel import Progress
from theodolite.core.pictures import Picture, read_picture, write_picture
from theodolite.core.result import read_records
from theodolite.core.rows import Row, read_rows, write_rows
from theodolite.tasks.declarations import find_task
from theodolite.tasks.examples import Examples
from theodolite.tasks.loading import load_task
from theodolite.tasks.task import Task

if TYPE_CHECKING:
    import pyarrow

Item = TypeVar("Item")

# What is in the folder of a step: what it was, written last of all; its rows; a picture and records, if it made some.
ABOUT = "step.json"
ROWS = "rows.parquet"
PICTURE = "picture.parquet"
RECORDS = "records"
# Files that were compared with their hashes, by path, hash and what the file system says of them: they are read once per process.
_SOUND: set[tuple[object, ...]] = set()


@dataclass(frozen=True)
class Sources:
    """Where a run finds what its steps read; it decides no result, because steps know models and data by their hashes."""

    models: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    tasks: Mapping[str, Task] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    trust_remote_code: bool = False

    def from_anywhere(self) -> Sources:
        """The same with whole paths, for workers that have a working directory of their own."""
        models = {name: str(Path(path).absolute()) if Path(path).exists() else path for name, path in self.models.items()}
        return replace(self, models=models, data=None if self.data is None else str(Path(self.data).absolute()))

    def task(self, name: str) -> Task:
        """The task of a name: the user's own, or one that comes with the package."""
        return self.tasks[name] if name in self.tasks else find_task(name)

    def data_for(self, name: str) -> str | None:
        """The folder to look for a task's files in; None for a task that knows them: the user's own, and those of the demo."""
        layout = self.task(name).layout
        return self.data if layout.folders and layout.format != "embedded" else None

    def examples(self, name: str, split: str) -> Examples:
        """The examples of a split of a task."""
        return load_task(self.task(name), split, self.data_for(name))


@dataclass(frozen=True, eq=False)
class Work:
    """What an action is given to do one step."""

    settings: Mapping[str, Any]
    inputs: Mapping[str, Path]
    folder: Path
    sources: Sources
    progress: Progress | None = None

    def watched(self, items: Sequence[Item]) -> Iterator[Item]:
        """The items, one by one; on the way it is reported how many of them are done, if something shows it."""
        for number, item in enumerate(items, start=1):
            yield item
            if self.progress is not None:
                self.progress(number, len(items))

    def stages(self, _name: str, done: int, total: int) -> None:
        """Report how much of one of several stages is done, if something shows it."""
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
    """How a kind of step is done."""

    kind: str
    run: Callable[[Work], list[Row]]
    version: int = 1
    resumable: bool = False


# Not compared by fields: mappings have no hash. The key says which steps are the same.
@dataclass(frozen=True, eq=False)
class Step:
    """An action with its settings, on what other steps made. Steps with equal keys have equal results."""

    action: Action
    settings: Mapping[str, Any]
    needs: Mapping[str, Step] = field(default_factory=dict)
    title: str = ""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """All that decides the result, as plain values."""
        needs = {role: step.key for role, step in self.needs.items()}
        return {"kind": self.action.kind, "version": self.action.version, "settings": dict(self.settings), "needs": needs}

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that decides the result, as a hexadecimal string."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> str:
        """The name of its folder: the kind for people, the key for certainty."""
        # 80 bits are more than any number of steps can fill with two of one name.
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


class Store:
    """The finished steps in a folder, by their keys: one folder each, whole or absent, which a killed process cannot spoil."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, step: Step | str) -> Path:
        """The folder of a finished step, or of that folder's name; that of an unfinished one has `.partial` at its end."""
        return self.folder / (step if isinstance(step, str) else step.folder)

    def has(self, step: Step | str) -> bool:
        """Whether a step is done."""
        return (self.path(step) / ABOUT).is_file()

    def damaged(self, step: Step | str, *, measured: bool = False) -> Path | None:
        """The first file of a finished step that is not as the step wrote it; None if all are."""
        path = self.path(step)
        try:
            description = parse_json((path / ABOUT).read_bytes())
            # Steps of earlier versions, which kept no hashes, are taken as they are.
            hashes = {str(name): str(digest) for name, digest in description.get("files", {}).items()}
        except (OSError, ValueError, AttributeError):
            return path / ABOUT
        if isinstance(step, Step) and description.get("key") != step.key:
            return path / ABOUT
        for name, digest in hashes.items():
            if measured and name not in (ROWS, PICTURE) and not name.startswith(f"{RECORDS}/"):
                continue
            try:
                state = (path / name).stat()
            except OSError:
                return path / name
            sound = (str(path / name), digest, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
            if sound not in _SOUND and changed_file(path, {name: digest}):
                return path / name
            _SOUND.add(sound)
        return None

    def about(self, step: Step | str) -> dict[str, Any]:
        """What a finished step was: its kind, settings, needs, title, key and seconds."""
        path = self.path(step) / ABOUT
        with reading(path, "the description of a step", again="run the study again"):
            return dict(read_json(path))

    def rows(self, step: Step | str) -> list[Row]:
        """What a finished step measured."""
        return read_rows(self._sound(step) / ROWS)

    def picture(self, step: Step | str) -> Picture | None:
        """The picture that a finished step drew, if it drew one."""
        path = self._sound(step) / PICTURE
        return read_picture(path) if path.is_file() else None

    def records(self, step: Step | str) -> dict[str, pyarrow.Table]:
        """The item-level records that a finished step kept, by name."""
        return {path.stem: read_records(path) for path in sorted((self._sound(step) / RECORDS).glob("*.parquet"))}

    def discard(self, step: Step) -> None:
        """Remove what a step made, so that it is done again."""
        with Lock(self.path(step), wait=math.inf):
            (self.path(step) / ABOUT).unlink(missing_ok=True)  # first: what is removed by half is not done
            shutil.rmtree(self.path(step), ignore_errors=True)

    def _sound(self, step: Step | str, *, measured: bool = True) -> Path:
        """The folder of a finished step, after comparing its files with their hashes."""
        damaged = self.damaged(step, measured=measured)
        if damaged is not None:
            title = step if isinstance(step, str) else step.title
            raise ValueError(f"{damaged} was changed after it was written; run the study again, which repeats {title!r}")
        return self.path(step)

    def do(self, step: Step, sources: Sources, progress: Progress | None = None) -> float:
        """Do a step whose needs are done, unless it is done already.

        What a killed process left is thrown away, unless the action can continue from it.
        """
        start, action, path = time.perf_counter(), step.action, self.path(step)
        folder = path.with_name(f"{path.name}.partial")
        self.folder.mkdir(parents=True, exist_ok=True)
        # Two runs may share a folder: each step is done by the one that comes first, and the other waits for it.
        with Lock(path, wait=math.inf):
            if self.has(step):  # another process may have finished it before the lock was ours
                return 0.0
            if not action.resumable:
                shutil.rmtree(folder, ignore_errors=True)
            require_own_folder(folder)
            inputs = {role: self._sound(need, measured=False) for role, need in step.needs.items()}
            write_rows(action.run(Work(step.settings, inputs, folder, sources, progress)), folder / ROWS)
            seconds = time.perf_counter() - start
            # Last of all: `has` takes a folder with this file for a finished step.
            made = {"title": step.title, "key": step.key, "seconds": seconds, "files": hashes_in(folder)}
            write_json(folder / ABOUT, {**step.identity, **made})
            sync_all(folder)
            replace_folder(folder, path)
        return seconds
