"""An encoder: a transformer with its tokenizer, whose hidden states are read for all layers in one pass."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

from theodolite.core.options import option
from theodolite.models.location import EncoderError, Location, find_encoder

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16", "float16"]

INSTALL = 'pip install "theodolite[models]"'


class Encoder:
    """A transformer, its tokenizer and where they come from; `Encoder.load` makes one.

    Layers are counted as in transformers: 0 is the embeddings, `n_layers - 1` the last. A model in training can be wrapped as
    it is: the modes of its modules are put back after every pass.

    Parameters
    ----------
    module
        A model of transformers; of a model with encoder and decoder, the encoder is used.
    tokenizer
        Its tokenizer.
    name
        What rows call it; by default what the model's configuration says.
    location
        Where it was loaded from, if it was.
    max_length
        Texts are cut to this number of tokens; by default as many as the positions and the tokenizer allow.
    """

    def __init__(
        self, module: Any, tokenizer: Any, *, name: str = "", location: Location | None = None, max_length: int | None = None
    ) -> None:
        # A decoder's layers are not states of the text that is read.
        self.module = module.get_encoder() if getattr(module.config, "is_encoder_decoder", False) else module
        self.tokenizer = tokenizer
        self.location = location
        configured = str(getattr(module.config, "name_or_path", ""))
        self.name = name or (location.name if location else configured) or type(module).__name__
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
        """Load an encoder, or wrap one that is in memory.

        Parameters
        ----------
        model
            A Hub id; a folder that transformers or sentence-transformers wrote; "demo" for the demo encoder; a model of
            transformers (with its `tokenizer`); a SentenceTransformer; or an Encoder, which is returned as it is.
        tokenizer
            Used instead of the tokenizer that belongs to the model.
        revision
            Branch, tag or commit of a Hub id.
        device
            "auto" (a GPU if there is one), "cpu", "cuda:1", ... A model in memory keeps its device.
        dtype
            Precision of the weights. A model in memory keeps its precision.
        trust_remote_code
            Whether the model's own code may run.
        max_length
            Texts are cut to this number of tokens; by default as many as the model was made for.
        name
            What rows call the encoder; by default the Hub id or the folder's last part.

        Raises
        ------
        EncoderError
            The encoder does not exist, lacks weights, or needs what was not given.
        ImportError
            torch or transformers is not installed.
        """
        if isinstance(model, Encoder):
            return model
        try:
            import torch
            import transformers  # noqa: F401
        except ImportError as error:
            raise ImportError(f"encoders need torch and transformers ({error}); run: {INSTALL}") from None
        if not isinstance(model, (str, os.PathLike)):
            return cls._in_memory(model, tokenizer, name=name, max_length=max_length)
        if dtype not in get_args(Precision):
            raise ValueError(f"dtype={dtype!r} must be one of {', '.join(get_args(Precision))}")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        location = find_encoder(model, revision=revision)
        with quiet_loading():
            module, own_tokenizer = _load(location, tokenizer, trust_remote_code)
        length = max_length if max_length is not None else _within_positions(module, location.max_length)
        encoder = cls(module, own_tokenizer, name=name, location=location, max_length=length)
        # Files may be in half precision; measured numbers should not depend on that unless it is asked for.
        encoder.module.to(device=device, dtype=getattr(torch, dtype)).eval()
        return encoder

    @classmethod
    def _in_memory(cls, model: Any, tokenizer: Any, *, name: str, max_length: int | None) -> Encoder:
        # A SentenceTransformer is recognised by its methods, so that its library need not be imported.
        if hasattr(model, "encode") and hasattr(model, "max_seq_length"):
            module = getattr(model[0], "auto_model", None)
            if module is None:
                raise EncoderError(f"the first module of the model is {type(model[0]).__name__}, which has no layers to read")
            length = max_length if max_length is not None else _within_positions(module, model.max_seq_length)
            return cls(module, tokenizer or model.tokenizer, name=name, max_length=length)
        if tokenizer is None:
            raise EncoderError("a model in memory comes without its tokenizer; pass tokenizer=AutoTokenizer.from_pretrained(...)")
        return cls(model, tokenizer, name=name, max_length=max_length)

    @property
    def revision(self) -> str:
        """The commit of a Hub entry; empty for anything else."""
        return (self.location.revision if self.location else None) or ""

    @property
    def n_layers(self) -> int:
        """Number of hidden states: the embeddings and every layer."""
        return int(self.module.config.num_hidden_layers) + 1

    @property
    def d(self) -> int:
        """Dimension of a vector."""
        return int(self.module.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.module.parameters()).device
        return device

    @property
    def dtype(self) -> str:
        """Precision of the weights, such as "float32"."""
        return str(next(self.module.parameters()).dtype).removeprefix("torch.")

    @property
    def pad_id(self) -> int:
        """The token that fills up short texts. It is masked out, so a tokenizer without padding can lend its end-of-text."""
        tokens = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
        return int(next(token for token in tokens if token is not None))

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """The hidden states of every layer, (texts, tokens, d) each, in one pass without gradients or dropout.

        Parameters
        ----------
        ids
            Token numbers (texts, tokens), padded.
        mask
            1 for tokens, 0 for padding.
        types
            Which text of a pair a token belongs to, if the encoder takes it.
        """
        import torch

        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if types is not None:
            inputs["token_type_ids"] = types
        if "use_cache" in self._arguments:  # keys and values for the next token would only cost memory
            inputs["use_cache"] = False
        with evaluating(self.module), torch.inference_mode():
            states = self.module(**inputs, output_hidden_states=True, return_dict=True).hidden_states
        if len(states) != self.n_layers:
            raise EncoderError(f"{self.name} returned {len(states)} hidden states; its configuration promises {self.n_layers}")
        return tuple(states)

    def fingerprint(self) -> str:
        """SHA-256 of all weights: equal for equal encoders, wherever they were loaded from."""
        import torch

        digest = hashlib.sha256()
        for key, value in sorted(self.module.state_dict().items()):
            digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
            # As bytes, because NumPy has no bfloat16.
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back into its own mode afterwards.

    Parameters
    ----------
    module
        A torch module.
    """
    # Part by part: some may be in evaluation mode already, because they are frozen, and must stay so.
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence the progress bars and reports of transformers; what matters in them is checked by the caller."""
    import transformers

    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def limit_threads(threads: int) -> None:
    """Limit the threads of torch in this process, if torch is installed.

    Parameters
    ----------
    threads
        Number of threads, at least 1.
    """
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)


def _load(location: Location, tokenizer: Any, trust_remote_code: bool) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    options = location.loading_options(trust_remote_code=trust_remote_code)
    try:
        module, report = AutoModel.from_pretrained(location.place, output_loading_info=True, **options)
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(location.place, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise location.loading_error(error) from error
    # A pooler is never read here; any other weight that the files lack would be random, and so would be what is measured.
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        lacking = f"{len(missing)} weights of its layers ({missing[0]}, ...)"
        raise EncoderError(f"the files of {location.name!r} lack {lacking}, which would be random; save the whole encoder")
    return module, tokenizer


def _max_length(module: Any, tokenizer: Any, requested: int | None) -> int | None:
    """The number of tokens a text may have; None if nothing limits it."""
    positions = _positions(module)
    if requested is not None:
        if requested < 1 or (positions is not None and requested > positions):
            raise ValueError(f"{option('max_length', str(requested))} must be from 1 to {positions}, the encoder's positions")
        return requested
    # A tokenizer without a limit says so by a number near 1e30.
    stated = int(tokenizer.model_max_length) if tokenizer.model_max_length < 10**9 else None
    return min((limit for limit in (positions, stated) if limit is not None), default=None)


def _within_positions(module: Any, length: int | None) -> int | None:
    """The length that a sentence-transformers model states for itself, which may be more than it has positions."""
    positions = _positions(module)
    return length if length is None or positions is None else min(length, positions)


def _positions(module: Any) -> int | None:
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and hasattr(part, "num_embeddings"):
            # RoBERTa and its relatives count positions from the padding's on.
            reserved = 0 if part.padding_idx is None else part.padding_idx + 1
            return int(part.num_embeddings) - reserved
    limit = getattr(module.config, "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else None
