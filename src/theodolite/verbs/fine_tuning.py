"""The verb `tune`: fine-tune an encoder on a task, and measure what that does to its space."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.core.result import Result
from theodolite.core.spelling import command, option, suggestion, with_options
from theodolite.tuning.settings import LayerSettings, TuneSettings
from theodolite.tuning.tune_options import TUNE_DEFAULTS, TUNE_OPTIONS, TuneOptions
from theodolite.verbs.inputs import Reading, typed_option
from theodolite.verbs.progress import Progress, progress_bars

if TYPE_CHECKING:
    from theodolite.tasks.task import Task
    from theodolite.tuning.run_plans import PlannedRun

# Where runs go if no folder is named.
FOLDER = "theodolite-tuned"


def tune(
    model: str | os.PathLike[str] | None = None,
    /,
    *,
    progress: bool | Progress | None = None,
    **options: Unpack[TuneOptions],
) -> Result:
    """Fine-tune an encoder on a task, and measure what that does to its space.

    An interrupted run continues from its last complete checkpoint, and ends with the same weights. Methods against
    anisotropy also give the score, IsoScore and EV 1 to 3 of the vectors that the head reads, before and after.

    Parameters
    ----------
    model
        Hub id or folder of an encoder, or `demo`; not with `from_run`.
    task
        A task by name (`stsb`, `rte`, `pos`, ...) or as a `Task`.
    data
        Folder with the task's own release files; the Hugging Face Hub without it.
    own, kind, column, score_range, delimiter, header, encoding
        The user's own files instead of a task, as `theodolite.verbs.inputs.Reading` describes them.
    max_length
        Number of tokens that a text is cut to.
    revision
        Revision of the model on the Hub.
    trust_remote_code
        Whether to run code that comes with the model.
    allow_unknown
        Whether any share of tokens may be unknown to the tokenizer; a fifth is an error otherwise.
    {options}
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.

    Returns
    -------
    Result
        Scores before and after, the geometry over the training steps, and the shape of the vectors that the head reads. With
        `dry_run`, what would be done.
    """
    from theodolite.models.location import find_encoder

    for name in options:
        if name not in TUNE_DEFAULTS:
            raise TypeError(f"tune() has no option {name!r}; {suggestion(name, TUNE_DEFAULTS)}")
    values: dict[str, Any] = {**TUNE_DEFAULTS, **options}
    values["report_to"] = tuple(values["report_to"])
    names = ("task", "own", "kind", "column", "score_range", "delimiter", "header", "encoding")
    own_task = Reading(**{name: values[name] for name in names}).declared_task()
    task, from_run = values["task"] if values["own"] is None else own_task, values["from_run"]
    if from_run is None:
        if model is None:
            ways = f"{option('from_run', 'FOLDER')} with {option('method', 'isolayer')}"
            raise ValueError(f"give a model to tune, or {ways}")
        if task is None:
            ways = f"{option('task', 'NAME')}, or {option('own', 'train=FILE')} with {option('kind', 'KIND')}"
            raise ValueError(f"give a task to tune on: {ways}")
        with suppress(ImportError):  # said better by what loads it
            find_encoder(model, revision=values["revision"])
    # Imports torch, for which the answer to a wrong name should not wait.
    from theodolite.tuning import plan_runs, tune_runs

    settings = {
        field.name: values[field.name]
        for field in fields(TuneSettings)
        if field.name in values and values[field.name] not in (None, TUNE_DEFAULTS[field.name])
    }
    if values["layer"] is not None:
        settings["layer"] = LayerSettings.from_options(values["layer"])
    if values["validation"] == 0 and values["patience"] is None:
        settings["patience"] = None  # a preset's patience needs examples to judge by
    folder = _default_folder(model, from_run, task, values["method"]) if values["to"] is None else Path(values["to"])
    settings |= {"task": task, "seed": values["seed"], "seeds": values["seeds"]}
    runs = plan_runs(model, to=folder, plain=from_run, preset_name=values["preset"], **settings)
    if values["dry_run"]:
        return _dry_run(runs, values["data"])
    with progress_bars(progress) as bars:
        rest = {name: values[name] for name in ("data", "resume", "overwrite")}
        return tune_runs(runs, to=folder, **rest, progress=bars.steps("training"), again=_again(model, values, folder))


def _again(model: str | os.PathLike[str] | None, values: Mapping[str, Any], folder: Path) -> Callable[..., str] | None:
    """The command that repeats a run in another folder, with the options it is called with; None if it cannot be typed."""
    if model is None or not (values["task"] is None or isinstance(values["task"], str)):
        return None
    done_with = ("to", "overwrite", "resume", "dry_run")
    chosen = {name: value for name, value in values.items() if name not in done_with and value != TUNE_DEFAULTS[name]}
    typed = dict(typed_option(name, value) for name, value in chosen.items()) | {"to": f"{folder}-2"}
    return lambda **changes: command("tune", os.fspath(model), **{**typed, **changes})


def _show_options() -> None:
    """Put every option of `tune` into its signature and its documentation."""
    shown = {name: (kind, TUNE_DEFAULTS[name]) for name, (kind, _) in TUNE_OPTIONS.items()}
    described = [f"{name}\n    {typed.in_python or typed.help}" for name, (_, typed) in TUNE_OPTIONS.items() if typed is not None]
    tune.__doc__ = (inspect.getdoc(tune) or "").replace("{options}", "\n".join(described))
    tune.__signature__ = with_options(inspect.signature(tune), shown, before=("progress",))  # type: ignore[attr-defined]


_show_options()


def _dry_run(runs: Sequence[PlannedRun], data: str | os.PathLike[str] | None) -> Result:
    """Which runs are still to do, with how many steps each, and what would be downloaded."""
    from theodolite.models.location import download_of
    from theodolite.tuning.runs import Run, load_splits

    settings = runs[0].settings
    download, splits, notes = download_of(settings.model, revision=settings.revision), load_splits(settings, data), []
    for run in runs:
        own = run.settings
        steps = own.epochs * math.ceil(len(splits.train) / own.batch_size)
        work = "puts an Isotropy Layer into a finished run" if run.plain else f"trains for at most {steps:,} steps"
        state = "is done already" if Run(own.output).finished else f"{work} on {len(splits.train):,} examples"
        notes.append(f"seed {own.seed}: {state}; {own.output}")
    title = f"Dry run: fine-tuning {download.name} on {settings.declared.name}"
    return Result(verb="dry run", title=title, notes=(*notes, str(download)))


def _default_folder(model: Any, from_run: Any, task: str | Task | None, method: str) -> Path:
    if from_run is not None:
        return Path(FOLDER) / f"{Path(os.fspath(from_run).replace('{seed}', '')).name or 'run'}-{method}"
    name = os.fspath(model).rstrip("/").rpartition("/")[2]
    words = [name, task if isinstance(task, str) else getattr(task, "name", "task"), *([method] if method != "plain" else [])]
    return Path(FOLDER) / "-".join(words)
