"""An encoder: a transformer with its tokenizer, whose hidden states are read for all layers in one pass."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from theodolite.models.extra import quietly, require_models
from theodolite.models.locate import EncoderError, Location, explain, find

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16", "float16"]


class Encoder:
    """A transformer, its tokenizer and where they come from.

    Layers are counted as transformers does: 0 is the embeddings, `n_layers - 1` the last. Texts are cut to `max_length` tokens.
    A model in training can be wrapped as it is: its modes are put back after every pass.
    """

    def __init__(self, module: Any, tokenizer: Any, *, name: str = "", revision: str = "", max_length: int | None = None) -> None:
        # Of a model with encoder and decoder, the encoder alone reads a text.
        self.module = module.get_encoder() if getattr(module.config, "is_encoder_decoder", False) else module
        self.tokenizer = tokenizer
        self.name = name or str(getattr(module.config, "name_or_path", "")) or type(module).__name__
        self.revision = revision
        self.max_length = _max_length(module, tokenizer, max_length)
        self._arguments = set(inspect.signature(self.module.forward).parameters)

    @classmethod
    def load(
        cls,
        model: Any,
        *,
        tokenizer: Any = None,
        revision: str | None = None,
        device: str = "auto",
        dtype: Precision = "float32",
        trust_remote_code: bool = False,
        max_length: int | None = None,
        name: str = "",
    ) -> Encoder:
        """An encoder from a hub id or a folder (also a sentence-transformers one), or around a model already in memory.

        `device` is "auto" (a GPU where there is one), "cpu", "cuda:1", ... A model in memory keeps its device and precision, and
        needs its `tokenizer` unless it is a SentenceTransformer.
        """
        if isinstance(model, Encoder):
            return model
        require_models()
        if not isinstance(model, (str, os.PathLike)):
            return cls._around(model, tokenizer, name=name, max_length=max_length)
        location = find(model, revision=revision)
        with quietly():
            module, words = _load(location, tokenizer, trust_remote_code)
        length = max_length if max_length is not None else _within(module, location.max_length)
        loaded = cls(module, words, name=name or location.name, revision=location.revision or "", max_length=length)
        loaded.module.to(device=_device(device), dtype=_precision(dtype)).eval()
        return loaded

    @classmethod
    def _around(cls, model: Any, tokenizer: Any, *, name: str, max_length: int | None) -> Encoder:
        # A SentenceTransformer is recognised by what it has, so that its library need not be imported.
        if hasattr(model, "encode") and hasattr(model, "max_seq_length"):
            length = max_length if max_length is not None else _within(model[0].auto_model, model.max_seq_length)
            return cls(model[0].auto_model, tokenizer or model.tokenizer, name=name, max_length=length)
        if tokenizer is None:
            raise EncoderError("a model in memory comes without its tokenizer; pass tokenizer=AutoTokenizer.from_pretrained(...)")
        return cls(model, tokenizer, name=name, max_length=max_length)

    @property
    def n_layers(self) -> int:
        """Number of hidden states: the embeddings and every layer."""
        return int(self.module.config.num_hidden_layers) + 1

    @property
    def d(self) -> int:
        return int(self.module.config.hidden_size)

    @property
    def device(self) -> torch.device:
        found: torch.device = next(self.module.parameters()).device
        return found

    @property
    def dtype(self) -> str:
        """Precision of the weights, such as "float32"."""
        return str(next(self.module.parameters()).dtype).removeprefix("torch.")

    @property
    def pad_id(self) -> int:
        """What fills up short texts; masked out, so that a tokenizer without padding can lend its end-of-text token."""
        for candidate in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if candidate is not None:
                return int(candidate)
        return 0

    def layers(self, asked: str | int | list[int] | tuple[int, ...] | range = "all") -> tuple[int, ...]:
        """The layers asked for, from 0: "all", "last", a number or several; negative ones count from the last."""
        if isinstance(asked, str):
            if asked not in ("all", "last"):
                raise ValueError(f"layers={asked!r} must be 'all', 'last' or numbers from 0 to {self.n_layers - 1}")
            return tuple(range(self.n_layers)) if asked == "all" else (self.n_layers - 1,)
        numbers = [asked] if isinstance(asked, int) else list(asked)
        for number in numbers:
            if not -self.n_layers <= number < self.n_layers:
                raise ValueError(f"there is no layer {number}; {self.name} has 0 (embeddings) to {self.n_layers - 1}")
        if not numbers:
            raise ValueError("layers is empty; name at least one, or 'all'")
        return tuple(sorted({number % self.n_layers for number in numbers}))

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """(texts, tokens, d) of every layer for padded token numbers, in one pass without gradients or dropout."""
        import torch

        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if types is not None:
            inputs["token_type_ids"] = types
        if "use_cache" in self._arguments:
            inputs["use_cache"] = False
        with evaluating(self.module), torch.inference_mode():
            states = self.module(**inputs, output_hidden_states=True, return_dict=True).hidden_states
        if len(states) != self.n_layers:
            raise EncoderError(f"{self.name} gave {len(states)} hidden states where its configuration promises {self.n_layers}")
        return tuple(states)

    def fingerprint(self) -> str:
        """SHA-256 of all weights: the same for the same encoder, wherever it was loaded from."""
        import torch

        digest = hashlib.sha256()
        for key, value in sorted(self.module.state_dict().items()):
            digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """In evaluation mode, and every part back in its own mode afterwards."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _load(location: Location, tokenizer: Any, trust_remote_code: bool) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    options: dict[str, Any] = {"trust_remote_code": trust_remote_code, "subfolder": location.subfolder}
    if location.revision is not None:
        options["revision"] = location.revision
    try:
        module, report = AutoModel.from_pretrained(location.place, output_loading_info=True, **options)
        words = tokenizer if tokenizer is not None else AutoTokenizer.from_pretrained(location.place, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise explain(location, error) from error
    # A pooler is not read here; any other weight that the files lack would be random, and so would be what is measured.
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise EncoderError(
            f"the files of {location.name!r} lack {len(missing)} weights of its layers ({missing[0]}, ...), which would "
            "be random; save the whole encoder"
        )
    return module, words


def _device(asked: str) -> str:
    import torch

    if asked != "auto":
        return asked
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _precision(asked: str) -> torch.dtype:
    import torch

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if asked not in known:
        raise ValueError(f"dtype={asked!r} must be one of {', '.join(known)}")
    return known[asked]


def _max_length(module: Any, tokenizer: Any, asked: int | None) -> int | None:
    """Tokens a text may have: what is asked, within what the positions allow; None where nothing limits them."""
    positions = _positions(module)
    if asked is not None:
        if asked < 1 or (positions is not None and asked > positions):
            raise ValueError(f"max_length={asked} must be from 1 to the {positions} positions that the encoder has")
        return asked
    named = int(tokenizer.model_max_length) if tokenizer.model_max_length < 10**9 else None
    limits = [limit for limit in (positions, named) if limit is not None]
    return min(limits) if limits else None


def _within(module: Any, length: int | None) -> int | None:
    """The length a sentence-transformers model names for itself, which may promise more than there are positions."""
    positions = _positions(module)
    return length if length is None or positions is None else min(length, positions)


def _positions(module: Any) -> int | None:
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and hasattr(part, "num_embeddings"):
            # RoBERTa and its kin count positions from the padding's on.
            used = 0 if part.padding_idx is None else part.padding_idx + 1
            return int(part.num_embeddings) - used
    found = getattr(module.config, "max_position_embeddings", None)
    return int(found) if isinstance(found, int) and found > 0 else None
