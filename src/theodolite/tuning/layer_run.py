"""An Isotropy Layer for a finished plain run: its vectors once, the layer on them, scores and shape before and after."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from theodolite.core.rows import Row
from theodolite.models.dense import add_dense
from theodolite.models.encoder import Encoder
from theodolite.tasks.scores import score
from theodolite.tuning.batches import Item, text_items
from theodolite.tuning.classifier import TunedClassifier
from theodolite.tuning.classify import answered
from theodolite.tuning.frozen_features import Features, embed, kept, key_of
from theodolite.tuning.insert import Inserted
from theodolite.tuning.isotropy_layer import IsotropyLayer
from theodolite.tuning.layer_settings import LayerSettings
from theodolite.tuning.model_card import write_card
from theodolite.tuning.run import Run, Tuned
from theodolite.tuning.settings import Pooling, TuneSettings
from theodolite.tuning.shape import shape_rows
from theodolite.tuning.splits import Splits
from theodolite.tuning.train_layer import Kept, Trained, train_layer
from theodolite.tuning.trainers import world_size
from theodolite.tuning.training import about, save_whole

STATE = "isotropy layer"
"""The state of rows after the layer was trained."""
FEATURES = "features.safetensors"
Progress = Callable[[int, int], None]


def tune_layer(settings: TuneSettings, run: Run, splits: Splits, plain: Run, progress: Progress | None) -> Tuned:
    """Train the layer for the plain run and write the run: model with layer, rows before and after, model card."""
    if world_size() > 1:
        raise ValueError("a layer trains in one process: finish the plain run with many, then take it (--from) with one")
    chosen = settings.layer or LayerSettings()
    classifier = TunedClassifier.from_pretrained(
        plain.model,
        device=settings.device,
        max_length=settings.max_length,
        trust_remote_code=settings.trust_remote_code,
    )
    layer = IsotropyLayer(classifier.model.head.in_features, **chosen.of_layer())
    put = classifier.insert(layer)  # complains where there is no place for it, before anything is written
    run.begin(settings)
    features = load_features(classifier, settings, splits, plain, run, progress)
    task = settings.declared.score

    def scored(labels: torch.Tensor, logits: torch.Tensor) -> float:
        return score(task, *answered(labels.cpu().numpy(), logits.detach().float().cpu().numpy()))[0]

    def measured(state: str, step: int, setting: str) -> list[Row]:
        X, logits = through(put, features["dev"].vectors)
        value, reason = score(task, *answered(features["dev"].labels.cpu().numpy(), logits))
        told = {**about(settings, state, step), "split": splits.dev.split, "setting": setting}
        return [Row(metric=task, value=value, reason=reason, n=len(X), **told), *shape_rows(X, told)]

    before = measured("fine-tuned", plain.result().steps, "")
    trained = train_layer(
        put, Kept(put, features["train"]), features["validation"], scored, chosen, seed=settings.seed, progress=progress
    )
    after = measured(STATE, trained.steps, told_of(chosen))
    rows = [*before, *after, *_passes(settings, trained, splits)]

    def save(folder: Path) -> None:
        classifier.save_pretrained(folder)
        if chosen.activation == "identity":
            add_pipeline(folder, layer, settings.pooled, classifier.max_length)
        write_card(folder, rows, settings)

    save_whole(save, run)
    facts = {"before": _or_null(before[0].value), "after": _or_null(after[0].value)}
    run.finish(rows, **facts, best_epoch=trained.best.number, steps=trained.steps)
    return run.result()


def load_features(
    classifier: TunedClassifier, settings: TuneSettings, splits: Splits, plain: Run, run: Run, progress: Progress | None
) -> dict[str, Features]:
    """The vectors of all rows, from the plain run's folder where they are kept (or the run's own, if that cannot be written)."""
    assert classifier.put is not None
    assert splits.validation is not None
    put, regression = classifier.put, classifier.model.regression
    parts = {"train": splits.train, "validation": splits.validation, "dev": splits.dev}
    items: dict[str, list[Item]] = {}
    for name, examples in parts.items():
        targets: Any = examples.unit_scores() if regression else examples.label_ids(list(classifier.labels))
        items[name] = text_items(
            examples.texts,
            examples.second,
            targets.tolist(),
            classifier.tokenizer,
            unit=settings.pooled,
            max_length=classifier.max_length,
        )
    encoder = Encoder(classifier.model.encoder, classifier.tokenizer, max_length=classifier.max_length)
    home = plain.folder if os.access(plain.folder, os.W_OK) else run.folder

    def make() -> dict[str, Features]:
        return {
            name: embed(put, part, pad=encoder.pad_id, regression=regression, progress=progress) for name, part in items.items()
        }

    found = kept(home / FEATURES, key_of(encoder.fingerprint(), items), make)
    device = encoder.device
    return {name: Features(part.vectors.to(device), part.labels.to(device)) for name, part in found.items()}


def add_pipeline(folder: Path, layer: IsotropyLayer, pooling: Pooling, max_length: int | None) -> None:
    """Encoder, pooling and the linear layer as sentence-transformers' own modules: the folder's vectors for any text."""
    matrix, bias = (part.cpu().numpy() for part in layer.affine())
    cut = {"max_seq_length": max_length, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(cut) + "\n", encoding="utf-8")
    add_dense(folder, matrix.T, bias, pooling=pooling)


@torch.no_grad()
def through(put: Inserted, vectors: torch.Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """(the layer's output, the head's logits) of kept vectors."""
    put.model.eval()
    with put.outputs() as seen:
        logits = put.forward(vectors)["logits"]
    return seen[-1].float().cpu().numpy(), logits.float().cpu().numpy()


def told_of(layer: LayerSettings) -> str:
    """The method as rows name it: what differs from the defaults, and the balance."""
    usual = LayerSettings()
    changed = [f"{name}={value}" for name, value in vars(layer).items() if value != getattr(usual, name)]
    return " ".join(["isolayer", *changed])


def _passes(settings: TuneSettings, trained: Trained, splits: Splits) -> list[Row]:
    """Losses and validation scores of every pass over the training rows, and how long all of them took."""
    assert splits.validation is not None
    task = settings.declared.score
    rows = []
    for epoch in trained.epochs:
        told = about(settings, f"training {epoch.trained}", epoch.number)
        rows += [
            Row(metric="train_loss", value=epoch.loss, split="train", n=len(splits.train), **told),
            Row(metric="train_task_loss", value=epoch.task_loss, split="train", n=len(splits.train), **told),
            Row(
                metric=task,
                value=epoch.score,
                reason=f"{task} is not defined on the validation rows" if math.isnan(epoch.score) else "",
                split="validation",
                n=len(splits.validation),
                **told,
            ),
            Row(metric="iso_score", value=epoch.iso_score, split="validation", n=len(splits.validation), **told),
        ]
    told = about(settings, STATE, trained.steps)
    return [*rows, Row(metric="train_seconds", value=trained.seconds, split="train", n=len(splits.train), **told)]


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value
