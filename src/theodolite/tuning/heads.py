"""The linear head on an encoder, and the batches of texts that it reads.

[CLS], the mean of a text, a word (the mean of its subwords), a pair of words: all are means over runs of tokens. So one tensor
of weights `spots` (texts, slots, vectors, tokens) serves every kind of task, and `spots @ hidden` gives the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from theodolite.core.parallel import Progress
from theodolite.models.alignment import RowPlan, plan_rows, warn_dropped
from theodolite.models.batches import padded
from theodolite.models.encoder import Encoder, text_part
from theodolite.models.pipeline import evaluating
from theodolite.models.tokens import Ints, TextInputs
from theodolite.tasks.task import Unit

Batch: TypeAlias = dict[str, torch.Tensor]

# The label of padding, which losses and scores leave out.
IGNORED = -100
# Texts per batch if there is nothing to train.
BATCH_TEXTS = 64


@dataclass(frozen=True, eq=False)
class TextDataset:
    """Tokenized texts with the vectors to make of them: a dataset for trainers that gives whole batches.

    `examples` and `targets` have the example of each vector and what the head should answer: the number of a label (int64), or a
    score (float32). `texts` are the numbers of the texts in the dataset, all of which have vectors.
    """

    plan: RowPlan
    pad: int
    examples: Ints
    targets: NDArray[Any]
    texts: Ints

    @classmethod
    def of(cls, encoder: Encoder, inputs: TextInputs, unit: Unit, *, targets: NDArray[Any] | None = None) -> TextDataset:
        """Tokenize texts, cut to the encoder's `max_length`; texts without vectors are left out, dropped words warned of."""
        plan = plan_rows(encoder, inputs, unit)
        warn_dropped([plan], encoder.max_length)
        examples = inputs.number[plan.text] if plan.example is None else plan.example
        by_vector = np.zeros(plan.n, np.int64) if targets is None else targets[examples]
        dtype = np.float32 if by_vector.dtype.kind == "f" else np.int64
        return cls(plan, encoder.pad_id, examples, by_vector.astype(dtype), np.flatnonzero(np.diff(plan.bounds)))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitems__(self, indices: Sequence[int] | Ints) -> Batch:
        """The tensors of some texts at once, as torch's data loaders ask for them; there is nothing left to collate."""
        texts = self.texts[np.asarray(indices)]
        ids, mask, types = padded(self.plan.tokens, texts, pad=self.pad)
        rows, owner = self.plan.rows_of(texts)
        order = np.arange(len(rows)) - np.searchsorted(owner, owner)  # of each vector among those of its text
        vectors, positions = int(order.max()) + 1, np.arange(ids.shape[1])
        start, stop = np.moveaxis(self.plan.runs[rows], -1, 0)[..., None]
        spots = np.zeros((len(texts), self.plan.slots, vectors, ids.shape[1]), np.float32)
        spots[owner, :, order] = ((start <= positions) & (positions < stop)) / (stop - start)
        labels = np.full((len(texts), vectors), IGNORED, self.targets.dtype)
        labels[owner, order] = self.targets[rows]
        arrays = {"input_ids": ids, "attention_mask": mask, "spots": spots, "labels": labels}
        if types is not None:
            arrays["token_type_ids"] = types
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    @property
    def lengths(self) -> Ints:
        """Tokens of each text."""
        return self.plan.tokens.lengths[self.texts]

    def batches_by_length(self) -> tuple[Ints, Iterator[Batch]]:
        """The positions of the texts in the order of their batches, the shortest first, and the batches."""
        # Texts of similar length in one batch need the least padding.
        order = np.argsort(self.lengths, kind="stable")
        starts = range(0, len(order), BATCH_TEXTS)
        return order, (self.__getitems__(order[start : start + BATCH_TEXTS]) for start in starts)


