"""Sequence classification and regression, tagging, and word pairs: a linear head on transformers' own trainer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import Trainer, TrainingArguments

from theodolite.core.spelling import option
from theodolite.models.alignment import plan_rows, warn_dropped
from theodolite.models.encoder import Encoder
from theodolite.models.tokens import text_inputs
from theodolite.tasks.examples import Examples
from theodolite.tasks.scores import score
from theodolite.tuning.heads import LinearHead, embed, truth_and_answers
from theodolite.tuning.regularisers import RefreshCallback, method_modules
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import (
    LengthSampler,
    SafeTrainer,
    apply_strategy,
    check_tokens,
    load_encoder,
    trainer_arguments,
    world_size,
)
from theodolite.tuning.tuned_classifier import TunedClassifier


class HeadTrainer(SafeTrainer, Trainer):
    """Transformers' trainer for a `TextDataset`, ended by a loss that is not finite."""

    by_length = False

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        dataset: Any = train_dataset or self.train_dataset
        if not self.by_length:
            return super()._get_train_sampler(dataset)
        # Of all processes together: each gets whole batches in turn.
        return LengthSampler(dataset.lengths, self.args.train_batch_size * world_size(), seed=self.args.seed)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        # Scores do not depend on the order: labels and answers come in the same one.
        return np.argsort(eval_dataset.lengths, kind="stable") if self.by_length else super()._get_eval_sampler(eval_dataset)


def drop_cut_words(splits: Splits, encoder: Encoder) -> Splits:
    """The splits of a task on words without the words that have no vector, with one warning that counts them over all splits."""
    # Dropped here, once, so that losses, scores, labels and the tracker all have the same words.
    plans = {
        name: plan_rows(encoder, text_inputs(examples, examples.task.unit), examples.task.unit)
        for name, examples in splits.by_name().items()
    }
    warn_dropped(list(plans.values()), encoder.max_length)
    return replace(splits, **{name: getattr(splits, name).take(plan.example) for name, plan in plans.items() if plan.dropped})


class ClassifierJob:
    """An encoder with a linear head and its trainer, for any task with labels, and for similarity in one sequence."""

    def __init__(self, settings: TuneSettings, splits: Splits, folder: Path) -> None:
        self.settings = settings
        task = settings.declared
        regression = task.kind == "similarity"
        self.encoder = load_encoder(settings)
        if not task.on_words and settings.pooled == "cls" and self.encoder.tokenizer.cls_token_id is None:
            poolings = f"{option('pooling', 'last')} or {option('pooling', 'mean')}"
            raise ValueError(f"the tokenizer of {self.encoder.name} has no [CLS] token; use {poolings}")
        check_tokens(settings, self.encoder, splits)
        self.splits = drop_cut_words(splits, self.encoder) if task.on_words else splits
        self._make_plain = apply_strategy(self.encoder.module, settings.strategy)
        outputs, slots = 1 if regression else len(splits.labels), 2 if task.kind == "word_pairs" else 1
        self.model = LinearHead(self.encoder.module, outputs, slots=slots, regression=regression)
        if settings.pooler:
            self.model.add_pooler()
        self.model.layer, self.model.penalty = method_modules(settings, self.encoder.d)
        pooling = "words" if task.on_words else settings.pooled
        origin = {
            "task": task.name,
            "kind": task.kind,
            "labels": list(splits.labels),
            "pooling": pooling,
            "pooler": settings.pooler,
        }
        self.classifier = TunedClassifier(self.model, self.encoder, origin)
        self.trainer: Any = self._trainer(folder)

    def _trainer(self, folder: Path) -> HeadTrainer:
        train, validation = self.classifier.dataset(self.splits.train), self.splits.validation
        name = self.settings.declared.score
        metric = f"eval_{name}" if validation is not None else None
        trainer = HeadTrainer(
            model=self.model,
            args=TrainingArguments(**trainer_arguments(self.settings, folder, rows=len(train), metric=metric)),
            train_dataset=train,
            eval_dataset=None if validation is None else self.classifier.dataset(validation),
            data_collator=dict,  # a TextDataset gives whole batches
            compute_metrics=lambda output: {name: score(name, *self._answers(output))[0]},
        )
        trainer.by_length = self.settings.by_length
        if self.settings.method == "istar":
            trainer.add_callback(RefreshCallback(self.model, train, seed=self.settings.seed))
        return trainer

    def answers(self, examples: Examples) -> tuple[NDArray[Any], NDArray[Any]]:
        """What is true and what the head answers now."""
        return self._answers(self.trainer.predict(self.classifier.dataset(examples)))

    @staticmethod
    def _answers(output: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        return truth_and_answers(output.label_ids, output.predictions)

    def vectors(self, examples: Examples) -> NDArray[Any] | None:
        """What the head takes of each text now, (n, d), method included; None for tasks on words."""
        if examples.task.on_words:
            return None
        X, _ = self.classifier.through(embed(self.model, self.classifier.dataset(examples)).vectors)
        return X.float().cpu().numpy()

    def save(self, folder: Path) -> None:
        """Write a `TunedClassifier`: the encoder for AutoModel, the tokenizer, the head, and IsoBN if that is the method."""
        self._make_plain()
        self.classifier.save_pretrained(folder)
