"""The vectors of a frozen encoder, computed once: what a layer between encoder and head trains on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import torch

from theodolite.core.files import sync
from theodolite.tuning.batches import Item, collate
from theodolite.tuning.insert import Inserted

BATCH = 64
"""Texts in a batch of the one forward pass."""


@dataclass(frozen=True, eq=False)
class Features:
    """What the head gets of a split: a vector (n, d) a text, and the labels as the head takes them, in the order of the items."""

    vectors: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.vectors)


def embed(
    put: Inserted,
    items: Sequence[Item],
    *,
    pad: int,
    regression: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Features:
    """The encoder's vectors of all items, without dropout or gradient, in one pass over them."""
    ordered = sorted(range(len(items)), key=lambda i: len(items[i].ids))  # texts of like length pad each other least
    device = next(put.model.parameters()).device
    vectors, labels = [], []
    for start in range(0, len(ordered), BATCH):
        batch = collate([items[i] for i in ordered[start : start + BATCH]], pad=pad, regression=regression)
        vectors.append(put.vectors({name: tensor.to(device) for name, tensor in batch.items()}))
        labels.append(batch["labels"].to(device))
        if progress is not None:
            progress(min(start + BATCH, len(ordered)), len(ordered))
    back = torch.argsort(torch.tensor(ordered)).to(device)
    return Features(torch.cat(vectors)[back], torch.cat(labels)[back])


def key_of(fingerprint: str, splits: Mapping[str, Sequence[Item]]) -> str:
    """SHA-256 of all that the vectors depend on: the encoder's fingerprint, and every text's tokens, positions and target."""
    digest = hashlib.sha256(fingerprint.encode())
    for name, items in splits.items():
        digest.update(json.dumps([name, [astuple(item) for item in items]]).encode())
    return digest.hexdigest()


def kept(path: Path, key: str, make: Callable[[], dict[str, Features]]) -> dict[str, Features]:
    """The features in a file that was written under the same key; otherwise they are made, and written whole or not at all."""
    found = _read(path, key)
    if found is None:
        found = make()
        _write(path, key, found)
    return found


def _read(path: Path, key: str) -> dict[str, Features] | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            names = sorted({name.rpartition(".")[0] for name in file.keys()})  # noqa: SIM118  # no mapping
            return {name: Features(file.get_tensor(f"{name}.vectors"), file.get_tensor(f"{name}.labels")) for name in names}
    except (OSError, SafetensorError):
        return None


def _write(path: Path, key: str, features: Mapping[str, Features]) -> None:
    from safetensors.torch import save_file

    tensors = {}
    for name, each in features.items():
        tensors[f"{name}.vectors"], tensors[f"{name}.labels"] = each.vectors.contiguous(), each.labels.contiguous()
    partial = path.with_name(f".{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, partial, metadata={"key": key})
    sync(partial)
    os.replace(partial, path)
