"""Put a layer between the encoder and the head of a classifier, and run the head on vectors that were computed before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle
from transformers.modeling_outputs import BaseModelOutputWithPooling

from theodolite.models.encoder import evaluating
from theodolite.tuning.heads import LinearHead, encoder_of, pooled_vectors

At: TypeAlias = Literal["before_pooler", "after_pooler"]

# What an inserted layer is called inside the part of the model that it is attached to.
NAME = "inserted"
# What transformers' models for sequence classification call their heads.
HEADS = ("classifier", "classification_head", "score", "sequence_summary")
POOLERS = ("pooler", "head")


@dataclass(frozen=True, eq=False)
class Place:
    """The input or the output of one part of a model; `name` is the part's."""

    name: str
    part: nn.Module
    side: Literal["input", "output"] = "input"

    def __str__(self) -> str:
        return f"{'before' if self.side == 'input' else 'after'} {self.name}"


@dataclass(frozen=True, eq=False)
class InsertedLayer:
    """A layer in its place in a model, as `insert_layer` returns it."""

    model: nn.Module
    layer: nn.Module
    place: Place
    _handle: RemovableHandle

    @contextmanager
    def outputs(self) -> Iterator[list[torch.Tensor]]:
        """A list that gets the layer's output (rows, d) of every forward inside the context: what losses on vectors need."""
        outputs: list[torch.Tensor] = []
        handle = self.layer.register_forward_hook(lambda _layer, _inputs, output: outputs.append(output))
        try:
            yield outputs
        finally:
            handle.remove()

    @torch.no_grad()
    def vectors(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """The encoder's vectors (rows, d) of a batch, without dropout or gradient.

        Parameters
        ----------
        batch
            What the model takes.
        """
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "spots")}
        with evaluating(self.model):
            hidden: torch.Tensor = encoder_of(self.model)(**inputs).last_hidden_state
        if isinstance(self.model, LinearHead):
            return _single(pooled_vectors(hidden, batch["spots"]))
        return hidden[:, 0].clone()  # a view would keep all tokens in memory

    def forward(self, vectors: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """The logits, and with labels the loss, of the model's own forward as if its encoder had given these vectors.

        Parameters
        ----------
        vectors
            (rows, d), as `vectors` returns them.
        labels
            What the head should answer.
        """
        output = _without_encoder(self.model, vectors.unsqueeze(1), labels)
        return {name: output[name] for name in ("loss", "logits") if output.get(name) is not None}

    def remove(self) -> nn.Module:
        """Take the layer out again and return it; the model is then as it was."""
        self._handle.remove()
        if hasattr(self.place.part, NAME):
            delattr(self.place.part, NAME)
        return self.layer


def insert_layer(model: nn.Module, layer: nn.Module, *, at: At = "before_pooler", tokenizer: Any = None) -> InsertedLayer:
    """Put a layer on the [CLS] vector between encoder and head, in place; every forward of the model then passes through it.

    Names and weights of the model stay as they are. The path is tried out: if the logits do not come from this vector alone,
    nothing is changed and an error says why.

    Parameters
    ----------
    model
        A model of transformers for sequence classification, of any family whose head reads [CLS], or a `LinearHead`.
    layer
        A module that maps (rows, d) to (rows, d).
    at
        "before_pooler" as in IL23: [CLS] before BERT's pooler, or before the dense layer in RoBERTa's head. "after_pooler" as
        in IsoBN: what comes out of these, before the dropout if a pooler is a part of its own (in RoBERTa's head, after it). A
        `LinearHead` has no pooler, so both are the same.
    tokenizer
        If given, a tokenizer without [CLS] is an error.

    Raises
    ------
    ValueError
        The model has no such place, or a layer is there already.
    """
    if tokenizer is not None and tokenizer.cls_token_id is None:
        raise ValueError(f"{type(tokenizer).__name__} has no [CLS] token, so there is no vector for the layer to work on")
    if at not in ("before_pooler", "after_pooler"):
        raise ValueError(f"at={at!r} must be 'before_pooler' or 'after_pooler'")
    place = _not_a_sequence(_find_place(model, after=at == "after_pooler"))
    if hasattr(place.part, NAME):
        raise ValueError(f"there is a layer {place} already; remove it first")
    layer.to(next(model.parameters()).device).train(model.training)
    place.part.add_module(NAME, layer)
    inserted = InsertedLayer(model, layer, place, _hook(model, place))
    try:
        _try_out(inserted)
    except BaseException:
        inserted.remove()
        raise
    return inserted


def freeze(model: nn.Module, *, head: bool = True) -> None:
    """Stop the training of encoder and head; an inserted layer trains. A pooler that is read is a part of the head.

    Leave a frozen model in evaluation mode: its vectors then have no dropout.

    Parameters
    ----------
    model
        The model, with a layer in it.
    head
        Whether the head is frozen too; otherwise all that follows the encoder trains.
    """
    encoder = encoder_of(model)
    within = {id(parameter) for parameter in encoder.parameters()}
    pooler = getattr(encoder, "pooler", None)
    if isinstance(pooler, nn.Module) and not isinstance(model, LinearHead):
        within -= {id(parameter) for parameter in pooler.parameters()}
    for name, parameter in model.named_parameters():
        is_inserted = NAME in name.split(".")
        parameter.requires_grad_(is_inserted or (not head and id(parameter) not in within))


def _find_place(model: Any, *, after: bool) -> Place:
    """The place between encoder and head. If a head has no pooler or dense layer of its own, before and after are the same."""
    if isinstance(model, LinearHead):
        return Place("head", model.head)
    name = next((name for name in HEADS if isinstance(getattr(model, name, None), nn.Module)), None)
    if name is None or encoder_of(model) is model:
        raise ValueError(
            f"{type(model).__name__} has no head ({', '.join(HEADS)}) after an encoder, so there is no place for a layer; load "
            "the model with AutoModelForSequenceClassification"
        )
    head = getattr(model, name)
    if name == "score" or getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(f"{type(model).__name__} has no [CLS] vector for a layer to work on: its head reads the last token")
    if isinstance(getattr(model, "pre_classifier", None), nn.Module):  # DistilBERT: dense, relu, dropout, classifier
        return Place("dropout", model.dropout) if after else Place("pre_classifier", model.pre_classifier)
    linears = [(inner, part) for inner, part in head.named_modules() if isinstance(part, nn.Linear)]
    if len(linears) > 1:  # RoBERTa, ELECTRA, ...: the head takes all tokens, keeps the first, and has a dense layer of its own
        return Place(f"{name}.{linears[-1][0]}", linears[-1][1]) if after else Place(name, head)
    return _place_at_pooler(model, after=after) or Place(name, head)


def _place_at_pooler(model: Any, *, after: bool) -> Place | None:
    for owner, path in ((model, ""), (encoder_of(model), f"{model.base_model_prefix}.")):
        for name in POOLERS:
            pooler = getattr(owner, name, None)
            if isinstance(pooler, nn.Module) and name not in HEADS:
                if not after:
                    return Place(path + name, pooler)
                activation = getattr(owner, f"{name}_activation", None)  # ALBERT has it next to its pooler
                return Place(path + name, pooler if activation is None else activation, "output")
    return None


def _not_a_sequence(place: Place) -> Place:
    """The same place at the first or last part of an nn.Sequential, which would run a layer added to it as a part of its own."""
    name, part = place.name, place.part
    while isinstance(part, nn.Sequential) and len(part) > 0:
        inner = 0 if place.side == "input" else len(part) - 1
        name, part = f"{name}.{inner}", part[inner]
    return Place(name, part, place.side)


def _hook(model: nn.Module, place: Place) -> RemovableHandle:
    if place.side == "output":
        return place.part.register_forward_hook(_on_output)
    return place.part.register_forward_pre_hook(_on_single_vectors if isinstance(model, LinearHead) else _on_input)


# Hooks find the layer in the part they are called for, so that a copy of the model uses its own. Named functions can be pickled.
def _on_input(part: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_apply(part, inputs[0]), *inputs[1:])


def _on_output(part: nn.Module, _inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
    return _apply(part, output)


def _on_single_vectors(part: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_apply(part, _single(inputs[0])).unsqueeze(1), *inputs[1:])


def _apply(part: nn.Module, vectors: torch.Tensor) -> torch.Tensor:
    """The layer on vectors (rows, d), or on the first token of (rows, tokens, d)."""
    layer: nn.Module = getattr(part, NAME)
    if vectors.dim() == 2:
        changed: torch.Tensor = layer(vectors)
        return changed
    return torch.cat([layer(vectors[:, 0]).unsqueeze(1), vectors[:, 1:]], dim=1)


def _single(vectors: torch.Tensor) -> torch.Tensor:
    if vectors.shape[1] != 1:
        raise ValueError(
            f"an inserted layer takes one vector per text, not {vectors.shape[1]}: tasks on words have no place for it"
        )
    return vectors[:, 0]


@torch.no_grad()
def _try_out(inserted: InsertedLayer) -> None:
    """Raise unless the logits come from the first token's vector alone, and from that through the layer alone."""
    model = inserted.model
    config: Any = encoder_of(model).config
    d = int(config.hidden_size)
    random = torch.randn(4, d, generator=torch.Generator().manual_seed(0)).to(next(model.parameters()))
    # Rows 0 and 1 differ in the second token, rows 0 and 2 in the first.
    hidden = torch.stack([random[[0, 1]], random[[0, 2]], random[[3, 1]]])
    name = type(model).__name__
    calls: list[int] = []

    def blank(_layer: nn.Module, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        calls.append(len(output))
        return torch.zeros_like(output)

    try:
        with evaluating(model):
            plain = _without_encoder(model, hidden)["logits"]
            handle = inserted.layer.register_forward_hook(blank)
            try:
                blind = _without_encoder(model, hidden)["logits"]
            finally:
                handle.remove()
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{type(inserted.layer).__name__} {inserted.place} of {name} (d={d}) does not run: {error}") from error
    if not torch.allclose(plain[0], plain[1]):
        raise ValueError(f"the head of {name} does not read its first token alone, so the model has no [CLS] vector")
    if not calls or not torch.allclose(blind[0], blind[2]):
        raise ValueError(f"the logits of {name} do not pass {inserted.place}, so a layer there would have no effect")


def _without_encoder(model: nn.Module, hidden: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
    """The model's forward with token vectors (rows, tokens, d) in place of its encoder's."""
    mask = torch.ones(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    if isinstance(model, LinearHead):
        spots = nn.functional.one_hot(torch.zeros_like(mask[:, :1]), hidden.shape[1]).unsqueeze(1)
        inputs = {"input_ids": mask, "attention_mask": mask, "spots": spots, "labels": labels}
    else:
        inputs = {"inputs_embeds": hidden, "attention_mask": mask, "labels": labels}
    with _encoder_returns(encoder_of(model), hidden, with_pooler=not isinstance(model, LinearHead)):
        return model(**inputs)


@contextmanager
def _encoder_returns(encoder: Any, hidden: torch.Tensor, *, with_pooler: bool) -> Iterator[None]:
    """The encoder returns `hidden` whatever it is given; its pooler still works."""

    def forward(*_: Any, **__: Any) -> BaseModelOutputWithPooling:
        output: dict[str, Any] = {"last_hidden_state": hidden}
        return BaseModelOutputWithPooling(**output, pooler_output=_pooler_output(encoder, hidden) if with_pooler else None)

    replaced = vars(encoder).get("forward")  # the class has one; the object only if somebody else put it there
    encoder.forward = forward
    try:
        yield
    finally:
        if replaced is None:
            del encoder.forward
        else:
            encoder.forward = replaced


def _pooler_output(encoder: Any, hidden: torch.Tensor) -> Any:
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        return None
    if isinstance(pooler, nn.Linear):  # ALBERT and BigBird slice and activate outside of it
        activation = getattr(encoder, "pooler_activation", None) or encoder.activation
        return activation(pooler(hidden[:, 0]))
    return pooler(hidden)
