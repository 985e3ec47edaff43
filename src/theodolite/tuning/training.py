"""Fine-tune an encoder on a task: load, score, train with its geometry tracked, score again, save."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from accelerate import PartialState
from transformers import set_seed

from theodolite.core.parallel import Progress
from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.models.location import model_name
from theodolite.tasks.scores import learning, score
from theodolite.tuning.classifier import ClassifierJob
from theodolite.tuning.isolayer.run import train_run_layer
from theodolite.tuning.results import (
    Again,
    loss_rows,
    median_answer,
    over_seeds,
    row_fields,
    run_result,
    shape_rows,
    write_card,
)
from theodolite.tuning.run_plans import PlannedRun
from theodolite.tuning.runs import MARKER, Run, Splits, Tuned, is_first_process, load_splits, read_settings, require_replaceable
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.tracked_sample import preserved_random_state
from theodolite.tuning.tracker import TEXTS, GeometryCallback, GeometryTracker, read_complete_lines
from theodolite.tuning.trainers import prepare_trainer, train_or_resume, world_size

if TYPE_CHECKING:
    from theodolite.tuning.siamese import SiameseJob

# A model with its trainer, and the examples that it can use.
Job: TypeAlias = "ClassifierJob | SiameseJob"


def fine_tune(
    settings: TuneSettings,
    *,
    data: str | os.PathLike[str] | None = None,
    resume: bool = True,
    overwrite: bool = False,
    plain: str | os.PathLike[str] | None = None,
    vectors: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    again: Again | None = None,
) -> Tuned:
    """Do one run: fine-tune, score before and after, measure losses and geometry, and write all of it to `settings.output`.

    A run that was interrupted continues from its last complete checkpoint, and ends with the very weights it would have had. A
    finished one is only read.

    Parameters
    ----------
    settings
        The run's settings.
    data
        The folder of the task's own files; None for the Hub.
    resume
        Whether a run in the folder may be continued; otherwise it is an error.
    overwrite
        Whether a run in the folder is replaced, once this one is finished.
    plain
        For method "isolayer": the folder of a finished plain run with the same settings. By default one is made in
        `output`/plain.
    vectors
        A folder for the tracked vectors of every measured step, to be read with `read_steps`.
    progress
        Called with the number of steps that are done, and of all.
    again
        The command that repeats the run with the settings it is called with, for the answer of a run that did not learn.

    Raises
    ------
    Diverged
        The loss is not a finite number.
    FileExistsError
        The folder has another run, or files of something else.
    BusyError
        Another process is making this run.
    """
    if plain is not None and settings.method != "isolayer":
        raise ValueError(f"a plain run to start from is for method isolayer, not {settings.method!r}")
    if overwrite:
        require_replaceable(settings, plain, data)
    with Run.open(settings, resume=resume, overwrite=overwrite) as run, preserved_random_state():
        if world_size() > 1:  # all have looked at the folder before one of them writes to it
            PartialState(cpu=settings.device == "cpu").wait_for_everyone()
        if run.finished and not overwrite:
            return run.tuned()
        splits = load_splits(settings, data)
        if settings.method == "isolayer":
            plain_run = _plain_run(settings, run, splits, plain, progress)
            return train_run_layer(settings, run, splits, plain_run, progress, None if plain is not None else again)
        return _train(settings, run, splits, progress, vectors, again)


def tune_runs(
    runs: Sequence[PlannedRun],
    *,
    to: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    resume: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
    again: Again | None = None,
) -> Result:
    """Do the runs that `plan_runs` planned, one after the other; what is finished already is only read.

    Parameters
    ----------
    runs
        The planned runs.
    to
        The folder that all of them are in.
    data, resume, overwrite, progress, again
        As in `fine_tune`, for each run.

    Returns
    -------
    Result
        Of a single run in `to`, its own. Of one run per seed, the rows of all, preceded by median and standard deviation over
        the seeds; it is saved in `to`.
    """
    single = [Path(run.settings.output) for run in runs] == [Path(to)]
    if not single and MARKER.is_in(Path(to)):
        raise FileExistsError(f"{to} is the folder of a single run; name another folder for the runs of several seeds")
    options: dict[str, Any] = {"data": data, "resume": resume, "overwrite": overwrite, "progress": progress, "again": again}
    results = [fine_tune(run.settings, plain=run.plain, **options).result for run in runs]
    if single:
        return results[0]
    joined = Result.joined(results, title=f"{results[0].title}, {len(runs)} seeds")
    seeds = [run.settings.seed for run in runs]
    provenance = {
        **joined.provenance,
        "settings": {**joined.provenance["settings"], "seed": seeds},
        "outcome": {str(seed): result.provenance["outcome"] for seed, result in zip(seeds, results, strict=True)},
    }
    rows, notes = (*over_seeds(joined.rows), *joined.rows), tuple(dict.fromkeys(joined.notes))
    # A limit that all seeds share is said once.
    concluded: dict[str, Any] = {"answer": median_answer(results, to), "conditions": tuple(dict.fromkeys(joined.conditions))}
    summary = replace(joined, rows=rows, notes=notes, provenance=provenance, **concluded)
    if is_first_process():
        summary.save(to)
    return summary


def _plain_run(
    settings: TuneSettings, run: Run, splits: Splits, plain: str | os.PathLike[str] | None, progress: Progress | None
) -> Run:
    """The plain run that a layer is put into: the finished one that is named, or one inside the run's own folder."""
    if plain is None:
        run.begin(settings)
    folder = run.folder / "plain" if plain is None else Path(plain)
    plain_settings = replace(settings, method="plain", layer=None, output=str(folder))
    if plain is not None:
        if not Run(folder).finished:
            raise FileNotFoundError(f"{folder} does not have a finished run; finish it first, or leave it out to have one made")
        # Which split it was scored on changes nothing in its weights.
        plain_settings = replace(plain_settings, eval_split=read_settings(folder).get("eval_split"))
    with Run.open(plain_settings, resume=True, overwrite=False) as plain_run:
        if not plain_run.finished:
            _train(plain_settings, plain_run, splits, progress)
    return plain_run


