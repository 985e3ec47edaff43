"""Where the steps of a study are kept: one folder each, whole or absent, which a killed process cannot spoil."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from theodolite.core.files import Lock, replace_folder, write_json
from theodolite.core.pictures import Picture, read_picture
from theodolite.core.rows import Row, read_rows, write_rows
from theodolite.studies.steps import PICTURE, RECORDS, Progress, Sources, Step, Work

if TYPE_CHECKING:
    import pyarrow

ABOUT = "step.json"
ROWS = "rows.parquet"


class Store:
    """The finished steps in a folder, by their keys.

    Parameters
    ----------
    folder
        Holds one folder per step; made when the first step is done.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, step: Step) -> Path:
        """The folder of a finished step."""
        return self.folder / step.folder

    def partial_path(self, step: Step) -> Path:
        """The folder of a step that is not finished."""
        return self.folder / f"{step.folder}.partial"

    def has(self, step: Step) -> bool:
        """Whether a step is done."""
        return (self.path(step) / ABOUT).is_file()

    def rows(self, step: Step) -> list[Row]:
        """What a finished step measured."""
        return read_rows(self.path(step) / ROWS)

    def picture(self, step: Step) -> Picture | None:
        """The picture that a finished step drew, if it drew one."""
        path = self.path(step) / PICTURE
        return read_picture(path) if path.is_file() else None

    def records(self, step: Step) -> dict[str, pyarrow.Table]:
        """The item-level records that a finished step kept, by name."""
        import pyarrow.parquet as parquet

        return {path.stem: parquet.read_table(path) for path in sorted((self.path(step) / RECORDS).glob("*.parquet"))}

    def seconds(self, step: Step) -> float:
        """How long a finished step took."""
        return float(json.loads((self.path(step) / ABOUT).read_text(encoding="utf-8"))["seconds"])

    def do(self, step: Step, sources: Sources, progress: Progress | None = None) -> None:
        """Do a step whose needs are done, unless it is done already.

        What a killed process left is thrown away, unless the action can continue from it.

        Parameters
        ----------
        step
            The step.
        sources
            Where models and data are.
        progress
            Called inside the step with how much is done.

        Raises
        ------
        BusyError
            Another process is doing this step.
        """
        if self.has(step):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with Lock(self.path(step)):
            if not self.has(step):  # another process may have finished it before the lock was ours
                self._do(step, sources, progress)

    def _do(self, step: Step, sources: Sources, progress: Progress | None) -> None:
        action, folder = step.action, self.partial_path(step)
        if not action.resumable:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        inputs = {role: self.path(need) for role, need in step.needs.items()}
        start = time.perf_counter()
        rows = action.run(Work(step.settings, inputs, folder, sources, progress))
        write_rows(rows, folder / ROWS)
        about = {
            "kind": action.kind,
            "version": action.version,
            "title": step.title,
            "settings": dict(step.settings),
            "needs": {role: need.folder for role, need in step.needs.items()},
            "key": step.key,
            "seconds": time.perf_counter() - start,
        }
        write_json(folder / ABOUT, about)  # last of all: `has` takes a folder with this file for a finished step
        replace_folder(folder, self.path(step))
