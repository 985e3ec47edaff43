"""Put a layer between the encoder and the head of a classifier, and train it on vectors that were computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from theodolite.models.encoder import evaluating
from theodolite.tuning.batches import pooled
from theodolite.tuning.bypass import without_encoder
from theodolite.tuning.heads import LinearHead
from theodolite.tuning.place import At, Place, encoder_of, find_place

NAME = "inserted"
"""What an inserted layer is called inside the part of the model that it stands before or after."""


def insert(model: nn.Module, layer: nn.Module, *, at: At = "before_pooler", tokenizer: Any = None) -> Inserted:
    """Put `layer` on the [CLS] vector between encoder and head, in place; every forward of the model then goes through it.

    The model is transformers' for sequence classification, of any family whose head reads [CLS], or a `LinearHead`. IL23 takes
    [CLS] before BERT's pooler and before the dense layer in RoBERTa's head: `at="before_pooler"`. IsoBN takes what comes out of
    them: `at="after_pooler"`, before the dropout where a pooler is a part of its own (in RoBERTa's head, after it). A
    `LinearHead` has no pooler; both are the same.

    Names and weights of the model stay as they are. With the `tokenizer`, one without [CLS] is refused. The path is tried out:
    where the logits do not come from this vector alone, nothing is changed and a `ValueError` says why.
    """
    if tokenizer is not None and tokenizer.cls_token_id is None:
        raise ValueError(f"{type(tokenizer).__name__} has no [CLS] token, so there is no vector for the layer to stand on")
    place = find_place(model, at)
    if hasattr(place.part, NAME):
        raise ValueError(f"there is a layer {place} already; remove it first")
    layer.to(next(model.parameters()).device).train(model.training)
    place.part.add_module(NAME, layer)
    inserted = Inserted(model, layer, place, _hook(model, place))
    try:
        _try_out(inserted)
    except BaseException:
        inserted.remove()
        raise
    return inserted


def freeze(model: nn.Module, *, head: bool = True) -> None:
    """Stop the training of encoder and head; what was inserted trains. `head=False` lets all that follows the encoder train.

    A pooler that is read is a part of the head. Leave a frozen model in evaluation mode: its vectors then have no dropout.
    """
    within = {id(parameter) for parameter in encoder_of(model).parameters()}
    pooler = getattr(encoder_of(model), "pooler", None)
    if isinstance(pooler, nn.Module) and not isinstance(model, LinearHead):
        within -= {id(parameter) for parameter in pooler.parameters()}
    for name, parameter in model.named_parameters():
        ours = NAME in name.split(".")
        parameter.requires_grad_(ours or (not head and id(parameter) not in within))


@dataclass(frozen=True, eq=False)
class Inserted:
    """A layer in its place in a model."""

    model: nn.Module
    layer: nn.Module
    place: Place
    _handle: RemovableHandle

    @contextmanager
    def outputs(self) -> Iterator[list[torch.Tensor]]:
        """A list that gets the layer's output (rows, d) of every forward while the context lasts: what losses on vectors take."""
        seen: list[torch.Tensor] = []
        handle = self.layer.register_forward_hook(lambda _layer, _given, made: seen.append(made))
        try:
            yield seen
        finally:
            handle.remove()

    @torch.no_grad()
    def vectors(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """The encoder's vectors (rows, d) of a batch as the model takes it, without dropout or gradient: to be kept."""
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "spots")}
        with evaluating(self.model):
            hidden: torch.Tensor = encoder_of(self.model)(**inputs).last_hidden_state
        if isinstance(self.model, LinearHead):
            return _single(pooled(hidden, batch["spots"]))
        return hidden[:, 0].clone()  # a view would keep all tokens in memory

    def forward(self, vectors: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Logits, and with labels the loss, of the model's own forward as if its encoder had given these vectors (rows, d)."""
        made = without_encoder(self.model, vectors.unsqueeze(1), labels)
        return {name: made[name] for name in ("loss", "logits") if made.get(name) is not None}

    def remove(self) -> nn.Module:
        """Take the layer out again and return it; the model is then as it was."""
        self._handle.remove()
        if hasattr(self.place.part, NAME):
            delattr(self.place.part, NAME)
        return self.layer


def _hook(model: nn.Module, place: Place) -> RemovableHandle:
    if place.side == "output":
        return place.part.register_forward_hook(_on_output)
    return place.part.register_forward_pre_hook(_on_single_vectors if isinstance(model, LinearHead) else _on_input)


# The hooks find the layer in the part they are called for, so that copies of the model use their own.
def _on_input(part: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_through(part, given[0]), *given[1:])


def _on_output(part: nn.Module, _given: tuple[Any, ...], made: torch.Tensor) -> torch.Tensor:
    return _through(part, made)


def _on_single_vectors(part: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    layer: nn.Module = getattr(part, NAME)
    return (layer(_single(given[0])).unsqueeze(1), *given[1:])


def _through(part: nn.Module, vectors: torch.Tensor) -> torch.Tensor:
    """The layer on vectors (rows, d), or on the first token of (rows, tokens, d)."""
    layer: nn.Module = getattr(part, NAME)
    if vectors.dim() == 2:
        changed: torch.Tensor = layer(vectors)
        return changed
    return torch.cat([layer(vectors[:, 0]).unsqueeze(1), vectors[:, 1:]], dim=1)


def _single(vectors: torch.Tensor) -> torch.Tensor:
    if vectors.shape[1] != 1:
        raise ValueError(
            f"an inserted layer takes one vector a text, not {vectors.shape[1]}: tasks on words have no place for it"
        )
    return vectors[:, 0]


@torch.no_grad()
def _try_out(inserted: Inserted) -> None:
    """Raise unless the logits come from the first token's vector alone, and from that through the layer alone."""
    model = inserted.model
    weights = next(model.parameters())
    config: Any = encoder_of(model).config
    d = int(config.hidden_size)
    random = torch.randn(4, d, generator=torch.Generator().manual_seed(0)).to(weights)
    # Rows 0 and 1 differ in the second token, rows 0 and 2 in the first.
    hidden = torch.stack([random[[0, 1]], random[[0, 2]], random[[3, 1]]])
    name = type(model).__name__
    try:
        with evaluating(model):
            plain = without_encoder(model, hidden)["logits"]
            with _zeros_from(inserted.layer) as calls:
                blind = without_encoder(model, hidden)["logits"]
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{type(inserted.layer).__name__} {inserted.place} of {name} (d={d}) does not run: {error}") from error
    if not torch.allclose(plain[0], plain[1]):
        raise ValueError(f"the head of {name} does not read its first token alone: this is no model with a [CLS] vector")
    if not calls or not torch.allclose(blind[0], blind[2]):
        raise ValueError(f"the logits of {name} do not pass {inserted.place}, so a layer there would have no say")


@contextmanager
def _zeros_from(layer: nn.Module) -> Iterator[list[int]]:
    calls: list[int] = []

    def blank(_layer: nn.Module, _given: Any, made: torch.Tensor) -> torch.Tensor:
        calls.append(len(made))
        return torch.zeros_like(made)

    handle = layer.register_forward_hook(blank)
    try:
        yield calls
    finally:
        handle.remove()
