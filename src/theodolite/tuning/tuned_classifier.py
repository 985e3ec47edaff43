"""A fine-tuned classifier as a folder: encoder, tokenizer and head, with the layer between them if there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from theodolite.core.files import Marker, read_json, reading, write_json
from theodolite.models.encoder import Encoder, quiet_loading
from theodolite.models.location import local_folder
from theodolite.models.pipeline import evaluating
from theodolite.models.tokens import text_inputs
from theodolite.tasks.examples import Examples
from theodolite.tuning.heads import LinearHead, TextDataset, embed
from theodolite.tuning.isotropy_layer import IsotropyLayer
from theodolite.tuning.regularisers import IsoBN

MARKER = Marker("layer.json", "tune")
# What can be saved with a model.
_LAYERS: dict[str, type[nn.Module]] = {"IsotropyLayer": IsotropyLayer, "IsoBN": IsoBN}


def write_layer(folder: Path, layer: nn.Module) -> None:
    """Write weights and settings of a layer into a folder, as `layer.safetensors` and `layer.json`."""
    kind = type(layer).__name__
    if kind not in _LAYERS:
        raise ValueError(f"a {kind} cannot be saved with a model; only {', '.join(_LAYERS)} can")
    write_weights(layer, folder / "layer.safetensors")
    write_json(folder / "layer.json", {**MARKER.about, "kind": kind, "settings": layer.settings})


def read_layer(folder: Path) -> nn.Module | None:
    """The layer in a folder, in evaluation mode, or None if there is none."""
    from safetensors.torch import load_file

    if not (folder / "layer.json").is_file():
        return None
    with reading(folder / "layer.json", "a layer"):
        stored = read_json(folder / "layer.json")
        if stored["kind"] not in _LAYERS:
            raise ValueError(f"its kind is {stored['kind']!r}; it must be one of {', '.join(_LAYERS)}")
        layer = _LAYERS[stored["kind"]](**stored["settings"])
        layer.load_state_dict(load_file(folder / "layer.safetensors"))
        return layer.eval()


def write_weights(module: nn.Module, path: Path) -> None:
    """Write the state of a module to a `.safetensors` file, wherever its tensors are."""
    from safetensors.torch import save_file

    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}, path)


HEAD = "head.json"
HEAD_WEIGHTS = "head.safetensors"
POOLER_WEIGHTS = "pooler.safetensors"


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
    """

    model: LinearHead
    encoder: Encoder
    about: dict[str, Any]

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

        location = local_folder(folder, revision=revision)
        for name in (HEAD, HEAD_WEIGHTS):
            if not (location / name).is_file():
                raise FileNotFoundError(f"{location} has no {name}, so it is not a classifier saved by a run; name RUN/model")
        with reading(location / HEAD, "the head of a run"):
            origin = dict(read_json(location / HEAD))
            weights = load_file(location / HEAD_WEIGHTS)
            outputs, width = weights["weight"].shape
            if missing := {"kind", "pooling", "labels"} - origin.keys():
                raise ValueError(f"it lacks {min(missing)!r}")
            if not isinstance(origin.get("max_length"), (int, type(None))):
                raise ValueError(f"max_length is {origin['max_length']!r}")
            if origin.get("pooler") and not (location / POOLER_WEIGHTS).is_file():
                raise ValueError(f"it names a pooler, but there is no {POOLER_WEIGHTS}")
            if len(origin["labels"]) not in (0, outputs):
                raise ValueError(f"it has {len(origin['labels'])} labels for {outputs} outputs")
        length = max_length if max_length is not None else origin.get("max_length")
        encoder = Encoder.load(location, device=device, max_length=length, trust_remote_code=trust_remote_code)
        with reading(location / HEAD_WEIGHTS, "the head of this encoder"):
            model = LinearHead(encoder.module, outputs, slots=width // encoder.d, regression=origin["kind"] == "similarity")
            model.head.load_state_dict(weights)
            if origin.get("pooler"):
                model.add_pooler()
                assert model.pooler is not None
                model.pooler.load_state_dict(load_file(location / POOLER_WEIGHTS))
        classifier = cls(model.to(encoder.device).eval(), encoder, origin)
        classifier.insert(read_layer(location))
        return classifier

    def insert(self, layer: nn.Module | None) -> None:
        """Put a layer between encoder and head, in place of the one that is there.

        Parameters
        ----------
        layer
            Maps (rows, d) to (rows, d); None for no layer.
        """
        self.model.layer = None if layer is None else layer.to(self.encoder.device).train(self.model.training)

    @property
    def labels(self) -> tuple[str, ...]:
        """In the order of the head's outputs; empty if the head gives one score, from 0 to 1 over the task's scale."""
        return tuple(self.about["labels"])

    @property
    def pooling(self) -> str:
        """What the head reads: "cls", "mean", "last" or "words"."""
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

    def _read(self, texts: Sequence[str], second: Sequence[str] | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self.pooling == "words":
            raise ValueError(f"this head is for words ({self.about['kind']}), not for whole texts")
        unit: Any = self.pooling
        dataset = TextDataset.of(self.encoder, replace(text_inputs(texts, unit), second=second), unit)
        X, logits = self.through(embed(self.model, dataset).vectors)
        return X.float().cpu().numpy(), logits[:, 0].float().cpu().numpy()

    def dataset(self, examples: Examples) -> TextDataset:
        """Examples of the run's task as the head takes them, with the answers it should give.

        Parameters
        ----------
        examples
            The examples.
        """
        unit: Any = examples.task.unit if self.pooling == "words" else self.pooling
        targets: Any = examples.unit_scores() if self.model.regression else examples.label_ids(self.labels)
        return TextDataset.of(self.encoder, text_inputs(examples, unit, together=True), unit, targets=targets)

    @torch.no_grad()
    def through(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the head takes of the encoder's vectors, (n, d), and its logits (n, 1, outputs), without dropout.

        Parameters
        ----------
        vectors
            (n, d), as `embed` returns them.
        """
        with evaluating(self.model):
            X = vectors if self.model.layer is None else self.model.layer(vectors)
            return X, self.model.answer(X.unsqueeze(1))["logits"]

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write encoder and tokenizer as transformers does, the head as `head.*`, and the layer, if there is one, as `layer.*`.

        Parameters
        ----------
        folder
            The folder to write into.
        """
        location = Path(folder)
        location.mkdir(parents=True, exist_ok=True)
        with quiet_loading():
            self.encoder.saveable.save_pretrained(location)
            self.encoder.tokenizer.save_pretrained(location)
        write_weights(self.model.head, location / HEAD_WEIGHTS)
        write_json(location / HEAD, {**self.about, "max_length": self.encoder.max_length})
        if self.model.pooler is not None:
            write_weights(self.model.pooler, location / POOLER_WEIGHTS)
        if self.model.layer is not None:
            write_layer(location, self.model.layer)
