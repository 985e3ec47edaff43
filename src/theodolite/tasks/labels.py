"""The labels of a task, and what of a test split a model trained on another split can know."""

from __future__ import annotations

from collections import Counter

import numpy as np

from theodolite.tasks.errors import DataError
from theodolite.tasks.examples import Examples


def labels_of(train: Examples) -> tuple[str, ...]:
    """The labels of the task in order: those it declares, otherwise those of the training split, sorted."""
    if train.labels is None:
        raise ValueError(f"task {train.task.name!r} has scores, not labels")
    return train.task.labels or tuple(sorted(set(train.labels)))


def unseen(train: Examples, test: Examples) -> dict[str, int]:
    """Labels of `test` that no example of `train` has, with how many examples have them."""
    known = set(train.labels or ())
    return {label: count for label, count in sorted(Counter(test.labels or ()).items()) if label not in known}


def check_labels(train: Examples, test: Examples) -> None:
    """Raise where `test` has a label that training never shows: it cannot be learnt, so the score would be bounded below 1."""
    new = unseen(train, test)
    if not new:
        return
    assert test.labels is not None
    first = next(i for i, label in enumerate(test.labels) if label in new)
    counts = ", ".join(f"{label!r} ({count} of {len(test)})" for label, count in new.items())
    raise DataError(
        f"{test.where(first)}: label {test.labels[first]!r} is not in split {train.split!r}; unseen in all: {counts}. "
        "Correct the labels, or leave those examples out with known_labels(train, test) (--drop-unseen)"
    )


def known_labels(train: Examples, test: Examples) -> Examples:
    """The examples of `test` whose labels training shows."""
    new = unseen(train, test)
    return test.take(np.array([label not in new for label in test.labels or ()], dtype=bool)) if new else test
