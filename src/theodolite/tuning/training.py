"""Fine-tune an encoder on a task: load, score, train with its geometry tracked, score again, save; or train an Isotropy Layer."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from accelerate import PartialState
from transformers import set_seed

from theodolite.core.files import atomic_file, write_json
from theodolite.core.parallel import Progress
from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, FINE_TUNING, ISOLAYER, PRE_TRAINED
from theodolite.models.export import add_dense
from theodolite.models.location import model_name
from theodolite.repairs.base import FittingPath
from theodolite.tasks.scores import learning, score
from theodolite.tuning.classifier import ClassifierJob
from theodolite.tuning.heads import Features, TextDataset, embed, truth_and_answers
from theodolite.tuning.isotropy_layer import IsotropyLayer, TrainedLayer, train_layer
from theodolite.tuning.results import (
    Again,
    loss_rows,
    median_answer,
    over_seeds,
    row_fields,
    run_result,
    shape_rows,
    validation_row,
    write_card,
)
from theodolite.tuning.run_plans import PlannedRun
from theodolite.tuning.runs import MARKER, Run, Splits, Tuned, is_first_process, load_splits, read_settings, require_replaceable
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.tracked_sample import preserved_random_state
from theodolite.tuning.tracker import TEXTS, GeometryCallback, GeometryTracker, read_complete_lines
from theodolite.tuning.trainers import prepare_trainer, train_or_resume, world_size
from theodolite.tuning.tuned_classifier import TunedClassifier

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
    origin = {"model": model_name(settings.model), "revision": settings.revision or "", "task": dev.task.name, "split": dev.split}
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
        about=origin,
    )


def _notes(splits: Splits, used: Splits) -> list[str]:
    """A sentence about words that were left out, if there are any."""
    total, rest = (sum(map(len, some.by_name().values())) for some in (splits, used))
    return [f"{total - rest} of {total} words of the task were cut off or have no tokens, and were left out."] * (rest < total)


def _affordable_texts(settings: TuneSettings, splits: Splits) -> int:
    """As many texts as cost about 3% of the training, a step of which costs three forward passes; from 32 to 256."""
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


FEATURES = "features.safetensors"


def train_run_layer(
    settings: TuneSettings, run: Run, splits: Splits, plain: Run, progress: Progress | None, again: Again | None = None
) -> Tuned:
    """Train a layer for a plain run and write the run: model with layer, rows before and after, model card."""
    if world_size() > 1:
        raise ValueError("an Isotropy Layer trains in one process: run the plain run with several, then start from it with one")
    assert settings.layer is not None
    classifier = TunedClassifier.from_pretrained(
        plain.model, device=settings.device, max_length=settings.max_length, trust_remote_code=settings.trust_remote_code
    )
    layer = IsotropyLayer(classifier.model.head.in_features, **settings.layer.of_layer)
    classifier.insert(layer)
    run.begin(settings)
    if run.finished:  # by another process, meanwhile
        return run.tuned()
    # With the plain run, so that layers with other settings share them; with this one if that folder cannot be written.
    home = plain.folder if os.access(plain.folder, os.W_OK) else run.folder
    datasets = {name: classifier.dataset(examples) for name, examples in splits.by_name().items()}
    features = cached_features(
        home / FEATURES,
        features_key(classifier.encoder.fingerprint(), datasets),
        lambda: {name: embed(classifier.model, dataset, progress=progress) for name, dataset in datasets.items()},
        device=str(classifier.encoder.device),
    )
    metric, dev = settings.declared.score, features["dev"]

    def answers_of(labels: torch.Tensor, logits: torch.Tensor) -> tuple[Any, Any]:
        return truth_and_answers(labels.cpu().numpy(), logits.detach().float().cpu().numpy())

    def measured(state: str, step: int, setting: str) -> list[Row]:
        X, logits = classifier.through(dev.vectors)
        value, reason = score(metric, *answers_of(dev.labels, logits))
        fields = {**row_fields(settings, state, step), "split": splits.dev.split, "setting": setting}
        return [Row(metric=metric, value=value, reason=reason, n=len(X), **fields), *shape_rows(X.float().cpu().numpy(), fields)]

    before = measured(FINE_TUNED, plain.tuned().steps, "")
    trained = train_layer(
        classifier.model,
        features["train"],
        features["validation"],
        lambda labels, logits: score(metric, *answers_of(labels, logits))[0],
        settings.layer,
        seed=settings.seed,
        progress=progress,
    )
    after = measured(ISOLAYER, trained.steps, settings.layer.summary())
    rows = [*before, *after, *_epoch_rows(settings, trained, splits)]

    def save(folder: Path) -> None:
        classifier.save_pretrained(folder)
        if layer.settings["activation"] == "identity":
            # Pooling and the linear layer as sentence-transformers' own modules, so that it loads the folder's vectors.
            weight, bias = (tensor.cpu().numpy() for tensor in layer.affine())
            limits = {"max_seq_length": classifier.encoder.max_length, "do_lower_case": False}
            write_json(folder / "sentence_bert_config.json", limits)
            add_dense(folder, weight.T, bias, path=FittingPath(unit=settings.pooled))
        write_card(folder, rows, settings)

    run.save_model(save)
    learned = learning(metric, *answers_of(dev.labels, classifier.through(dev.vectors)[1]))
    run.finish(run_result(settings, rows, learned, best_epoch=trained.best.number, steps=trained.steps, again=again))
    return run.tuned()


def _epoch_rows(settings: TuneSettings, trained: TrainedLayer, splits: Splits) -> list[Row]:
    """Losses and validation scores of every epoch, and how long all of them took."""
    assert splits.validation is not None
    train: dict[str, Any] = {"split": "train", "n": len(splits.train)}
    validation: dict[str, Any] = {"split": "validation", "n": len(splits.validation)}
    rows = []
    for epoch in trained.epochs:
        fields = {**row_fields(settings, FINE_TUNING, epoch.number), "setting": f"isolayer: training {epoch.trained}"}
        rows += [
            Row(metric="train_loss", value=epoch.loss, **train, **fields),
            Row(metric="train_task_loss", value=epoch.task_loss, **train, **fields),
            validation_row(settings.declared.score, epoch.score, len(splits.validation), fields),
            Row(metric="iso_score", value=epoch.iso_score, **validation, **fields),
        ]
    return [*rows, Row(metric="train_seconds", value=trained.seconds, **train, **row_fields(settings, ISOLAYER, trained.steps))]


def features_key(fingerprint: str, datasets: Mapping[str, TextDataset]) -> str:
    """SHA-256 of all that features depend on."""
    digests = {name: dataset.plan.digest(dataset.targets, dataset.texts) for name, dataset in datasets.items()}
    return hashlib.sha256(json.dumps([fingerprint, digests]).encode()).hexdigest()


def cached_features(path: Path, key: str, make: Callable[[], dict[str, Features]], *, device: str = "cpu") -> dict[str, Features]:
    """The features of each split from a file, if it was written under the same key; otherwise they are made and written."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

    try:
        with safe_open(path, framework="pt", device=device) as file:
            if (file.metadata() or {}).get("key") == key:
                names = sorted({name.rpartition(".")[0] for name in file.keys()})  # noqa: SIM118  # it is not a mapping
                return {name: Features(file.get_tensor(f"{name}.vectors"), file.get_tensor(f"{name}.labels")) for name in names}
    except (OSError, SafetensorError):  # absent or damaged
        pass
    features = make()
    tensors = {f"{name}.vectors": split.vectors.contiguous() for name, split in features.items()}
    tensors |= {f"{name}.labels": split.labels.contiguous() for name, split in features.items()}
    with atomic_file(path) as partial:
        save_file(tensors, partial, metadata={"key": key})
    return features
