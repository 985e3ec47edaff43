"""What is to be encoded: plain texts or the examples of a task, their tokens in flat arrays, and whether the tokenizer fits them.

A wrong tokenizer gives vectors like any other, so it shows only in the counts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.spelling import option
from theodolite.models.encoder import Encoder
from theodolite.models.location import EncoderError
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import UNITS, Unit

Ints: TypeAlias = NDArray[np.intp]

CHUNK = 1024  # texts tokenized at a time: what the tokenizer returns is many times larger than what is kept of it


@dataclass(frozen=True, kw_only=True, eq=False)
class TextInputs:
    """Texts to encode, in the order they were given; `number` is that of each text in what the caller gave.

    `second` is the other text of each pair if both are one sequence, `side` (0 or 1) which text of a pair this is if they are
    read apart. If words get vectors, `words` and `spans` are the words of each text with their characters (start, end), and
    `places` has (text, word) or (text, head word, dependent word) of each vector. `labels` and `scores` belong to places, or
    else to texts.
    """

    texts: Sequence[str]
    number: Ints
    second: Sequence[str] | None = None
    side: Ints | None = None
    words: Sequence[Sequence[str]] | None = None
    spans: Sequence[tuple[tuple[int, int], ...]] | None = None
    places: Ints | None = None
    labels: Sequence[str] | None = None
    scores: NDArray[np.float64] | None = None
    task: str = ""
    split: str = ""


def text_inputs(texts: Sequence[str] | Examples, unit: Unit, *, together: bool = False) -> TextInputs:
    """Plain texts or examples as `TextInputs`.

    The two texts of a similarity task are read apart, first all left ones, then all right ones, unless `together`; those of a
    pair classification are always one sequence.
    """
    if unit not in UNITS:
        raise ValueError(f"{option('unit', unit)} must be one of {', '.join(UNITS)}")
    inputs = _from_examples(texts, unit, together) if isinstance(texts, Examples) else _from_texts(texts, unit)
    if not inputs.texts:
        raise ValueError("there are no texts to encode; give at least one")
    return inputs


def _from_texts(texts: Sequence[str], unit: Unit) -> TextInputs:
    if isinstance(texts, str):
        raise TypeError("texts is one string; give a list of texts, [text] for a single one")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {index} is {type(text).__name__}, not a string; every text must be one")
    if unit == "pairs":
        raise ValueError(f"{option('unit', 'pairs')} needs examples of two words; for all words use {option('unit', 'words')}")
    number = np.arange(len(texts))
    if unit != "words":
        return TextInputs(texts=texts, number=number)
    spans = [tuple(match.span() for match in re.finditer(r"\S+", text)) for text in texts]
    words = [tuple(text[start:stop] for start, stop in limits) for text, limits in zip(texts, spans, strict=True)]
    return TextInputs(texts=texts, number=number, words=words, spans=spans, places=_all_places(words))


def _from_examples(examples: Examples, unit: Unit, together: bool) -> TextInputs:
    texts, number = examples.texts, np.arange(len(examples.texts))
    columns: dict[str, Any] = {"task": examples.task.name, "split": examples.split}
    labels = {"labels": examples.labels, "scores": examples.scores}
    if unit in ("words", "pairs"):
        if examples.words is None:
            raise ValueError(
                f"{option('unit', unit)} is for words, but {examples.task.name!r} is on texts: use mean, cls or tokens"
            )
        width = 0 if examples.places is None else examples.places.shape[1]
        if unit == "pairs" and width != 3:
            raise ValueError(f"{option('unit', unit)} needs two words per example; use {option('unit', 'words')}")
        # All words of a task on pairs can be encoded too, but then there is no example that a label could belong to.
        has_examples = width == (3 if unit == "pairs" else 2)
        columns |= {"words": examples.words, "spans": examples.spans(), **(labels if has_examples else {})}
        columns["places"] = examples.places if has_examples else _all_places(examples.words)
        return TextInputs(texts=texts, number=number, **columns)
    if examples.places is None:  # the labels of words say nothing about a whole sentence
        columns |= labels
    if examples.second is None or examples.task.kind != "similarity" or together:
        return TextInputs(texts=texts, second=examples.second, number=number, **columns)
    side = np.repeat(np.arange(2), len(number))
    return TextInputs(texts=[*texts, *examples.second], number=np.tile(number, 2), side=side, **columns)


def _all_places(words: Sequence[Sequence[str]]) -> Ints:
    counts = np.array([len(sentence) for sentence in words], dtype=np.intp)
    text = np.repeat(np.arange(len(words)), counts)
    within = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([text, within], axis=1)


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of all texts, one after the other: a few bytes per token, however long the corpus is.

    Those of text i are `starts[i]` to `starts[i + 1]`. `types` say which text of a pair a token belongs to, None if all are 0.
    `offsets` are characters (start, end), and `cut` is the character from which on a text was cut off (-1 if it is not), both
    None unless words were requested. `shortened` texts were cut to the encoder's `max_length`.
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    special: NDArray[np.bool_]
    types: NDArray[np.int8] | None = None
    offsets: NDArray[np.int32] | None = None
    cut: NDArray[np.int32] | None = None
    shortened: NDArray[np.bool_] | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each text."""
        return np.diff(self.starts)

    def of(self, text: int) -> slice:
        """The tokens of one text, as a slice of the arrays."""
        return slice(int(self.starts[text]), int(self.starts[text + 1]))


