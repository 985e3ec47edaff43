"""A fine-tuned classifier as a folder: encoder, tokenizer and head, with the layer between them if there is one.

A layer also goes into a model of transformers for sequence classification, between its encoder and its head.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.hooks import RemovableHandle

from theodolite.core.files import Marker, atomic_folder, read_json, reading, write_json
from theodolite.models.encoder import Encoder, quiet_loading
from theodolite.models.location import local_folder
from theodolite.models.pipeline import evaluating
from theodolite.models.tokens import text_inputs
from theodolite.tasks.examples import Examples
from theodolite.tuning.heads import LinearHead, TextDataset, embed
from theodolite.tuning.isotropy_layer import IsotropyLayer
from theodolite.tuning.regularisers import IsoBN

At: TypeAlias = Literal["before_pooler", "after_pooler"]

# What an inserted layer is called inside the part of the model that it is attached to.
NAME = "inserted"
# What transformers' models for sequence classification call their heads.
HEADS = ("classifier", "classification_head", "score", "sequence_summary")
POOLERS = ("pooler", "head")
MARKER = Marker("layer.json", "tune")
# What can be saved with a model.
_LAYERS: dict[str, type[nn.Module]] = {"IsotropyLayer": IsotropyLayer, "IsoBN": IsoBN}


@dataclass(frozen=True, eq=False)
class InsertedLayer:
    """A layer in its place in a model, as `insert_layer` returns it; `place` names the place, such as "before bert.pooler"."""

    model: nn.Module
    layer: nn.Module
    at: At
    place: str
    _part: nn.Module
    _handle: RemovableHandle

    @contextmanager
    def outputs(self) -> Iterator[list[torch.Tensor]]:
        """A list that gets the layer's output (rows, d) of every forward inside the context: what losses on vectors need."""
        outputs: list[torch.Tensor] = []
        handle = self.layer.register_forward_hook(lambda _layer, _inputs, output: outputs.append(output))
        try:
            yield outputs
        finally:
            handle.remove()

    def remove(self) -> nn.Module:
        """Take the layer out again and return it; the model is then as it was."""
        self._handle.remove()
        delattr(self._part, NAME)
        return self.layer


def insert_layer(model: nn.Module, layer: nn.Module, *, at: At = "before_pooler") -> InsertedLayer:
    """Put a layer on the [CLS] vector between encoder and head, in place; every forward of the model then passes through it.

    Names and weights of the model stay as they are. The path is tried out: if the logits do not come from this vector alone,
    nothing is changed and an error says why.

    Parameters
    ----------
    model
        A model of transformers for sequence classification, of any family whose head reads [CLS].
    layer
        A module that maps (rows, d) to (rows, d).
    at
        "before_pooler" as in IL23: [CLS] before BERT's pooler, or before the dense layer in RoBERTa's head. "after_pooler" as
        in IsoBN: what comes out of these, before the dropout if a pooler is a part of its own (in RoBERTa's head, after it).

    Raises
    ------
    ValueError
        The model has no such place, or a layer is there already.
    """
    if at not in ("before_pooler", "after_pooler"):
        raise ValueError(f"at={at!r} must be 'before_pooler' or 'after_pooler'")
    side, name = _find_place(model, after=at == "after_pooler")
    part, place = model.get_submodule(name), f"{side} {name}"
    # An nn.Sequential would run a layer added to it as a part of its own, so the layer goes to its first or last part.
    while isinstance(part, nn.Sequential) and len(part) > 0:
        part = part[0 if side == "before" else -1]
    if hasattr(part, NAME):
        raise ValueError(f"there is a layer {place} already; remove it first")
    layer.to(next(model.parameters()).device).train(model.training)
    part.add_module(NAME, layer)
    handle = part.register_forward_pre_hook(_on_input) if side == "before" else part.register_forward_hook(_on_output)
    inserted = InsertedLayer(model, layer, at, place, part, handle)
    try:
        _try_out(inserted)
    except BaseException:
        inserted.remove()
        raise
    return inserted


