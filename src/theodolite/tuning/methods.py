"""What acts on the head's vectors while the whole network is fine-tuned: IsoBN, or a penalty on every batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainerCallback

from theodolite.core.sample import sample_rows
from theodolite.tuning.batches import Item
from theodolite.tuning.frozen_features import embed
from theodolite.tuning.heads import LinearHead
from theodolite.tuning.insert import Inserted, insert
from theodolite.tuning.isobn import IsoBN
from theodolite.tuning.regularisers import CosineRegulariser, IStar
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import FiniteLoss

SAMPLE = 1024
"""Training texts that I-STAR's C0 is taken from, or twice the dimension where that is more."""


class Penalised(nn.Module):
    """The identity, with a penalty on what passes: in the model, so that a penalty's state is in every checkpoint."""

    def __init__(self, penalty: nn.Module) -> None:
        super().__init__()
        self.penalty = penalty

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X


def add_method(model: LinearHead, settings: TuneSettings) -> Inserted | None:
    """Put what the method needs between encoder and head; None for a plain run."""
    if settings.method in ("plain", "isolayer"):
        return None
    d = int(model.encoder.config.hidden_size)  # type: ignore[union-attr, arg-type]
    if settings.method == "isobn":
        return insert(model, IsoBN(d, published=settings.published), at="after_pooler")
    strength = 1.0 if settings.strength is None else settings.strength
    return insert(model, Penalised(CosineRegulariser(strength) if settings.method == "cosreg" else IStar(d, strength=strength)))


class HeadTrainer(FiniteLoss, Trainer):
    """Transformers' trainer, with the method's penalty on the vectors of every batch added to the task's loss."""

    put: Inserted | None = None

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        options = {"num_items_in_batch": num_items_in_batch}
        if self.put is None or not isinstance(self.put.layer, Penalised) or not model.training:
            return super().compute_loss(model, inputs, return_outputs=return_outputs, **options)
        with self.put.outputs() as seen:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **options)
        X = torch.cat([vectors.to(loss.device) for vectors in seen])
        if len(X) > 1:  # the last batch of an epoch may be a single row, which has no spread
            loss = loss + self.put.layer.penalty(X)
        return (loss, outputs) if return_outputs else loss


class Refresh(TrainerCallback):
    """Takes I-STAR's C0 from a fixed sample of the training texts at the start of every epoch."""

    def __init__(self, put: Inserted, items: Sequence[Item], *, pad: int, seed: int) -> None:
        assert isinstance(put.layer, Penalised)
        assert isinstance(put.layer.penalty, IStar)
        self.put, self.penalty, self.pad = put, put.layer.penalty, pad
        size = max(SAMPLE, 2 * len(self.penalty.reference))
        self.items = [items[i] for i in sample_rows(len(items), size, seed=seed)]

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        per_epoch = max(1, round(state.max_steps / args.num_train_epochs))
        if state.global_step % per_epoch == 0:  # inside an epoch, a run that goes on has its C0 from the checkpoint
            self.penalty.refresh(embed(self.put, self.items, pad=self.pad).vectors)
