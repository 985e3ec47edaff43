"""The head on the encoder: one linear layer on vectors that are means of token vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

# The label of padding, which losses and scores leave out.
IGNORED = -100


class LinearHead(nn.Module):
    """An encoder and one linear layer, on [CLS], on the mean of a text, on words or on pairs of words.

    On [CLS] this is IL23's head: on the last layer's vector itself, before any pooler, with softmax and cross-entropy.

    Parameters
    ----------
    encoder
        A model of transformers without a head.
    outputs
        Number of labels; 1 for a score.
    slots
        Number of vectors that are concatenated: 2 for pairs of words.
    regression
        Whether the output is a score, trained with squared error.
    """

    # Read by trainers: the loss is a plain mean, so it takes no number of items.
    accepts_loss_kwargs = False

    def __init__(self, encoder: nn.Module, outputs: int, *, slots: int = 1, regression: bool = False) -> None:
        super().__init__()
        config: Any = encoder.config
        self.encoder = encoder
        self.regression = regression
        self.head = nn.Linear(slots * config.hidden_size, outputs)
        # As transformers initialises its own heads.
        nn.init.normal_(self.head.weight, std=getattr(config, "initializer_range", 0.02))
        nn.init.zeros_(self.head.bias)

    def train(self, mode: bool = True) -> LinearHead:
        """Set the mode. An encoder that does not train has no dropout either: its vectors are the same in every epoch."""
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
        """The logits (texts, vectors, outputs) of a batch that `collate` made, and with labels the loss."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state
        logits = self.head(pooled_vectors(hidden, spots))
        if labels is None:
            return {"logits": logits}
        if self.regression:
            loss = nn.functional.mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
        else:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        return {"loss": loss, "logits": logits}


def pooled_vectors(hidden: torch.Tensor, spots: torch.Tensor) -> torch.Tensor:
    """Means over token positions, (texts, vectors, slots · d), the slots of a vector concatenated.

    Parameters
    ----------
    hidden
        Token vectors (texts, tokens, d).
    spots
        Weights (texts, slots, vectors, tokens), as `collate` makes them.
    """
    vectors = spots.to(hidden.dtype) @ hidden.unsqueeze(1)
    return vectors.transpose(1, 2).flatten(2)


def truth_and_answers(labels: NDArray[Any], logits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """What is true and what the head answers, for everything but padding: label numbers, or scores if there is one output.

    Parameters
    ----------
    labels
        (texts, vectors); padding is `IGNORED`.
    logits
        (texts, vectors, outputs).
    """
    if logits.shape[-1] == 1:
        return labels.ravel(), logits.ravel()
    real = labels != IGNORED
    return labels[real], np.asarray(logits[real].argmax(-1))


def encoder_of(model: Any) -> nn.Module:
    """The transformer inside a `LinearHead`, a SentenceTransformer or a model of transformers with a head; or the model itself.

    Parameters
    ----------
    model
        The model, perhaps wrapped for parallel training.
    """
    inner = getattr(model, "module", model)
    if hasattr(inner, "encode") and hasattr(inner, "tokenize"):  # a SentenceTransformer
        encoder = inner[0].auto_model
    else:
        encoder = inner.encoder if isinstance(inner, LinearHead) else getattr(inner, "base_model", inner)
    assert isinstance(encoder, nn.Module)
    return encoder
