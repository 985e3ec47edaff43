"""What the trainers of both libraries share here: which weights train, arguments, guards, sealed checkpoints and resuming.

A trainer takes the checkpoint with the highest number, even one that a kill left half written. Here a checkpoint counts only
with a marker that is written after all its files are on the disk and that knows their hashes.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Sampler
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback, TrainerState

from theodolite.core.files import changed_file, hashes_in, sync, sync_all, write_json
from theodolite.core.parallel import Progress
from theodolite.core.spelling import option
from theodolite.models.encoder import Encoder
from theodolite.models.location import EncoderError
from theodolite.models.tokens import Tokens, count_tokens, text_inputs, tokenize
from theodolite.tasks.task import Unit
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import TuneSettings

MARKER = "whole.json"
# Batches whose texts are sorted by length together.
POOL = 50
# Low-rank additions to every linear map of the encoder, at peft's usual size.
LORA: dict[str, Any] = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.1, "target_modules": "all-linear"}


class Diverged(ValueError):
    """The loss is not a finite number any more; a lower learning rate is the way out."""


class SafeTrainer:
    """What both libraries' trainers get: the end at a loss that is not finite, and checkpoints of plain, hashed weights.

    The checkpoints load back whatever a strategy put inside, and whatever tensors share their memory.
    """

    args: Any
    model: Any
    state: Any

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The trainer's own step, with its loss checked: trainers by themselves would go on with nan."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)  # type: ignore[misc]  # of the trainer, which comes next
        if not bool(torch.isfinite(loss).all()):
            raise Diverged(
                f"the loss is {loss.item()} at step {self.state.global_step + 1} with learning rate "
                f"{self.args.learning_rate:g}: the training has diverged; use a lower learning rate or a longer warm-up"
            )
        return loss

    def _load_best_model(self) -> None:
        """The trainer's own loading of the best epoch's weights, after comparing them with their hashes."""
        best = Path(self.state.best_model_checkpoint)
        if sealed_facts(best) is None:
            raise ValueError(f"{best}, which has the best weights, is damaged or was changed; run this again to train them again")
        super()._load_best_model()  # type: ignore[misc]

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ARG002  # the trainers' signature
        from safetensors.torch import save_file

        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        weights: dict[str, torch.Tensor] = {}
        addresses: set[int] = set()
        for name, tensor in self.model.state_dict().items():
            # Safetensors writes no two tensors of one memory, as tied embeddings are.
            weights[name] = tensor.clone() if tensor.data_ptr() in addresses else tensor.contiguous()
            addresses.add(tensor.data_ptr())
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:  # noqa: ARG002
        from safetensors.torch import load_file

        self.model.load_state_dict(load_file(Path(resume_from_checkpoint) / "model.safetensors"))


def check_tokens(settings: TuneSettings, encoder: Encoder, splits: Splits) -> Tokens:
    """The tokens of the training texts. Warns if the tokenizer does not fit them, or raises if it does not at all."""
    unit: Unit = "mean"  # tokens are the same for every unit but words, whose texts are the same
    inputs = text_inputs(splits.train, unit, together=not settings.is_siamese)
    tokens = tokenize(encoder, inputs)
    count_tokens(encoder, inputs, tokens).check(allow_unknown=settings.allow_unknown)
    return tokens


def load_encoder(settings: TuneSettings) -> Encoder:
    """The encoder that a run starts from, in full precision and on the CPU: trainers move it to their device."""
    encoder = Encoder.load(
        settings.model,
        revision=settings.revision,
        device="cpu",
        trust_remote_code=settings.trust_remote_code,
        max_length=settings.max_length,
    )
    if encoder.is_static:
        raise EncoderError(f"{encoder.name} is a table of static vectors, which has no layers to fine-tune; use a transformer")
    return encoder


def apply_strategy(encoder: nn.Module, strategy: str) -> Callable[[], Any]:
    """Choose which parameters of an encoder train: all, those above the first N layers, none, or low-rank additions.

    The function that is returned merges low-rank additions into the weights; call it before saving.
    """
    if strategy == "lora":
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError:
            raise ImportError(f"{option('strategy', 'lora')} needs peft, which is not installed; run: pip install peft") from None
        # Peft puts its layers into the encoder itself, so whoever has the encoder trains them without knowing.
        make_plain: Callable[[], Any] = get_peft_model(encoder, LoraConfig(**LORA)).merge_and_unload
        return make_plain
    if strategy == "head":
        encoder.requires_grad_(False)
    elif strategy.startswith("frozen"):
        _freeze_layers(encoder, int(strategy.partition(":")[2]))
    return lambda: None


def _freeze_layers(encoder: nn.Module, count: int) -> None:
    """Freeze the embeddings and the first `count` layers."""
    total = getattr(getattr(encoder, "config", None), "num_hidden_layers", None)
    # Families name their list of layers differently, but none has another list of that length.
    lists = (pair for pair in encoder.named_modules() if isinstance(pair[1], nn.ModuleList) and len(pair[1]) == total)
    name, layers = next(lists, ("", None))
    if layers is None:
        raise ValueError(
            f"{type(encoder).__name__} has no list of its {total} layers (layers that share weights cannot be frozen one by "
            "one); use strategy 'full', 'head' or 'lora'"
        )
    if not 0 <= count <= len(layers):
        raise ValueError(f"{option('strategy', f'frozen:{count}')} must be from 0 to {len(layers)}, the encoder's layers")
    for child_name, child in encoder.named_children():
        # Relative position biases are embeddings too, but belong to the layers: they train as long as a layer does.
        if child_name != name.partition(".")[0] and any(isinstance(module, nn.Embedding) for module in child.modules()):
            child.requires_grad_(False)
    for layer in layers[:count]:
        layer.requires_grad_(False)


def trainer_arguments(settings: TuneSettings, folder: Path, *, rows: int, metric: str | None) -> dict[str, Any]:
    """The arguments of either library's trainer."""
    # The trainer takes warm-up in steps, and does not say how many there are before it starts.
    per_epoch = math.ceil(rows / (settings.batch_size * world_size()))
    # With early stopping, a share of the largest number of epochs could be all that is trained.
    epochs = settings.epochs if settings.patience is None else min(settings.epochs, 1 + settings.patience)
    return {
        "output_dir": str(folder),
        "num_train_epochs": settings.epochs,
        "per_device_train_batch_size": settings.batch_size,
        "per_device_eval_batch_size": 2 * settings.batch_size,
        "learning_rate": settings.learning_rate,
        "weight_decay": settings.weight_decay,
        "lr_scheduler_type": "linear" if settings.schedule == "linear" else "constant_with_warmup",
        "warmup_steps": math.ceil(settings.warmup * per_epoch * epochs),
        "optim": "adamw_torch",
        "seed": settings.seed,
        "data_seed": settings.seed,
        "save_strategy": "epoch",
        "eval_strategy": "epoch" if metric else "no",
        "load_best_model_at_end": metric is not None,
        "metric_for_best_model": metric,
        # Otherwise a continued run would forget how many epochs brought no better score.
        "restore_callback_states_from_checkpoint": True,
        "logging_steps": max(1, per_epoch // 10),
        "logging_nan_inf_filter": False,  # a loss that is not finite ends the run; it must not be smoothed away
        "report_to": list(settings.report_to) or "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,  # texts are not rows of a table
        "use_cpu": settings.device == "cpu",
        "dataloader_pin_memory": torch.cuda.is_available(),
    }


def world_size() -> int:
    """Number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def steps_per_epoch(args: Any, state: Any) -> int:
    """Steps of one epoch, from what a trainer passes to its callbacks."""
    return max(1, round(int(state.max_steps) / float(args.num_train_epochs)))


def prepare_trainer(trainer: Any, settings: TuneSettings, progress: Progress | None) -> None:
    """Add what every run has (sealed checkpoints, early stopping, progress) and remove what prints."""
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(RunCallback(save_steps=settings.save_steps, progress=progress))
    if settings.patience is not None:
        trainer.add_callback(EarlyStopping(early_stopping_patience=settings.patience))


class EarlyStopping(EarlyStoppingCallback):
    """Ends a run after `patience` epochs that are not better; a tie with the best score counts only if that is perfect."""

    def check_metric_value(self, args: Any, state: Any, control: Any, metric_value: float) -> None:
        """Count the epoch, unless it is a tie."""
        if state.best_metric is None or metric_value != state.best_metric or metric_value >= 1.0:
            super().check_metric_value(args, state, control, metric_value)  # type: ignore[no-untyped-call]


class LengthSampler(Sampler[int]):
    """Texts in random order, such that those of one batch have similar lengths; the order depends on seed and epoch alone.

    Transformers' own `group_by_length` takes its order from the global random state, which a run that is continued inside an
    epoch does not have again, and sorts the batches by length too.
    """

    def __init__(self, lengths: NDArray[Any], batch_size: int, *, seed: int) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; trainers do, also when they resume."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        random = np.random.default_rng([self.seed, self.epoch])
        order, size = random.permutation(len(self.lengths)), self.batch_size * POOL
        # Sorted within pools, not over all texts: otherwise the same texts would meet in every epoch.
        pools = [order[start : start + size] for start in range(0, len(order), size)]
        order = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools])
        full = len(order) // self.batch_size * self.batch_size
        yield from random.permutation(order[:full].reshape(-1, self.batch_size)).ravel().tolist()
        yield from order[full:].tolist()


def train_or_resume(trainer: Any, folder: Path) -> None:
    """Train from the newest complete checkpoint, or from the start; the weights are then the best epoch's, or the last."""
    checkpoint = last_checkpoint(folder)
    if checkpoint is not None and json.loads((checkpoint / MARKER).read_bytes())["stopped"]:
        # The training had ended, perhaps early; the trainer would continue it.
        trainer.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        best = folder / f"checkpoint-{trainer.state.best_global_step}"
        trainer._load_from_checkpoint(str(best if trainer.args.load_best_model_at_end and best.is_dir() else checkpoint))
        return
    # Scoring marks a model as prepared, and Accelerate would leave it as it is: processes would not share their gradients.
    trainer.accelerator._models.clear()
    vars(trainer.model).pop("_is_accelerate_prepared", None)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


class RunCallback(TrainerCallback):
    """Reports progress, seals each checkpoint, and only then removes older ones, but never the one with the best score."""

    def __init__(self, *, save_steps: int | None = None, progress: Progress | None = None) -> None:
        self.save_steps, self.progress = save_steps, progress

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Find the best checkpoint of a run that was continued in another place: the trainer keeps its whole path."""
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        if best.is_dir():
            state.best_model_checkpoint = str(best)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ask for a checkpoint inside an epoch; the end of an epoch saves by itself, after it was scored."""
        if self.save_steps and state.global_step % self.save_steps == 0 and state.global_step % steps_per_epoch(args, state):
            control.should_save = True
        if self.progress is not None and state.is_world_process_zero:
            self.progress(state.global_step, state.max_steps)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Break the seal of a checkpoint of this very step, which is about to be overwritten."""
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / MARKER).unlink(missing_ok=True)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Seal the new checkpoint and remove the others."""
        if args.distributed_state is not None:
            args.distributed_state.wait_for_everyone()  # each process writes its own random state
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        current = folder / f"checkpoint-{state.global_step}"
        best = folder / f"checkpoint-{state.best_global_step}"
        seal(current, stopped=bool(control.should_training_stop), best=best.name if state.best_global_step else current.name)
        for checkpoint in _checkpoints(folder):
            if checkpoint not in (current, best):
                _remove(checkpoint)


def seal(checkpoint: Path, **facts: Any) -> None:
    """Write every file of a checkpoint through to the disk, then the marker."""
    sync_all(checkpoint)
    write_json(checkpoint / MARKER, {"files": hashes_in(checkpoint), **facts})
    sync(checkpoint.parent)


def sealed_facts(checkpoint: Path) -> dict[str, Any] | None:
    """What the marker says, or None if the checkpoint is not complete, or not as it was written."""
    try:
        facts: dict[str, Any] = json.loads((checkpoint / MARKER).read_bytes())
        changed = changed_file(checkpoint, facts["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if changed is not None:
        warnings.warn(f"{changed} was changed after it was written; this checkpoint is not used", UserWarning, stacklevel=2)
        return None
    return facts


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint of a run, or None; those that are not complete, or lack their best epoch's, are removed."""
    complete: list[Path] = []
    for checkpoint in _checkpoints(folder):
        facts = sealed_facts(checkpoint)
        # Without the weights of the best epoch so far, the run could not end with them.
        if facts is None or folder / facts.get("best", checkpoint.name) not in (*complete, checkpoint):
            _remove(checkpoint)
        else:
            complete.append(checkpoint)
    return complete[-1] if complete else None


def _checkpoints(folder: Path) -> list[Path]:
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name) and path.is_dir()]
    return sorted(paths, key=lambda path: int(path.name.partition("-")[2]))


def _remove(checkpoint: Path) -> None:
    (checkpoint / MARKER).unlink(missing_ok=True)  # first: a removal that is interrupted must not look complete
    shutil.rmtree(checkpoint)
