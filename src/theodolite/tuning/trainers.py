"""What both libraries' trainers are told alike, and what is guarded in both."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from numpy.typing import NDArray
from torch import nn
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback, TrainerState

from theodolite.tasks.examples import Examples
from theodolite.tuning.checkpoints import WholeCheckpoints, facts_of, last_whole
from theodolite.tuning.settings import TuneSettings

if TYPE_CHECKING:
    from collections.abc import Callable


class Diverged(RuntimeError):
    """The loss is no number any more."""


class Job(Protocol):
    """A model with its trainer: what `tune` needs to know of each kind of task."""

    trainer: Any
    encoder: nn.Module
    tokenizer: Any

    def score(self, examples: Examples) -> tuple[float, str]:
        """The main score of the model as it is now, or nan and why."""

    def vectors(self, examples: Examples) -> NDArray[Any] | None:
        """The vectors (n, d) that the head takes of each text now; None where there is no such vector."""

    def save(self, folder: Path) -> None:
        """Write the encoder so that the libraries load it, and the head beside it."""


class FiniteLoss:
    """Ends the training at the first loss that is nan or infinite, which trainers by themselves train on with."""

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss: torch.Tensor = super().training_step(*args, **kwargs)  # type: ignore[misc]  # a trainer's, which comes next
        if not bool(torch.isfinite(loss).all()):
            state, settings = self.state, self.args  # type: ignore[attr-defined]
            raise Diverged(
                f"the loss is {loss.item()} at step {state.global_step + 1} with learning rate {settings.learning_rate:g}: the "
                "training has diverged; use a lower learning rate or a longer warm-up"
            )
        return loss


def arguments(settings: TuneSettings, folder: Path, *, rows: int, metric: str | None) -> dict[str, Any]:
    """The arguments of either trainer. `metric` is what the best epoch is chosen by, None without a validation set."""
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
        # Otherwise a continued run would forget how many epochs brought nothing.
        "restore_callback_states_from_checkpoint": True,
        "logging_strategy": "steps",
        "logging_steps": max(1, per_epoch // 10),
        "logging_nan_inf_filter": False,
        "report_to": list(settings.report_to) or "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "use_cpu": settings.device == "cpu",
        "dataloader_pin_memory": torch.cuda.is_available(),
    }


def world_size() -> int:
    """Number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def prepare(trainer: Any, settings: TuneSettings, progress: Callable[[int, int], None] | None) -> None:
    """Add what every run has: whole checkpoints, early stopping, progress; take away what prints."""
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(WholeCheckpoints(save_steps=settings.save_steps))
    if settings.patience is not None:
        trainer.add_callback(EarlyStoppingCallback(early_stopping_patience=settings.patience))
    if progress is not None:
        trainer.add_callback(_Progress(progress))


def fit(trainer: Any, folder: Path) -> None:
    """Train from the newest whole checkpoint on, or from the start; the weights then are the best epoch's, or the last."""
    checkpoint = last_whole(folder)
    facts = None if checkpoint is None else facts_of(checkpoint)
    if checkpoint is not None and facts is not None and facts["stopped"]:
        # The training had come to its end, perhaps early. The trainer would train on.
        trainer.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        best = folder / f"checkpoint-{trainer.state.best_global_step}"
        trainer._load_from_checkpoint(str(best if trainer.args.load_best_model_at_end and best.is_dir() else checkpoint))
        return
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


class _Progress(TrainerCallback):
    def __init__(self, report: Callable[[int, int], None]) -> None:
        self.report = report

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if state.is_world_process_zero:
            self.report(state.global_step, state.max_steps)