def _find_place(model: Any, *, after: bool) -> tuple[str, str]:
    """Before or after which part of a model a layer goes; both are the same if a head has no pooler or dense layer of its own."""
    head = next((name for name in HEADS if isinstance(getattr(model, name, None), nn.Module)), None)
    encoder = getattr(model, "base_model", model)
    if head is None or encoder is model:
        raise ValueError(
            f"{type(model).__name__} has no head ({', '.join(HEADS)}) after an encoder, so there is no place for a layer; load "
            "the model with AutoModelForSequenceClassification, or use TunedClassifier.insert for the model of a run"
        )
    if head == "score" or getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(f"{type(model).__name__} has no [CLS] vector for a layer to work on: its head reads the last token")
    if isinstance(getattr(model, "pre_classifier", None), nn.Module):  # DistilBERT: dense, relu, dropout, classifier
        return "before", "dropout" if after else "pre_classifier"
    linears = [name for name, part in model.get_submodule(head).named_modules() if isinstance(part, nn.Linear)]
    if len(linears) > 1:  # RoBERTa, ELECTRA, ...: the head takes all tokens, keeps the first, and has a dense layer of its own
        return "before", f"{head}.{linears[-1]}" if after else head
    for owner, path in ((model, ""), (encoder, f"{model.base_model_prefix}.")):
        for name in POOLERS:
            if isinstance(getattr(owner, name, None), nn.Module):
                # ALBERT has the activation next to its pooler.
                last = f"{name}_activation" if hasattr(owner, f"{name}_activation") else name
                return ("after", path + last) if after else ("before", path + name)
    return "before", head


# Hooks find the layer in the part they are called for, so that a copy of the model uses its own. Named functions can be pickled.
def _on_input(part: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_on_output(part, inputs, inputs[0]), *inputs[1:])


def _on_output(part: nn.Module, _inputs: tuple[Any, ...], vectors: torch.Tensor) -> torch.Tensor:
    """The layer on vectors (rows, d), or on the first token of (rows, tokens, d)."""
    layer: nn.Module = getattr(part, NAME)
    if vectors.dim() == 2:
        changed: torch.Tensor = layer(vectors)
        return changed
    return torch.cat([layer(vectors[:, 0]).unsqueeze(1), vectors[:, 1:]], dim=1)


@torch.no_grad()
def _try_out(inserted: InsertedLayer) -> None:
    """Raise unless the logits come from the first token's vector alone, and from that through the layer alone."""
    model, layer, name = inserted.model, inserted.layer, type(inserted.model).__name__
    encoder: Any = model.base_model
    ids = torch.tensor([[2, 3, 4], [5, 6, 7]], device=next(model.parameters()).device)

    def logits(part: nn.Module, change: Callable[[torch.Tensor], torch.Tensor | None]) -> torch.Tensor:
        """The logits of two texts, with a change to what a part gives."""
        handle = part.register_forward_hook(lambda _part, _inputs, output: change(output))
        try:
            output: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids))["logits"]
        finally:
            handle.remove()
        return output

    def forget_other_tokens(output: Any) -> None:
        output[0][:, 1:] = 0

    try:
        with evaluating(model), inserted.outputs() as outputs:
            plain, first_alone = logits(encoder, lambda _: None), logits(encoder, forget_other_tokens)
            blind = logits(layer, torch.zeros_like)
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError) as error:
        about = f"{type(layer).__name__} {inserted.place} of {name} (d={encoder.config.hidden_size})"
        raise ValueError(f"{about} does not run: {error}") from error
    if not torch.allclose(plain, first_alone):
        raise ValueError(f"the head of {name} does not read its first token alone, so the model has no [CLS] vector")
    # Without the layer's vectors nothing may tell the two texts apart.
    if not outputs or not torch.allclose(blind[0], blind[1]):
        raise ValueError(f"the logits of {name} do not pass {inserted.place}, so a layer there would have no effect")


def save_with_layer(
    inserted: InsertedLayer, folder: str | os.PathLike[str], *, tokenizer: Any = None, overwrite: bool = False
) -> None:
    """Write model, tokenizer and layer in the Hub's layout; the folder is complete or absent.

    Transformers alone loads the same folder without the layer.

    Parameters
    ----------
    inserted
        An `IsotropyLayer` or `IsoBN` in a model of transformers.
    folder
        The folder to write.
    tokenizer
        Written too, if given.
    overwrite
        Whether a model with a layer that is in the folder may be replaced; anything else never is.
    """
    model: Any = inserted.model
    with atomic_folder(folder, overwrite=overwrite, marker=MARKER) as partial:
        write_layer(partial, inserted.layer, at=inserted.at)
        with quiet_loading():
            weights = {name: tensor for name, tensor in model.state_dict().items() if NAME not in name.split(".")}
            model.save_pretrained(partial, state_dict=weights)
            if tokenizer is not None:
                tokenizer.save_pretrained(partial)


