"""From what a reader found to checked `Examples`: the checks are the same whatever the format."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from theodolite.tasks.errors import DataError, clipped, close_to, listed
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Task


@dataclass(frozen=True)
class Record:
    """One labelled or scored text, or pair of texts, as a file has it."""

    file: Path
    line: int
    text: str
    second: str | None = None
    label: str | None = None
    score: str | float | None = None


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence and what is said of some: `marks` are (word position or positions, label, line)."""

    file: Path
    words: tuple[str, ...]
    marks: tuple[tuple[tuple[int, ...], str, int], ...]


def from_records(task: Task, split: str, records: Iterable[Record], files: Iterable[Path]) -> Examples:
    """Examples on whole texts."""
    found = list(records)
    names = list(files)
    if not found:
        raise DataError("there is no example in the file", file=names[0])
    for record in found:
        _check_texts(record)
    position = {file: i for i, file in enumerate(names)}
    scored = task.kind == "similarity"
    return Examples(
        task=task,
        split=split,
        texts=tuple(record.text for record in found),
        second=tuple(record.second or "" for record in found) if task.paired else None,
        labels=None if scored else tuple(_label(task, record.label, record.file, record.line) for record in found),
        scores=np.array([_score(task, record) for record in found]) if scored else None,
        files=tuple(map(str, names)),
        lines=np.array([(position[record.file], record.line) for record in found], dtype=np.intp),
    )


def from_sentences(task: Task, split: str, sentences: Iterable[Sentence], files: Iterable[Path]) -> Examples:
    """Examples on words or pairs of words. All sentences are kept, those without an example too."""
    found = list(sentences)
    names = list(files)
    position = {file: i for i, file in enumerate(names)}
    places, labels, lines = [], [], []
    for number, sentence in enumerate(found):
        for words, label, line in sentence.marks:
            places.append((number, *words))
            labels.append(_label(task, label, sentence.file, line))
            lines.append((position[sentence.file], line))
    if not places:
        what = "word with a label" if task.kind == "tagging" else "pair of words with a relation"
        raise DataError(f"there is no {what} in the file", file=names[0])
    return Examples(
        task=task,
        split=split,
        texts=tuple(" ".join(sentence.words) for sentence in found),
        words=tuple(sentence.words for sentence in found),
        places=np.array(places, dtype=np.intp),
        labels=tuple(labels),
        files=tuple(map(str, names)),
        lines=np.array(lines, dtype=np.intp),
    )


def _check_texts(record: Record) -> None:
    for what, text in (("text" if record.second is None else "first text", record.text), ("second text", record.second)):
        if text is not None and not text.strip():
            raise DataError(
                f"the {what} is empty; every example needs its text: fill it in or drop the line",
                file=record.file,
                line=record.line,
            )


def _label(task: Task, label: str | None, file: Path, line: int) -> str:
    if label is None or not label.strip():
        raise DataError("the label is empty; every example needs one: fill it in or drop the line", file=file, line=line)
    if task.labels is not None and label not in task.labels:
        hint = close_to(label, task.labels)
        raise DataError(f"label {clipped(label)} is none of {listed(task.labels, most=20)}{hint}", file=file, line=line)
    return label


def _score(task: Task, record: Record) -> float:
    value = record.score
    try:
        score = float(value if value is not None else "")
    except ValueError:
        raise DataError(f"score {clipped(str(value))} is not a number", file=record.file, line=record.line) from None
    low, high = task.score_range or (-math.inf, math.inf)
    if not (math.isfinite(score) and low <= score <= high):
        raise DataError(
            f"score {score:g} must lie in {low:g} to {high:g}; correct it, or give the scale it is on with score_range= "
            "(--score-range) of a task of your own",
            file=record.file,
            line=record.line,
        )
    return score
