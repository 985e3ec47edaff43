"""Vectors of one labelled sample at every measured step of a training, kept for a look at them afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.sample import sample_by_label
from theodolite.tuning.label_hulls import MOST_ROWS


@dataclass(frozen=True, eq=False)
class KeptStep:
    """The vectors of every layer at one step, with the labels of their rows; the same rows at every step."""

    step: int
    layers: Mapping[int, NDArray[np.float32]]
    labels: NDArray[np.str_]


def keep_vectors(
    folder: Path, step: int, vectors: Mapping[int, NDArray[Any]], labels: Sequence[str], *, seed: int, most: int = MOST_ROWS
) -> None:
    """Write the vectors of a step, whole or not at all: of labelled rows at most `most`, by label, every label with one."""
    names = np.array(labels, dtype=str)
    chosen: Any = sample_by_label(names, max(most, len(np.unique(names))), seed=seed) if len(names) else slice(most)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {f"layer_{layer}": np.asarray(X[chosen], np.float32) for layer, X in vectors.items()}
    path = folder / f"step-{step:08d}.npz"
    partial = path.with_name(f".{path.name}.partial.npz")
    np.savez(partial, labels=names[chosen] if len(names) else names, **arrays)  # type: ignore[arg-type]
    os.replace(partial, path)


def read_steps(folder: str | os.PathLike[str]) -> list[KeptStep]:
    """All kept steps, in order."""
    found = []
    for path in sorted(Path(folder).glob("step-*.npz")):
        with np.load(path) as file:
            layers = {int(name[6:]): file[name] for name in file.files if name.startswith("layer_")}
            found.append(KeptStep(int(path.stem[5:]), layers, file["labels"]))
    return found
