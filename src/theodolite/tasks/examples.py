"""The examples of one split of a task: texts, or words inside sentences, with their labels or scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.spelling import name_list, option
from theodolite.spaces.readers.data_files import DataError
from theodolite.tasks.task import Task

Ints = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Labelled or scored examples in file order; `len` counts them (a sentence of a tagging task holds many).

    Parameters
    ----------
    task, split
        The task, and which of its splits this is.
    texts
        One text per example; for a task on words one per sentence, the words joined by single blanks.
    second
        The other text of each pair.
    words
        The words of each sentence, for a task on words.
    places
        For a task on words, what each example is: (k, 2) as (sentence, word), or (k, 3) as (sentence, head, dependent), from 0.
    labels, scores
        The label or the score of each example.
    files, lines
        The files that were read, and (k, 2) as (file, line) of each example.
    """

    task: Task
    split: str
    texts: tuple[str, ...]
    second: tuple[str, ...] | None = None
    words: tuple[tuple[str, ...], ...] | None = None
    places: Ints | None = None
    labels: tuple[str, ...] | None = None
    scores: NDArray[np.float64] | None = None
    files: tuple[str, ...] = ()
    lines: Ints | None = None

    def __post_init__(self) -> None:
        counts = {"examples": len(self), "texts": len(self.texts)}
        owners = {"labels": "examples", "scores": "examples", "lines": "examples", "second": "texts", "words": "texts"}
        for name, owner in owners.items():
            values = getattr(self, name)
            if values is not None and len(values) != counts[owner]:
                raise ValueError(f"{name} has {len(values)} entries for {counts[owner]} {owner}; there must be one for each")

    def __len__(self) -> int:
        return len(self.texts) if self.places is None else len(self.places)

    def __repr__(self) -> str:
        return f"Examples of {self.task.name} {self.split}: {len(self):,}"

    def spans(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The characters (start, end) of each word in the text of its sentence."""
        if self.words is None:
            raise ValueError(f"task {self.task.name!r} has whole texts, not words; spans are for tasks on words")
        return tuple(map(_spans, self.words))

    def where(self, index: int) -> str:
        """The file and line of one example, as far as they are known.

        Parameters
        ----------
        index
            Number of the example, from 0.
        """
        if self.lines is None:
            return f"{self.files[0] if self.files else self.task.name}, example {index}"
        file, line = self.lines[index]
        return f"{self.files[file]}, line {line}"

    def label_ids(self, labels: Sequence[str]) -> Ints:
        """The position in `labels` of each example's label.

        Parameters
        ----------
        labels
            All labels, in the order to count by.
        """
        if self.labels is None:
            raise ValueError(f"task {self.task.name!r} has scores, not labels")
        position = {label: i for i, label in enumerate(labels)}
        for index, label in enumerate(self.labels):
            if label not in position:
                raise DataError(f"label {label!r} is not one of {name_list(labels, near=label)}", self.where(index))
        return np.array([position[label] for label in self.labels], dtype=np.intp)

    def unit_scores(self) -> NDArray[np.float64]:
        """The scores on a scale from 0 to 1, the ends of the task's own scale."""
        if self.scores is None or self.task.score_range is None:
            raise ValueError(f"task {self.task.name!r} has no scores on a stated scale")
        low, high = self.task.score_range
        return (self.scores - low) / (high - low)

    def take(self, indices: ArrayLike) -> Examples:
        """Some of the examples. Sentences without any of them are left out.

        Parameters
        ----------
        indices
            Numbers of the examples, in the order to take them, or a mask with one entry per example.
        """
        rows = _row_numbers(indices, len(self))
        per_example = {name: _pick(getattr(self, name), rows) for name in ("labels", "scores", "lines")}
        if self.places is None:
            return replace(self, texts=_pick(self.texts, rows), second=_pick(self.second, rows), **per_example)
        # Sentences are numbered again, without those that lost all their examples.
        places = self.places[rows]
        sentences, places[:, 0] = np.unique(places[:, 0], return_inverse=True)
        return replace(self, texts=_pick(self.texts, sentences), words=_pick(self.words, sentences), places=places, **per_example)

    def divide(self, share: float = 0.7, *, seed: int = 0) -> tuple[Examples, Examples]:
        """Two parts, the same for the same seed.

        Labels keep their shares, to within one example each. Words are divided by whole sentences, so that no sentence is in both
        parts; labels then keep their shares only by chance.

        Parameters
        ----------
        share
            Share of the examples in the first part, between 0 and 1.
        seed
            Seed of the division.
        """
        if not 0 < share < 1:
            raise ValueError(f"share={share} must be between 0 and 1")
        # What is divided: examples, or whole sentences.
        units = np.arange(len(self)) if self.places is None else np.unique(self.places[:, 0])
        labels = self.labels if self.places is None and self.labels is not None else ("",) * len(units)
        if not 0 < round(share * len(units)) < len(units):
            raise ValueError(f"share={share} of {len(units)} leaves one part empty; give more examples, or another share")
        first = units[_stratified(labels, share, seed)]
        inside = np.isin(units if self.places is None else self.places[:, 0], first)
        return self.take(inside), self.take(~inside)


def labels_of(train: Examples) -> tuple[str, ...]:
    """The labels of a task in order: those it declares, otherwise those of the training split, sorted."""
    if train.labels is None:
        raise ValueError(f"task {train.task.name!r} has scores, not labels")
    return train.task.labels or tuple(sorted(set(train.labels)))


def check_labels(train: Examples, test: Examples) -> None:
    """Raise an error if `test` has a label that `train` never shows: it cannot be learnt, so no score could reach 1."""
    unseen = _unseen_labels(train, test)
    if not unseen:
        return
    assert test.labels is not None
    first = next(i for i, label in enumerate(test.labels) if label in unseen)
    counts = ", ".join(f"{label!r} ({count} of {len(test)})" for label, count in unseen.items())
    raise DataError(
        f"label {test.labels[first]!r} is not in split {train.split!r}; all unseen labels: {counts}. "
        f"Correct the labels, or leave those examples out with {option('drop_unseen')}",
        test.where(first),
    )


def drop_unseen_labels(train: Examples, test: Examples) -> Examples:
    """The examples of `test` whose labels `train` shows."""
    unseen = _unseen_labels(train, test)
    return test.take(np.array([label not in unseen for label in test.labels or ()], dtype=bool)) if unseen else test


def _unseen_labels(train: Examples, test: Examples) -> dict[str, int]:
    """Labels of `test` that no example of `train` has, with their counts."""
    labels = set(train.labels or ())
    return {label: count for label, count in sorted(Counter(test.labels or ()).items()) if label not in labels}


def _spans(words: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return tuple(spans)


def _stratified(labels: tuple[str, ...], share: float, seed: int) -> Ints:
    """Positions of `share` of all labels, with the share of each label rounded up or down so that the total is right."""
    rng = np.random.default_rng(seed)
    _, codes, counts = np.unique(np.array(labels), return_inverse=True, return_counts=True)
    quota = share * counts
    sizes = np.floor(quota + 1e-9).astype(np.intp)  # 0.7 * 10 may come out below 7
    # The largest remainders are rounded up, equal ones at random.
    by_remainder = np.lexsort((rng.random(len(counts)), sizes - quota))
    sizes[by_remainder[: round(share * len(labels)) - sizes.sum()]] += 1
    shuffled = rng.permutation(len(labels))
    return np.concatenate([shuffled[codes[shuffled] == code][:size] for code, size in enumerate(sizes)])


def _row_numbers(indices: ArrayLike, n: int) -> Ints:
    rows = np.asarray(indices)
    if rows.ndim != 1:
        raise ValueError(f"indices must be a list of whole numbers or a mask, not an array of shape {rows.shape}")
    try:
        return np.arange(n)[rows if rows.size else []]
    except IndexError as error:
        raise IndexError(f"{error}; give whole numbers below the {n} examples, or a mask with one entry for each") from None


def _pick(values: Any, rows: Ints) -> Any:
    if values is None:
        return None
    return values[rows] if isinstance(values, np.ndarray) else tuple(values[i] for i in rows)