class LinearHead(nn.Module):
    """An encoder and one linear layer, on [CLS], on the mean of a text, on words or on pairs of words.

    On [CLS] this is IL23's head: on the last layer's vector itself, before any pooler, with softmax and cross-entropy.

    If there is a `layer`, it maps the vectors (rows, d) on their way from the encoder to the head. If there is a `penalty`, its
    value for the vectors that the head takes of a batch is added to the loss in training.
    """

    # Read by trainers: the loss is a plain mean, so it takes no number of items.
    accepts_loss_kwargs = False

    def __init__(self, encoder: nn.Module, outputs: int, *, slots: int = 1, regression: bool = False) -> None:
        super().__init__()
        config: Any = encoder.config
        self.encoder = encoder
        self.regression = regression
        self.head = nn.Linear(slots * config.hidden_size, outputs)
        self.pooler: nn.Sequential | None = None
        self.dropout = nn.Dropout(0.0)
        self.layer: nn.Module | None = None
        self.penalty: nn.Module | None = None
        # As transformers initialises its own heads.
        nn.init.normal_(self.head.weight, std=getattr(config, "initializer_range", 0.02))
        nn.init.zeros_(self.head.bias)

    def add_pooler(self) -> None:
        """Put a dense layer with tanh after [CLS], and dropout before the head, as BERT's own classifier has them.

        The dense layer starts as the encoder's pooler if it has one.
        """
        config, own = self.encoder.config, getattr(getattr(self.encoder, "pooler", None), "dense", None)
        dense = nn.Linear(self.head.in_features, self.head.in_features)
        nn.init.normal_(dense.weight, std=getattr(config, "initializer_range", 0.02))
        nn.init.zeros_(dense.bias)
        if own is not None and own.weight.shape == dense.weight.shape:
            dense.load_state_dict(own.state_dict())
        self.pooler, self.dropout = nn.Sequential(dense, nn.Tanh()), nn.Dropout(getattr(config, "hidden_dropout_prob", 0.1))

    def train(self, mode: bool = True) -> LinearHead:
        """Set the mode. An encoder that does not train has no dropout either: its vectors are the same in every epoch."""
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.encoder.eval()
        return self

    def forward(self, labels: torch.Tensor | None = None, **batch: torch.Tensor) -> Batch:
        """The logits (texts, vectors, outputs) of a batch of a `TextDataset`, and with labels the loss."""
        vectors = self.encode(**batch)
        if self.layer is not None:
            if vectors.shape[1] != 1:
                raise ValueError(f"a layer takes one vector per text, not {vectors.shape[1]}; tasks on words cannot have one")
            vectors = self.layer(vectors[:, 0]).unsqueeze(1)
        output = self.answer(vectors, labels)
        # The last batch of an epoch may be a single row, which has no spread.
        if self.penalty is not None and self.training and len(vectors) > 1:
            output["loss"] = output["loss"] + self.penalty(vectors[:, 0])
        return output

    def encode(self, spots: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """The encoder's vectors (texts, vectors, slots · d) of a batch, after the pooler if there is one, before the layer."""
        vectors = pooled_vectors(self.encoder(**inputs).last_hidden_state, spots)
        return vectors if self.pooler is None else self.pooler(vectors)

    def answer(self, vectors: torch.Tensor, labels: torch.Tensor | None = None) -> Batch:
        """The logits, and with labels the loss, of the head alone."""
        logits = self.head(self.dropout(vectors))
        if labels is None:
            return {"logits": logits}
        if self.regression:
            loss = nn.functional.mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
        else:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        return {"loss": loss, "logits": logits}


def pooled_vectors(hidden: torch.Tensor, spots: torch.Tensor) -> torch.Tensor:
    """Means over token positions, (texts, vectors, slots · d), the slots of a vector concatenated."""
    vectors = spots.to(hidden.dtype) @ hidden.unsqueeze(1)
    return vectors.transpose(1, 2).flatten(2)


@dataclass(frozen=True, eq=False)
class Features:
    """What a head gets of a split: the encoder's vectors (n, d) of its texts, and the labels (n, 1) as the head takes them."""

    vectors: torch.Tensor
    labels: torch.Tensor


@torch.no_grad()
def embed(model: LinearHead, dataset: TextDataset, *, progress: Progress | None = None) -> Features:
    """The encoder's vectors of all texts in their order, before any layer and without dropout, in one pass over them."""
    order, batches = dataset.batches_by_length()
    device = next(model.parameters()).device
    vectors, labels = [], []
    with evaluating(model):
        for batch in batches:
            inputs = {name: tensor.to(device) for name, tensor in batch.items()}
            labels.append(inputs.pop("labels"))
            vectors.append(model.encode(**inputs)[:, 0])
            if progress is not None:
                progress(sum(map(len, vectors)), len(order))
    # The batches came in the order of their lengths.
    back = torch.from_numpy(np.argsort(order)).to(device)
    return Features(torch.cat(vectors)[back], torch.cat(labels)[back])


def truth_and_answers(labels: NDArray[Any], logits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """What is true and what the head answers, for everything but padding: label numbers, or scores if there is one output."""
    if logits.shape[-1] == 1:
        return labels.ravel(), logits.ravel()
    real = labels != IGNORED
    return labels[real], np.asarray(logits[real].argmax(-1))


def encoder_of(model: Any) -> nn.Module:
    """The transformer inside a `LinearHead`, a SentenceTransformer or a model with a head; or the model itself."""
    inner = getattr(model, "module", model)
    if hasattr(inner, "encode") and hasattr(inner, "tokenize"):  # a SentenceTransformer
        encoder = inner[0].auto_model
    else:
        encoder = inner.encoder if isinstance(inner, LinearHead) else getattr(inner, "base_model", inner)
    reader: nn.Module = text_part(encoder)
    return reader
