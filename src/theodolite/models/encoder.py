"""An encoder: a transformer with its tokenizer, whose hidden states are read for all layers in one pass."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from theodolite.core.spelling import option
from theodolite.models.location import STATIC, EncoderError, Location, find_encoder, hidden_state_numbers
from theodolite.models.pipeline import (
    Pipeline,
    evaluating,
    is_sentence_model,
    is_static_model,
    load_pipeline,
    sentence_pipeline,
    static_parts,
    static_pipeline,
)

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16", "float16"]

INSTALL = 'pip install "theodolite[models]"'


@dataclass(frozen=True)
class Recipe:
    """The options of `Encoder.load`, small enough to be sent to a worker."""

    model: str
    revision: str | None
    device: str
    dtype: Precision
    trust_remote_code: bool
    max_length: int | None
    name: str


@lru_cache(maxsize=1)
def load_once(recipe: Recipe) -> Encoder:
    """The encoder of a recipe; the second call in a process returns that of the first."""
    return Encoder.load(**asdict(recipe))


class Encoder:
    """A transformer, its tokenizer and where they come from; `Encoder.load` makes one.

    Layers are counted as in transformers: 0 is the embeddings, `n_layers - 1` the last. A model in training can be wrapped as
    it is: the modes of its modules are put back after every pass.

    Parameters
    ----------
    module
        A model of transformers; of a model with encoder and decoder the encoder is used, of one for texts and images the part
        for texts.
    tokenizer
        Its tokenizer.
    name
        What rows call it; by default what the model's configuration says.
    location
        Where it was loaded from, if it was.
    max_length
        Texts are cut to this number of tokens; by default as many as the positions and the tokenizer allow.
    pipeline
        Makes the vector of a whole text, if the model is a sentence model.

    Attributes
    ----------
    recipe
        How a worker loads the same encoder; None for a model in memory.
    """

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        *,
        name: str = "",
        location: Location | None = None,
        max_length: int | None = None,
        pipeline: Pipeline | None = None,
    ) -> None:
        self.whole, self.module = module, text_part(module)
        self.tokenizer = tokenizer
        self.location = location
        configured = str(getattr(module.config, "name_or_path", ""))
        self.name = name or (location.name if location else configured) or type(module).__name__
        self.max_length = _max_length(self.module, tokenizer, max_length)
        self.is_static = False
        self._pipeline, self._trusted = pipeline, False
        self.recipe: Recipe | None = None

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
        location = None
        with suppress(ImportError):  # raised again below, with the command that installs what is missing
            if isinstance(model, (str, os.PathLike)) and all(map(importlib.util.find_spec, ("torch", "transformers"))):
                location = find_encoder(model, revision=revision)  # a wrong name should not wait for the import of torch
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
        location = location or find_encoder(model, revision=revision)
        # A tokenizer in memory would have to be sent along.
        named = str(Path(model).absolute()) if Path(model).is_dir() else os.fspath(model)
        recipe = Recipe(named, revision, device, dtype, trust_remote_code, max_length, name) if tokenizer is None else None
        if location.modules[:1] == (STATIC,):
            with quiet_loading():
                static = load_pipeline(location, None, trust_remote_code=trust_remote_code).to(device)
            encoder = cls._static(static[0], sentence_pipeline(static), name or location.name, max_length, location)
            encoder.recipe = recipe
            return encoder
        with quiet_loading():
            module, own_tokenizer = _load(location, tokenizer, trust_remote_code)
        length = max_length if max_length is not None else _within_positions(text_part(module), location.max_length)
        encoder = cls(module, own_tokenizer, name=name, location=location, max_length=length)
        encoder._trusted, encoder.recipe = trust_remote_code, recipe
        # Files may be in half precision; measured numbers should not depend on that unless it is asked for.
        encoder.whole.to(device=device, dtype=getattr(torch, dtype)).eval()
        return encoder

    @classmethod
    def _in_memory(cls, model: Any, tokenizer: Any, *, name: str, max_length: int | None) -> Encoder:
        if is_sentence_model(model):
            first = model[0]
            if type(first).__name__ == STATIC:
                return cls._static(first, sentence_pipeline(model), name, max_length)
            module = getattr(first, "auto_model", None)
            if module is None:
                raise EncoderError(f"the model's first module is {type(first).__name__}, which has no layers to read")
            length = max_length if max_length is not None else _within_positions(text_part(module), model.max_seq_length)
            pipeline = sentence_pipeline(model, max_length)
            return cls(module, tokenizer or model.tokenizer, name=name, max_length=length, pipeline=pipeline)
        if is_static_model(model):
            return cls._static(model, static_pipeline(model), name or type(model).__name__, max_length)
        if tokenizer is None:
            raise EncoderError("a model in memory has no tokenizer; pass tokenizer=AutoTokenizer.from_pretrained(...)")
        return cls(model, tokenizer, name=name, max_length=max_length)

    @classmethod
    def _static(
        cls, table: Any, pipeline: Pipeline, name: str, max_length: int | None, location: Location | None = None
    ) -> Encoder:
        """An encoder of static vectors, which are its only layer; `table` has `embedding` and `tokenizer`."""
        if max_length is not None:
            raise EncoderError(f"static vectors have no length limit; leave {option('max_length', str(max_length))} out")
        module, tokenizer = static_parts(table)
        encoder = cls(module, tokenizer, name=name, location=location, pipeline=pipeline)
        encoder.is_static = True
        return encoder

    @property
    def pipeline(self) -> Pipeline | None:
        """What makes the vector of a whole text; None if the model is not a sentence model."""
        if self._pipeline is None and self.location is not None and self.location.modules:
            with quiet_loading():
                model = load_pipeline(self.location, self.whole, trust_remote_code=self._trusted)
            model.to(device=self.device, dtype=next(self.module.parameters()).dtype)
            self._pipeline = sentence_pipeline(model, self.max_length)
        return self._pipeline

    def for_role(self, role: str, prompt: str | None = None) -> Encoder:
        """The same encoder as it reads a query or a document.

        Parameters
        ----------
        role
            "query" or "document".
        prompt
            What to put before every text; by default the model's own prompt of that name.

        Returns
        -------
        Encoder
            The encoder itself if it is not a sentence model, which alone has prompts, or if nothing changes.
        """
        pipeline = self.pipeline
        if pipeline is None or pipeline.module is None:
            return self
        other = copy.copy(self)
        limit = None if self.is_static else self.max_length
        other._pipeline = sentence_pipeline(pipeline.module, limit, role, prompt)
        if other._pipeline.description == pipeline.description:
            return self
        other.recipe = None  # a worker would load it without the prompt
        return other

    def limited(self, max_length: int | None) -> Encoder:
        """The same encoder as it reads texts that are cut to another number of tokens.

        Parameters
        ----------
        max_length
            At most as many as the encoder has positions; None leaves its limit as it is.
        """
        if max_length is None or max_length == self.max_length:
            return self
        other = copy.copy(self)
        other.max_length, other.recipe = _max_length(self.module, self.tokenizer, max_length), None
        if self.pipeline is not None:
            other._pipeline = sentence_pipeline(self.pipeline.module, max_length)
        return other

    @property
    def module_names(self) -> tuple[str, ...]:
        """The class names of a sentence model's modules, in order; empty for any other model."""
        if self.location is not None and self.location.modules:
            return self.location.modules
        return () if self._pipeline is None else tuple(type(module).__name__ for module in self._pipeline.module or ())

    @property
    def saveable(self) -> Any:
        """The model whose `save_pretrained` writes a folder that loads as this encoder again."""
        # An encoder that shares its configuration with a decoder cannot be told from it in a folder of its own.
        return self.whole if self.whole.config is self.module.config else self.module

    @property
    def revision(self) -> str:
        """The commit of a Hub entry; empty for anything else."""
        return (self.location.revision if self.location else None) or ""

    @property
    def n_layers(self) -> int:
        """Number of hidden states: the embeddings and every layer."""
        return len(hidden_state_numbers(self.module.config))

    @property
    def d(self) -> int:
        """Dimension of a vector."""
        return int(self.module.config.hidden_size)

    @property
    def n_tokens(self) -> int | None:
        """Number of tokens that have an embedding; None if the model does not say."""
        size = getattr(self.module.get_input_embeddings(), "num_embeddings", None)
        return None if size is None else int(size)

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
        # A tokenizer may name one that was added to it alone, and has no embedding.
        return int(next(token for token in tokens if token is not None and token < (self.n_tokens or math.inf)))

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

        inputs = {"input_ids": ids, "attention_mask": mask}
        if types is not None:
            inputs["token_type_ids"] = types
        with evaluating(self.module), torch.inference_mode():
            return layer_states(self.module, **inputs)

    def fingerprint(self, *, whole_texts: bool = False) -> str:
        """SHA-256 of all weights: equal for equal encoders, wherever they were loaded from.

        Parameters
        ----------
        whole_texts
            Whether to include what makes the vectors of whole texts, for a sentence model.
        """
        import torch

        digest, module = hashlib.sha256(), self.module
        if whole_texts and self.pipeline is not None:
            digest.update(self.pipeline.description.encode())
            module = self.pipeline.module or module
        for key, value in sorted(module.state_dict().items()):
            digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
            # As bytes, because NumPy has no bfloat16.
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def layer_states(module: Any, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The hidden states of every layer, (texts, tokens, d) each, in the module's own mode."""
    options: dict[str, Any] = {"output_hidden_states": True, "return_dict": True}
    if "use_cache" in inspect.signature(module.forward).parameters:  # keys and values for the next token would only cost memory
        options["use_cache"] = False
    output = module(**inputs, **options)
    states, numbers = output.hidden_states, hidden_state_numbers(module.config)
    if len(states) != numbers[-1] + 1:
        name = type(module).__name__
        raise EncoderError(f"{name} returned {len(states)} hidden states, but its configuration states {numbers[-1] + 1}")
    last = getattr(output, "last_hidden_state", None)
    # Some families, as CLIP, normalise the last layer once more; a model with a head returns its hidden states only.
    return (*(states[number] for number in numbers[:-1]), states[numbers[-1]] if last is None else last)


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
    """Limit the threads of torch in this process, if torch is installed."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)


def text_part(module: Any) -> Any:
    """The part of a model that reads texts: the encoder before a decoder, the texts' side of a model for texts and images."""
    config = module.config
    if getattr(config, "is_encoder_decoder", False):  # a decoder's layers are not states of the text that is read
        return module.get_encoder()
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if text is config:
        return module
    return next((inner for inner in module.modules() if getattr(inner, "config", None) is text), module)


def _load(location: Location, tokenizer: Any, trust_remote_code: bool) -> tuple[Any, Any]:
    from transformers import MODEL_FOR_TEXT_ENCODING_MAPPING, AutoConfig, AutoModel, AutoModelForTextEncoding, AutoTokenizer

    options = location.loading_options(trust_remote_code=trust_remote_code)
    try:
        config = AutoConfig.from_pretrained(location.place, **options)
        hidden_state_numbers(config)  # an absurd number of layers would be built for hours before their weights are missed
        # T5 and its relatives have classes for the encoder alone, whose folders have no decoder.
        kind: Any = AutoModelForTextEncoding if type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING else AutoModel
        module, report = kind.from_pretrained(location.place, output_loading_info=True, weights_only=True, **options)
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(location.place, **options)
        if int(tokenizer.model_max_length) < 1:
            raise ValueError(f"model_max_length of its tokenizer is {tokenizer.model_max_length}; it must be at least 1")
    except Exception as error:  # a damaged folder makes them raise errors of every kind
        raise location.loading_error(error) from error
    # A pooler is never read here; any other weight that the files lack would be random, and so would be what is measured.
    read = {id(parameter) for parameter in text_part(module).parameters()}
    names = {name for name, parameter in module.named_parameters(remove_duplicate=False) if id(parameter) in read}
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key and key in names)
    if missing:
        lacking = f"{len(missing)} weights of its layers ({missing[0]}, ...)"
        raise EncoderError(f"the files of {location.name!r} lack {lacking}, which would be random; save the complete encoder")
    for parameter in module.parameters():  # some files have transposed views, which safetensors does not write
        parameter.data = parameter.data.contiguous()
    if location.lower_case:
        _lower_case(tokenizer)
    return module, tokenizer


