"""Checkpoints that are whole or do not count.

A trainer takes the checkpoint with the highest number, also one that a kill left half written. Here a checkpoint counts only with
a marker that is written after all its files are on the disk and that knows their sizes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from theodolite.core.files import sync

MARKER = "whole.json"


def seal(folder: Path, **facts: Any) -> None:
    """Write every file of the checkpoint through to the disk, then the marker, itself whole or absent."""
    sizes = {}
    for path in sorted(folder.rglob("*")):
        sync(path)
        if path.is_file():
            sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    sync(folder)
    partial = folder / f".{MARKER}.partial"
    partial.write_text(json.dumps({"sizes": sizes, **facts}), encoding="utf-8")
    sync(partial)
    os.replace(partial, folder / MARKER)
    sync(folder)
    sync(folder.parent)


def facts_of(folder: Path) -> dict[str, Any] | None:
    """What the marker says, or None where the checkpoint is not whole."""
    try:
        facts: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        whole = all((folder / name).stat().st_size == size for name, size in facts["sizes"].items())
    except (OSError, ValueError, KeyError):
        return None
    return facts if whole else None


def last_whole(folder: Path) -> Path | None:
    """The newest whole checkpoint; those that are not whole are removed."""
    found = None
    for checkpoint in numbered(folder):
        if facts_of(checkpoint) is None:
            remove(checkpoint)
        else:
            found = checkpoint
    return found


def numbered(folder: Path) -> list[Path]:
    """The checkpoints of a run by step, whole or not."""
    found = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint, its marker first: a removal that is cut short leaves nothing that looks whole."""
    (checkpoint / MARKER).unlink(missing_ok=True)
    shutil.rmtree(checkpoint)


class WholeCheckpoints(TrainerCallback):
    """Seals each checkpoint, and only then removes older ones, but never the one with the best score.

    `save_steps` adds checkpoints inside epochs to those at their ends.
    """

    def __init__(self, *, save_steps: int | None = None) -> None:
        self.save_steps = save_steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        per_epoch = max(1, round(state.max_steps / args.num_train_epochs))
        # The end of an epoch saves by itself, after it has scored.
        if self.save_steps and state.global_step % self.save_steps == 0 and state.global_step % per_epoch:
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        # A checkpoint of this very step is about to be written over.
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / MARKER).unlink(missing_ok=True)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.distributed_state is not None:
            args.distributed_state.wait_for_everyone()  # each process writes its own random state
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        current = folder / f"checkpoint-{state.global_step}"
        seal(current, stopped=bool(control.should_training_stop))
        best = folder / f"checkpoint-{state.best_global_step}"
        for other in numbered(folder):
            if other not in (current, best):
                remove(other)
