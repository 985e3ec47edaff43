"""What a task decides by itself: its unit, the split to learn from, and the split to score on."""

from __future__ import annotations

from typing import Any

import pytest

from theodolite.tasks import TASKS, own_task
from theodolite.tasks.task import TEXT_UNIT, UNITS, Kind


@pytest.mark.parametrize(
    ("name", "unit"), [("stsb", "mean"), ("cola", "cls"), ("rte", "cls"), ("pos", "words"), ("dep", "pairs"), ("trec-6", "cls")]
)
def test_the_unit_follows_from_the_kind(name: str, unit: str) -> None:
    assert TASKS[name].unit == unit


def test_the_unit_of_plain_texts_is_a_unit() -> None:
    assert TEXT_UNIT in UNITS and "tokens" in UNITS


@pytest.mark.parametrize(
    ("splits", "train", "scored"),
    [
        (["train", "dev", "test"], "train", "dev"),
        (["test", "train", "validation"], "train", "validation"),
        (["train", "test"], "train", "test"),
        (["train"], "train", "train"),
        (["a", "b"], "a", "a"),
        (["extra", "train"], "train", "extra"),
        (["dev"], "dev", "dev"),
    ],
)
def test_the_splits_to_learn_from_and_to_score_on(splits: list[str], train: str, scored: str) -> None:
    task = own_task({split: f"{split}.csv" for split in splits}, "classification")
    assert (task.train_split, task.scored_split) == (train, scored)


@pytest.mark.parametrize(
    ("kind", "roles"),
    [("similarity", ("text", "text_b", "score")), ("classification", ("text", "label")), ("tagging", ("label",))],
)
def test_the_columns_follow_from_the_kind(kind: Kind, roles: tuple[str, ...]) -> None:
    options: dict[str, Any] = {"score_range": (0, 1)} if kind == "similarity" else {}
    assert own_task("a.conllu" if kind == "tagging" else "a.csv", kind, **options).roles == roles
