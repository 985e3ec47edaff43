"""Examples as batches: token numbers, and for every vector the tokens it is the mean of.

[CLS], the mean of a text, a word (the mean of its subwords), a pair of words: all are means over runs of tokens. So one tensor
of weights `spots` (texts, slots, vectors, tokens) serves every kind of task, and `spots @ hidden` gives the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from theodolite.models.alignment import plan_rows, warn_dropped
from theodolite.models.encoder import Encoder
from theodolite.models.tokens import TextInputs, text_inputs
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Unit
from theodolite.tuning.heads import IGNORED

Batch: TypeAlias = dict[str, torch.Tensor]

# Texts per batch if there is nothing to train.
BATCH_TEXTS = 64


@dataclass(frozen=True)
class Item:
    """A tokenized text and its vectors.

    Parameters
    ----------
    ids
        Token numbers.
    types
        Which text of a pair a token belongs to; None if all belong to one.
    runs
        For each vector and each of its slots (two for a pair of words) the tokens (start, end).
    targets
        For each vector what the head should answer: the number of a label, or a score.
    examples
        For each vector the number of its example.
    """

    ids: list[int]
    types: list[int] | None
    runs: list[list[tuple[int, int]]]
    targets: list[float]
    examples: list[int]


def make_items(encoder: Encoder, inputs: TextInputs, unit: Unit, *, targets: Sequence[float] | None = None) -> list[Item]:
    """Tokenize texts, longer ones cut to the encoder's `max_length`; texts without vectors are left out, dropped words warned of.

    Parameters
    ----------
    encoder
        Its tokenizer is used.
    inputs
        The texts, made by `text_inputs` for the same unit.
    unit
        What gets a vector.
    targets
        One for each example; 0 by default.
    """
    plan = plan_rows(encoder, inputs, unit)
    warn_dropped([plan], encoder.max_length)
    examples = (inputs.number[plan.text] if plan.example is None else plan.example).tolist()
    runs = plan.runs.tolist()
    items = []
    for text in range(len(inputs.texts)):
        rows = plan.by_text[plan.bounds[text] : plan.bounds[text + 1]].tolist()
        if rows:
            tokens = plan.tokens.of(text)
            items.append(
                Item(
                    ids=plan.tokens.ids[tokens].tolist(),
                    types=None if plan.tokens.types is None else plan.tokens.types[tokens].tolist(),
                    runs=[runs[row] for row in rows],
                    targets=[0.0 if targets is None else float(targets[examples[row]]) for row in rows],
                    examples=[examples[row] for row in rows],
                )
            )
    return items


def drop_cut_words(splits: Sequence[Examples], encoder: Encoder) -> list[Examples]:
    """The splits of a task on words without the words that have no vector, with one warning that counts them over all splits.

    Parameters
    ----------
    splits
        The examples of each split.
    encoder
        Its tokenizer and `max_length` decide which words have tokens.
    """
    # Dropped here, once, so that losses, scores, labels and the tracker all have the same words.
    plans = [plan_rows(encoder, text_inputs(examples, examples.task.unit), examples.task.unit) for examples in splits]
    warn_dropped(plans, encoder.max_length)
    return [
        examples.take(np.asarray(plan.example)) if plan.dropped else examples
        for examples, plan in zip(splits, plans, strict=True)
    ]


def collate(items: Sequence[Item], *, pad: int, regression: bool = False) -> Batch:
    """Items as tensors, padded to the longest: input_ids, attention_mask, spots, labels and perhaps token_type_ids.

    Parameters
    ----------
    items
        The items of one batch.
    pad
        The token that fills up short texts.
    regression
        Whether targets are scores instead of label numbers.
    """
    tokens, vectors = max(len(item.ids) for item in items), max(len(item.runs) for item in items)
    slots = len(items[0].runs[0])
    batch = {
        "input_ids": torch.full((len(items), tokens), pad),
        "attention_mask": torch.zeros(len(items), tokens, dtype=torch.long),
        "spots": torch.zeros(len(items), slots, vectors, tokens),
        "labels": torch.full((len(items), vectors), float(IGNORED) if regression else IGNORED),
    }
    if items[0].types is not None:  # the items of one call of `make_items` all have types, or none has
        batch["token_type_ids"] = torch.zeros(len(items), tokens, dtype=torch.long)
    for row, item in enumerate(items):
        batch["input_ids"][row, : len(item.ids)] = torch.tensor(item.ids)
        batch["attention_mask"][row, : len(item.ids)] = 1
        batch["labels"][row, : len(item.targets)] = torch.tensor(item.targets, dtype=batch["labels"].dtype)
        if item.types is not None:
            batch["token_type_ids"][row, : len(item.ids)] = torch.tensor(item.types)
        for vector, runs in enumerate(item.runs):
            for slot, (start, stop) in enumerate(runs):
                batch["spots"][row, slot, vector, start:stop] = 1 / (stop - start)
    return batch


def batches_by_length(items: Sequence[Item], *, pad: int, regression: bool = False) -> tuple[list[int], Iterator[Batch]]:
    """The numbers of the items in the order of their batches, the shortest first, and the batches.

    Parameters
    ----------
    items
        Tokenized texts; those of similar length in one batch need the least padding.
    pad, regression
        As in `collate`.
    """
    order = sorted(range(len(items)), key=lambda i: len(items[i].ids))
    parts = (order[start : start + BATCH_TEXTS] for start in range(0, len(order), BATCH_TEXTS))
    return order, (collate([items[i] for i in part], pad=pad, regression=regression) for part in parts)