def _train(
    settings: TuneSettings,
    run: Run,
    splits: Splits,
    progress: Progress | None,
    vectors: str | os.PathLike[str] | None = None,
    again: Again | None = None,
) -> Tuned:
    run.begin(settings)
    if run.finished:  # by another process, meanwhile
        return run.tuned()
    set_seed(settings.seed)  # heads and low-rank additions start at random
    job = make_job(settings, splits, run)
    _, untuned = answers = job.answers(job.splits.dev)
    before = _scored(settings, job, answers, PRE_TRAINED, 0)
    prepare_trainer(job.trainer, settings, progress)
    if settings.track is not None:
        GeometryCallback(make_tracker(settings, job, run, vectors)).attach(job.trainer)
    job.trainer.accelerator.wait_for_everyone()  # the folder is as one of them has prepared it
    set_seed(settings.seed)  # the same order of batches whatever was measured before
    train_or_resume(job.trainer, run.checkpoints)
    state = job.trainer.state
    answers = job.answers(job.splits.dev)
    after = _scored(settings, job, answers, FINE_TUNED, state.global_step)
    learned = learning(settings.declared.score, *answers, untuned if settings.is_siamese else None)
    losses = loss_rows(settings, job.splits, state.log_history)
    rows = [before[0], after[0], *before[1:], *after[1:], *losses, *read_complete_lines(run.geometry)]

    def save(folder: Path) -> None:
        job.save(folder)
        if settings.method != "plain":
            write_card(folder, rows, settings)

    if job.trainer.is_world_process_zero():
        run.save_model(save)
        steps = state.best_global_step if settings.validation and state.best_global_step else state.global_step
        best_epoch, notes = round(steps * settings.epochs / state.max_steps, 3), _notes(splits, job.splits)
        run.finish(run_result(settings, rows, learned, best_epoch=best_epoch, steps=state.global_step, notes=notes, again=again))
    job.trainer.accelerator.wait_for_everyone()  # the others read what one has written
    return run.tuned()


def make_job(settings: TuneSettings, splits: Splits, run: Run) -> Job:
    """The model and trainer for the kind of task."""
    if settings.is_siamese:
        from theodolite.tuning.siamese import SiameseJob  # sentence-transformers takes seconds to import

        return SiameseJob(settings, splits, run.checkpoints)
    return ClassifierJob(settings, splits, run.checkpoints)


def make_tracker(settings: TuneSettings, job: Job, run: Run, vectors: str | os.PathLike[str] | None = None) -> GeometryTracker:
    """The tracker of a run: with the pooling that trains, on examples of the scored split."""
    assert settings.track is not None
    dev = job.splits.dev
    about = {"model": model_name(settings.model), "revision": settings.revision or "", "task": dev.task.name, "split": dev.split}
    return GeometryTracker(
        dev,
        job.encoder.tokenizer,
        every=settings.track,
        unit=settings.pooled,
        hulls=settings.track_hulls,
        size=settings.track_texts or _affordable_texts(settings, job.splits),
        seed=settings.seed,
        max_length=settings.max_length,
        stop=settings.stop_on_collapse,
        path=run.geometry,
        vectors=vectors,
        most_rows=settings.track_rows,
        about=about,
    )


def _notes(splits: Splits, used: Splits) -> list[str]:
    """A sentence about words that were left out, if there are any."""
    whole, rest = (sum(len(part) for part in (s.train, s.validation, s.dev) if part is not None) for s in (splits, used))
    return [f"{whole - rest} of {whole} words of the task were cut off or have no token, and were left out."] * (rest < whole)


def _affordable_texts(settings: TuneSettings, splits: Splits) -> int:
    """As many texts as cost about 3 % of the training, a step of which costs three forward passes; from 32 to 256."""
    texts = len(splits.train.texts) * (2 if settings.is_siamese else 1)
    # The geometry is measured once more than there are epochs: before the first.
    share = 0.03 * settings.epochs / (settings.epochs + 1)
    return max(32, min(TEXTS, int(share * 3 * texts)))


def _scored(settings: TuneSettings, job: Job, answers: tuple[Any, Any], state: str, step: int) -> list[Row]:
    """The main score of the scored split as the first row, then the shape of the vectors that the head takes of it."""
    dev = job.splits.dev
    value, reason = score(dev.task.score, *answers)
    fields: dict[str, Any] = {**row_fields(settings, state, step), "split": dev.split}
    method = settings.method_summary() if step else ""
    untrained = "untrained head" if not step and not settings.is_siamese else ""
    main = Row(metric=dev.task.score, value=value, reason=reason, n=len(dev), setting=method or untrained, **fields)
    X = job.vectors(dev)
    return [main, *([] if X is None else shape_rows(X, {**fields, "setting": method}))]
