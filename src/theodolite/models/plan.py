"""Which tokens make which vector: every unit is a mean or maximum over a run of tokens of one text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.models.encoder import Encoder
from theodolite.models.inputs import Given, Ints, Unit
from theodolite.models.locate import EncoderError
from theodolite.models.tokens import Tokens, tokenize


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows to make. Row r is made of the tokens `runs[r]` (parts, 2) of text `text[r]`; two parts are put side by side."""

    tokens: Tokens
    text: Ints
    runs: NDArray[np.int32]
    maximum: bool
    place: Ints | None
    """The example that each row belongs to, where examples are words."""
    dropped: int
    """Examples without a row: their words were cut off, or have no token."""
    by_text: Ints
    bounds: Ints

    @property
    def n(self) -> int:
        return len(self.text)

    @property
    def parts(self) -> int:
        """Vectors put side by side in a row: 2 for pairs of words."""
        return int(self.runs.shape[1])

    def rows_of(self, texts: Ints) -> tuple[Ints, Ints]:
        """(rows, owner): the rows that come from these texts, and for each the position of its text among them."""
        counts = self.bounds[texts + 1] - self.bounds[texts]
        first = np.repeat(self.bounds[texts] - (np.cumsum(counts) - counts), counts)
        return self.by_text[first + np.arange(len(first))], np.repeat(np.arange(len(texts)), counts)


def make_plan(encoder: Encoder, given: Given, unit: Unit, *, specials: bool = False) -> Plan:
    """Tokenize the texts and lay out the rows of a unit.

    `specials` keeps tokens that the tokenizer added, for unit="tokens". Pooled texts count them, as sentence-transformers does.
    """
    if specials and unit != "tokens":
        raise ValueError(f'specials=True is for unit="tokens"; unit="{unit}" takes them in or leaves them out by its own rule')
    on_words = unit in ("words", "pairs")
    tokens = tokenize(encoder, given, offsets=on_words)
    place: Ints | None = None
    dropped = 0
    if on_words:
        text, runs, place = _word_rows(tokens, given)
        dropped = len(given.places if given.places is not None else ()) - len(text)
    elif unit == "tokens":
        text, runs = _token_rows(tokens, specials)
    else:
        text = np.arange(len(given.texts))
        runs = _text_runs(encoder, tokens, unit)
    if not len(text):
        raise ValueError("no vector is left to make: the texts hold no token of their own")
    by_text = np.argsort(text, kind="stable")
    bounds = np.searchsorted(text[by_text], np.arange(len(given.texts) + 1))
    return Plan(tokens, text, runs.astype(np.int32), unit == "max", place, dropped, by_text, bounds)


def _token_rows(tokens: Tokens, specials: bool) -> tuple[Ints, Ints]:
    text = np.repeat(np.arange(len(tokens.lengths)), tokens.lengths)
    position = np.arange(len(tokens.ids)) - np.repeat(tokens.starts[:-1], tokens.lengths)
    if not specials:
        text, position = text[~tokens.special], position[~tokens.special]
    return text, np.stack([position, position + 1], axis=1)[:, None]


def _text_runs(encoder: Encoder, tokens: Tokens, unit: Unit) -> Ints:
    lengths = tokens.lengths
    if unit == "cls":
        first = _cls_positions(encoder, tokens)
    elif unit == "last":
        first = lengths - 1
    if not lengths.all():
        raise ValueError(
            f"text {int(np.argmin(lengths))} has no token, and the tokenizer of {encoder.name} adds none, so it has no vector; "
            "leave it out"
        )
    if unit in ("mean", "max"):
        return np.stack([np.zeros_like(lengths), lengths], axis=1)[:, None]
    return np.stack([first, first + 1], axis=1)[:, None]


def _cls_positions(encoder: Encoder, tokens: Tokens) -> NDArray[np.int64]:
    """Where [CLS] stands: first, or last in some families."""
    cls = encoder.tokenizer.cls_token_id
    for position in (0, -1):
        index = tokens.starts[:-1] if position == 0 else tokens.starts[1:] - 1
        if cls is not None and tokens.lengths.all() and np.all(tokens.ids[index] == cls):
            return np.asarray(index - tokens.starts[:-1], dtype=np.int64)
    raise EncoderError(f'{encoder.name} puts no [CLS] token into a text; use unit="mean" or unit="last"')


def _word_rows(tokens: Tokens, given: Given) -> tuple[Ints, Ints, Ints]:
    """Rows of the places whose words are whole within their text's tokens, and which places those are."""
    if given.second is not None:
        raise ValueError('words of two texts that are read together cannot be told apart; use unit="tokens" or "mean"')
    assert given.places is not None
    assert given.spans is not None
    runs = np.zeros((len(given.places), given.places.shape[1] - 1, 2), np.intp)
    order = np.argsort(given.places[:, 0], kind="stable")
    bounds = np.searchsorted(given.places[order, 0], np.arange(len(given.texts) + 1))
    for text in range(len(given.texts)):
        mine = order[bounds[text] : bounds[text + 1]]
        if len(mine):
            runs[mine] = word_runs(tokens, text, np.array(given.spans[text], np.intp))[given.places[mine, 1:]]
    kept = np.flatnonzero((runs[..., 1] > runs[..., 0]).all(axis=1))
    return given.places[kept, 0], runs[kept], kept


def word_runs(tokens: Tokens, text: int, spans: Ints) -> Ints:
    """(words, 2): the tokens that share a character with each word; an empty run where there are none or some were cut off."""
    assert tokens.offsets is not None
    assert tokens.cut is not None
    own = np.flatnonzero(~tokens.special[tokens.of(text)])
    if not len(own):
        return np.zeros((len(spans), 2), np.intp)
    begins, ends = tokens.offsets[tokens.of(text)][own].T
    first = np.searchsorted(ends, spans[:, 0], side="right")
    last = np.searchsorted(begins, spans[:, 1], side="left")
    cut = int(tokens.cut[text])
    whole = (last > first) & ((cut < 0) | (spans[:, 1] <= cut))
    runs = np.stack([first, last], axis=1) + own[0]
    runs[~whole] = 0
    return np.asarray(runs, dtype=np.intp)
