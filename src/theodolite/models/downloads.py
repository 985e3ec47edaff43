"""What the Hub would send for a model: the files that loading it reads and the cache lacks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from theodolite.core.numbers import bytes_text
from theodolite.models.location import Location, find_encoder

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
    about: dict[str, Any] = {"name": location.name, "revision": location.revision or ""}
    is_here = any(_is_cached(location, "/".join(filter(None, (location.subfolder, name)))) for name in WEIGHTS)
    if location.offline:
        return Download(() if is_here else None, **about)
    from huggingface_hub import HfApi

    try:
        entries = HfApi().model_info(location.place, revision=location.revision, files_metadata=True).siblings or []
    except Exception as error:  # errors of several libraries
        raise location.loading_error(error) from error
    files = files_read((entry.rfilename, entry.size or 0) for entry in entries)
    return Download(tuple((name, size) for name, size in files if not _is_cached(location, name)), **about)


def files_read(files: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The files of a Hub entry that loading an encoder reads: no weights of other libraries, and none that are there twice."""
    ours = [(name, size) for name, size in files if not any(part in name for part in OTHERS)]
    has_safetensors = any(name.endswith(".safetensors") for name, _ in ours)
    return [(name, size) for name, size in ours if not (has_safetensors and name.endswith((".bin", ".pt", ".pth")))]


def _is_cached(location: Location, name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(location.place, name, revision=location.revision), str)
