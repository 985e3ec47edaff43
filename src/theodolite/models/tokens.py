"""Texts as token numbers, in flat arrays: a few bytes a token, however long the corpus is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.models.encoder import Encoder
from theodolite.models.inputs import Given
from theodolite.models.locate import EncoderError

CHUNK = 1024  # texts tokenized at a time: what the tokenizer returns is many times larger than what is kept


@dataclass(frozen=True, eq=False)
class Tokens:
    """All tokens one after the other; those of text i are `starts[i]` to `starts[i + 1]`."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    special: NDArray[np.bool_]
    """True for tokens that the tokenizer added."""
    types: NDArray[np.int8] | None
    """Which text of a pair a token belongs to, where the encoder asks for it."""
    offsets: NDArray[np.int32] | None
    """(tokens, 2): the characters of each token, where words are asked for."""
    cut: NDArray[np.int32] | None
    """The character from which on a text was cut off, or -1, where words are asked for."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def of(self, text: int) -> slice:
        return slice(int(self.starts[text]), int(self.starts[text + 1]))


def tokenize(encoder: Encoder, given: Given, *, offsets: bool = False) -> Tokens:
    """Tokens of all texts with the specials that the encoder was trained with, cut to its `max_length`."""
    if offsets and not encoder.tokenizer.is_fast:
        raise EncoderError(
            f"the tokenizer of {encoder.name} does not tell which characters its tokens are, which words need; "
            'use unit="tokens", or an encoder with a fast tokenizer'
        )
    parts = [_chunk(encoder, given, start, offsets) for start in range(0, len(given.texts), CHUNK)]
    columns: dict[str, Any] = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    types = columns.get("types")
    return Tokens(
        ids=columns["ids"],
        starts=np.concatenate([[0], np.cumsum(columns["lengths"])]),
        special=columns["special"],
        types=types if types is not None and types.any() else None,
        offsets=columns.get("offsets"),
        cut=columns.get("cut"),
    )


def _chunk(encoder: Encoder, given: Given, start: int, offsets: bool) -> dict[str, NDArray[Any]]:
    texts = list(given.texts[start : start + CHUNK])
    second = None if given.second is None else list(given.second[start : start + CHUNK])
    found = encoder.tokenizer(
        texts,
        second,
        padding=False,
        truncation=encoder.max_length is not None,
        max_length=encoder.max_length,
        return_special_tokens_mask=True,
        return_offsets_mapping=offsets,
        return_attention_mask=False,
        verbose=False,
    )
    columns: dict[str, NDArray[Any]] = {
        "ids": _flat(found["input_ids"], np.int32),
        "lengths": np.array([len(ids) for ids in found["input_ids"]], np.int64),
        "special": _flat(found["special_tokens_mask"], np.bool_),
    }
    if "token_type_ids" in found:
        columns["types"] = _flat(found["token_type_ids"], np.int8)
    if offsets:
        columns["offsets"] = _flat(chain.from_iterable(found["offset_mapping"]), np.int32).reshape(-1, 2)
        columns["cut"] = np.array([_cut(encoding) for encoding in found.encodings], np.int32)
    return columns


def _flat(lists: Iterable[Iterable[int]], dtype: Any) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(lists), dtype)


def _cut(encoding: Any) -> int:
    """The first character of what was cut off, or -1 where nothing was."""
    for part in encoding.overflowing:
        for (start, _), special in zip(part.offsets, part.special_tokens_mask, strict=True):
            if not special:
                return int(start)
    return -1
