"""An Isotropy Layer for a finished plain run: its vectors once, the layer on them, scores and shape before and after."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from theodolite.core.files import atomic_file, write_json
from theodolite.core.parallel import Progress
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, FINE_TUNING, ISOLAYER
from theodolite.models.export import add_dense
from theodolite.repairs.base import FittingPath
from theodolite.tasks.scores import learning, score
from theodolite.tuning.heads import Features, TextDataset, embed, truth_and_answers
from theodolite.tuning.isolayer.layer import IsotropyLayer, TrainedLayer, train_layer
from theodolite.tuning.results import Again, row_fields, run_result, shape_rows, validation_row, write_card
from theodolite.tuning.runs import Run, Splits, Tuned
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import world_size
from theodolite.tuning.tuned_classifier import TunedClassifier

FEATURES = "features.safetensors"


def train_run_layer(
    settings: TuneSettings, run: Run, splits: Splits, plain: Run, progress: Progress | None, again: Again | None = None
) -> Tuned:
    """Train a layer for a plain run and write the run: model with layer, rows before and after, model card."""
    if world_size() > 1:
        raise ValueError("an Isotropy Layer trains in one process: do the plain run with many, then start from it with one")
    assert splits.validation is not None
    assert settings.layer is not None
    classifier = TunedClassifier.from_pretrained(
        plain.model, device=settings.device, max_length=settings.max_length, trust_remote_code=settings.trust_remote_code
    )
    layer = IsotropyLayer(classifier.model.head.in_features, **settings.layer.of_layer)
    classifier.insert(layer)
    run.begin(settings)
    if run.finished:  # by another process, meanwhile
        return run.tuned()
    # With the plain run, so that layers with other settings share them; with this one if that folder cannot be written.
    home = plain.folder if os.access(plain.folder, os.W_OK) else run.folder
    examples = {"train": splits.train, "validation": splits.validation, "dev": splits.dev}
    datasets = {name: classifier.dataset(part) for name, part in examples.items()}
    features = cached_features(
        home / FEATURES,
        features_key(classifier.encoder.fingerprint(), datasets),
        lambda: {name: embed(classifier.model, dataset, progress=progress) for name, dataset in datasets.items()},
        device=str(classifier.encoder.device),
    )
    metric, dev = settings.declared.score, features["dev"]

    def answers_of(labels: torch.Tensor, logits: torch.Tensor) -> tuple[Any, Any]:
        return truth_and_answers(labels.cpu().numpy(), logits.detach().float().cpu().numpy())

    def measured(state: str, step: int, setting: str) -> list[Row]:
        X, logits = classifier.through(dev.vectors)
        value, reason = score(metric, *answers_of(dev.labels, logits))
        fields = {**row_fields(settings, state, step), "split": splits.dev.split, "setting": setting}
        return [Row(metric=metric, value=value, reason=reason, n=len(X), **fields), *shape_rows(X.float().cpu().numpy(), fields)]

    before = measured(FINE_TUNED, plain.tuned().steps, "")
    trained = train_layer(
        classifier.model,
        features["train"],
        features["validation"],
        lambda labels, logits: score(metric, *answers_of(labels, logits))[0],
        settings.layer,
        seed=settings.seed,
        progress=progress,
    )
    after = measured(ISOLAYER, trained.steps, settings.layer.summary())
    rows = [*before, *after, *_epoch_rows(settings, trained, splits)]

    def save(folder: Path) -> None:
        classifier.save_pretrained(folder)
        if layer.settings["activation"] == "identity":
            # Pooling and the linear layer as sentence-transformers' own modules, so that it loads the folder's vectors.
            weight, bias = (part.cpu().numpy() for part in layer.affine())
            limits = {"max_seq_length": classifier.encoder.max_length, "do_lower_case": False}
            write_json(folder / "sentence_bert_config.json", limits)
            add_dense(folder, weight.T, bias, path=FittingPath(unit=settings.pooled))
        write_card(folder, rows, settings)

    run.save_model(save)
    learned = learning(metric, *answers_of(dev.labels, classifier.through(dev.vectors)[1]))
    run.finish(run_result(settings, rows, learned, best_epoch=trained.best.number, steps=trained.steps, again=again))
    return run.tuned()


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


def features_key(fingerprint: str, datasets: Mapping[str, TextDataset]) -> str:
    """SHA-256 of all that features depend on."""
    digests = {name: dataset.plan.digest(dataset.targets, dataset.texts) for name, dataset in datasets.items()}
    return hashlib.sha256(json.dumps([fingerprint, digests]).encode()).hexdigest()


def cached_features(path: Path, key: str, make: Callable[[], dict[str, Features]], *, device: str = "cpu") -> dict[str, Features]:
    """The features of each split from a file, if it was written under the same key; otherwise they are made and written."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

    try:
        with safe_open(path, framework="pt", device=device) as file:
            if (file.metadata() or {}).get("key") == key:
                names = sorted({name.rpartition(".")[0] for name in file.keys()})  # noqa: SIM118  # it is not a mapping
                return {name: Features(file.get_tensor(f"{name}.vectors"), file.get_tensor(f"{name}.labels")) for name in names}
    except (OSError, SafetensorError):  # absent or damaged
        pass
    features = make()
    tensors = {f"{name}.vectors": part.vectors.contiguous() for name, part in features.items()}
    tensors |= {f"{name}.labels": part.labels.contiguous() for name, part in features.items()}
    with atomic_file(path) as partial:
        save_file(tensors, partial, metadata={"key": key})
    return features
