"""The fixed sample on which a model in training is measured: its vectors, kept step by step, and how far apart its labels are."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from theodolite.core.files import atomic_file
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_by_label, sample_rows
from theodolite.models.encoder import Encoder, layer_states
from theodolite.models.pipeline import evaluating
from theodolite.models.tokens import text_inputs
from theodolite.spaces.space import choose_layers
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Unit
from theodolite.tuning.heads import Batch, TextDataset, pooled_vectors
from theodolite.tuning.results import DIVERGED

Floats: TypeAlias = NDArray[np.float32]

# Vectors whose hulls are measured or which are kept; of more, as words of many sentences, a seeded sample with every label.
MOST_ROWS = 1024
MEAN_DISTANCE = "mean_minimum_distance"
LABEL_DISTANCE = "minimum_distance"
# Pairs of labels that get a row each (ten labels); with more, only each label's nearest one does.
MOST_PAIRS = 45


@dataclass(frozen=True, eq=False)
class Sample:
    """A few texts in padded batches, and the label of every vector they give; no labels if there are none."""

    batches: tuple[Batch, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, texts: Examples | Sequence[str], encoder: Encoder, *, unit: Unit, size: int, seed: int) -> Sample:
        """A seeded sample."""
        sample, unit = _sampled(texts, unit, size, seed)
        inputs = text_inputs(sample, unit)
        dataset = TextDataset.of(encoder, inputs, unit)
        order, batches = dataset.batches_by_length()
        rows, _ = dataset.plan.rows_of(dataset.texts[order])
        labels = inputs.labels
        return cls(tuple(batches), () if labels is None else tuple(labels[example] for example in dataset.examples[rows]))

    def vectors(self, encoder: nn.Module, layers: str | int | Sequence[int] = "all") -> dict[int, Floats]:
        """The vectors of each layer, in one forward pass over the sample."""
        blocks: dict[int, list[Floats]] = {}
        device = next(encoder.parameters()).device
        for batch in self.batches:
            inputs = {name: tensor.to(device) for name, tensor in batch.items() if name != "labels"}
            spots = inputs.pop("spots")
            is_real = spots[:, 0].sum(-1) > 0  # texts have different numbers of words, and so of vectors
            hidden = layer_states(encoder, **inputs)
            for layer in choose_layers(layers, range(len(hidden))):
                blocks.setdefault(layer, []).append(pooled_vectors(hidden[layer], spots)[is_real].float().cpu().numpy())
        return {layer: np.concatenate(arrays) for layer, arrays in blocks.items()}


def _sampled(texts: Examples | Sequence[str], unit: Unit, size: int, seed: int) -> tuple[Examples | list[str], Unit]:
    if not isinstance(texts, Examples):
        return [texts[i] for i in sample_rows(len(texts), size, seed=seed)], unit
    if texts.places is None:
        count = max(1, size // 2) if texts.task.kind == "similarity" else size
        return texts.take(sample_rows(len(texts), count, seed=seed)), unit
    sentences = sample_rows(len(texts.texts), size, seed=seed)
    rows = np.flatnonzero(np.isin(texts.places[:, 0], sentences))
    return texts.take(rows[np.argsort(texts.places[rows, 0], kind="stable")]), texts.task.unit


@dataclass(frozen=True, eq=False)
class StepVectors:
    """The vectors of every layer at one step, with the labels of their rows; the same rows at every step."""

    step: int
    layers: Mapping[int, Floats]
    labels: NDArray[np.str_]


def save_step(
    folder: Path, step: int, vectors: Mapping[int, NDArray[Any]], labels: Sequence[str], *, seed: int, most: int = MOST_ROWS
) -> None:
    """Write the vectors of a step: of labelled rows a stratified sample, of others the first ones."""
    names = np.array(labels, dtype=str)
    # Labels, size and seed alone decide, so the rows are the same at every step.
    rows: Any = sample_by_label(names, max(most, len(np.unique(names))), seed=seed) if len(names) else slice(most)
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {f"layer_{layer}": np.asarray(X[rows], np.float32) for layer, X in vectors.items()}
    arrays["labels"] = names[rows]
    with atomic_file(folder / f"step-{step:08d}.npz") as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def read_steps(folder: str | os.PathLike[str]) -> list[StepVectors]:
    """All steps that `save_step` wrote, in order."""
    steps = []
    for path in sorted(Path(folder).glob("step-*.npz")):
        with np.load(path) as file:
            layers = {int(name[6:]): file[name] for name in file.files if name.startswith("layer_")}
            steps.append(StepVectors(int(path.stem[5:]), layers, file["labels"]))
    return steps


def centroid_rows(X: NDArray[np.floating], labels: Sequence[str], *, about: Mapping[str, Any]) -> Iterator[Row]:
    """Euclidean distances of the labels' centroids; nothing for fewer than two labels.

    `label_min_distance` is that of each label to its nearest other centroid, `centroid_distance` that of each pair if there are
    few.
    """
    names, codes = np.unique(np.array(labels, dtype=str), return_inverse=True)
    if len(names) < 2:
        return
    sums = np.zeros((len(names), X.shape[1]))
    np.add.at(sums, codes, X.astype(np.float64))
    centroids = sums / np.bincount(codes)[:, None]
    distances = np.linalg.norm(centroids[:, None] - centroids[None], axis=-1)
    to_others = distances + np.diag(np.full(len(names), np.inf))
    for i, name in enumerate(names.tolist()):
        j = int(to_others[i].argmin())
        yield Row(metric="label_min_distance", value=float(to_others[i, j]), label=name, other_label=names[j], **about)
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    if len(pairs) <= MOST_PAIRS:
        for i, j in pairs:
            yield Row(metric="centroid_distance", value=float(distances[i, j]), label=names[j], other_label=names[i], **about)


def hull_rows(
    X: NDArray[np.floating], labels: Sequence[str], *, seed: int, about: Mapping[str, Any], most: int = MOST_ROWS
) -> list[Row]:
    """Distances of the labels' convex hulls, at least 0; larger is further apart. One cluster per label, at every step.

    `minimum_distance` is that of each label to the nearest other hull, `mean_minimum_distance` their mean. Hulls that overlap are
    0 apart, within 1e-7 of the cloud's size. If there are no labels, only one, or no spread, or if
    the vectors are not finite: one nan with its reason.
    """
    from theodolite.probes.direct_probe import NoSpread
    from theodolite.probes.layer_probe import probe_layer

    names = np.array(labels, dtype=str)
    different = np.unique(names)
    if not np.isfinite(X).all():
        reason = DIVERGED
    elif not len(different):
        reason = "the sample has no labels and so no hulls; give examples from a task with labels"
    elif len(different) == 1:
        reason = f"all {len(labels):,} vectors of the sample have the label {different[0]}, so there is no second hull"
    else:
        try:
            probe = probe_layer(X, names, clusters=names, max_rows=max(most, len(different)), seed=seed, about=about)
            return [row for row in probe.rows if row.metric in (MEAN_DISTANCE, LABEL_DISTANCE)]
        except NoSpread as error:
            reason = str(error)
    undefined = {"metric": MEAN_DISTANCE, "value": float("nan"), "reason": reason}
    return [Row(**{"versions": current_versions(), **about, **undefined})]


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Put the random states of Python, NumPy and torch (all devices) back at the end."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if mps is not None:
            torch.mps.set_rng_state(mps)


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards modes and random states are as they were."""
    with preserved_random_state(), torch.no_grad(), evaluating(module):
        yield
