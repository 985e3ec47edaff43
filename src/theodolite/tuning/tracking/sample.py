"""The fixed sample on which a model in training is measured: its texts, tokenized once, and its vectors kept step by step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import nn

from theodolite.core.files import whole_file
from theodolite.core.sampling import sample_by_label, sample_rows
from theodolite.models.encoder import Encoder
from theodolite.models.tokens import text_inputs
from theodolite.spaces.space import choose_layers
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Unit
from theodolite.tuning.batches import Batch, batches_by_length, make_items
from theodolite.tuning.heads import pooled_vectors

Floats: TypeAlias = NDArray[np.float32]

# Vectors whose hulls are measured or which are kept; of more, as words of many sentences, a seeded sample with every label.
MOST_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Sample:
    """A few texts in padded batches, and the label of every vector they give; no labels if there are none."""

    batches: tuple[Batch, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, texts: Examples | Sequence[str], encoder: Encoder, *, unit: Unit, size: int, seed: int) -> Sample:
        """A seeded sample.

        Parameters
        ----------
        texts
            Texts, or the examples of a task.
        encoder
            Its tokenizer and `max_length` are used.
        unit
            What gets a vector. Tasks on words give vectors of their words, or pairs of words, whatever the unit.
        size
            Number of texts at most; a pair of texts that are read apart counts as two.
        seed
            Seed of the choice.
        """
        sample, unit = _sampled(texts, unit, size, seed)
        inputs = text_inputs(sample, unit)
        items = make_items(encoder, inputs, unit)
        order, batches = batches_by_length(items, pad=encoder.pad_id)
        labels = inputs.labels
        by_vector = () if labels is None else (labels[example] for i in order for example in items[i].examples)
        return cls(tuple(batches), tuple(by_vector))

    def vectors(self, encoder: nn.Module, layers: str | int | Sequence[int] = "all") -> dict[int, Floats]:
        """The vectors of each layer, in one forward pass over the sample.

        Parameters
        ----------
        encoder
            The encoder's module, as it is now.
        layers
            "all", "last", a number or several; 0 is the embeddings.
        """
        parts: dict[int, list[Floats]] = {}
        device = next(encoder.parameters()).device
        for batch in self.batches:
            inputs = {name: tensor.to(device) for name, tensor in batch.items() if name != "labels"}
            spots = inputs.pop("spots")
            is_real = spots[:, 0].sum(-1) > 0  # texts have different numbers of words, and so of vectors
            hidden = encoder(**inputs, output_hidden_states=True).hidden_states
            for layer in choose_layers(layers, range(len(hidden))):
                parts.setdefault(layer, []).append(pooled_vectors(hidden[layer], spots)[is_real].float().cpu().numpy())
        return {layer: np.concatenate(blocks) for layer, blocks in parts.items()}


def _sampled(texts: Examples | Sequence[str], unit: Unit, size: int, seed: int) -> tuple[Examples | list[str], Unit]:
    if not isinstance(texts, Examples):
        return [texts[i] for i in sample_rows(len(texts), size, seed=seed)], unit
    if texts.places is None:
        count = max(1, size // 2) if texts.task.kind == "similarity" else size
        return texts.take(sample_rows(len(texts), count, seed=seed)), unit
    sentences = sample_rows(len(texts.texts), size, seed=seed)
    rows = np.flatnonzero(np.isin(texts.places[:, 0], sentences))
    return texts.take(rows[np.argsort(texts.places[rows, 0], kind="stable")]), texts.task.unit


def label_sample(labels: Sequence[str], *, most: int = MOST_ROWS, seed: int) -> NDArray[np.intp]:
    """Row numbers of a stratified sample with every label; labels, size and seed alone decide, so it is the same at every step.

    Parameters
    ----------
    labels
        The label of each row.
    most
        Number of rows at most, or the number of labels if that is larger.
    seed
        Seed of the choice.
    """
    names = np.array(labels, dtype=str)
    return sample_by_label(names, max(most, len(np.unique(names))), seed=seed)


@dataclass(frozen=True, eq=False)
class StepVectors:
    """The vectors of every layer at one step, with the labels of their rows; the same rows at every step."""

    step: int
    layers: Mapping[int, Floats]
    labels: NDArray[np.str_]


def save_step(
    folder: Path, step: int, vectors: Mapping[int, NDArray[Any]], labels: Sequence[str], *, seed: int, most: int = MOST_ROWS
) -> None:
    """Write the vectors of a step: of labelled rows a stratified sample, of others the first ones.

    Parameters
    ----------
    folder
        The folder of all steps.
    step
        The step; one that was written before is replaced.
    vectors
        (n, d) of each layer.
    labels
        The label of each row; empty if there are none.
    seed
        Seed of the sample.
    most
        Rows that are written at most.
    """
    rows: Any = label_sample(labels, most=most, seed=seed) if len(labels) else slice(most)
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {f"layer_{layer}": np.asarray(X[rows], np.float32) for layer, X in vectors.items()}
    arrays["labels"] = np.array(labels, dtype=str)[rows]
    with whole_file(folder / f"step-{step:08d}.npz") as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def read_steps(folder: str | os.PathLike[str]) -> list[StepVectors]:
    """All steps that `save_step` wrote, in order.

    Parameters
    ----------
    folder
        The folder of all steps.
    """
    steps = []
    for path in sorted(Path(folder).glob("step-*.npz")):
        with np.load(path) as file:
            layers = {int(name[6:]): file[name] for name in file.files if name.startswith("layer_")}
            steps.append(StepVectors(int(path.stem[5:]), layers, file["labels"]))
    return steps
