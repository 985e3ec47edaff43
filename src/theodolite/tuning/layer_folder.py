"""A layer beside the files of the model it stands in: `layer.safetensors` and `layer.json`.

`save_pretrained` and `from_pretrained` here are for any model of transformers for sequence classification with an inserted layer.
Transformers alone loads the same folder without the layer; a run's own folder is a `TunedClassifier`.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from theodolite.core.files import replace_folder
from theodolite.models.extra import quietly
from theodolite.tuning.insert import NAME, Inserted, insert
from theodolite.tuning.isobn import IsoBN
from theodolite.tuning.isotropy_layer import IsotropyLayer
from theodolite.tuning.place import At

LAYERS: dict[str, type[nn.Module]] = {"IsotropyLayer": IsotropyLayer, "IsoBN": IsoBN}
"""What can be saved between encoder and head, by name."""


def save_pretrained(
    put: Inserted, folder: str | os.PathLike[str], *, tokenizer: Any = None, at: At = "before_pooler", overwrite: bool = False
) -> None:
    """Write model, tokenizer and layer in the hub's layout, all or nothing; `at` is what `insert` was told."""
    model: Any = put.model
    target = Path(folder)
    if not hasattr(model, "save_pretrained"):
        raise ValueError(f"{type(model).__name__} is no model of transformers; save a run's model as a TunedClassifier")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already; choose another folder, or overwrite it (overwrite=True)")
    settings_of(put.layer)  # complains before anything is written
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        partial.chmod(0o755)
        with quietly():
            model.save_pretrained(partial, state_dict=_without_layer(model))
            if tokenizer is not None:
                tokenizer.save_pretrained(partial)
        write_layer(partial, put.layer, at)
        replace_folder(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def from_pretrained(folder: str | os.PathLike[str]) -> Inserted:
    """The model of a folder that `save_pretrained` wrote, with its layer in place: `.model` gives the very outputs it gave."""
    from transformers import AutoModelForSequenceClassification

    place = Path(folder)
    found = read_layer(place)
    if found is None:
        raise FileNotFoundError(f"{place} has no layer.json: no layer was saved in it")
    with quietly():
        model = AutoModelForSequenceClassification.from_pretrained(place)
    return insert(model.eval(), found[0].eval(), at=found[1])


def write_layer(folder: Path, layer: nn.Module, at: At) -> None:
    """Weights and settings of a layer."""
    from safetensors.torch import save_file

    told = {"kind": type(layer).__name__, "settings": settings_of(layer), "at": at}
    save_file(on_cpu(layer), folder / "layer.safetensors")
    (folder / "layer.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def read_layer(folder: Path) -> tuple[nn.Module, At] | None:
    """The layer in a folder and where it stands; None where there is none."""
    from safetensors.torch import load_file

    if not (folder / "layer.json").is_file():
        return None
    told = json.loads((folder / "layer.json").read_text(encoding="utf-8"))
    if told["kind"] not in LAYERS:
        raise ValueError(f"{folder} has a layer of kind {told['kind']!r}; known: {', '.join(LAYERS)}")
    layer = LAYERS[told["kind"]](**told["settings"])
    layer.load_state_dict(load_file(folder / "layer.safetensors"))
    return layer, told["at"]


def settings_of(layer: nn.Module) -> dict[str, Any]:
    """What the layer's constructor was given."""
    if isinstance(layer, IsotropyLayer):
        return layer.settings
    if isinstance(layer, IsoBN):
        return {name: getattr(layer, name) for name in ("d", "momentum", "beta", "eps", "published")}
    raise ValueError(f"a {type(layer).__name__} cannot be saved with a model; only {', '.join(LAYERS)} can")


def on_cpu(module: nn.Module) -> dict[str, torch.Tensor]:
    """The state of a module as files hold it."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}


def _without_layer(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in model.state_dict().items() if NAME not in name.split(".")}
