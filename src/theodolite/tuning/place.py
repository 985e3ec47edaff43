"""Where a classifier turns its [CLS] vector into logits: between encoder and head, before or after a pooler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import nn

from theodolite.tuning.heads import LinearHead

At: TypeAlias = Literal["before_pooler", "after_pooler"]

HEADS = ("classifier", "classification_head", "score", "sequence_summary")
"""What transformers' models for sequence classification call their heads."""
POOLERS = ("pooler", "head")


@dataclass(frozen=True, eq=False)
class Place:
    """The input or the output of one part of a model; `name` is the part's."""

    name: str
    part: nn.Module
    side: Literal["input", "output"] = "input"

    def __str__(self) -> str:
        return f"{'before' if self.side == 'input' else 'after'} {self.name}"


def find_place(model: nn.Module, at: At) -> Place:
    """The place between encoder and head. Where a head has no pooler or dense layer of its own, both places are one."""
    if at not in ("before_pooler", "after_pooler"):
        raise ValueError(f"at={at!r} must be 'before_pooler' or 'after_pooler'")
    return _not_a_sequence(_found(model, after=at == "after_pooler"))


def _found(model: Any, *, after: bool) -> Place:
    if isinstance(model, LinearHead):
        return Place("head", model.head)
    name = head_name(model)
    head = getattr(model, name)
    if name == "score" or getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(f"{type(model).__name__} has no [CLS] vector for a layer to stand on: its head reads the last token")
    if isinstance(getattr(model, "pre_classifier", None), nn.Module):  # DistilBERT: dense, relu, dropout, classifier
        return Place("dropout", model.dropout) if after else Place("pre_classifier", model.pre_classifier)
    linears = [(inner, part) for inner, part in head.named_modules() if isinstance(part, nn.Linear)]
    if len(linears) > 1:  # RoBERTa, ELECTRA, ...: the head takes all tokens, keeps the first, and has a dense layer of its own
        return Place(f"{name}.{linears[-1][0]}", linears[-1][1]) if after else Place(name, head)
    return _at_pooler(model, after=after) or Place(name, head)


def _at_pooler(model: Any, *, after: bool) -> Place | None:
    base = encoder_of(model)
    for owner, path in ((model, ""), (base, f"{model.base_model_prefix}.")):
        for name in POOLERS:
            pooler = getattr(owner, name, None)
            if isinstance(pooler, nn.Module) and name not in HEADS:
                if not after:
                    return Place(path + name, pooler)
                activation = getattr(owner, f"{name}_activation", None)  # ALBERT's pooler has it beside itself
                return Place(path + name, pooler if activation is None else activation, "output")
    return None


def head_name(model: nn.Module) -> str:
    """What the model calls its head."""
    for name in HEADS:
        if isinstance(getattr(model, name, None), nn.Module):
            return name
    raise ValueError(
        f"{type(model).__name__} has no head ({', '.join(HEADS)}) for a layer to stand before; load the model with "
        "AutoModelForSequenceClassification"
    )


def encoder_of(model: Any) -> nn.Module:
    """The encoder inside a model with a head."""
    if isinstance(model, LinearHead):
        return model.encoder
    base = getattr(model, "base_model", model)
    if base is model or not isinstance(base, nn.Module):
        raise ValueError(
            f"{type(model).__name__} has no encoder apart from its head; load it with AutoModelForSequenceClassification"
        )
    return base


def _not_a_sequence(place: Place) -> Place:
    """The same place at the first or last part of an nn.Sequential, which would run a layer put into it as one of its own."""
    name, part = place.name, place.part
    while isinstance(part, nn.Sequential) and len(part) > 0:
        inner = 0 if place.side == "input" else len(part) - 1
        name, part = f"{name}.{inner}", part[inner]
    return Place(name, part, place.side)
