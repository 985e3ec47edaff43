"""The vectors of a frozen encoder, computed once and kept in a file: what a layer between encoder and head trains on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import torch

from theodolite.core.files import whole_file
from theodolite.models.batches import Progress
from theodolite.tuning.batches import Item, batches_by_length
from theodolite.tuning.isolayer.insertion import InsertedLayer


@dataclass(frozen=True, eq=False)
class Features:
    """What the head gets of a split: the vectors (n, d) of its texts, and the labels as the head takes them."""

    vectors: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.vectors)


def embed(
    inserted: InsertedLayer, items: Sequence[Item], *, pad: int, regression: bool = False, progress: Progress | None = None
) -> Features:
    """The encoder's vectors of all items in their order, without dropout or gradient, in one pass over them.

    Parameters
    ----------
    inserted
        A layer in its model; the vectors are those before the layer.
    items
        The tokenized texts, one vector each.
    pad
        The token that fills up short texts.
    regression
        Whether targets are scores.
    progress
        Called with the number of texts that are done, and of all.
    """
    order, batches = batches_by_length(items, pad=pad, regression=regression)
    device = next(inserted.model.parameters()).device
    vectors, labels = [], []
    for batch in batches:
        vectors.append(inserted.vectors({name: tensor.to(device) for name, tensor in batch.items()}))
        labels.append(batch["labels"].to(device))
        if progress is not None:
            progress(sum(map(len, vectors)), len(order))
    # The batches came in the order of their lengths.
    back = torch.argsort(torch.tensor(order)).to(device)
    return Features(torch.cat(vectors)[back], torch.cat(labels)[back])


def features_key(fingerprint: str, splits: Mapping[str, Sequence[Item]]) -> str:
    """SHA-256 of all that features depend on.

    Parameters
    ----------
    fingerprint
        The encoder's, of its weights.
    splits
        The tokenized texts of each split, with their targets.
    """
    digest = hashlib.sha256(fingerprint.encode())
    for name, items in splits.items():
        digest.update(json.dumps([name, [astuple(item) for item in items]]).encode())
    return digest.hexdigest()


def cached_features(path: Path, key: str, make: Callable[[], dict[str, Features]]) -> dict[str, Features]:
    """The features of each split from a file, if it was written under the same key; otherwise they are made and written.

    Parameters
    ----------
    path
        A `.safetensors` file.
    key
        What `features_key` returned.
    make
        Computes the features of each split.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

    try:
        with safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("key") == key:
                names = sorted({name.rpartition(".")[0] for name in file.keys()})  # noqa: SIM118  # it is not a mapping
                return {name: Features(file.get_tensor(f"{name}.vectors"), file.get_tensor(f"{name}.labels")) for name in names}
    except (OSError, SafetensorError):  # absent or damaged
        pass
    features = make()
    tensors = {}
    for name, part in features.items():
        tensors[f"{name}.vectors"], tensors[f"{name}.labels"] = part.vectors.contiguous(), part.labels.contiguous()
    with whole_file(path) as partial:
        save_file(tensors, partial, metadata={"key": key})
    return features
