"""What lets a run be continued to the same weights: checkpoints that are complete or do not count, and random states put back.

A trainer takes the checkpoint with the highest number, even one that a kill left half written. Here a checkpoint counts only
with a marker that is written after all its files are on the disk and that knows their sizes.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import TrainerCallback

from theodolite.core.files import sync, write_json
from theodolite.models.encoder import evaluating

MARKER = "whole.json"


def seal(checkpoint: Path, **facts: Any) -> None:
    """Write every file of a checkpoint through to the disk, then the marker.

    Parameters
    ----------
    checkpoint
        The checkpoint's folder.
    facts
        What `sealed_facts` returns besides the files' `sizes`.
    """
    sizes = {}
    for path in sorted(checkpoint.rglob("*")):
        sync(path)
        if path.is_file():
            sizes[path.relative_to(checkpoint).as_posix()] = path.stat().st_size
    sync(checkpoint)
    write_json(checkpoint / MARKER, {"sizes": sizes, **facts})
    sync(checkpoint)
    sync(checkpoint.parent)


def sealed_facts(checkpoint: Path) -> dict[str, Any] | None:
    """What the marker says, or None if the checkpoint is not complete.

    Parameters
    ----------
    checkpoint
        The checkpoint's folder.
    """
    try:
        facts: dict[str, Any] = json.loads((checkpoint / MARKER).read_text(encoding="utf-8"))
        is_whole = all((checkpoint / name).stat().st_size == size for name, size in facts["sizes"].items())
    except (OSError, ValueError, KeyError):
        return None
    return facts if is_whole else None


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint of a run, or None; those that are not complete are removed.

    Parameters
    ----------
    folder
        The folder of all checkpoints.
    """
    newest = None
    for checkpoint in _checkpoints(folder):
        if sealed_facts(checkpoint) is None:
            _remove(checkpoint)
        else:
            newest = checkpoint
    return newest


class SealedCheckpoints(TrainerCallback):
    """Seals each checkpoint, and only then removes older ones, but never the one with the best score.

    Parameters
    ----------
    save_steps
        Write a checkpoint every N steps, besides those at the ends of epochs.
    """

    def __init__(self, *, save_steps: int | None = None) -> None:
        self.save_steps = save_steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ask for a checkpoint inside an epoch; the end of an epoch saves by itself, after it was scored."""
        per_epoch = max(1, round(state.max_steps / args.num_train_epochs))
        if self.save_steps and state.global_step % self.save_steps == 0 and state.global_step % per_epoch:
            control.should_save = True

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
        seal(current, stopped=bool(control.should_training_stop))
        best = folder / f"checkpoint-{state.best_global_step}"
        for checkpoint in _checkpoints(folder):
            if checkpoint not in (current, best):
                _remove(checkpoint)


def _checkpoints(folder: Path) -> list[Path]:
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name) and path.is_dir()]
    return sorted(paths, key=lambda path: int(path.name.partition("-")[2]))


def _remove(checkpoint: Path) -> None:
    (checkpoint / MARKER).unlink(missing_ok=True)  # first: a removal that is interrupted must not look complete
    shutil.rmtree(checkpoint)


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Put the random states of Python, NumPy and torch (all devices) back at the end."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.random.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        if mps is not None:
            torch.mps.set_rng_state(mps)


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards modes and random states are as they were.

    Parameters
    ----------
    module
        A model in training.
    """
    with preserved_random_state(), torch.no_grad(), evaluating(module):
        yield
