"""What a reader finds in a file, and its way to checked `Examples`: the checks are the same for every format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from theodolite.core.options import option
from theodolite.spaces.readers.errors import DataError, excerpt, name_list, suggestion
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Task


@dataclass(frozen=True)
class Record:
    """One labelled or scored text, or pair of texts, as a file has it. `split` is set if the file holds several splits."""

    file: Path
    line: int
    text: str
    second: str | None = None
    label: str | None = None
    score: str | float | None = None
    split: str | None = None


class Mark(NamedTuple):
    """The label of one word of a sentence, or of a (head, dependent) pair; `words` are positions from 0."""

    words: tuple[int, ...]
    label: str
    line: int


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and the labels of some of them."""

    file: Path
    words: tuple[str, ...]
    marks: tuple[Mark, ...]


def examples_from_records(task: Task, split: str, records: Iterable[Record], files: Sequence[Path]) -> Examples:
    """Examples on whole texts.

    Parameters
    ----------
    task, split
        The task, and which of its splits the records are from.
    records
        What a reader found, in file order.
    files
        The files that were read.

    Raises
    ------
    DataError
        A text or label is empty, or a label or score is not one that the task has; the message names file and line.
    """
    rows = [record for record in records if record.split in (None, split)]
    if not rows:
        raise DataError("there is no example in the file", files[0])
    for record in rows:
        _check_texts(record)
    position = {file: i for i, file in enumerate(files)}
    has_scores = task.kind == "similarity"
    return Examples(
        task=task,
        split=split,
        texts=tuple(record.text for record in rows),
        second=tuple(record.second or "" for record in rows) if task.paired else None,
        labels=None if has_scores else tuple(_label(task, record.label, record.file, record.line) for record in rows),
        scores=np.array([_score(task, record) for record in rows]) if has_scores else None,
        files=tuple(map(str, files)),
        lines=np.array([(position[record.file], record.line) for record in rows], dtype=np.intp),
    )


def examples_from_sentences(task: Task, split: str, sentences: Sequence[Sentence], files: Sequence[Path]) -> Examples:
    """Examples on words or pairs of words. All sentences are kept, also those without an example.

    Parameters
    ----------
    task, split
        The task, and which of its splits the sentences are from.
    sentences
        What a reader found, in file order.
    files
        The files that were read.

    Raises
    ------
    DataError
        No word has a label, or a label is not one that the task has; the message names file and line.
    """
    position = {file: i for i, file in enumerate(files)}
    marks = [(number, sentence.file, mark) for number, sentence in enumerate(sentences) for mark in sentence.marks]
    if not marks:
        missing = "word with a label" if task.kind == "tagging" else "pair of words with a relation"
        raise DataError(f"there is no {missing} in the file", files[0])
    return Examples(
        task=task,
        split=split,
        texts=tuple(" ".join(sentence.words) for sentence in sentences),
        words=tuple(sentence.words for sentence in sentences),
        places=np.array([(number, *mark.words) for number, _, mark in marks], dtype=np.intp),
        labels=tuple(_label(task, mark.label, file, mark.line) for _, file, mark in marks),
        files=tuple(map(str, files)),
        lines=np.array([(position[file], mark.line) for _, file, mark in marks], dtype=np.intp),
    )


def _check_texts(record: Record) -> None:
    for name, text in (("text" if record.second is None else "first text", record.text), ("second text", record.second)):
        if text is not None and not text.strip():
            raise DataError(
                f"the {name} is empty; every example needs its text: fill it in or drop the line", record.file, record.line
            )


def _label(task: Task, label: str | None, file: Path, line: int) -> str:
    if label is None or not label.strip():
        raise DataError("the label is empty; every example needs one: fill it in or drop the line", file, line)
    # A misspelt label would otherwise be a class of its own.
    if task.labels is not None and label not in task.labels:
        labels = f"{name_list(task.labels, most=20)}{suggestion(label, task.labels)}"
        raise DataError(f"label {excerpt(label)} is not one of {labels}", file, line)
    return label


def _score(task: Task, record: Record) -> float:
    try:
        score = float(record.score if record.score is not None else "")
    except ValueError:
        raise DataError(f"score {excerpt(str(record.score))} is not a number", record.file, record.line) from None
    low, high = task.score_range or (-math.inf, math.inf)
    if not (math.isfinite(score) and low <= score <= high):
        raise DataError(
            f"score {score:g} must be between {low:g} and {high:g}; correct it, or read the file as a task of your own with "
            f"another {option('score_range', 'LOW,HIGH')}",
            record.file,
            record.line,
        )
    return score
