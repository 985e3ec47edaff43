"""A fine-tuned classifier as a folder: encoder, tokenizer and head, with the layer between them if there is one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from theodolite.core.files import write_json
from theodolite.models.encoder import Encoder, evaluating, quiet_loading
from theodolite.models.location import local_folder
from theodolite.models.tokens import text_inputs
from theodolite.tuning.batches import Item, make_items
from theodolite.tuning.heads import LinearHead
from theodolite.tuning.isolayer.features import embed
from theodolite.tuning.isolayer.insertion import At, InsertedLayer, insert_layer
from theodolite.tuning.isolayer.store import read_layer, state_on_cpu, write_layer

HEAD = "head.json"
HEAD_WEIGHTS = "head.safetensors"


@dataclass(eq=False)
class TunedClassifier:
    """An encoder with its linear head, and the layer between them if there is one, as `from_pretrained` reads it from a folder.

    The folder is in the Hub's layout: the encoder also loads with AutoModel, without head and layer.

    Parameters
    ----------
    model
        The encoder's module with its head.
    encoder
        The encoder, with tokenizer and `max_length`.
    about
        `task`, `kind`, `labels` and `pooling` of the run.
    inserted
        The layer between encoder and head.
    at
        Where the layer is.
    """

    model: LinearHead
    encoder: Encoder
    about: dict[str, Any]
    inserted: InsertedLayer | None = None
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
        """Read what `save_pretrained` wrote.

        Parameters
        ----------
        folder
            A folder, such as the `model` folder of a run, or a Hub id.
        revision
            Branch, tag or commit of a Hub id.
        device
            "auto", "cpu", "cuda:1", ...
        max_length
            Texts are cut to this number of tokens; by default as in the run.
        trust_remote_code
            Whether the encoder's own code may run.
        """
        from safetensors.torch import load_file

        place = local_folder(folder, revision=revision)
        for name in (HEAD, HEAD_WEIGHTS):
            if not (place / name).is_file():
                raise FileNotFoundError(
                    f"{place} has no {name}, so it is not a classifier saved by a run; name the folder 'model' of a run"
                )
        about = json.loads((place / HEAD).read_text(encoding="utf-8"))
        length = max_length if max_length is not None else about.get("max_length")
        encoder = Encoder.load(place, device=device, max_length=length, trust_remote_code=trust_remote_code)
        weights = load_file(place / HEAD_WEIGHTS)
        outputs, width = weights["weight"].shape
        model = LinearHead(encoder.module, outputs, slots=width // encoder.d, regression=about["kind"] == "similarity")
        model.head.load_state_dict(weights)
        classifier = cls(model.to(encoder.device).eval(), encoder, about)
        layer_and_place = read_layer(place)
        if layer_and_place is not None:
            classifier.insert(layer_and_place[0].eval(), at=layer_and_place[1])
        return classifier

    def insert(self, layer: nn.Module, *, at: At = "before_pooler") -> InsertedLayer:
        """Put a layer between encoder and head.

        Parameters
        ----------
        layer
            Maps (rows, d) to (rows, d).
        at
            As in `insert_layer`.
        """
        tokenizer = self.encoder.tokenizer if self.pooling == "cls" else None
        self.inserted, self.at = insert_layer(self.model, layer, at=at, tokenizer=tokenizer), at
        return self.inserted

    def remove(self) -> nn.Module | None:
        """Take the layer between encoder and head out again and return it; None if there is none."""
        layer = self.inserted.remove() if self.inserted is not None else None
        self.inserted = None
        return layer

    @property
    def labels(self) -> tuple[str, ...]:
        """In the order of the head's outputs; empty if the head gives one score, from 0 to 1 over the task's scale."""
        return tuple(self.about["labels"])

    @property
    def pooling(self) -> str:
        """What the head reads: "cls", "mean" or "words"."""
        return str(self.about["pooling"])

    def logits(self, texts: Sequence[str], second: Sequence[str] | None = None) -> NDArray[np.float32]:
        """The head's outputs, (n, labels), or (n, 1) for a score.

        Parameters
        ----------
        texts
            The texts.
        second
            The other text of each pair.
        """
        return self._read(texts, second)[1]

    def predict(self, texts: Sequence[str], second: Sequence[str] | None = None) -> list[str] | NDArray[np.float32]:
        """The label of each text, or its score if the head gives one.

        Parameters
        ----------
        texts, second
            As in `logits`.
        """
        logits = self.logits(texts, second)
        return [self.labels[i] for i in logits.argmax(-1)] if self.labels else logits[:, 0]

    def vectors(self, texts: Sequence[str], second: Sequence[str] | None = None) -> NDArray[np.float32]:
        """The vectors (n, d) that the head takes: the encoder's, after the layer if there is one.

        Parameters
        ----------
        texts, second
            As in `logits`.
        """
        return self._read(texts, second)[0]

    @torch.no_grad()
    def through(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The inserted layer's output for vectors of the encoder, and the head's logits (n, 1, outputs), without dropout.

        Parameters
        ----------
        vectors
            (n, d), as `embed` returns them.
        """
        assert self.inserted is not None
        with evaluating(self.model), self.inserted.outputs() as outputs:
            logits = self.inserted.forward(vectors)["logits"]
        return outputs[-1], logits

    def _read(self, texts: Sequence[str], second: Sequence[str] | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self.pooling not in ("cls", "mean"):
            raise ValueError(f"this head is for words ({self.about['kind']}), not for whole texts")
        unit: Any = self.pooling
        X, logits = self.read_items(make_items(self.encoder, replace(text_inputs(texts, unit), second=second), unit))
        return X, logits[:, 0]

    def read_items(self, items: Sequence[Item]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The vectors (n, d) that the head takes, and its logits (n, 1, outputs), without dropout.

        Parameters
        ----------
        items
            Tokenized texts, one vector each.
        """
        is_bare = self.inserted is None
        inserted = self.inserted or self.insert(nn.Identity())
        try:
            X, logits = self.through(embed(inserted, items, pad=self.encoder.pad_id).vectors)
        finally:
            if is_bare:
                self.remove()
        return X.float().cpu().numpy(), logits.float().cpu().numpy()

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write encoder and tokenizer as transformers does, the head as `head.*`, and the layer, if there is one, as `layer.*`.

        Parameters
        ----------
        folder
            The folder to write into.
        """
        from safetensors.torch import save_file

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        encoder: Any = self.model.encoder
        with quiet_loading():
            encoder.save_pretrained(place)
            self.encoder.tokenizer.save_pretrained(place)
        layer = self.remove()
        save_file(state_on_cpu(self.model.head), place / HEAD_WEIGHTS)
        write_json(place / HEAD, {**self.about, "max_length": self.encoder.max_length})
        if layer is not None:
            self.insert(layer, at=self.at)
            write_layer(place, layer, self.at)
