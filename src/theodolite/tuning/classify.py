"""Sequence classification and regression, tagging, and word pairs: a linear head on transformers' own trainer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import TrainingArguments

from theodolite.models.encoder import evaluating
from theodolite.tasks.examples import Examples
from theodolite.tasks.scores import score
from theodolite.tuning.batches import IGNORED, Item, collate, text_items, word_items
from theodolite.tuning.classifier import TunedClassifier
from theodolite.tuning.encoders import load_encoder
from theodolite.tuning.frozen_features import embed
from theodolite.tuning.heads import LinearHead
from theodolite.tuning.insert import insert
from theodolite.tuning.isobn import IsoBN
from theodolite.tuning.methods import HeadTrainer, Refresh, add_method
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.splits import Splits
from theodolite.tuning.strategies import apply_strategy
from theodolite.tuning.trainers import arguments


class Classify:
    """An encoder with a linear head, for any task with labels, and for similarity in one sequence."""

    def __init__(self, settings: TuneSettings, splits: Splits, folder: Path) -> None:
        self.settings, self.labels = settings, splits.labels
        task = settings.declared
        self.regression = task.kind == "similarity"
        loaded = load_encoder(settings)
        self.encoder, self.tokenizer, self.max_length, self.pad = (
            loaded.module,
            loaded.tokenizer,
            loaded.max_length,
            loaded.pad_id,
        )
        self._plain = apply_strategy(self.encoder, settings.strategy)
        self.model = LinearHead(
            self.encoder,
            1 if self.regression else len(self.labels),
            slots=2 if task.kind == "word_pairs" else 1,
            regression=self.regression,
        )
        self.put = add_method(self.model, settings)
        self.trainer: Any = self._trainer(splits, folder)

    def _trainer(self, splits: Splits, folder: Path) -> HeadTrainer:
        train = self.items(splits.train)
        metric = f"eval_{splits.dev.task.score}" if splits.validation is not None else None
        trainer = HeadTrainer(
            model=self.model,
            args=TrainingArguments(**arguments(self.settings, folder, rows=len(train), metric=metric)),
            train_dataset=train,
            eval_dataset=None if splits.validation is None else self.items(splits.validation),
            data_collator=partial(collate, pad=self.pad, regression=self.regression),
            compute_metrics=lambda output: {splits.dev.task.score: self._score(output)[0]},
        )
        trainer.put = self.put
        if self.put is not None and self.settings.method == "istar":
            trainer.add_callback(Refresh(self.put, train, pad=self.pad, seed=self.settings.seed))
        return trainer

    def items(self, examples: Examples) -> list[Item]:
        """The examples as the head sees them."""
        if self.regression:
            targets: Sequence[float] = examples.unit_scores().tolist()
        else:
            targets = examples.label_ids(self.labels).tolist()
        if examples.places is not None:
            return word_items(examples, targets, self.tokenizer, max_length=self.max_length)  # type: ignore[arg-type]
        return text_items(
            examples.texts, examples.second, targets, self.tokenizer, unit=self.settings.pooled, max_length=self.max_length
        )

    def score(self, examples: Examples) -> tuple[float, str]:
        """The task's main score of the head's answers."""
        return self._score(self.trainer.predict(self.items(examples)))

    def _score(self, output: Any) -> tuple[float, str]:
        truth, answers = answered(output.label_ids, output.predictions)
        return score(self.settings.declared.score, truth, answers)

    def vectors(self, examples: Examples) -> NDArray[Any] | None:
        """What the head takes of each text now (n, d), method included; None for tasks on words."""
        if examples.task.on_words:
            return None
        put = self.put or insert(self.model, nn.Identity())
        try:
            X = embed(put, self.items(examples), pad=self.pad, regression=self.regression).vectors
            with torch.no_grad(), evaluating(self.model):
                found: NDArray[Any] = put.layer(X).float().cpu().numpy()
        finally:
            if self.put is None:
                put.remove()
        return found

    def save(self, folder: Path) -> None:
        """The encoder for AutoModel, the tokenizer, the head as `head.*`, and IsoBN as `layer.*`: a `TunedClassifier`."""
        layer = self.put.remove() if self.put is not None else None
        self._plain()
        task = self.settings.declared
        about = {"task": task.name, "kind": task.kind, "labels": list(self.labels), "pooling": self.settings.pooled}
        if task.on_words:
            about["pooling"] = "words"
        made = TunedClassifier(self.model, self.tokenizer, about, self.max_length)
        if isinstance(layer, IsoBN):
            made.insert(layer, at="after_pooler")
        made.save_pretrained(folder)


def answered(labels: NDArray[Any], logits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(truth, answers) of everything but padding: labels' numbers, or values where there is one output."""
    if logits.shape[-1] == 1:
        return labels.ravel(), logits.ravel()
    real = labels != IGNORED
    return labels[real], np.asarray(logits[real].argmax(-1))
