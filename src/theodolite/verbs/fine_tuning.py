"""The verb `tune`: fine-tune an encoder on a task, and measure what that does to its space."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from theodolite.core.result import Result
from theodolite.core.spelling import option
from theodolite.verbs.inputs import Paths, Reading
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
    task: str | Task | None = None,
    to: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    own: Mapping[str, Paths] | None = None,
    kind: str | None = None,
    column: Mapping[str, str] | None = None,
    score_range: tuple[float, float] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    preset: Literal["rp21", "il23", "zs22", "isobn"] | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    pooling: Literal["mean", "cls", "last"] | None = None,
    method: Literal["plain", "isolayer", "isobn", "cosreg", "istar"] = "plain",
    strength: float | None = None,
    published: bool = False,
    layer: Mapping[str, Any] | None = None,
    from_run: str | os.PathLike[str] | None = None,
    strategy: str | None = None,
    validation: float | None = None,
    patience: int | None = None,
    train_rows: int | None = None,
    max_length: int | None = None,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    track: str | int | Sequence[int] | None = None,
    track_hulls: bool = False,
    stop_on_collapse: bool = False,
    resume: bool = True,
    report_to: Sequence[str] = (),
    device: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    allow_unknown: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
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
    to
        Folder for the fine-tuned encoder and all numbers; `theodolite-tuned/MODEL-TASK` (and the method) by default.
    data
        Folder with the task's own release files; the Hugging Face Hub without it.
    own, kind, column, score_range, delimiter, header, encoding
        The user's own files instead of a task, as `theodolite.verbs.inputs.Reading` describes them.
    preset
        Hyper-parameters of a paper; one that fits the task by default.
    epochs, batch_size, learning_rate, pooling
        What differs from the preset.
    method
        plain; isolayer (an Isotropy Layer after a plain run); isobn, cosreg or istar (during training).
    strength
        Weight of the penalty of cosreg or istar; 1 by default.
    published
        IsoBN as its authors' program behaves.
    layer
        Settings of the Isotropy Layer, such as `{"alpha": 0.3, "depth": 2}`.
    from_run
        Finished plain run for isolayer to start from; `{seed}` in it is replaced by the seed.
    strategy
        full, frozen:N (embeddings and the first N layers stay as they are), head, or lora; full by default.
    validation
        Share of the training examples held out for early stopping.
    patience
        Epochs without a better score before stopping.
    train_rows
        Use at most this many training examples.
    max_length
        Number of tokens that a text is cut to.
    seed
        Seed of everything that is random.
    seeds
        Several seeds, one run each in TO/seed-N; the result has median and standard deviation too.
    track
        When to measure the geometry: "epoch" (default), every N steps, a list of steps, or "never".
    track_hulls
        Whether to measure the distances between the labels' convex hulls too.
    stop_on_collapse
        Whether to stop when the space collapses.
    resume
        Whether to continue an interrupted run.
    report_to
        Dashboards: tensorboard, wandb.
    device
        "auto" or "cpu".
    revision
        Revision of the model on the Hub.
    trust_remote_code
        Whether to run code that comes with the model.
    allow_unknown
        Whether any share of tokens may be unknown to the tokenizer; a fifth is an error otherwise.
    dry_run
        Whether to train a few steps only, keep nothing, and return the time, memory, disk and download that all would take.
    overwrite
        Whether another run in the folder may be replaced.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.

    Returns
    -------
    Result
        Scores before and after, the geometry over the training steps, and the shape of the vectors that the head reads. With
        `dry_run`, the estimates.
    """
    from theodolite.models.location import find_encoder

    table: dict[str, Any] = {"delimiter": delimiter, "header": header, "encoding": encoding}
    reading = Reading(own=own, kind=kind, column=column, score_range=score_range, task=task, **table)
    declared = task if own is None else reading.declared_task()
    reading.declared_task()
    if from_run is None:
        if model is None:
            ways = f"{option('from_run', 'FOLDER')} with {option('method', 'isolayer')}"
            raise ValueError(f"say what to tune: a model, or {ways}")
        if declared is None:
            ways = f"{option('task', 'NAME')}, or {option('own', 'train=FILE')} with {option('kind', 'KIND')}"
            raise ValueError(f"say what to tune on: {ways}")
    if model is not None and from_run is None:
        with suppress(ImportError):  # said better by what loads it
            find_encoder(model, revision=revision)
    # Imports torch, for which the answer to a wrong name should not wait.
    from theodolite.tuning import LayerSettings, plan_runs, tune_runs

    changes = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "pooling": pooling,
        "strategy": strategy,
        "validation": validation,
        "patience": patience,
        "train_rows": train_rows,
        "max_length": max_length,
        "track": track,
        "revision": revision,
        "track_hulls": track_hulls or None,
        "stop_on_collapse": stop_on_collapse or None,
        "report_to": tuple(report_to) or None,
        "trust_remote_code": trust_remote_code or None,
        "allow_unknown": allow_unknown or None,
        "device": None if device == "auto" else device,
    }
    options: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if validation == 0 and patience is None:
        options["patience"] = None  # a preset's patience needs examples to judge by
    folder = Path(to) if to is not None else _default_folder(model, from_run, declared, method)
    runs = plan_runs(
        model,
        to=folder,
        task=declared,
        seed=seed,
        seeds=seeds,
        method=method,
        strength=strength,
        published=published,
        layer=None if layer is None else LayerSettings.from_options(layer),
        plain=from_run,
        preset_name=preset,
        **options,
    )
    if dry_run:
        return _dry_run(runs, data)
    with progress_bars(progress) as bars:
        return tune_runs(runs, to=folder, data=data, resume=resume, overwrite=overwrite, progress=bars.steps("training"))


def _dry_run(runs: Sequence[PlannedRun], data: str | os.PathLike[str] | None) -> Result:
    """Which runs are still to do, with how many steps each, and what would be downloaded."""
    from theodolite.models.downloads import download_of
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
