"""Fine-tune an encoder on a task: load, score, train with its geometry tracked, score again, save."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers import set_seed

from theodolite.core.rows import Row, current_versions
from theodolite.models.extra import quietly
from theodolite.tuning.model_card import write_card
from theodolite.tuning.run import Run, Tuned
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.shape import shape_rows
from theodolite.tuning.splits import Splits, load_splits
from theodolite.tuning.tracking import TEXTS, GeometryCallback, GeometryTracker, read_whole_lines
from theodolite.tuning.trainers import Job, fit, prepare
from theodolite.tuning.undisturbed import kept_random_state

Progress = Callable[[int, int], None]


def tune(
    settings: TuneSettings,
    *,
    data: str | os.PathLike[str] | None = None,
    resume: bool = True,
    overwrite: bool = False,
    plain: str | os.PathLike[str] | None = None,
    vectors: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Fine-tune as the settings say and return scores before and after, losses and geometry; all of it is in `settings.output`.

    `data` is the folder of the task's own files (none: the hub). A run that was cut off goes on from its last whole checkpoint,
    and ends with the very weights it would have had. A finished one is only read. `progress` is called with (steps done, steps).

    Method `isolayer` takes the finished plain run in the folder `plain`, which has to have the same settings, or makes one in
    `output`/plain. `vectors` is a folder that gets the tracked vectors of every measured step, for a look at them afterwards.
    """
    if plain is not None and settings.method != "isolayer":
        raise ValueError(f"a plain run to start from is for method 'isolayer', not {settings.method!r}")
    run = Run.open(settings, resume=resume, overwrite=overwrite)
    if run.finished:
        return run.result()
    with kept_random_state():
        splits = load_splits(settings, data)
        if settings.method == "isolayer":
            from theodolite.tuning.layer_run import tune_layer

            return tune_layer(settings, run, splits, plain_run(settings, run, splits, plain, progress), progress)
        return _train(settings, run, splits, progress, vectors)


def plain_run(
    settings: TuneSettings, run: Run, splits: Splits, plain: str | os.PathLike[str] | None, progress: Progress | None
) -> Run:
    """The plain run that a layer is put into: the finished one that is named, or one inside the run's own folder."""
    folder = run.folder / "plain" if plain is None else Path(plain)
    same = replace(settings, method="plain", layer=None, output=str(folder))
    if plain is not None and not (folder / "done.json").is_file():
        raise FileNotFoundError(f"{folder} holds no finished run; finish it first, or leave it out to have one made")
    found = Run.open(same, resume=True, overwrite=False)
    if plain is None:
        run.begin(settings)
    if not found.finished:
        _train(same, found, splits, progress)
    return found


def _train(
    settings: TuneSettings,
    run: Run,
    splits: Splits,
    progress: Progress | None,
    vectors: str | os.PathLike[str] | None = None,
) -> Tuned:
    run.begin(settings)
    set_seed(settings.seed)  # heads and low-rank additions start at random
    job = make_job(settings, splits, run)
    before, shape = job.score(splits.dev), _shape(settings, splits, job, "pre-trained", 0)
    prepare(job.trainer, settings, progress)
    if settings.track is not None:
        GeometryCallback(make_tracker(settings, splits, job, run, vectors)).attach(job.trainer)
    set_seed(settings.seed)
    fit(job.trainer, run.checkpoints)
    after = job.score(splits.dev)
    state = job.trainer.state
    shape += _shape(settings, splits, job, "fine-tuned", state.global_step)
    best = _best_epoch(settings, state)
    scores = _scores(settings, splits, before, after, state.global_step)
    rows = [*scores, *shape, *_losses(settings, splits, state), *_geometry(run)]
    facts = {"before": _or_null(before[0]), "after": _or_null(after[0]), "best_epoch": best, "steps": state.global_step}

    def save(folder: Path) -> None:
        job.save(folder)
        if settings.method != "plain":
            write_card(folder, rows, settings)

    if job.trainer.is_world_process_zero():
        save_whole(save, run)
        run.finish(rows, **facts)
    job.trainer.accelerator.wait_for_everyone()  # the others read what one has written
    return run.result()


def make_job(settings: TuneSettings, splits: Splits, run: Run) -> Job:
    """The model and trainer for the kind of task."""
    if settings.is_siamese:
        from theodolite.tuning.siamese import Siamese

        return Siamese(settings, splits, run.checkpoints)
    from theodolite.tuning.classify import Classify

    return Classify(settings, splits, run.checkpoints)


