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
from safetensors.torch import load_file, save_file
from torch import nn

from theodolite.models.encoder import Encoder, evaluating
from theodolite.models.extra import quietly
from theodolite.models.locate import find
from theodolite.tuning.batches import collate, text_items
from theodolite.tuning.frozen_features import BATCH
from theodolite.tuning.heads import LinearHead
from theodolite.tuning.insert import Inserted, insert
from theodolite.tuning.isobn import IsoBN
from theodolite.tuning.isotropy_layer import IsotropyLayer
from theodolite.tuning.place import At

LAYERS: dict[str, type[nn.Module]] = {"IsotropyLayer": IsotropyLayer, "IsoBN": IsoBN}
"""What can be saved between encoder and head, by name."""


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
        if (place / "layer.json").is_file():
            told = json.loads((place / "layer.json").read_text(encoding="utf-8"))
            layer = LAYERS[told["kind"]](**told["settings"])
            layer.load_state_dict(load_file(place / "layer.safetensors"))
            found.insert(layer.eval(), at=told["at"])
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
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        encoder: Any = self.model.encoder
        with quietly():
            encoder.save_pretrained(place)
            self.tokenizer.save_pretrained(place)
        layer = self.put.layer if self.put is not None else None
        if self.put is not None:
            self.put.remove()
        head = _on_cpu(self.model.head)
        if layer is not None:
            self.insert(layer, at=self.at)
        save_file(head, place / "head.safetensors")
        _write_json(place / "head.json", {**self.about, "max_length": self.max_length})
        if layer is not None:
            save_file(_on_cpu(layer), place / "layer.safetensors")
            _write_json(place / "layer.json", {"kind": type(layer).__name__, "settings": settings_of(layer), "at": self.at})


def settings_of(layer: nn.Module) -> dict[str, Any]:
    """What the layer's constructor was given."""
    if isinstance(layer, IsotropyLayer):
        return layer.settings
    if isinstance(layer, IsoBN):
        return {name: getattr(layer, name) for name in ("d", "momentum", "beta", "eps", "published")}
    raise ValueError(f"a {type(layer).__name__} cannot be saved with a classifier; only {', '.join(LAYERS)} can")


def _on_cpu(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}


def _local(folder: str | os.PathLike[str], revision: str | None) -> Path:
    if Path(folder).is_dir():
        return Path(folder)
    find(folder, revision=revision)  # one sentence where the name cannot be one of the hub's
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(os.fspath(folder), revision=revision))


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
