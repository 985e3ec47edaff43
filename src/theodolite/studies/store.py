"""Where the steps of a study are kept: a folder each, whole or absent, that outlives a kill."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from theodolite.core.files import Lock, replace_folder
from theodolite.core.rows import Row, read_rows, write_rows
from theodolite.studies.actions import ACTIONS
from theodolite.studies.step import Step, Tick, Work


class Store:
    """Finished steps by their keys, in `folder`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def place(self, step: Step) -> Path:
        """The folder of a finished step."""
        return self.folder / step.folder

    def partial(self, step: Step) -> Path:
        """Where it is worked on until then."""
        return self.folder / f"{step.folder}.partial"

    def has(self, step: Step) -> bool:
        """Whether a step is done."""
        return (self.place(step) / "step.json").is_file()

    def rows(self, step: Step) -> list[Row]:
        """What a finished step measured."""
        return read_rows(self.place(step) / "rows.parquet")

    def seconds(self, step: Step) -> float:
        """How long it took."""
        return float(json.loads((self.place(step) / "step.json").read_text(encoding="utf-8"))["seconds"])

    def do(self, step: Step, *, models: Mapping[str, str], data: str | None, tick: Tick | None = None) -> None:
        """Do a step whose needs are done, unless it is done itself; another process that is at it is waited for by none.

        What a killed process left is thrown away, but for work that knows how to go on.
        """
        if self.has(step):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.place(step))
        try:
            if not self.has(step):  # it may have been finished while we asked for the lock
                self._do(step, models, data, tick)
        finally:
            lock.release()

    def _do(self, step: Step, models: Mapping[str, str], data: str | None, tick: Tick | None) -> None:
        action, partial = ACTIONS[step.kind], self.partial(step)
        if not action.resumable:
            shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True, exist_ok=True)
        inputs = {role: self.place(need) for role, need in step.needs.items()}
        began = time.perf_counter()
        rows = action.run(Work(step.settings, inputs, partial, models, data, tick))
        write_rows(rows, partial / "rows.parquet")
        about = {
            "kind": step.kind,
            "version": action.version,
            "title": step.title,
            "settings": dict(step.settings),
            "needs": {role: need.folder for role, need in step.needs.items()},
            "key": step.key,
            "seconds": time.perf_counter() - began,
        }
        (partial / "step.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        replace_folder(partial, self.place(step))
