"""What is to be encoded: plain texts, or the examples of a task, brought into one form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from theodolite.tasks.examples import Examples

Unit: TypeAlias = Literal["tokens", "cls", "mean", "max", "last", "words", "pairs"]
"""What one vector stands for: a token, the [CLS] token, a text (mean, max or last token), a word, or two words side by side."""

UNITS: tuple[str, ...] = get_args(Unit)
Ints: TypeAlias = NDArray[np.intp]
Spans: TypeAlias = Sequence[tuple[tuple[int, int], ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """Texts to encode, in the order they came. `second` is the other half of pairs that are read together.

    `number` is each text's place in what the caller gave and `side` which text of a pair it is, where both are read apart.
    `places` are (text, word) or (text, head, dependent), one for each labelled example, where examples are words.
    """

    texts: Sequence[str]
    number: Ints
    second: Sequence[str] | None = None
    side: Ints | None = None
    words: Sequence[Sequence[str]] | None = None
    spans: Spans | None = None
    places: Ints | None = None
    labels: Sequence[str] | None = None
    scores: NDArray[np.float64] | None = None
    task: str = ""
    split: str = ""


def given(texts: Sequence[str] | Examples, unit: Unit) -> Given:
    """The one form of all input.

    The two texts of a similarity task are read apart (first all left ones, then all right ones); those of a pair classification
    are read together, as one text with a separator, and give one vector.
    """
    if unit not in UNITS:
        raise ValueError(f"unit={unit!r} must be one of {', '.join(UNITS)}")
    found = _from_examples(texts, unit) if isinstance(texts, Examples) else _from_texts(texts, unit)
    if not found.texts:
        raise ValueError("there are no texts to encode; give at least one")
    return found


def _from_texts(texts: Sequence[str], unit: Unit) -> Given:
    if isinstance(texts, str):
        raise TypeError("texts is one string; give a list of texts, [text] for a single one")
    listed = list(texts)
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(f"text {index} is {type(text).__name__}, not a string; every text must be one")
    if unit == "pairs":
        raise ValueError('unit="pairs" needs examples of two words each, of a word_pairs task; for all words use unit="words"')
    number = np.arange(len(listed))
    if unit != "words":
        return Given(texts=listed, number=number)
    spans = [tuple(match.span() for match in re.finditer(r"\S+", text)) for text in listed]
    words = [tuple(text[start:stop] for start, stop in found) for text, found in zip(listed, spans, strict=True)]
    return Given(texts=listed, number=number, words=words, spans=spans, places=_all_places(words))


def _from_examples(examples: Examples, unit: Unit) -> Given:
    origin: dict[str, Any] = {"task": examples.task.name, "split": examples.split}
    count = len(examples.texts)
    if unit in ("words", "pairs"):
        return _words_of(examples, unit, origin)
    labelled = examples.places is None  # the labels of words say nothing about a whole sentence
    labels, scores = (examples.labels, examples.scores) if labelled else (None, None)
    if examples.second is None or examples.task.kind != "similarity":
        return Given(
            texts=examples.texts, number=np.arange(count), second=examples.second, labels=labels, scores=scores, **origin
        )
    return Given(
        texts=[*examples.texts, *examples.second],
        number=np.tile(np.arange(count), 2),
        side=np.repeat(np.arange(2), count),
        labels=labels,
        scores=scores,
        **origin,
    )


def _words_of(examples: Examples, unit: Unit, origin: dict[str, Any]) -> Given:
    name = examples.task.name
    if examples.words is None:
        raise ValueError(f'unit="{unit}" is for tasks on words, and {name!r} is on texts; use unit="mean", "cls" or "tokens"')
    width = 0 if examples.places is None else examples.places.shape[1]
    if unit == "pairs" and width != 3:
        raise ValueError(f'unit="pairs" needs two words an example, and {name!r} has one; use unit="words"')
    marked = width == (3 if unit == "pairs" else 2)
    return Given(
        texts=examples.texts,
        number=np.arange(len(examples.texts)),
        words=examples.words,
        spans=examples.spans(),
        places=examples.places if marked else _all_places(examples.words),
        labels=examples.labels if marked else None,
        scores=examples.scores if marked else None,
        **origin,
    )


def _all_places(words: Sequence[Sequence[str]]) -> Ints:
    counts = np.array([len(found) for found in words], dtype=np.intp)
    text = np.repeat(np.arange(len(words)), counts)
    within = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([text, within], axis=1)
