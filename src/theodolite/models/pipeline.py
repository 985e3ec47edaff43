"""What a sentence model returns for a text: its whole pipeline (prompt, pooling, Dense, Normalize) or a table of static vectors.

Sentence-transformers' own `encode` makes the vectors, so they are what the model's owner gets.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.spelling import option
from theodolite.core.vectors import Floats
from theodolite.models.location import OWN_CODE, EncoderError, Location
from theodolite.tasks.task import Unit

if TYPE_CHECKING:
    import torch

# What follows the transformer in a pipeline that does no more than pool, and what the ways of pooling are called here.
POOLING_ONLY = (("Pooling",), ("Pooling", "Normalize"))
POOLING_UNITS: dict[str, Unit] = {"cls": "cls", "mean": "mean", "max": "max", "lasttoken": "last"}
# The names under which sentence-transformers looks for the prompt of a role.
ROLE_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A model that turns texts into vectors by itself.

    Parameters
    ----------
    encode
        Takes a list of texts and returns their vectors (n, d).
    parts
        What is between a text and its vector, in words.
    prompt
        What is put before every text.
    module
        The torch module with all weights; None if there is none besides the table of vectors.
    """

    encode: Callable[[list[str]], Floats]
    parts: tuple[str, ...]
    prompt: str = ""
    module: Any = None

    @functools.cached_property
    def d(self) -> int:
        """Dimension of a vector."""
        return len(self.encode(["a"])[0])

    @property
    def description(self) -> str:
        """What the vectors of unit "text" are."""
        return f"what the model's own encode returns: {', '.join(self.parts)}"


def is_sentence_model(model: Any) -> bool:
    """Whether an object in memory is a SentenceTransformer, told by its methods, so that its library need not be imported."""
    return hasattr(model, "encode") and hasattr(model, "max_seq_length")


def is_static_model(model: Any) -> bool:
    """Whether an object in memory is a table of static vectors, such as model2vec and wordllama have them."""
    return hasattr(model, "embedding") and hasattr(model, "tokenizer") and (hasattr(model, "encode") or hasattr(model, "embed"))


def sentence_pipeline(model: Any, max_length: int | None = None, role: str = "", prompt: str | None = None) -> Pipeline:
    """A SentenceTransformer as a pipeline; its settings and modes are left as they are.

    The role "query" or "document" encodes as the model does for it, with its own prompt unless one is given.
    """
    method = getattr(model, f"encode_{role}" if role else "encode", model.encode)
    options = {} if prompt is None else {"prompt": prompt}

    def encode(texts: list[str]) -> Floats:
        with evaluating(model), _limited(model, max_length):
            vectors = method(texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True, **options)
        return np.asarray(vectors, dtype=np.float32)

    if prompt is None:
        name = next((name for name in ROLE_PROMPTS.get(role, ()) if name in model.prompts), model.default_prompt_name)
        prompt = model.prompts.get(name) or "" if name else ""
    parts = [f"prompt {prompt!r}"] if prompt else []
    parts += [method.__name__] if any(type(module).__name__ == "Router" for module in model) else []
    parts += [_part(module) for module in model]
    truncated = getattr(model, "truncate_dim", None)
    return Pipeline(encode, (*parts, *([f"first {truncated} dimensions"] if truncated else [])), prompt, model)


def own_pooling(pipeline: Pipeline | None) -> Unit | None:
    """The unit whose vectors in the last layer are the pipeline's own, up to length; None if it does more than pool."""
    model = None if pipeline is None else pipeline.module
    first, *others = [type(module).__name__ for module in model or ()] or [""]
    is_plain = first.endswith("Transformer") and tuple(others) in POOLING_ONLY and not getattr(model, "truncate_dim", None)
    if pipeline is None or model is None or pipeline.prompt or not is_plain:
        return None
    modes = model[1].pooling_mode
    return POOLING_UNITS.get(modes if isinstance(modes, str) else "+".join(modes))


