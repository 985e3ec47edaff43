"""Which tokens make which vector: every unit is a mean or maximum over a run of tokens of one text."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.spelling import option
from theodolite.models.encoder import Encoder
from theodolite.models.location import EncoderError
from theodolite.models.tokens import Ints, TextInputs, Tokens, tokenize
from theodolite.tasks.task import Unit


class DroppedWordsWarning(UserWarning):
    """Some words have no vector; the message says how many and why."""


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The vectors to make of tokenized texts, one per row.

    `runs` (rows, slots, 2) are the tokens (start, end) that each row is made of: their mean, or their maximum in the slots of
    `maxima`.
    `text` is the text of each row, and `example` the word that it belongs to, or None if examples are texts. `by_text` has the
    rows in the order of their texts, and `bounds` where in that order each text begins. `dropped` words have no row.
    """

    tokens: Tokens
    text: Ints
    runs: NDArray[np.int32]
    maxima: tuple[int, ...]
    example: Ints | None
    dropped: int
    dropped_texts: int
    by_text: Ints
    bounds: Ints

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.text)

    @property
    def slots(self) -> int:
        """The number of vectors that are concatenated to a row: 2 for pairs of words, one for each of several units, else 1."""
        return int(self.runs.shape[1])

    def digest(self, *arrays: NDArray[Any]) -> str:
        """SHA-256 of tokens and rows, and of further arrays that belong to them."""
        digest = hashlib.sha256()
        for array in (self.tokens.ids, self.tokens.starts, self.tokens.types, self.text, self.runs, *arrays):
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
                digest.update(b"|")
        return digest.hexdigest()

    def rows_of(self, texts: Ints) -> tuple[Ints, Ints]:
        """The rows that come from some texts, and for each row the position of its text among them."""
        counts = self.bounds[texts + 1] - self.bounds[texts]
        first = np.repeat(self.bounds[texts] - (np.cumsum(counts) - counts), counts)
        return self.by_text[first + np.arange(len(first))], np.repeat(np.arange(len(texts)), counts)


def plan_rows(encoder: Encoder, inputs: TextInputs, unit: Unit, *more: Unit, specials: bool = False) -> RowPlan:
    """Tokenize texts and find the tokens of every row; `more` units, which pool whole texts too, are further slots of it.

    Pooled texts include the special tokens, as in sentence-transformers. A word is the mean of the tokens that share a
    character with it. A word without tokens, or with tokens beyond the encoder's `max_length`, gets no row; `warn_dropped`
    reports them.
    """
    if specials and unit != "tokens":
        raise ValueError(f"{option('specials')} is for {option('unit', 'tokens')}; {unit} has its own rule for special tokens")
    on_words = unit in ("words", "pairs")
    if unit == "text":
        inputs = _prompted(encoder, inputs)
    tokens = tokenize(encoder, inputs, offsets=on_words)
    example: Ints | None = None
    dropped = dropped_texts = 0
    if on_words:
        assert inputs.places is not None
        runs, complete = _runs_of_places(tokens, inputs)
        example, runs = np.flatnonzero(complete), runs[complete]
        text = inputs.places[example, 0]
        dropped, dropped_texts = int((~complete).sum()), len(np.unique(inputs.places[~complete, 0]))
    elif unit == "tokens":
        text, runs = _runs_of_tokens(tokens, specials)
    else:
        pooled = [_runs_of_texts(encoder, tokens, pooling) for pooling in (unit, *more)]
        text, runs = np.arange(len(inputs.texts)), np.concatenate(pooled, axis=1)
    if not len(text):
        limit = f" within {option('max_length', str(encoder.max_length))}" if dropped else ""
        raise ValueError(f"no vector can be made, because the texts have no tokens of their own{limit}")
    # Stable, so that the rows of one text stay in the order of their examples.
    by_text = np.argsort(text, kind="stable")
    bounds = np.searchsorted(text[by_text], np.arange(len(inputs.texts) + 1))
    maxima = tuple(slot for slot, pooling in enumerate((unit, *more)) if pooling == "max")
    return RowPlan(tokens, text, runs.astype(np.int32), maxima, example, dropped, dropped_texts, by_text, bounds)


def warn_dropped(plans: Sequence[RowPlan], max_length: int | None) -> None:
    """Warn once about all words that have no row, if there are any."""
    dropped, texts = sum(plan.dropped for plan in plans), sum(plan.dropped_texts for plan in plans)
    if dropped:
        words = "pairs of words" if plans[0].slots == 2 else "words"
        cut = "" if max_length is None else f"they are cut off by {option('max_length', str(max_length))}, or "
        warnings.warn(
            f"{dropped} of {dropped + sum(plan.n for plan in plans)} {words}, in {texts} of "
            f"{sum(len(plan.tokens.lengths) for plan in plans)} texts, have no vector and are left out: {cut}the tokenizer "
            "makes no tokens from them",
            DroppedWordsWarning,
            stacklevel=4,
        )


