"""The head on the encoder: one linear layer on the chosen vectors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from theodolite.tuning.batches import IGNORED, pooled


class LinearHead(nn.Module):
    """An encoder and one linear layer with as many outputs as labels, on vectors that are means of token vectors.

    With [CLS] this is IL23's head: on the last layer's vector itself, before any pooler, softmax and cross-entropy. `outputs=1`
    with `regression` takes squared error. Words and pairs of words have the same head; a pair's two vectors stand side by side.
    """

    # Trainers ask: the loss is a plain mean, so it takes no number of items.
    accepts_loss_kwargs = False

    def __init__(self, encoder: nn.Module, outputs: int, *, slots: int = 1, regression: bool = False) -> None:
        super().__init__()
        config: Any = encoder.config
        self.encoder = encoder
        self.regression = regression
        self.head = nn.Linear(slots * config.hidden_size, outputs)
        nn.init.normal_(self.head.weight, std=getattr(config, "initializer_range", 0.02))
        nn.init.zeros_(self.head.bias)

    def train(self, mode: bool = True) -> LinearHead:
        """An encoder that does not train sees no dropout either: its vectors are the same in every epoch."""
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.encoder.eval()
        return self

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        spots: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state
        logits = self.head(pooled(hidden, spots))
        if labels is None:
            return {"logits": logits}
        return {"loss": self._loss(logits, labels), "logits": logits}

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.regression:
            return nn.functional.mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