def load_pipeline(location: Location, module: Any, *, trust_remote_code: bool) -> Any:
    """The SentenceTransformer of a location, around a transformer that is in memory already."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    class Loaded(SentenceTransformer):
        def _load_module_class_from_ref(self, *args: Any, **kwargs: Any) -> Any:
            kind = super()._load_module_class_from_ref(*args, **kwargs)
            return around(module) if kind is Transformer and module is not None else kind

    if location.foreign and not trust_remote_code:
        raise EncoderError(f"{location.name!r} {OWN_CODE.format(option('trust_remote_code'))} (its class {location.foreign})")
    options: dict[str, Any] = {"revision": location.revision, "local_files_only": location.offline}
    try:
        model: Any
        if location.listed:
            model = Loaded(location.place, device="cpu", trust_remote_code=trust_remote_code, **options)
        else:
            static = StaticEmbedding.load(location.place, **options)
            model = SentenceTransformer(modules=[static, *(Normalize() for _ in location.modules[1:])], device="cpu")
        model.encode(["a"], show_progress_bar=False)  # modules that do not fit each other show it only now
    except Exception as error:  # a damaged folder makes them raise errors of every kind
        raise location.loading_error(error) from error
    if type(model[0]).__name__ == "LoadedTransformer":
        model[0].__class__ = Transformer  # the name it is saved and shown under
    return model


def around(module: Any) -> Any:
    """Sentence-transformers' Transformer for weights in memory, which its constructor would read a second time."""
    from sentence_transformers.base.modules import Transformer

    class LoadedTransformer(Transformer):
        def _load_model(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002  # their signature
            config = args[2]
            if hasattr(config, "use_cache"):  # they switch it off, and it is saved with the model
                module.config.use_cache = config.use_cache
            return module

    return LoadedTransformer


def static_parts(model: Any) -> tuple[Any, Any]:
    """A table of static vectors as a module with one layer, and its tokenizer as transformers has them."""
    from tokenizers import Tokenizer
    from torch import nn
    from transformers import PreTrainedTokenizerFast

    class StaticVectors(nn.Module):
        """The vectors of tokens; no layer follows them."""

        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            self.embedding = nn.Embedding(weight.shape[0], weight.shape[1], _weight=weight, _freeze=True)
            self.config = SimpleNamespace(num_hidden_layers=0, hidden_size=weight.shape[1], name_or_path="")

        def get_input_embeddings(self) -> nn.Embedding:
            return self.embedding

        def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
            hidden = self.embedding(input_ids)
            return SimpleNamespace(hidden_states=(hidden,), last_hidden_state=hidden)

    content = model.tokenizer.to_str()
    copied = Tokenizer.from_str(content)
    copied.no_padding()
    copied.no_truncation()
    settings = json.loads(content)["model"]
    unknown = settings.get("unk_token")
    if unknown is None and settings.get("unk_id") is not None:
        unknown = settings["vocab"][settings["unk_id"]][0]
    fast: Any = PreTrainedTokenizerFast
    return StaticVectors(_static_table(model)).eval(), fast(tokenizer_object=copied, unk_token=unknown)


def _static_table(model: Any) -> torch.Tensor:
    """The vector of every token, in the way that the model itself takes it."""
    import torch

    table = torch.as_tensor(getattr(model.embedding, "weight", model.embedding)).detach().float()
    shared, weights = getattr(model, "token_mapping", None), getattr(model, "weights", None)
    if shared is not None:  # model2vec may have one vector for several tokens
        table = table[torch.as_tensor(np.asarray(shared), dtype=torch.long)]
    if weights is not None:
        table = table * torch.as_tensor(np.asarray(weights)).float()[:, None]
    missing = model.tokenizer.get_vocab_size() - len(table)
    if missing > 0 and hasattr(model, "embed"):  # wordllama takes its last vector for tokens that have none
        table = torch.cat([table, table[-1:].expand(missing, -1)])
    return table


def static_pipeline(model: Any) -> Pipeline:
    """A table of static vectors with its own way to encode texts, as model2vec and wordllama have it."""
    function = model.embed if hasattr(model, "embed") else model.encode

    def encode(texts: list[str]) -> Floats:
        return np.asarray(function(list(texts)), dtype=np.float32)

    return Pipeline(encode, (f"{type(model).__name__} (mean of static vectors)",))


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back into its own mode afterwards."""
    # One by one: some may be in evaluation mode already, because they are frozen, and must stay so.
    training = [inner for inner in module.modules() if inner.training]
    for inner in training:
        inner.training = False
    try:
        yield
    finally:
        for inner in training:
            inner.training = True


@contextmanager
def _limited(model: Any, max_length: int | None) -> Iterator[None]:
    """Cut texts to a length while the model encodes, and put its own limit back."""
    own = model.max_seq_length
    if max_length is not None:
        model.max_seq_length = max_length
    try:
        yield
    finally:
        if max_length is not None:
            model.max_seq_length = own


def _part(module: Any) -> str:
    """A module of a pipeline in words, with what decides its output."""
    kind = type(module).__name__
    if kind == "Transformer" and getattr(module, "do_lower_case", False):
        return "Transformer (lower-cased)"
    if kind == "Pooling":
        modes = getattr(module, "pooling_mode", "")
        return f"{modes if isinstance(modes, str) else '+'.join(modes)} pooling".strip()
    return f"Dense to {module.out_features}" if kind == "Dense" else kind