def _runs_of_tokens(tokens: Tokens, specials: bool) -> tuple[Ints, Ints]:
    text = np.repeat(np.arange(len(tokens.lengths)), tokens.lengths)
    position = np.arange(len(tokens.ids)) - np.repeat(tokens.starts[:-1], tokens.lengths)
    if not specials:
        text, position = text[~tokens.special], position[~tokens.special]
    return text, np.stack([position, position + 1], axis=1)[:, None]


def _runs_of_texts(encoder: Encoder, tokens: Tokens, unit: Unit) -> Ints:
    lengths = tokens.lengths
    first = _cls_positions(encoder, tokens) if unit == "cls" else lengths - 1
    # The vector of unit "text" is made by the model itself, of which these tokens are only what it reads.
    if unit != "text" and not lengths.all():
        raise ValueError(f"text {int(np.argmin(lengths))} has no tokens, so it has no vector; leave it out")
    start, stop = (first, first + 1) if unit in ("cls", "last") else (np.zeros_like(lengths), lengths)
    return np.stack([start, stop], axis=1)[:, None]


def _prompted(encoder: Encoder, inputs: TextInputs) -> TextInputs:
    """The texts as a sentence model reads them."""
    units = f"{option('unit', 'mean')} or {option('unit', 'cls')}"
    if encoder.pipeline is None:
        raise EncoderError(
            f"{encoder.name} is not a sentence-transformers model and so has no vector of its own for a whole text; use {units}"
        )
    if inputs.second is not None:
        raise EncoderError(
            f"{option('unit', 'text')} encodes one text at a time, but these are pairs in one sequence; use {units}"
        )
    prompt = encoder.pipeline.prompt
    return replace(inputs, texts=[prompt + text for text in inputs.texts]) if prompt else inputs


def _cls_positions(encoder: Encoder, tokens: Tokens) -> NDArray[np.int64]:
    """Where [CLS] is: first, or in some families last."""
    cls = encoder.tokenizer.cls_token_id
    for ends in (tokens.starts[:-1], tokens.starts[1:] - 1):
        if cls is not None and tokens.lengths.all() and np.all(tokens.ids[ends] == cls):
            return np.asarray(ends - tokens.starts[:-1], dtype=np.int64)
    raise EncoderError(f"{encoder.name} adds no [CLS] token; use {option('unit', 'mean')} or {option('unit', 'last')}")


def _runs_of_places(tokens: Tokens, inputs: TextInputs) -> tuple[Ints, NDArray[np.bool_]]:
    """The runs (places, slots, 2) of the words of each place, and whether all its words are whole."""
    if inputs.second is not None:
        raise ValueError(f"words of two texts in one sequence cannot be told apart; use {option('unit', 'tokens')}")
    assert inputs.places is not None
    assert inputs.spans is not None
    runs = np.zeros((len(inputs.places), inputs.places.shape[1] - 1, 2), np.intp)
    order = np.argsort(inputs.places[:, 0], kind="stable")
    bounds = np.searchsorted(inputs.places[order, 0], np.arange(len(inputs.texts) + 1))
    for text in range(len(inputs.texts)):
        rows = order[bounds[text] : bounds[text + 1]]
        if len(rows):
            runs[rows] = _word_runs(tokens, text, np.array(inputs.spans[text], np.intp))[inputs.places[rows, 1:]]
    return runs, np.all(runs[..., 1] > runs[..., 0], axis=1)


def _word_runs(tokens: Tokens, text: int, spans: Ints) -> Ints:
    """(words, 2): the tokens that share a character with each word; an empty run if there are none or some were cut off."""
    assert tokens.offsets is not None
    assert tokens.cut is not None
    inner = np.flatnonzero(~tokens.special[tokens.of(text)])  # special tokens are only before and after these
    if not len(inner):
        return np.zeros((len(spans), 2), np.intp)
    begins, ends = tokens.offsets[tokens.of(text)][inner].T
    # Tokens and words both run from left to right, so the first and last token of a word are found by bisection.
    first = np.searchsorted(ends, spans[:, 0], side="right")
    last = np.searchsorted(begins, spans[:, 1], side="left")
    cut = int(tokens.cut[text])
    # A word whose last tokens were cut off would be the mean of the others, which is another vector: it is dropped instead.
    complete = (last > first) & ((cut < 0) | (spans[:, 1] <= cut))
    runs = np.stack([first, last], axis=1) + inner[0]
    runs[~complete] = 0
    return np.asarray(runs, dtype=np.intp)
