"""Sequence classification and regression, tagging, and word pairs: a linear head on transformers' own trainer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import Trainer, TrainingArguments

from theodolite.tasks.examples import Examples
from theodolite.tasks.scores import score
from theodolite.tuning.batches import IGNORED, Item, collate, text_items, word_items
from theodolite.tuning.encoders import load_encoder
from theodolite.tuning.heads import LinearHead
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.splits import Splits
from theodolite.tuning.strategies import apply_strategy
from theodolite.tuning.trainers import FiniteLoss, arguments


class HeadTrainer(FiniteLoss, Trainer):
    """Transformers' trainer."""


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
        self.trainer: Any = self._trainer(splits, folder)

    def _trainer(self, splits: Splits, folder: Path) -> HeadTrainer:
        train = self.items(splits.train)
        metric = f"eval_{splits.dev.task.score}" if splits.validation is not None else None
        return HeadTrainer(
            model=self.model,
            args=TrainingArguments(**arguments(self.settings, folder, rows=len(train), metric=metric)),
            train_dataset=train,
            eval_dataset=None if splits.validation is None else self.items(splits.validation),
            data_collator=partial(collate, pad=self.pad, regression=self.regression),
            compute_metrics=lambda output: {splits.dev.task.score: self._score(output)[0]},
        )

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

    def save(self, folder: Path) -> None:
        """The encoder for AutoModel, the tokenizer, and the head as `head.safetensors` with `head.json`."""
        from safetensors.torch import save_file

        self._plain()
        self.encoder.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        save_file(
            {name: tensor.contiguous() for name, tensor in self.model.head.state_dict().items()}, folder / "head.safetensors"
        )
        task = self.settings.declared
        about = {"task": task.name, "kind": task.kind, "labels": list(self.labels), "pooling": self.settings.pooled}
        if task.on_words:
            about["pooling"] = "words"
        (folder / "head.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def answered(labels: NDArray[Any], logits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(truth, answers) of everything but padding: labels' numbers, or values where there is one output."""
    if logits.shape[-1] == 1:
        return labels.ravel(), logits.ravel()
    real = labels != IGNORED
    return labels[real], np.asarray(logits[real].argmax(-1))
