"""A run's folder, from its settings to its saved result, and the examples it is given."""

from __future__ import annotations

import json
import math
import os
import shutil
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from theodolite.core.files import (
    UNFINISHED,
    Lock,
    Marker,
    atomic_folder,
    hidden,
    recover_files,
    recover_folder,
    replace_folder,
    require_outside,
    sync_all,
    write_json,
)
from theodolite.core.result import ABOUT, Result
from theodolite.core.rows import Row
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import option
from theodolite.models.encoder import quiet_loading
from theodolite.spaces.readers.data_files import DataError
from theodolite.tasks.examples import Examples, check_labels, drop_unseen_labels, labels_of
from theodolite.tasks.loading import load_task
from theodolite.tuning.settings import HELD_OUT, TuneSettings

# Training examples below which a run is refused: fewer are more often a mistake than intended.
FEWEST = 16
MARKER = Marker("settings.json", "tune")


@dataclass(frozen=True, eq=False)
class Splits:
    """The examples of a run."""

    train: Examples
    validation: Examples | None
    dev: Examples
    labels: tuple[str, ...]

    def by_name(self) -> dict[str, Examples]:
        """The splits that there are."""
        splits = {"train": self.train, "validation": self.validation, "dev": self.dev}
        return {name: examples for name, examples in splits.items() if examples is not None}


def load_splits(settings: TuneSettings, data: str | os.PathLike[str] | None) -> Splits:
    """Read, check, cap and divide the examples of a run."""
    task = settings.declared
    train = load_task(task, task.train_split, data)
    held_out = settings.eval_split == HELD_OUT
    dev = train if held_out else load_task(task, settings.eval_split or task.scored_split, data)
    labels: tuple[str, ...] = ()
    # Labels are judged on the whole training split: a cap on the rows is a choice, not a fault of the data.
    if train.labels is not None:
        if settings.drop_unseen:
            dev = drop_unseen_labels(train, dev)
        check_labels(train, dev)
        labels = labels_of(train)
        if len(set(train.labels)) < 2:
            raise DataError(f"all training examples of {task.name!r} have label {train.labels[0]!r}; there must be two labels")
    if settings.train_rows is not None:
        train = train.take(sample_rows(len(train), settings.train_rows, seed=settings.seed))
    if len(train) < FEWEST:
        raise DataError(f"task {task.name!r} has {len(train)} training examples; fine-tuning needs at least {FEWEST}")
    if not settings.validation:
        return Splits(train, None, dev, labels)
    first, second = train.divide(1 - settings.validation, seed=settings.seed)
    return Splits(first, second, second if held_out else dev, labels)


@dataclass(frozen=True, eq=False)
class Tuned:
    """A finished run.

    Parameters
    ----------
    run_folder
        Everything the run made: model, settings and a saved `Result`.
    result
        Scores, losses and geometry as rows, with settings and versions.
    """

    run_folder: Path
    result: Result

    @property
    def rows(self) -> tuple[Row, ...]:
        """The result's rows."""
        return self.result.rows

    @property
    def model_folder(self) -> Path:
        """The fine-tuned encoder: it loads with AutoModel, of a Siamese run with SentenceTransformer too."""
        return self.run_folder / "model"

    @property
    def before(self) -> float:
        """The main score on the scored split before; a head knows nothing then. For isolayer, that of the plain run."""
        return self._outcome("before")

    @property
    def after(self) -> float:
        """The main score on the scored split after."""
        return self._outcome("after")

    @property
    def best_epoch(self) -> float:
        """The epoch whose weights were kept, counted from 1."""
        return self._outcome("best_epoch")

    @property
    def steps(self) -> int:
        """Steps that were trained."""
        return int(self._outcome("steps"))

    def _outcome(self, name: str) -> float:
        value = self.result.provenance["outcome"][name]
        return math.nan if value is None else float(value)


