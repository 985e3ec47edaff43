"""What the trainers of transformers and sentence-transformers have in common here: arguments, guards and resuming."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback, TrainerState

from theodolite.models.batches import Progress
from theodolite.models.encoder import Encoder
from theodolite.tasks.examples import Examples
from theodolite.tuning.resume import SealedCheckpoints, last_checkpoint, sealed_facts
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import TuneSettings


class Diverged(ValueError):
    """The loss is not a finite number any more; a lower learning rate is the way out."""


class Job(Protocol):
    """A model with its trainer: what a run needs of each kind of task."""

    trainer: Any
    encoder: Encoder
    # The examples that can be used; words that were cut off are gone.
    splits: Splits

    def score(self, examples: Examples) -> tuple[float, str]:
        """The main score of the model as it is now, or nan and the reason."""

    def vectors(self, examples: Examples) -> NDArray[Any] | None:
        """The vectors (n, d) that the head takes of each text now; None if there is no such vector."""

    def save(self, folder: Path) -> None:
        """Write the encoder so that the libraries load it, and the head next to it."""


class FiniteLoss:
    """Ends the training at the first loss that is nan or infinite; trainers by themselves would go on."""

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The trainer's own step, with its loss checked."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)  # type: ignore[misc]  # of the trainer, which comes next
        if not bool(torch.isfinite(loss).all()):
            state, settings = self.state, self.args  # type: ignore[attr-defined]
            raise Diverged(
                f"the loss is {loss.item()} at step {state.global_step + 1} with learning rate {settings.learning_rate:g}: the "
                "training has diverged; use a lower learning rate or a longer warm-up"
            )
        return loss


def load_encoder(settings: TuneSettings) -> Encoder:
    """The encoder that a run starts from, in full precision and on the CPU: trainers move it to their device.

    Parameters
    ----------
    settings
        The run's settings.
    """
    return Encoder.load(
        settings.model,
        revision=settings.revision,
        device="cpu",
        trust_remote_code=settings.trust_remote_code,
        max_length=settings.max_length,
    )


def trainer_arguments(settings: TuneSettings, folder: Path, *, rows: int, metric: str | None) -> dict[str, Any]:
    """The arguments of either library's trainer.

    Parameters
    ----------
    settings
        The run's settings.
    folder
        Where checkpoints go.
    rows
        Number of training examples.
    metric
        What the best epoch is chosen by; None without validation rows.
    """
    # The trainer takes warm-up in steps, and does not say how many there are before it starts.
    per_epoch = math.ceil(rows / (settings.batch_size * world_size()))
    return {
        "output_dir": str(folder),
        "num_train_epochs": settings.epochs,
        "per_device_train_batch_size": settings.batch_size,
        "per_device_eval_batch_size": 2 * settings.batch_size,
        "learning_rate": settings.learning_rate,
        "weight_decay": settings.weight_decay,
        "lr_scheduler_type": "linear" if settings.schedule == "linear" else "constant_with_warmup",
        "warmup_steps": math.ceil(settings.warmup * per_epoch * settings.epochs),
        "optim": "adamw_torch",
        "seed": settings.seed,
        "data_seed": settings.seed,
        "save_strategy": "epoch",
        "eval_strategy": "epoch" if metric else "no",
        "load_best_model_at_end": metric is not None,
        "metric_for_best_model": metric,
        "greater_is_better": True if metric else None,
        # Otherwise a continued run would forget how many epochs brought no better score.
        "restore_callback_states_from_checkpoint": True,
        "logging_strategy": "steps",
        "logging_steps": max(1, per_epoch // 10),
        "logging_nan_inf_filter": False,  # a loss that is not finite ends the run; it must not be smoothed away
        "report_to": list(settings.report_to) or "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,  # items are not rows of a table
        "use_cpu": settings.device == "cpu",
        "dataloader_pin_memory": torch.cuda.is_available(),
    }


def world_size() -> int:
    """Number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def prepare_trainer(trainer: Any, settings: TuneSettings, progress: Progress | None) -> None:
    """Add what every run has (sealed checkpoints, early stopping, progress) and remove what prints.

    Parameters
    ----------
    trainer
        A trainer of either library.
    settings
        The run's settings.
    progress
        Called with the number of steps that are done, and of all.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(SealedCheckpoints(save_steps=settings.save_steps))
    if settings.patience is not None:
        trainer.add_callback(EarlyStoppingCallback(early_stopping_patience=settings.patience))
    if progress is not None:
        trainer.add_callback(_ProgressCallback(progress))


def train_or_resume(trainer: Any, folder: Path) -> None:
    """Train from the newest complete checkpoint, or from the start; the weights are then the best epoch's, or the last.

    Parameters
    ----------
    trainer
        A trainer of either library.
    folder
        The folder of its checkpoints.
    """
    checkpoint = last_checkpoint(folder)
    facts = None if checkpoint is None else sealed_facts(checkpoint)
    if checkpoint is not None and facts is not None and facts["stopped"]:
        # The training had ended, perhaps early; the trainer would continue it.
        trainer.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        best = folder / f"checkpoint-{trainer.state.best_global_step}"
        trainer._load_from_checkpoint(str(best if trainer.args.load_best_model_at_end and best.is_dir() else checkpoint))
        return
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


class _ProgressCallback(TrainerCallback):
    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if state.is_world_process_zero:
            self.progress(state.global_step, state.max_steps)
