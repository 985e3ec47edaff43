"""What fine-tuning runs would take, from a few real steps of training and a few scored examples."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import PrinterCallback, TrainerCallback, set_seed
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from theodolite.core.numbers import bytes_text
from theodolite.core.result import Result
from theodolite.models.estimates import Cost, download_of, dry_run_result, measurable, peak_memory, start_memory
from theodolite.models.location import model_name
from theodolite.tuning.planning import PlannedRun
from theodolite.tuning.runs import Run, Splits, load_splits
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.tracked_sample import preserved_random_state
from theodolite.tuning.trainers import world_size
from theodolite.tuning.training import make_job

# Steps that are trained, of which the first are not timed, and examples that are scored.
STEPS, WARM_UP = 6, 2
SCORED = 200
# A checkpoint has the weights and AdamW's two averages of them; the newest and the best are kept while the run trains.
COPIES = 2 * 3


class _StepTimes(TrainerCallback):
    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self.times.append(time.perf_counter())


def training_cost(settings: TuneSettings, data: str | os.PathLike[str] | None, *, only_layer: bool = False) -> Cost:
    """What one run takes; nothing is written to its folder.

    Parameters
    ----------
    settings
        The run's settings.
    data
        The folder of the task's own files; None for the Hub.
    only_layer
        Whether the plain run that an Isotropy Layer is put into is finished already, so that texts are only encoded.

    Returns
    -------
    Cost
        Of all epochs, even if a run may end early. What an Isotropy Layer takes to train on stored vectors is not in it.
    """
    settings = replace(settings, method="plain", layer=None) if settings.method == "isolayer" else settings
    with TemporaryDirectory() as folder, preserved_random_state():
        splits = load_splits(settings, data)
        set_seed(settings.seed)
        job = make_job(replace(settings, output=folder), splits, Run(Path(folder) / "run"))
        trainer, clock, model = job.trainer, _StepTimes(), job.trainer.model
        device = next(model.parameters()).device
        start_memory(device)
        trainer.args.max_steps = 1 if only_layer else STEPS
        trainer.args.save_strategy, trainer.args.eval_strategy = SaveStrategy.NO, IntervalStrategy.NO
        trainer.args.load_best_model_at_end = False
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(clock)
        trainer.train()
        part = splits.dev.take(range(min(SCORED, len(splits.dev))))
        job.score(part)  # not timed: the first pass
        start = time.perf_counter()
        job.score(part)
        per_example = (time.perf_counter() - start) / len(part)
        memory = peak_memory(device)
        weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    if only_layer:
        return Cost(per_example * _examples(splits), memory, weights)
    steps = [later - earlier for earlier, later in zip(clock.times, clock.times[1:], strict=False)]
    per_step = statistics.mean(steps[WARM_UP - 1 :])
    count = settings.epochs * math.ceil(len(trainer.train_dataset) / (settings.batch_size * world_size()))
    passes = 2 if settings.is_siamese else 4  # scores before and after, and the vectors that a head takes
    scored = passes * len(splits.dev) + settings.epochs * len(splits.validation or ())
    return Cost(count * per_step + scored * per_example, memory, (COPIES + 1) * weights)


def _examples(splits: Splits) -> int:
    return sum(len(part) for part in (splits.train, splits.validation, splits.dev) if part is not None)


def estimate_runs(runs: Sequence[PlannedRun], *, data: str | os.PathLike[str] | None) -> Result:
    """What the runs that `plan_runs` planned would take, one after the other; what is finished already takes nothing.

    Parameters
    ----------
    runs
        The planned runs, which differ in their seeds.
    data
        As in `fine_tune`.
    """
    missing = [run for run in runs if not Run(run.settings.output).finished]
    settings = (missing or runs)[0].settings
    download = download_of(settings.model, revision=settings.revision)
    notes = [] if len(missing) == len(runs) == 1 else [f"{len(missing)} of {len(runs)} runs are still to do, one after the other"]
    cost = Cost(0.0, 0)
    if missing:
        with TemporaryDirectory() as folder:
            place = measurable(settings.model, download, Path(folder), trust_remote_code=settings.trust_remote_code)
            revision = settings.revision if place == settings.model else None
            cost = training_cost(replace(settings, model=place, revision=revision), data, only_layer=missing[0].plain is not None)
        at_end = cost.disk if missing[0].plain is not None else cost.disk // (COPIES + 1)
        notes.append(f"{bytes_text(at_end * len(missing))} of it stay at the end; the rest are checkpoints")
        if settings.method == "isolayer":
            notes.append("the Isotropy Layer itself, trained on stored vectors, is not in the time: seconds to minutes")
        if settings.patience is not None:
            notes.append(f"the time is that of all {settings.epochs} epochs; early stopping may end the run sooner")
        disk = cost.disk + at_end * (len(missing) - 1)
        cost = Cost(cost.seconds * len(missing), cost.memory, disk)
    name, task = model_name(settings.model), settings.declared.name
    return dry_run_result(f"fine-tuning {name} on {task}", cost, download, notes, model=name, task=task)
