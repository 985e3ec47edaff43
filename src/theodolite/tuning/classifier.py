"""A fine-tuned classifier as a folder: encoder, tokenizer and head, with what stands between them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from theodolite.models.encoder import Encoder, evaluating
from theodolite.models.extra import quietly
from theodolite.tuning.batches import collate, text_items
from theodolite.tuning.frozen_features import BATCH
from theodolite.tuning.heads import LinearHead
from theodolite.tuning.insert import Inserted, insert
from theodolite.tuning.layer_folder import on_cpu, read_layer, write_layer
from theodolite.tuning.place import At


@dataclass(eq=False)
class TunedClassifier:
    """An encoder with its linear head and, where there is one, the layer between them, as `tune` makes them.

    `from_pretrained` reads a run's `model` folder, which is in the hub's layout: the encoder also loads with AutoModel, without
    head and layer. `labels` is empty where the head gives one value, from 0 to 1 over the task's scale.
    """

    model: LinearHead
    tokenizer: Any
    about: dict[str, Any]
    max_length: int | None = None
    put: Inserted | None = None
    at: At = "before_pooler"

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        revision: str | None = None,
        device: str = "cpu",
        max_length: int | None = None,
        trust_remote_code: bool = False,
    ) -> TunedClassifier:
        """Read a folder, or a hub id, that `save_pretrained` wrote; `device` is "auto", "cpu", "cuda:1", ..."""
        from safetensors.torch import load_file

        place = _local(folder, revision)
        for name in ("head.json", "head.safetensors"):
            if not (place / name).is_file():
                raise FileNotFoundError(
                    f"{place} has no {name}: it is no classifier saved by a run; name the folder 'model' inside a run's folder"
                )
        about = json.loads((place / "head.json").read_text(encoding="utf-8"))
        length = max_length if max_length is not None else about.get("max_length")
        encoder = Encoder.load(place, device=device, max_length=length, trust_remote_code=trust_remote_code)
        weights = load_file(place / "head.safetensors")
        outputs, width = weights["weight"].shape
        slots = width // encoder.d
        model = LinearHead(encoder.module, outputs, slots=slots, regression=about["kind"] == "similarity").to(encoder.device)
        model.head.load_state_dict(weights)
        model.eval()
        found = cls(model, encoder.tokenizer, about, encoder.max_length)
        stored = read_layer(place)
        if stored is not None:
            found.insert(stored[0].eval(), at=stored[1])
        return found

    def insert(self, layer: nn.Module, *, at: At = "before_pooler") -> Inserted:
        """Put a layer between encoder and head."""
        tokenizer = self.tokenizer if self.pooling == "cls" else None
        self.put, self.at = insert(self.model, layer, at=at, tokenizer=tokenizer), at
        return self.put

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.about["labels"])

    @property
    def pooling(self) -> str:
        return str(self.about["pooling"])

    def logits(self, texts: Sequence[str], second: Sequence[str] | None = None) -> NDArray[np.float32]:
        """What the head gives for each text, or pair of texts: (n, labels), or (n, 1) for a value."""
        return self._read(texts, second)[0]

    def predict(self, texts: Sequence[str], second: Sequence[str] | None = None) -> list[str] | NDArray[np.float32]:
        """The label of each text, or its value where the head gives one."""
        logits = self.logits(texts, second)
        return [self.labels[i] for i in logits.argmax(-1)] if self.labels else logits[:, 0]

    def vectors(self, texts: Sequence[str], second: Sequence[str] | None = None) -> NDArray[np.float32]:
        """The vectors (n, d) that the head takes: the encoder's, after the layer where there is one."""
        return self._read(texts, second)[1]

    @torch.no_grad()
    def _read(self, texts: Sequence[str], second: Sequence[str] | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self.pooling not in ("cls", "mean"):
            raise ValueError(f"this head is on words ({self.about['kind']}), not on whole texts")
        unit: Any = self.pooling
        items = text_items(texts, second, None, self.tokenizer, unit=unit, max_length=self.max_length)
        weights, pad = self.model.head.weight, Encoder(self.model.encoder, self.tokenizer, max_length=self.max_length).pad_id
        taken: list[torch.Tensor] = []
        # After a layer's own hook, this one sees what the head itself takes.
        hook = self.model.head.register_forward_hook(lambda _head, given, _made: taken.append(given[0][:, 0]))
        made = []
        try:
            with evaluating(self.model):
                for start in range(0, len(items), BATCH):
                    batch = collate(items[start : start + BATCH], pad=pad)
                    del batch["labels"]
                    made.append(self.model(**{name: tensor.to(weights.device) for name, tensor in batch.items()})["logits"][:, 0])
        finally:
            hook.remove()
        return torch.cat(made).float().cpu().numpy(), torch.cat(taken).float().cpu().numpy()

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the folder: encoder and tokenizer as transformers does, `head.*`, and `layer.*` where there is a layer."""
        from safetensors.torch import save_file

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        encoder: Any = self.model.encoder
        with quietly():
            encoder.save_pretrained(place)
            self.tokenizer.save_pretrained(place)
        layer = self.put.layer if self.put is not None else None
        if self.put is not None:
            self.put.remove()
        head = on_cpu(self.model.head)
        if layer is not None:
            self.insert(layer, at=self.at)
        save_file(head, place / "head.safetensors")
        told = {**self.about, "max_length": self.max_length}
        (place / "head.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if layer is not None:
            write_layer(place, layer, self.at)


def _local(folder: str | os.PathLike[str], revision: str | None) -> Path:
    place = Path(folder).expanduser()
    if place.is_dir():
        return place
    if isinstance(folder, os.PathLike) or folder.startswith((".", "~", "/")) or folder.count("/") > 1:
        raise FileNotFoundError(f"there is no folder {place}; give a folder that save_pretrained wrote, or its id on the hub")
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(folder, revision=revision))
