"""The folder of a run: its settings, what it made, and whether another run may use it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.core.rows import Row, read_rows, write_rows
from theodolite.tasks.load import find_task
from theodolite.tasks.task import Task
from theodolite.tuning.layer_settings import LayerSettings
from theodolite.tuning.settings import TuneSettings


@dataclass(frozen=True, eq=False)
class Tuned:
    """A finished run. `folder` loads with AutoModel (Siamese: SentenceTransformer); `rows` hold scores, losses and geometry.

    `before` and `after` are the main score on the scored split; before, a head knows nothing yet. `best_epoch` counts from 1.
    """

    folder: Path
    rows: tuple[Row, ...]
    before: float
    after: float
    best_epoch: float
    steps: int


class Run:
    """A run's folder: `settings.json` first, `checkpoints/` meanwhile, `model/`, `rows.parquet` and `done.json` at the end."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.checkpoints = self.folder / "checkpoints"
        self.model = self.folder / "model"
        self.geometry = self.folder / "geometry.jsonl"

    @classmethod
    def open(cls, settings: TuneSettings, *, resume: bool, overwrite: bool) -> Run:
        """A new run, or one to go on with: only where its settings are the same."""
        run = cls(settings.output)
        told, wanted = run.folder / "settings.json", _plain(settings)
        if overwrite and told.exists() and os.environ.get("RANK", "0") == "0":
            shutil.rmtree(run.folder)
        if told.exists():
            run._check(json.loads(told.read_text(encoding="utf-8")), wanted, resume)
        elif run.folder.exists() and any(run.folder.iterdir()):
            raise FileExistsError(f"{run.folder} holds files that are no run of ours; name another output folder")
        return run

    def begin(self, settings: TuneSettings) -> None:
        """Take the folder: from now on it holds this run. Called when the data has been read and found right."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        _write_json(self.folder / "settings.json", _plain(settings))

    def _check(self, known: dict[str, Any], wanted: dict[str, Any], resume: bool) -> None:
        changed = sorted(name for name in {*known, *wanted} if known.get(name) != wanted.get(name))
        if changed:
            name = changed[0]
            raise FileExistsError(
                f"{self.folder} holds a run with {name}={known.get(name)!r}, not {wanted.get(name)!r} "
                f"({len(changed)} settings differ); take another output folder, or replace it with overwrite=True (--overwrite)"
            )
        if not resume:
            raise FileExistsError(
                f"{self.folder} holds a run with these settings; go on with it by resume=True (--resume), "
                "or replace it with overwrite=True (--overwrite)"
            )

    @property
    def finished(self) -> bool:
        return (self.folder / "done.json").exists()

    def finish(self, rows: Sequence[Row], **facts: Any) -> None:
        """Write what the run found; the checkpoints are no longer needed."""
        write_rows(rows, self.folder / "rows.parquet")
        _write_json(self.folder / "done.json", facts)
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def result(self) -> Tuned:
        """What a finished run found."""
        facts = json.loads((self.folder / "done.json").read_text(encoding="utf-8"))
        values: dict[str, Any] = {name: float("nan") if value is None else value for name, value in facts.items()}
        return Tuned(folder=self.model, rows=tuple(read_rows(self.folder / "rows.parquet")), **values)


def settings_of_run(
    folder: str | os.PathLike[str], *, output: str | os.PathLike[str], task: str | Task | None = None, **changes: Any
) -> TuneSettings:
    """The settings of the run in a folder, for another one in `output` with what is to differ.

    A task of one's own is not in the folder: it has to be given.
    """
    path = Path(folder) / "settings.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no run: there is no {path.name} in it")
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(known["task"], dict):
        if not isinstance(task, Task):
            raise ValueError(f"{folder} is a run on a task of one's own ({known['task']['name']}); name its files again")
        known["task"] = task
    elif task is not None and find_task(task).name != find_task(known["task"]).name:
        raise ValueError(f"{folder} is a run on the task {known['task']!r}, not {find_task(task).name!r}")
    for name in ("report_to", "track"):
        known[name] = tuple(known[name]) if isinstance(known[name], list) else known[name]
    if known.get("layer") is not None:
        known["layer"] = LayerSettings(**known["layer"])
    return TuneSettings(**{**known, **changes}, output=os.fspath(output))


def _plain(settings: TuneSettings) -> dict[str, Any]:
    """The settings as they come back from JSON, to compare with."""
    plain: dict[str, Any] = json.loads(json.dumps(settings.to_dict()))
    return plain


def _write_json(path: Path, values: dict[str, Any]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)
