"""Which parameters of the encoder train: all, those above the first N layers, none, or low-rank additions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from theodolite.core.options import option

# Low-rank additions to every linear map of the encoder, at peft's usual size.
LORA: dict[str, Any] = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.1, "target_modules": "all-linear"}


def apply_strategy(encoder: nn.Module, strategy: str) -> Callable[[], None]:
    """Prepare an encoder for training, in place.

    Parameters
    ----------
    encoder
        The encoder's module.
    strategy
        "full", "frozen:N", "head" or "lora".

    Returns
    -------
    Callable
        Makes it a plain encoder again; to be called before it is saved.
    """
    if strategy == "lora":
        return _add_lora(encoder)
    if strategy == "head":
        encoder.requires_grad_(False)
    elif strategy.startswith("frozen"):
        _freeze_layers(encoder, int(strategy.partition(":")[2]))
    return lambda: None


def _freeze_layers(encoder: nn.Module, count: int) -> None:
    """Freeze the embeddings and the first `count` layers."""
    name, layers = _layers_of(encoder)
    if not 0 <= count <= len(layers):
        raise ValueError(
            f"{option('strategy', f'frozen:{count}')} must be between 0 and {len(layers)}, the layers of the encoder"
        )
    for child_name, child in encoder.named_children():
        # Relative position biases are embeddings too, but belong to the layers: they train as long as a layer does.
        if child_name != name.partition(".")[0] and any(isinstance(part, nn.Embedding) for part in child.modules()):
            child.requires_grad_(False)
    for layer in layers[:count]:
        layer.requires_grad_(False)


def _layers_of(encoder: nn.Module) -> tuple[str, nn.ModuleList]:
    count = getattr(getattr(encoder, "config", None), "num_hidden_layers", None)
    # Families name their list of layers differently, but none has another list of that length.
    for name, module in encoder.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return name, module
    raise ValueError(
        f"{type(encoder).__name__} has no list of its {count} layers (layers that share weights cannot be frozen one by one); "
        "use strategy 'full', 'head' or 'lora'"
    )


def _add_lora(encoder: nn.Module) -> Callable[[], None]:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as missing:
        raise ImportError(f"{option('strategy', 'lora')} needs peft, which is not installed; run: pip install peft") from missing
    # Peft puts its layers into the encoder itself, so whoever has the encoder trains them without knowing.
    wrapped: Any = get_peft_model(encoder, LoraConfig(**LORA))

    def merge() -> None:
        wrapped.merge_and_unload()

    return merge
