"""Run a classifier on token vectors that are there already, past its encoder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from theodolite.tuning.heads import LinearHead
from theodolite.tuning.place import encoder_of


def without_encoder(model: nn.Module, hidden: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
    """The model's forward with these token vectors (rows, tokens, d) in place of its encoder's."""
    mask = torch.ones(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    if isinstance(model, LinearHead):
        spots = nn.functional.one_hot(torch.zeros_like(mask[:, :1]), hidden.shape[1]).unsqueeze(1)
        inputs = {"input_ids": mask, "attention_mask": mask, "spots": spots, "labels": labels}
    else:
        inputs = {"inputs_embeds": hidden, "attention_mask": mask, "labels": labels}
    with _giving(encoder_of(model), hidden, pool=not isinstance(model, LinearHead)):
        return model(**inputs)


@contextmanager
def _giving(encoder: Any, hidden: torch.Tensor, *, pool: bool) -> Iterator[None]:
    """The encoder answers with `hidden`, whatever it is given; its pooler still works."""

    def forward(*_: Any, **__: Any) -> BaseModelOutputWithPooling:
        answer: dict[str, Any] = {"last_hidden_state": hidden}
        return BaseModelOutputWithPooling(**answer, pooler_output=_pooler_output(encoder, hidden) if pool else None)

    own = vars(encoder).get("forward")
    encoder.forward = forward
    try:
        yield
    finally:
        if own is None:
            del encoder.forward
        else:
            encoder.forward = own


def _pooler_output(encoder: Any, hidden: torch.Tensor) -> Any:
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        return None
    if isinstance(pooler, nn.Linear):  # ALBERT and BigBird slice and activate outside
        activation = getattr(encoder, "pooler_activation", None) or encoder.activation
        return activation(pooler(hidden[:, 0]))
    return pooler(hidden)