def make_tracker(
    settings: TuneSettings, splits: Splits, job: Job, run: Run, vectors: str | os.PathLike[str] | None = None
) -> GeometryTracker:
    """The tracker of a run: the pooling that trains, on examples of the scored split."""
    assert settings.track is not None
    return GeometryTracker(
        splits.dev,
        job.tokenizer,
        every=settings.track,
        unit=settings.pooled,
        hulls=settings.track_hulls,
        texts=settings.track_texts or affordable_texts(settings, splits),
        seed=settings.seed,
        max_length=settings.max_length,
        stop=settings.stop_on_collapse,
        path=run.geometry,
        vectors=vectors,
        about={
            "model": settings.model,
            "revision": settings.revision or "",
            "task": splits.dev.task.name,
            "split": splits.dev.split,
        },
    )


def affordable_texts(settings: TuneSettings, splits: Splits) -> int:
    """As many texts as cost about 3 % of the training, a step of it counted as three forward passes; from 32 to 256."""
    texts = len(splits.train.texts) * (2 if settings.is_siamese else 1)
    share = 0.03 * settings.epochs / (settings.epochs + 1)
    return max(32, min(TEXTS, int(share * 3 * texts)))


def save_whole(save: Callable[[Path], None], run: Run) -> None:
    """The fine-tuned encoder, whole or absent."""
    partial = run.folder / ".model.partial"
    for old in (partial, run.model):
        shutil.rmtree(old, ignore_errors=True)
    partial.mkdir(parents=True)
    with quietly():
        save(partial)
    os.replace(partial, run.model)


def _scores(
    settings: TuneSettings, splits: Splits, before: tuple[float, str], after: tuple[float, str], steps: int
) -> Iterator[Row]:
    untrained, done = "" if settings.is_siamese else "untrained head", method_name(settings)
    for (value, reason), state, step, setting in ((before, "pre-trained", 0, untrained), (after, "fine-tuned", steps, done)):
        yield Row(
            metric=splits.dev.task.score,
            value=value,
            reason=reason,
            n=len(splits.dev),
            setting=setting,
            split=splits.dev.split,
            **about(settings, state, step),
        )


def _losses(settings: TuneSettings, splits: Splits, state: Any) -> Iterator[Row]:
    """Losses and validation scores, from the trainer's own history."""
    name = splits.dev.task.score
    for entry in state.log_history:
        told = about(settings, "fine-tuning", entry["step"])
        if "loss" in entry:
            yield Row(metric="train_loss", value=entry["loss"], split="train", n=len(splits.train), **told)
        value = entry.get(f"eval_{name}_cosine" if settings.is_siamese else f"eval_{name}")
        if value is not None and splits.validation is not None:
            reason = f"{name} is not defined on the validation rows" if math.isnan(value) else ""
            yield Row(metric=name, value=value, reason=reason, split="validation", n=len(splits.validation), **told)


def _geometry(run: Run) -> list[Row]:
    return read_whole_lines(run.geometry)


def method_name(settings: TuneSettings) -> str:
    """The method and what was chosen for it, as rows name it; nothing for a plain run."""
    if settings.method == "plain":
        return ""
    chosen = {"strength": settings.strength, "published": settings.published or None}
    return " ".join([settings.method, *(f"{name}={value}" for name, value in chosen.items() if value is not None)])


def _shape(settings: TuneSettings, splits: Splits, job: Job, state: str, step: int) -> list[Row]:
    """The shape of the head's vectors of the scored split."""
    vectors = job.vectors(splits.dev)
    if vectors is None:
        return []
    told = about(settings, state, step)
    return shape_rows(vectors, {**told, "split": splits.dev.split, "setting": method_name(settings) if step else ""})


def about(settings: TuneSettings, state: str, step: int) -> dict[str, Any]:
    """What every row of a run says of where it comes from."""
    return {
        "model": settings.model,
        "revision": settings.revision or "",
        "state": state,
        "step": step,
        "task": settings.declared.name,
        "seed": settings.seed,
        "versions": versions(),
    }


def versions() -> str:
    """The versions a fine-tuned model was made with."""
    names = ("torch", "transformers", "sentence-transformers", "accelerate")
    return "; ".join([current_versions(), *(f"{name} {version(name)}" for name in names)])


def _best_epoch(settings: TuneSettings, state: Any) -> float:
    """The epoch whose weights are kept: the best on the validation rows, otherwise the last that was trained."""
    steps = state.best_global_step if settings.validation and state.best_global_step else state.global_step
    return float(round(steps * settings.epochs / state.max_steps, 3))


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value
