"""An Isotropy Layer for a finished plain run: its vectors once, the layer on them, scores and shape before and after."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from theodolite.core.files import write_json
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, FINE_TUNING, ISOLAYER
from theodolite.models.batches import Progress
from theodolite.models.export import add_dense
from theodolite.models.tokens import text_inputs
from theodolite.tasks.scores import score
from theodolite.tuning.batches import make_items
from theodolite.tuning.heads import truth_and_answers
from theodolite.tuning.isolayer.features import Features, cached_features, embed, features_key
from theodolite.tuning.isolayer.layer import IsotropyLayer
from theodolite.tuning.isolayer.settings import LayerSettings
from theodolite.tuning.isolayer.training import TrainedLayer, train_layer
from theodolite.tuning.model_card import write_card
from theodolite.tuning.rows import row_fields, run_result, shape_rows, validation_row
from theodolite.tuning.runs import Run, Splits, Tuned
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import world_size
from theodolite.tuning.tuned_classifier import TunedClassifier

FEATURES = "features.safetensors"


def train_run_layer(settings: TuneSettings, run: Run, splits: Splits, plain: Run, progress: Progress | None) -> Tuned:
    """Train a layer for a plain run and write the run: model with layer, rows before and after, model card.

    Parameters
    ----------
    settings
        The run's settings; `layer` says how to train.
    run
        The run to write.
    splits
        The examples, with validation rows.
    plain
        The finished plain run.
    progress
        Called with what is done and all there is: texts, then epochs.
    """
    if world_size() > 1:
        raise ValueError("an Isotropy Layer trains in one process: do the plain run with many, then start from it with one")
    layer_settings = settings.layer or LayerSettings()
    classifier = TunedClassifier.from_pretrained(
        plain.model, device=settings.device, max_length=settings.max_length, trust_remote_code=settings.trust_remote_code
    )
    layer = IsotropyLayer(classifier.model.head.in_features, **layer_settings.of_layer)
    inserted = classifier.insert(layer)  # raises if there is no place for it, before anything is written
    run.begin(settings)
    features = _features(classifier, settings, splits, plain, run, progress)
    metric, dev = settings.declared.score, features["dev"]

    def score_of(labels: torch.Tensor, logits: torch.Tensor) -> tuple[float, str]:
        return score(metric, *truth_and_answers(labels.cpu().numpy(), logits.detach().float().cpu().numpy()))

    def measured(state: str, step: int, setting: str) -> list[Row]:
        X, logits = classifier.through(dev.vectors)
        value, reason = score_of(dev.labels, logits)
        fields = {**row_fields(settings, state, step), "split": splits.dev.split, "setting": setting}
        return [Row(metric=metric, value=value, reason=reason, n=len(X), **fields), *shape_rows(X.float().cpu().numpy(), fields)]

    before = measured(FINE_TUNED, plain.tuned().steps, "")
    trained = train_layer(
        inserted,
        features["train"],
        features["validation"],
        lambda labels, logits: score_of(labels, logits)[0],
        layer_settings,
        seed=settings.seed,
        progress=progress,
    )
    after = measured(ISOLAYER, trained.steps, layer_settings.summary())
    rows = [*before, *after, *_epoch_rows(settings, trained, splits)]

    def save(folder: Path) -> None:
        classifier.save_pretrained(folder)
        if layer_settings.activation == "identity":
            _add_pipeline(folder, layer, settings, classifier.encoder.max_length)
        write_card(folder, rows, settings)

    run.save_model(save)
    outcome = {"before": before[0].value, "after": after[0].value, "best_epoch": trained.best.number, "steps": trained.steps}
    run.finish(run_result(settings, rows, outcome))
    return run.tuned()


def _features(
    classifier: TunedClassifier, settings: TuneSettings, splits: Splits, plain: Run, run: Run, progress: Progress | None
) -> dict[str, Features]:
    """The vectors of all splits, kept in the plain run's folder, or in the run's own if that cannot be written."""
    assert classifier.inserted is not None
    assert splits.validation is not None
    encoder, inserted, regression = classifier.encoder, classifier.inserted, classifier.model.regression
    items = {}
    for name, examples in (("train", splits.train), ("validation", splits.validation), ("dev", splits.dev)):
        targets: Any = examples.unit_scores() if regression else examples.label_ids(classifier.labels)
        inputs = text_inputs(examples, settings.pooled, together=True)
        items[name] = make_items(encoder, inputs, settings.pooled, targets=targets.tolist())

    def make() -> dict[str, Features]:
        options: dict[str, Any] = {"pad": encoder.pad_id, "regression": regression, "progress": progress}
        return {name: embed(inserted, part, **options) for name, part in items.items()}

    # With the plain run, so that layers with other settings share them.
    home = plain.folder if os.access(plain.folder, os.W_OK) else run.folder
    features = cached_features(home / FEATURES, features_key(encoder.fingerprint(), items), make)
    device = encoder.device
    return {name: Features(part.vectors.to(device), part.labels.to(device)) for name, part in features.items()}


def _add_pipeline(folder: Path, layer: IsotropyLayer, settings: TuneSettings, max_length: int | None) -> None:
    """Add pooling and the linear layer as sentence-transformers' own modules, so that it loads the folder's vectors."""
    weight, bias = (part.cpu().numpy() for part in layer.affine())
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})
    add_dense(folder, weight.T, bias, pooling=settings.pooled)


def _epoch_rows(settings: TuneSettings, trained: TrainedLayer, splits: Splits) -> list[Row]:
    """Losses and validation scores of every epoch, and how long all of them took."""
    assert splits.validation is not None
    train: dict[str, Any] = {"split": "train", "n": len(splits.train)}
    validation: dict[str, Any] = {"split": "validation", "n": len(splits.validation)}
    rows = []
    for epoch in trained.epochs:
        fields = {**row_fields(settings, FINE_TUNING, epoch.number), "setting": f"isolayer: training {epoch.trained}"}
        rows += [
            Row(metric="train_loss", value=epoch.loss, **train, **fields),
            Row(metric="train_task_loss", value=epoch.task_loss, **train, **fields),
            validation_row(settings.declared.score, epoch.score, len(splits.validation), fields),
            Row(metric="iso_score", value=epoch.iso_score, **validation, **fields),
        ]
    return [*rows, Row(metric="train_seconds", value=trained.seconds, **train, **row_fields(settings, ISOLAYER, trained.steps))]