def tokenize(encoder: Encoder, inputs: TextInputs, *, offsets: bool = False) -> Tokens:
    """Tokenize all texts with the special tokens that the encoder was trained with; longer ones are cut to its `max_length`."""
    if offsets and not encoder.tokenizer.is_fast:
        raise EncoderError(
            f"the tokenizer of {encoder.name} does not report which characters its tokens cover, which vectors of words need; "
            f"use {option('unit', 'tokens')}, or an encoder with a fast tokenizer"
        )
    chunks = [_chunk(encoder, inputs, start, offsets) for start in range(0, len(inputs.texts), CHUNK)]
    columns: dict[str, Any] = {key: np.concatenate([chunk[key] for chunk in chunks]) for key in chunks[0]}
    starts = np.concatenate([[0], np.cumsum(columns.pop("lengths"))])
    if "types" in columns and not columns["types"].any():  # encoders assume zeros by themselves
        del columns["types"]
    ids, size = columns["ids"], encoder.n_tokens
    if size is not None and len(ids) and ids.max() >= size:
        mismatch = f"gives the token number {ids.max()}, but the encoder has only {size} tokens"
        raise EncoderError(f"the tokenizer of {encoder.name} {mismatch}; use the tokenizer that it was trained with")
    return Tokens(starts=starts, **columns)


def _chunk(encoder: Encoder, inputs: TextInputs, start: int, offsets: bool) -> dict[str, NDArray[Any]]:
    encoded = encoder.tokenizer(
        list(inputs.texts[start : start + CHUNK]),
        None if inputs.second is None else list(inputs.second[start : start + CHUNK]),
        padding=False,
        truncation=encoder.max_length is not None,
        max_length=encoder.max_length,
        add_special_tokens=not encoder.is_static,
        return_special_tokens_mask=True,
        return_offsets_mapping=offsets,
        return_attention_mask=False,
        verbose=False,  # it would warn of long texts that are cut on purpose
    )
    columns: dict[str, NDArray[Any]] = {
        "ids": _flat(encoded["input_ids"], np.int32),
        "lengths": np.array([len(ids) for ids in encoded["input_ids"]], np.int64),
        "special": _flat(encoded["special_tokens_mask"], np.bool_),
    }
    if "token_type_ids" in encoded:
        columns["types"] = _flat(encoded["token_type_ids"], np.int8)
    if offsets:
        columns["offsets"] = _flat(chain.from_iterable(encoded["offset_mapping"]), np.int32).reshape(-1, 2)
        columns["cut"] = np.array([_first_cut_character(encoding) for encoding in encoded.encodings], np.int32)
    columns["shortened"] = columns["lengths"] == (encoder.max_length or 0)
    for index in np.flatnonzero(columns["shortened"]):
        columns["shortened"][index] = _is_shortened(encoder, inputs, encoded, start, int(index))
    return columns


def _is_shortened(encoder: Encoder, inputs: TextInputs, encoded: Any, start: int, index: int) -> bool:
    """Whether a text that is as long as allowed was longer."""
    if encoded.encodings is not None:
        return bool(encoded.encodings[index].overflowing)
    second = None if inputs.second is None else inputs.second[start + index]
    uncut = encoder.tokenizer(inputs.texts[start + index], second, truncation=False, verbose=False)["input_ids"]
    return len(uncut) > len(encoded["input_ids"][index])


def _flat(lists: Iterable[Iterable[int]], dtype: Any) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(lists), dtype)


