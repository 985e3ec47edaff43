"""Sequence classification and regression, tagging, and word pairs: a linear head on transformers' own trainer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from transformers import Trainer, TrainingArguments

from theodolite.core.options import option
from theodolite.models.tokens import text_inputs
from theodolite.tasks.examples import Examples
from theodolite.tasks.scores import score
from theodolite.tasks.task import Unit
from theodolite.tuning.batches import Item, collate, drop_cut_words, make_items
from theodolite.tuning.heads import LinearHead, truth_and_answers
from theodolite.tuning.isolayer.insertion import InsertedLayer
from theodolite.tuning.regularisers import Penalised, RefreshCallback, method_layer
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.strategies import apply_strategy
from theodolite.tuning.trainers import FiniteLoss, load_encoder, trainer_arguments
from theodolite.tuning.tuned_classifier import TunedClassifier


class HeadTrainer(FiniteLoss, Trainer):
    """Transformers' trainer, with the method's penalty on the vectors of every batch added to the task's loss."""

    inserted: InsertedLayer | None = None

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        """The loss of a batch; the penalty counts in training only."""
        options = {"num_items_in_batch": num_items_in_batch}
        if self.inserted is None or not isinstance(self.inserted.layer, Penalised) or not model.training:
            return super().compute_loss(model, inputs, return_outputs=return_outputs, **options)
        with self.inserted.outputs() as vectors:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **options)
        X = torch.cat([part.to(loss.device) for part in vectors])  # several devices give one part each
        if len(X) > 1:  # the last batch of an epoch may be a single row, which has no spread
            loss = loss + self.inserted.layer.penalty(X)
        return (loss, outputs) if return_outputs else loss


class ClassifierJob:
    """An encoder with a linear head and its trainer, for any task with labels, and for similarity in one sequence.

    Parameters
    ----------
    settings
        The run's settings.
    splits
        The examples; words that are cut off are dropped from them with a warning.
    folder
        Where checkpoints go.
    """

    def __init__(self, settings: TuneSettings, splits: Splits, folder: Path) -> None:
        self.settings = settings
        task = settings.declared
        self.regression = task.kind == "similarity"
        self.unit: Unit = task.unit if task.on_words else settings.pooled
        self.encoder = load_encoder(settings)
        if self.unit == "cls" and self.encoder.tokenizer.cls_token_id is None:
            raise ValueError(f"the tokenizer of {self.encoder.name} has no [CLS] token; use {option('pooling', 'mean')}")
        self.splits = self._with_whole_words(splits) if task.on_words else splits
        self._make_plain = apply_strategy(self.encoder.module, settings.strategy)
        self.model = LinearHead(
            self.encoder.module,
            1 if self.regression else len(splits.labels),
            slots=2 if task.kind == "word_pairs" else 1,
            regression=self.regression,
        )
        pooling = "words" if task.on_words else settings.pooled
        about = {"task": task.name, "kind": task.kind, "labels": list(splits.labels), "pooling": pooling}
        self.classifier = TunedClassifier(self.model, self.encoder, about)
        layer_and_place = method_layer(settings, self.encoder.d)
        if layer_and_place is not None:
            self.classifier.insert(layer_and_place[0], at=layer_and_place[1])
        self.trainer: Any = self._trainer(folder)

    def _with_whole_words(self, splits: Splits) -> Splits:
        parts = [splits.train, splits.dev, *([] if splits.validation is None else [splits.validation])]
        train, dev, *validation = drop_cut_words(parts, self.encoder)
        return replace(splits, train=train, dev=dev, validation=validation[0] if validation else None)

    def _trainer(self, folder: Path) -> HeadTrainer:
        train, validation, pad = self.items(self.splits.train), self.splits.validation, self.encoder.pad_id
        name = self.settings.declared.score
        metric = f"eval_{name}" if validation is not None else None
        trainer = HeadTrainer(
            model=self.model,
            args=TrainingArguments(**trainer_arguments(self.settings, folder, rows=len(train), metric=metric)),
            train_dataset=train,
            eval_dataset=None if validation is None else self.items(validation),
            data_collator=partial(collate, pad=pad, regression=self.regression),
            compute_metrics=lambda output: {name: self._score(output)[0]},
        )
        trainer.inserted = self.classifier.inserted
        if trainer.inserted is not None and self.settings.method == "istar":
            trainer.add_callback(RefreshCallback(trainer.inserted, train, pad=pad, seed=self.settings.seed))
        return trainer

    def items(self, examples: Examples) -> list[Item]:
        """The examples as the head takes them.

        Parameters
        ----------
        examples
            Examples of the run's task.
        """
        targets: Any = examples.unit_scores() if self.regression else examples.label_ids(self.splits.labels)
        inputs = text_inputs(examples, self.unit, together=True)
        return make_items(self.encoder, inputs, self.unit, targets=targets.tolist())

    def score(self, examples: Examples) -> tuple[float, str]:
        """The task's main score of the head's answers, or nan and the reason.

        Parameters
        ----------
        examples
            Examples of the run's task.
        """
        return self._score(self.trainer.predict(self.items(examples)))

    def _score(self, output: Any) -> tuple[float, str]:
        return score(self.settings.declared.score, *truth_and_answers(output.label_ids, output.predictions))

    def vectors(self, examples: Examples) -> NDArray[Any] | None:
        """What the head takes of each text now, (n, d), method included; None for tasks on words.

        Parameters
        ----------
        examples
            Examples of the run's task.
        """
        return None if examples.task.on_words else self.classifier.read_items(self.items(examples))[0]

    def save(self, folder: Path) -> None:
        """Write a `TunedClassifier`: the encoder for AutoModel, the tokenizer, the head, and IsoBN if that is the method.

        Parameters
        ----------
        folder
            The folder to write into.
        """
        if self.settings.method != "isobn":
            self.classifier.remove()  # a penalty acts in training only; IsoBN is a part of the model
        self._make_plain()
        self.classifier.save_pretrained(folder)