def _lower_case(tokenizer: Any) -> None:
    """Make a tokenizer read texts in lower case, as sentence-transformers does if a model's settings say so."""
    from tokenizers.normalizers import Lowercase, Normalizer, Sequence

    if getattr(tokenizer, "is_fast", False):
        backend = tokenizer.backend_tokenizer
        own: list[Normalizer] = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = Sequence([Lowercase(), *own])


def _max_length(module: Any, tokenizer: Any, requested: int | None) -> int | None:
    """The number of tokens a text may have; None if nothing limits it."""
    positions = positions_of(module)
    if requested is not None:
        if requested < 1 or (positions is not None and requested > positions):
            raise ValueError(f"{option('max_length', str(requested))} must be from 1 to {positions}, the encoder's positions")
        return requested
    # A tokenizer without a limit says so by a number near 1e30.
    stated = int(tokenizer.model_max_length) if tokenizer.model_max_length < 10**9 else None
    return min((limit for limit in (positions, stated) if limit is not None), default=None)


def _within_positions(module: Any, length: int | None) -> int | None:
    """The length that a sentence-transformers model states for itself, which may be more than it has positions."""
    positions = positions_of(module)
    return length if length is None or positions is None else min(length, positions)


def positions_of(module: Any) -> int | None:
    """The number of tokens that a model has positions for; None if it does not say."""
    for name, inner in module.named_modules():
        if name.endswith("position_embeddings") and hasattr(inner, "num_embeddings"):
            # RoBERTa and its relatives count positions from the padding's on.
            reserved = 0 if inner.padding_idx is None else inner.padding_idx + 1
            return int(inner.num_embeddings) - reserved
    limit = getattr(module.config, "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else None
