"""The rows a run trains on, holds out and is scored on."""

from __future__ import annotations

import os
from dataclasses import dataclass

from theodolite.core.sample import sample_rows
from theodolite.tasks.errors import DataError
from theodolite.tasks.examples import Examples
from theodolite.tasks.labels import check_labels, known_labels, labels_of
from theodolite.tasks.load import load_task
from theodolite.tasks.task import Task
from theodolite.tuning.settings import TuneSettings

FEWEST = 16
"""Training examples below which a run is refused: less is a mistake more often than a wish."""


@dataclass(frozen=True, eq=False)
class Splits:
    """`train` without what `validation` holds out; `dev` is what before and after are scored on; `labels` in order."""

    train: Examples
    validation: Examples | None
    dev: Examples
    labels: tuple[str, ...]


def load_splits(settings: TuneSettings, data: str | os.PathLike[str] | None) -> Splits:
    """Read, check, cap and divide. Labels are judged on the whole training split: a cap is a choice, not a fault of the data."""
    task = settings.declared
    train = load_task(task, "train", data)
    dev = load_task(task, settings.eval_split or scored_on(task), data)
    labels: tuple[str, ...] = ()
    if train.labels is not None:
        if settings.drop_unseen:
            dev = known_labels(train, dev)
        check_labels(train, dev)
        labels = labels_of(train)
        if len(set(train.labels)) < 2:
            raise DataError(
                f"all training examples of {task.name!r} have the label {train.labels[0]!r}; there must be two labels"
            )
    if settings.train_rows is not None:
        train = train.take(sample_rows(len(train), settings.train_rows, seed=settings.seed))
    if len(train) < FEWEST:
        raise DataError(f"task {task.name!r} has {len(train)} training examples; fine-tuning needs at least {FEWEST}")
    if not settings.validation:
        return Splits(train, None, dev, labels)
    kept, held = train.divide(1 - settings.validation, seed=settings.seed)
    return Splits(kept, held, dev, labels)


def scored_on(task: Task) -> str:
    """The split that scores are taken on: dev where there is one, otherwise test."""
    if task.scored_split is None:
        raise DataError(f"task {task.name!r} has the splits {', '.join(task.splits)}; name one to score on (eval_split)")
    return task.scored_split
