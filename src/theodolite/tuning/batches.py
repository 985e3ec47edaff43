"""Examples as batches: token ids, and for every vector that is wanted the tokens it is the mean of.

[CLS], the mean of a text, a word (mean of its subwords), a pair of words: all are means over chosen token positions. So one
tensor of weights `spots` (batch, slots, vectors, tokens) serves every kind of task, and `spots @ hidden` gives the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from theodolite.tasks.errors import DataError, clipped
from theodolite.tasks.examples import Examples

Unit: TypeAlias = Literal["cls", "mean", "tokens"]
Batch: TypeAlias = dict[str, torch.Tensor]

IGNORED = -100
"""The label of padding, which losses and scores leave out."""


@dataclass(frozen=True)
class Item:
    """A tokenised text: for each vector the token positions of its slots (one, or two for a pair of words), and its target."""

    ids: list[int]
    types: list[int] | None
    spots: list[tuple[list[int], ...]]
    targets: list[float]


def text_items(
    texts: Sequence[str],
    second: Sequence[str] | None,
    targets: Sequence[float] | None,
    tokenizer: Any,
    *,
    unit: Unit,
    max_length: int | None,
) -> list[Item]:
    """One item a text (or pair of texts in one sequence); longer ones are cut."""
    if unit == "cls" and tokenizer.cls_token_id is None:
        raise ValueError("this tokenizer has no [CLS]; use pooling='mean'")
    given = (list(texts),) if second is None else (list(texts), list(second))
    coded = tokenizer(*given, truncation=max_length is not None, max_length=max_length, return_special_tokens_mask=True)
    types = coded.get("token_type_ids")
    items = []
    for row, ids in enumerate(coded["input_ids"]):
        spots = _spots(unit, len(ids), coded["special_tokens_mask"][row])
        target = [0.0 if targets is None else float(targets[row])] * len(spots)
        items.append(Item(ids, None if types is None else types[row], spots, target))
    return items


def word_items(examples: Examples, targets: Sequence[int] | None, tokenizer: Any, *, max_length: int | None) -> list[Item]:
    """One item a sentence; its vectors are the words (or pairs of words) that are examples."""
    if not tokenizer.is_fast:
        raise ValueError("tasks on words need a fast tokenizer, which knows where each token stands in the text")
    assert examples.places is not None
    assert examples.words is not None
    cut = {"truncation": max_length is not None, "max_length": max_length}
    coded = tokenizer(list(examples.texts), **cut, return_offsets_mapping=True)
    types = coded.get("token_type_ids")
    spans = examples.spans()
    pieces = [pieces_of(offsets, spans[row]) for row, offsets in enumerate(coded["offset_mapping"])]
    spots: list[list[tuple[list[int], ...]]] = [[] for _ in examples.texts]
    wanted: list[list[float]] = [[] for _ in examples.texts]
    for number, (sentence, *words) in enumerate(examples.places.tolist()):
        lost = next((word for word in words if not pieces[sentence][word]), None)
        if lost is not None:
            raise DataError(
                f"{examples.where(number)}: word {clipped(examples.words[sentence][lost])} has no token; it lies beyond "
                f"max_length={max_length}, or the tokenizer drops it: raise max_length or leave the sentence out"
            )
        spots[sentence].append(tuple(pieces[sentence][word] for word in words))
        wanted[sentence].append(0.0 if targets is None else float(targets[number]))
    return [
        Item(ids, None if types is None else types[row], spots[row], wanted[row])
        for row, ids in enumerate(coded["input_ids"])
        if spots[row]
    ]


def pieces_of(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The token positions of each word: those whose characters overlap the word's. Both run from left to right."""
    pieces: list[list[int]] = [[] for _ in spans]
    word = 0
    for position, (start, end) in enumerate(offsets):
        if start == end:
            continue  # special tokens have no characters
        while word < len(spans) and spans[word][1] <= start:
            word += 1
        reached = word
        while reached < len(spans) and spans[reached][0] < end:
            pieces[reached].append(position)
            reached += 1
    return pieces


def collate(items: Sequence[Item], *, pad: int, regression: bool = False) -> Batch:
    """Items padded to the longest, with their weights and targets."""
    tokens, vectors = max(len(item.ids) for item in items), max(len(item.spots) for item in items)
    slots = len(items[0].spots[0])
    batch = {
        "input_ids": torch.full((len(items), tokens), pad),
        "attention_mask": torch.zeros(len(items), tokens, dtype=torch.long),
        "spots": torch.zeros(len(items), slots, vectors, tokens),
        "labels": torch.full((len(items), vectors), float(IGNORED)) if regression else torch.full((len(items), vectors), IGNORED),
    }
    if items[0].types is not None:
        batch["token_type_ids"] = torch.zeros(len(items), tokens, dtype=torch.long)
    for row, item in enumerate(items):
        batch["input_ids"][row, : len(item.ids)] = torch.tensor(item.ids)
        batch["attention_mask"][row, : len(item.ids)] = 1
        batch["labels"][row, : len(item.targets)] = torch.tensor(item.targets, dtype=batch["labels"].dtype)
        if item.types is not None:
            batch["token_type_ids"][row, : len(item.ids)] = torch.tensor(item.types)
        for vector, spot in enumerate(item.spots):
            for slot, positions in enumerate(spot):
                batch["spots"][row, slot, vector, positions] = 1 / len(positions)
    return batch


def pooled(hidden: torch.Tensor, spots: torch.Tensor) -> torch.Tensor:
    """The vectors (batch, vectors, slots · d): means over token positions, slots side by side."""
    vectors = spots.to(hidden.dtype) @ hidden.unsqueeze(1)
    return vectors.transpose(1, 2).flatten(2)


def in_batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Runs of `size` items, in order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _spots(unit: Unit, length: int, special: Sequence[int]) -> list[tuple[list[int], ...]]:
    if unit == "cls":
        return [([0],)]
    if unit == "mean":
        return [(list(range(length)),)]
    return [([position],) for position in range(length) if not special[position]]