class Run:
    """The folder of a run: `settings.json` first, `checkpoints/` meanwhile, `model/` and a saved `Result` at the end.

    A run that replaces another is made in a hidden folder next to it, and takes its place when it is finished. From `begin` on,
    the run is locked: as a context manager it lets others write at the end.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        # What a link leads to: renaming works on the folder, not on the link.
        self.target = Path(os.path.realpath(folder)) if Path(folder).is_symlink() else Path(folder)
        self.folder = self.target  # where the run is made
        self._resume = self._overwrite = False
        self._unlock: weakref.finalize[Any, Run] | None = None

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints, as long as the run trains."""
        return self.folder / "checkpoints"

    @property
    def model(self) -> Path:
        """The folder of the fine-tuned encoder."""
        return self.folder / "model"

    @property
    def geometry(self) -> Path:
        """The file of what is measured meanwhile."""
        return self.folder / "geometry.jsonl"

    @classmethod
    def open(cls, settings: TuneSettings, *, resume: bool, overwrite: bool) -> Run:
        """A new run, or one to continue, which must have the same settings; nothing is written yet."""
        run = cls(settings.output)
        run._resume, run._overwrite = resume, overwrite
        run._choose_folder(_as_json(settings))
        return run

    def _choose_folder(self, settings: dict[str, Any]) -> None:
        recover_folder(self.target)
        is_run = MARKER.is_in(self.target)
        if not is_run and self.target.exists() and any(self.target.iterdir()):
            raise FileExistsError(f"{self.target} has files that do not belong to a run; name another output folder")
        if is_run and not self._overwrite:
            self._check(read_settings(self.target), settings, self._resume)
        self.folder = hidden(self.target, "new") if is_run and self._overwrite else self.target

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self._unlock is not None:
            self._unlock()

    def _check(self, earlier: dict[str, Any], settings: dict[str, Any], resume: bool) -> None:
        # A run that was made before a setting existed has its default.
        defaults = {field.name: field.default for field in fields(TuneSettings)}
        changed = sorted(name for name in {*earlier, *settings} if earlier.get(name, defaults.get(name)) != settings.get(name))
        if changed:
            name = changed[0]
            raise FileExistsError(
                f"{self.folder} has a run with {name}={earlier.get(name)!r}, not {settings.get(name)!r} "
                f"({len(changed)} settings differ); name another output folder, or replace it with {option('overwrite')}"
            )
        if not resume:
            raise FileExistsError(f"{self.folder} has this run already; use {option('resume')} or {option('overwrite')}")

    def begin(self, settings: TuneSettings) -> None:
        """Take the folder for this run; called when the data has been read and checked."""
        # Of several processes that train together, the first writes; one that begins twice has the lock already.
        if not is_first_process() or (self._unlock is not None and self._unlock.alive):
            return
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._unlock = weakref.finalize(self, Lock(self.target).release)
        values, new = _as_json(settings), hidden(self.target, "new")
        self._choose_folder(values)  # again: another process may have been here before the lock was ours
        if self.folder == new or not MARKER.is_in(self.target):  # otherwise the run in the folder is continued
            # What is in the hidden folder is continued if it is the same run, and thrown away otherwise.
            if not (self._resume and MARKER.is_in(new) and read_settings(new) == values):
                shutil.rmtree(new, ignore_errors=True)
                (new / "checkpoints").mkdir(parents=True)
                write_json(new / MARKER.file, {**MARKER.about, **values})
            if self.folder != new:
                replace_folder(new, self.target)
            elif self.finished:
                self._take_place()  # of a process that was killed at the very end
        if not self.finished:
            UNFINISHED.add(self.folder)

    @property
    def finished(self) -> bool:
        """Whether the folder has the run's result."""
        recover_files(self.folder, ABOUT)
        return (self.folder / ABOUT).exists()

    def save_model(self, save: Callable[[Path], None]) -> None:
        """Write the fine-tuned encoder, complete or not at all."""
        with atomic_folder(self.model, overwrite=True) as partial, quiet_loading():
            save(partial)

    def finish(self, result: Result) -> None:
        """Save the result, which marks the run as finished, and remove the checkpoints."""
        result.save(self.folder)
        UNFINISHED.discard(self.folder)
        self._take_place()

    def _take_place(self) -> None:
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        if self.folder != self.target:
            sync_all(self.folder)
            replace_folder(self.folder, self.target)
            self.folder = self.target

    def tuned(self) -> Tuned:
        """The finished run, read from its folder."""
        return Tuned(self.target, Result.load(self.target))


def is_first_process() -> bool:
    """Whether this process writes and prints: of several that train together, only the first does."""
    return os.environ.get("RANK", "0") == "0"


def require_replaceable(settings: TuneSettings, *sources: str | os.PathLike[str] | None) -> None:
    """Raise an error if a run that replaces another would delete what it is made from."""
    for source in (settings.model, *sources):
        require_outside(Path(settings.output), source)


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings of the run in a folder, as plain values."""
    if not MARKER.is_in(Path(folder)):
        raise FileNotFoundError(f"{folder} is not the folder of a run: it has no {MARKER.file} of the verb {MARKER.verb}")
    values: dict[str, Any] = json.loads((Path(folder) / MARKER.file).read_bytes())
    return {name: value for name, value in values.items() if name not in MARKER.about}


def _as_json(settings: TuneSettings) -> dict[str, Any]:
    """The settings as they come back from JSON, to compare with."""
    values: dict[str, Any] = json.loads(json.dumps(settings.to_dict()))
    return values
