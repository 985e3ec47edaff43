"""The examples of one split of a task: texts, or words inside sentences, with their labels or scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.tasks.errors import DataError, close_to, listed
from theodolite.tasks.task import Task

Ints = NDArray[np.intp]
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Labelled examples in file order; `len` counts them (a sentence of a tagging task holds many).

    `texts` has one entry per sentence, `second` the other texts of pairs, `words` the words of each sentence where the task is on
    words: texts then are the words joined by single spaces. `places` is (k, 2) (sentence, word) for tagging and (k, 3) (sentence,
    head word, dependent word) for word pairs, counted from 0. `files` and `lines` (k, 2) (file, line) say where each was read.
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
        for name in ("labels", "scores", "lines"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self):
                raise ValueError(f"{name} has {len(values)} entries for {len(self)} examples; there must be one for each")
        for name in ("second", "words"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.texts):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.texts)} texts; there must be one for each")

    def __len__(self) -> int:
        return len(self.texts) if self.places is None else len(self.places)

    def spans(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The characters (start, end) of each word in its sentence's text."""
        if self.words is None:
            raise ValueError(f"task {self.task.name!r} is on whole texts, which have no words; spans are for tasks on words")
        return tuple(map(_spans, self.words))

    def where(self, index: int) -> str:
        """The file and line of one example, as far as they are known."""
        if self.lines is None:
            return f"{self.files[0] if self.files else self.task.name}, example {index}"
        file, line = self.lines[index]
        return f"{self.files[file]}, line {line}"

    def label_ids(self, labels: tuple[str, ...] | list[str]) -> Ints:
        """The position in `labels` of each example's label."""
        if self.labels is None:
            raise ValueError(f"task {self.task.name!r} has scores, not labels")
        position = {label: i for i, label in enumerate(labels)}
        for index, label in enumerate(self.labels):
            if label not in position:
                hint = close_to(label, list(labels))
                raise DataError(f"{self.where(index)}: label {label!r} is none of {listed(list(labels))}{hint}")
        return np.array([position[label] for label in self.labels], dtype=np.intp)

    def unit_scores(self) -> NDArray[np.float64]:
        """The scores with the ends of the task's scale at 0 and 1."""
        if self.scores is None or self.task.score_range is None:
            raise ValueError(f"task {self.task.name!r} has no scores on a stated scale")
        low, high = self.task.score_range
        return (self.scores - low) / (high - low)

    def take(self, indices: ArrayLike) -> Examples:
        """The examples with these numbers (or where a mask is true), in that order; sentences without any are left out."""
        chosen = _indices(indices, len(self))
        picked = {name: _pick(getattr(self, name), chosen) for name in ("labels", "scores", "lines")}
        if self.places is None:
            return replace(self, texts=_pick(self.texts, chosen), second=_pick(self.second, chosen), **picked)
        places = self.places[chosen]
        kept, places[:, 0] = np.unique(places[:, 0], return_inverse=True)
        return replace(self, texts=_pick(self.texts, kept), words=_pick(self.words, kept), places=places, **picked)

    def divide(self, share: float = 0.7, *, seed: int = 0) -> tuple[Examples, Examples]:
        """Two parts, the first with `share` of the examples, the same for the same seed.

        Labels keep their shares (to within one example each). Words are divided by whole sentences, so that no sentence is on
        both sides; labels then keep their shares only by chance.
        """
        if not 0 < share < 1:
            raise ValueError(f"share={share} must lie between 0 and 1")
        units = np.arange(len(self)) if self.places is None else np.unique(self.places[:, 0])
        labels = self.labels if self.places is None and self.labels is not None else ("",) * len(units)
        size = round(share * len(units))
        if not 0 < size < len(units):
            raise ValueError(f"share={share} of {len(units)} leaves one part empty; there must be more examples")
        first = units[_stratified(labels, share, seed)]
        inside = np.isin(units if self.places is None else self.places[:, 0], first)
        return self.take(inside), self.take(~inside)


def _spans(words: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return tuple(spans)


def _stratified(labels: tuple[str, ...], share: float, seed: int) -> Ints:
    """Positions of `share` of all labels, with each label's share of its own rounded up or down so that the total is right."""
    rng = np.random.default_rng(seed)
    _, codes, counts = np.unique(np.array(labels), return_inverse=True, return_counts=True)
    quota = share * counts
    whole = np.floor(quota + 1e-9).astype(np.intp)  # 0.7 * 10 may come out below 7
    # The largest remainders are rounded up, equal ones by lot.
    by_remainder = np.lexsort((rng.random(len(counts)), whole - quota))
    whole[by_remainder[: round(share * len(labels)) - whole.sum()]] += 1
    shuffled = rng.permutation(len(labels))
    members = [shuffled[codes[shuffled] == code][:size] for code, size in enumerate(whole)]
    return np.concatenate(members)


def _indices(indices: ArrayLike, n: int) -> Ints:
    chosen = np.asarray(indices)
    if chosen.dtype == bool:
        if chosen.shape != (n,):
            raise ValueError(f"a mask of shape {chosen.shape} does not fit {n} examples; it needs one entry for each")
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise ValueError(f"indices must be a list of whole numbers or a mask, not {chosen.dtype} of shape {chosen.shape}")
    chosen = chosen.astype(np.intp)
    if chosen.size and not (-n <= chosen.min() and chosen.max() < n):
        raise IndexError(f"index {chosen.max() if chosen.max() >= n else chosen.min()} is outside the {n} examples")
    return chosen % max(n, 1)


def _pick(values: Any, chosen: Ints) -> Any:
    if values is None:
        return None
    return values[chosen] if isinstance(values, np.ndarray) else tuple(values[i] for i in chosen)
