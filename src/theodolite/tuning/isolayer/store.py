"""A layer next to the files of the model it is in: `layer.safetensors` and `layer.json`.

`save_with_layer` and `load_with_layer` are for models of transformers for sequence classification. Transformers alone loads the
same folder without the layer. A run's own folder is a `TunedClassifier`, which uses `write_layer` and `read_layer`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from theodolite.core.files import whole_folder, write_json
from theodolite.models.encoder import quiet_loading
from theodolite.tuning.isobn import IsoBN
from theodolite.tuning.isolayer.insertion import NAME, At, InsertedLayer, insert_layer
from theodolite.tuning.isolayer.layer import IsotropyLayer

_LAYERS: dict[str, type[nn.Module]] = {"IsotropyLayer": IsotropyLayer, "IsoBN": IsoBN}


def save_with_layer(
    inserted: InsertedLayer,
    folder: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    at: At = "before_pooler",
    overwrite: bool = False,
) -> None:
    """Write model, tokenizer and layer in the Hub's layout; the folder is complete or absent.

    Parameters
    ----------
    inserted
        An `IsotropyLayer` or `IsoBN` in a model of transformers.
    folder
        The folder to write.
    tokenizer
        Written too, if given.
    at
        What `insert_layer` was given.
    overwrite
        Whether a folder of that name may be replaced.
    """
    model: Any = inserted.model
    if not hasattr(model, "save_pretrained"):
        raise ValueError(f"{type(model).__name__} is not a model of transformers; save a run's model as a TunedClassifier")
    _settings_of(inserted.layer)  # raises before anything is written
    with whole_folder(folder, overwrite=overwrite) as partial:
        with quiet_loading():
            weights = {name: tensor for name, tensor in model.state_dict().items() if NAME not in name.split(".")}
            model.save_pretrained(partial, state_dict=weights)
            if tokenizer is not None:
                tokenizer.save_pretrained(partial)
        write_layer(partial, inserted.layer, at)


def load_with_layer(folder: str | os.PathLike[str]) -> InsertedLayer:
    """The model of a folder with its layer in place: `.model` gives exactly the outputs it gave when it was saved.

    Parameters
    ----------
    folder
        What `save_with_layer` wrote.
    """
    from transformers import AutoModelForSequenceClassification

    layer_and_place = read_layer(Path(folder))
    if layer_and_place is None:
        raise FileNotFoundError(f"{folder} has no layer.json: no layer was saved in it")
    layer, at = layer_and_place
    with quiet_loading():
        model = AutoModelForSequenceClassification.from_pretrained(folder)
    return insert_layer(model.eval(), layer.eval(), at=at)


def write_layer(folder: Path, layer: nn.Module, at: At) -> None:
    """Write weights and settings of a layer into a folder.

    Parameters
    ----------
    folder
        The folder of the model.
    layer
        An `IsotropyLayer` or `IsoBN`.
    at
        Where the layer is in its model.
    """
    from safetensors.torch import save_file

    save_file(state_on_cpu(layer), folder / "layer.safetensors")
    write_json(folder / "layer.json", {"kind": type(layer).__name__, "settings": _settings_of(layer), "at": at})


def read_layer(folder: Path) -> tuple[nn.Module, At] | None:
    """The layer in a folder and where it belongs; None if there is none.

    Parameters
    ----------
    folder
        What `write_layer` wrote into.
    """
    from safetensors.torch import load_file

    if not (folder / "layer.json").is_file():
        return None
    about = json.loads((folder / "layer.json").read_text(encoding="utf-8"))
    if about["kind"] not in _LAYERS:
        raise ValueError(f"{folder} has a layer of kind {about['kind']!r}; the kinds there are: {', '.join(_LAYERS)}")
    layer = _LAYERS[about["kind"]](**about["settings"])
    layer.load_state_dict(load_file(folder / "layer.safetensors"))
    return layer, about["at"]


def state_on_cpu(module: nn.Module) -> dict[str, torch.Tensor]:
    """The state of a module as files store it.

    Parameters
    ----------
    module
        Any module.
    """
    return {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}


def _settings_of(layer: nn.Module) -> dict[str, Any]:
    """The arguments that the layer was made with."""
    if isinstance(layer, IsotropyLayer):
        return layer.settings
    if isinstance(layer, IsoBN):
        return {name: getattr(layer, name) for name in ("d", "momentum", "beta", "eps", "published")}
    raise ValueError(f"a {type(layer).__name__} cannot be saved with a model; only {', '.join(_LAYERS)} can")
