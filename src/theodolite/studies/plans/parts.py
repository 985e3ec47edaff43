"""Steps that several studies have: a fine-tuned state, and vectors of a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.studies.identity import Model
from theodolite.studies.step import Step
from theodolite.studies.wish import Wish, split_hash
from theodolite.tasks.load import find_task
from theodolite.tasks.task import UNIT_OF


def tuned(
    model: Model,
    task: str,
    seed: int,
    tuning: Mapping[str, Any],
    wish: Wish,
    *,
    method: str = "plain",
    plain: Step | None = None,
    keep_vectors: bool = False,
) -> Step:
    """A fine-tuning. `tuning` has the name of a preset and what differs from it."""
    settings = {
        "model": model.key,
        "task": task,
        "data": [split_hash(task, split, wish.data) for split in ("train", scored(task))],
        "preset": tuning["preset"],
        "changes": {name: value for name, value in tuning.items() if name != "preset"},
        "method": method,
        "seed": seed,
        "keep_vectors": keep_vectors,
    }
    how = "" if method == "plain" else f", {method}"
    return Step("tune", settings, {"plain": plain} if plain else {}, f"fine-tune {model.name} on {task}, seed {seed}{how}")


def vectors(
    model: Model,
    task: str,
    split: str,
    wish: Wish,
    *,
    run: Step | None = None,
    unit: str = "",
    layers: list[int] | None = None,
    examples: int | None = None,
) -> Step:
    """The vectors of a split, of the model as it came or as a run left it."""
    settings = {
        "model": model.key,
        "task": task,
        "split": split,
        "data": split_hash(task, split, wish.data),
        "unit": unit or UNIT_OF[find_task(task).kind],
        "layers": layers,
        "examples": examples,
    }
    state = f" tuned on {run.settings['task']}" if run else ""
    return Step("vectors", settings, {"tuned": run} if run else {}, f"read {task} {split} with {model.name}{state}")


def scored(task: str) -> str:
    """The split that a task is scored on."""
    return find_task(task).scored_split or "train"