def _first_cut_character(encoding: Any) -> int:
    # `overflowing` has the tokens that truncation cut off, in parts that have special tokens of their own.
    for rest in encoding.overflowing:
        for (start, _), special in zip(rest.offsets, rest.special_tokens_mask, strict=True):
            if not special:
                return int(start)
    return -1


# Shares of unknown tokens, and of confused texts, from which there is a warning; of unknown tokens also an error.
WORTH_A_WARNING = 0.01
TOO_MANY_UNKNOWN = 0.2


class TokenizerWarning(UserWarning):
    """The tokenizer may not fit the texts; the message says what was counted."""


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """What a tokenizer made of some texts; `tokens` are without special ones.

    `cut` texts are longer than `max_length` (0 for no limit). `confused` texts differ from all earlier ones and have the tokens
    of one of them.
    """

    texts: int = 0
    tokens: int = 0
    unknown: int = 0
    cut: int = 0
    distinct: int = 0
    confused: int = 0
    max_length: int = 0

    @property
    def unknown_share(self) -> float:
        """Unknown tokens as a share of all."""
        return self.unknown / max(1, self.tokens)

    def to_dict(self) -> dict[str, int]:
        """Plain values, for the origin of a space."""
        return asdict(self)

    def warning_sentences(self) -> list[str]:
        """A sentence for each count that is worth a look, unknown tokens first."""
        sentences = []
        if self.unknown_share >= WORTH_A_WARNING:
            sentences.append(
                f"{self.unknown:,} of {self.tokens:,} tokens ({self.unknown_share:.1%}) are unknown to the tokenizer, so it may "
                "not be the one that the encoder was trained with"
            )
        if self.cut:
            limit = option("max_length", str(self.max_length))
            sentences.append(f"{self.cut:,} of {self.texts:,} texts are longer than {limit} and were cut")
        confused_share = self.confused / max(1, self.distinct)
        if confused_share >= WORTH_A_WARNING:
            sentences.append(
                f"{self.confused:,} of {self.distinct:,} distinct texts ({confused_share:.1%}) have the same tokens as "
                "another, so the encoder cannot tell them apart"
            )
        return sentences

    def check(self, *, allow_unknown: bool) -> None:
        """Warn about what is worth a look, and raise if a fifth of the tokens is unknown."""
        sentences = self.warning_sentences()
        if self.unknown_share >= TOO_MANY_UNKNOWN and not allow_unknown:
            raise EncoderError(f"{sentences[0]}; fix the tokenizer, or accept it with {option('allow_unknown')}")
        for sentence in sentences:
            warnings.warn(sentence, TokenizerWarning, stacklevel=4)


def count_tokens(encoder: Encoder, inputs: TextInputs, tokens: Tokens) -> TokenCounts:
    """Count what a tokenizer made of texts."""
    try:
        unknown_id = encoder.tokenizer.unk_token_id
    except RecursionError:  # transformers looks for the unknown token's number under the unknown token
        problem = f"the unknown token of {encoder.name}'s tokenizer is not in its vocabulary"
        raise ValueError(f"{problem}; correct unk_token in tokenizer_config.json, or copy the model again") from None
    own = tokens.ids[~tokens.special]
    seconds = inputs.second if inputs.second is not None else [""] * len(inputs.texts)
    # 64-bit hashes instead of the texts: of a million texts, two are mistaken for each other with probability 3e-8.
    distinct = {hash(pair) for pair in zip(inputs.texts, seconds, strict=True)}
    sequences = {hash(tokens.ids[tokens.of(index)].tobytes()) for index in range(len(inputs.texts))}
    return TokenCounts(
        texts=len(inputs.texts),
        tokens=len(own),
        unknown=0 if unknown_id is None else int((own == unknown_id).sum()),
        cut=0 if tokens.shortened is None else int(tokens.shortened.sum()),
        distinct=len(distinct),
        confused=max(0, len(distinct) - len(sequences)),
        max_length=encoder.max_length or 0,
    )


def counts_line(counts: Mapping[str, Any]) -> str:
    """The counts that a space carries in its origin, in one line; empty if it has none."""
    if not counts:
        return ""
    known = TokenCounts(**counts)
    confused = (
        f"; {known.confused:,} of {known.distinct:,} different texts tokenize the same as another" if known.confused else ""
    )
    return f"{known.tokens:,} tokens, {known.unknown_share:.1%} unknown; {known.cut:,} of {known.texts:,} texts cut{confused}"