def load_with_layer(folder: str | os.PathLike[str]) -> InsertedLayer:
    """The model of a folder with its layer in place: `.model` gives exactly the outputs it gave when it was saved.

    Parameters
    ----------
    folder
        What `save_with_layer` wrote.
    """
    from transformers import AutoModelForSequenceClassification

    layer, at = read_layer(Path(folder))
    if layer is None:
        raise FileNotFoundError(f"{folder} has no layer.json: no layer was saved in it")
    with quiet_loading():
        model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=False, weights_only=True)
    return insert_layer(model.eval(), layer, at=at)


def write_layer(folder: Path, layer: nn.Module, *, at: At = "before_pooler") -> None:
    """Write weights and settings of a layer into a folder, as `layer.safetensors` and `layer.json`."""
    kind = type(layer).__name__
    if kind not in _LAYERS:
        raise ValueError(f"a {kind} cannot be saved with a model; only {', '.join(_LAYERS)} can")
    write_weights(layer, folder / "layer.safetensors")
    write_json(folder / "layer.json", {**MARKER.about, "kind": kind, "settings": layer.settings, "at": at})


def read_layer(folder: Path) -> tuple[nn.Module | None, At]:
    """The layer in a folder, in evaluation mode, or None if there is none; and where it belongs."""
    from safetensors.torch import load_file

    if not (folder / "layer.json").is_file():
        return None, "before_pooler"
    with reading(folder / "layer.json", "a layer"):
        about = read_json(folder / "layer.json")
        if about["kind"] not in _LAYERS:
            raise ValueError(f"its kind is {about['kind']!r}; the kinds there are: {', '.join(_LAYERS)}")
        layer = _LAYERS[about["kind"]](**about["settings"])
        layer.load_state_dict(load_file(folder / "layer.safetensors"))
        return layer.eval(), about["at"]


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

        place = local_folder(folder, revision=revision)
        for name in (HEAD, HEAD_WEIGHTS):
            if not (place / name).is_file():
                raise FileNotFoundError(f"{place} has no {name}, so it is not a classifier saved by a run; name RUN/model")
        with reading(place / HEAD, "the head of a run"):
            about = dict(read_json(place / HEAD))
            weights = load_file(place / HEAD_WEIGHTS)
            outputs, width = weights["weight"].shape
            if missing := {"kind", "pooling", "labels"} - about.keys():
                raise ValueError(f"it lacks {min(missing)!r}")
            if not isinstance(about.get("max_length"), (int, type(None))):
                raise ValueError(f"max_length is {about['max_length']!r}")
            if about.get("pooler") and not (place / POOLER_WEIGHTS).is_file():
                raise ValueError(f"it names a pooler, and there is no {POOLER_WEIGHTS}")
            if len(about["labels"]) not in (0, outputs):
                raise ValueError(f"it has {len(about['labels'])} labels for {outputs} outputs")
        length = max_length if max_length is not None else about.get("max_length")
        encoder = Encoder.load(place, device=device, max_length=length, trust_remote_code=trust_remote_code)
        with reading(place / HEAD_WEIGHTS, "the head of this encoder"):
            model = LinearHead(encoder.module, outputs, slots=width // encoder.d, regression=about["kind"] == "similarity")
            model.head.load_state_dict(weights)
            if about.get("pooler"):
                model.add_pooler()
                assert model.pooler is not None
                model.pooler.load_state_dict(load_file(place / POOLER_WEIGHTS))
        classifier = cls(model.to(encoder.device).eval(), encoder, about)
        classifier.insert(read_layer(place)[0])
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
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        with quiet_loading():
            self.encoder.saveable.save_pretrained(place)
            self.encoder.tokenizer.save_pretrained(place)
        write_weights(self.model.head, place / HEAD_WEIGHTS)
        write_json(place / HEAD, {**self.about, "max_length": self.encoder.max_length})
        if self.model.pooler is not None:
            write_weights(self.model.pooler, place / POOLER_WEIGHTS)
        if self.model.layer is not None:
            write_layer(place, self.model.layer)
