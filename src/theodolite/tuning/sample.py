"""The fixed sample on which the geometry of a model in training is measured, tokenised once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import nn

from theodolite.core.sample import sample_rows
from theodolite.models.encoder import Encoder
from theodolite.tasks.examples import Examples
from theodolite.tuning.batches import Batch, Item, Unit, collate, in_batches, pooled, text_items, word_items

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sample:
    """Padded batches of a few texts, and the label of every vector they give (none where there are no labels)."""

    batches: tuple[Batch, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, given: Examples | Sequence[str], encoder: Encoder, *, unit: Unit, size: int, seed: int) -> Sample:
        """A seeded sample of at most `size` texts. Tasks on words give their words, or pairs of words, whatever the unit."""
        items, labels = _items(given, encoder.tokenizer, unit, size, seed, encoder.max_length)
        ordered = sorted(range(len(items)), key=lambda i: len(items[i].ids))  # texts of like length pad each other least
        batches = tuple(collate(run, pad=encoder.pad_id) for run in in_batches([items[i] for i in ordered], 64))
        return cls(batches, tuple(label for i in ordered for label in labels[i]))

    def vectors(self, encoder: nn.Module, layers: Sequence[int] | None) -> dict[int, Floats]:
        """The vectors of each layer (0 is the embeddings), in one forward pass over the sample."""
        found: dict[int, list[Floats]] = {}
        device = next(encoder.parameters()).device
        for batch in self.batches:
            moved = {name: tensor.to(device) for name, tensor in batch.items()}
            spots = moved.pop("spots")
            del moved["labels"]
            real = spots[:, 0].sum(-1) > 0
            hidden = encoder(**moved, output_hidden_states=True).hidden_states
            for layer in _chosen(layers, len(hidden)):
                found.setdefault(layer, []).append(pooled(hidden[layer], spots)[real].float().cpu().numpy())
        return {layer: np.concatenate(parts) for layer, parts in found.items()}


def encoder_of(model: Any) -> nn.Module:
    """The transformer inside a head, a SentenceTransformer, a model with a head of its own, or the encoder itself."""
    inner = getattr(model, "module", model)
    if hasattr(inner, "encode") and hasattr(inner, "tokenize"):  # SentenceTransformer
        found: nn.Module = inner[0].auto_model
        return found
    if hasattr(inner, "head") and isinstance(getattr(inner, "encoder", None), nn.Module) and hasattr(inner.encoder, "config"):
        return _encoder(inner.encoder)
    return _encoder(getattr(inner, "base_model", inner))


def _encoder(found: Any) -> nn.Module:
    assert isinstance(found, nn.Module)
    return found


def _items(
    given: Examples | Sequence[str], tokenizer: Any, unit: Unit, size: int, seed: int, limit: int | None
) -> tuple[list[Item], list[tuple[str, ...]]]:
    if not isinstance(given, Examples):
        texts = [given[i] for i in sample_rows(len(given), size, seed=seed)]
        return text_items(texts, None, None, tokenizer, unit=unit, max_length=limit), [()] * len(texts)
    if given.places is not None:
        return _word_sample(given, tokenizer, size, seed, limit)
    if given.task.kind == "similarity":
        # A pair is two texts, each with its own vector: half as many pairs.
        chosen = given.take(sample_rows(len(given), max(1, size // 2), seed=seed))
        texts = [*chosen.texts, *(chosen.second or ())]
        return text_items(texts, None, None, tokenizer, unit=unit, max_length=limit), [()] * len(texts)
    chosen = given.take(sample_rows(len(given), size, seed=seed))
    items = text_items(chosen.texts, chosen.second, None, tokenizer, unit=unit, max_length=limit)
    return items, [(label,) * len(item.spots) for label, item in zip(chosen.labels or (), items, strict=True)]


def _word_sample(
    given: Examples, tokenizer: Any, size: int, seed: int, limit: int | None
) -> tuple[list[Item], list[tuple[str, ...]]]:
    assert given.places is not None
    kept = sample_rows(len(given.texts), size, seed=seed)
    rows = np.flatnonzero(np.isin(given.places[:, 0], kept))
    chosen = given.take(rows[np.argsort(given.places[rows, 0], kind="stable")])
    labels: list[list[str]] = [[] for _ in chosen.texts]
    assert chosen.places is not None
    for sentence, label in zip(chosen.places[:, 0].tolist(), chosen.labels or (), strict=True):
        labels[sentence].append(label)
    return word_items(chosen, None, tokenizer, max_length=limit), [tuple(each) for each in labels]


def _chosen(layers: Sequence[int] | None, count: int) -> list[int]:
    if layers is None:
        return list(range(count))
    wrong = next((layer for layer in layers if not -count <= layer < count), None)
    if wrong is not None:
        raise ValueError(f"layer {wrong} must lie between {-count} and {count - 1}: the encoder has {count} with its embeddings")
    return sorted({layer % count for layer in layers})
