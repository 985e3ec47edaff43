"""What work with an encoder would take, measured on a few batches: time, memory, disk, and what the Hub would send."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.numbers import bytes_text, duration_text
from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.models.batches import BatchSize, Reading
from theodolite.models.encoder import Encoder, quiet_loading
from theodolite.models.extraction import PART_BYTES
from theodolite.models.location import Location, find_encoder
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import TEXT_UNIT, Unit

if TYPE_CHECKING:
    import torch

# Batches that are timed, spread over all of them, after one that is not: the first pass loads kernels and fills caches.
TIMED = 5
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
# Files of a Hub entry that other libraries read.
OTHERS = ("onnx", "openvino", "coreml", "tf_", "flax", "rust", ".msgpack", ".h5", ".ot", ".gguf", ".tflite", "README", ".git")


@dataclass(frozen=True)
class Cost:
    """What some work takes.

    Parameters
    ----------
    seconds
        Time.
    memory
        The most memory in bytes: of the GPU, or of the process if there is none.
    disk
        Bytes that are written.
    """

    seconds: float
    memory: int
    disk: int = 0


def encoding_cost(
    encoder: Encoder,
    texts: Sequence[str] | Examples,
    *,
    unit: Unit = TEXT_UNIT,
    layers: str | int | Sequence[int] = "all",
    specials: bool = False,
    batch_size: BatchSize = "auto",
    allow_unknown: bool = False,
    item_bytes: int = 4,
    in_memory: bool = False,
) -> Cost:
    """What an extraction takes: the longest batch is encoded for its memory, and `TIMED` others for the time of all.

    Parameters
    ----------
    encoder, texts, unit, layers, specials, batch_size, allow_unknown
        As in `extract_space`.
    item_bytes
        Bytes of a stored number.
    in_memory
        Whether all vectors are kept in memory.
    """
    options: dict[str, Any] = {"unit": unit, "layers": layers, "specials": specials, "batch_size": batch_size}
    reading = Reading.of(encoder, texts, **options, allow_unknown=allow_unknown)
    size = reading.plan.n * reading.d * len(reading.layers) * item_bytes
    start_memory(encoder.device)
    reading.encode(reading.batches[0])  # the longest texts come first
    numbers = np.unique(np.linspace(0, len(reading.batches) - 1, TIMED).astype(int))
    seconds = [_seconds_of(reading, reading.batches[number]) for number in numbers]
    # Batches go from long texts to short ones, and their times with them.
    total = float(np.interp(np.arange(len(reading.batches)), numbers, seconds).sum())
    kept = size if in_memory else min(size, 2 * PART_BYTES)
    return Cost(total, peak_memory(encoder.device) + (kept if encoder.device.type == "cpu" else 0), size)


def _seconds_of(reading: Reading, batch: Any) -> float:
    start = time.perf_counter()
    reading.encode(batch)
    return time.perf_counter() - start


def start_memory(device: torch.device) -> None:
    """Begin to record how much memory a GPU uses; the peak of a process cannot be set back."""
    import torch

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int:
    """The most bytes so far: allocated on a GPU, or resident of this process.

    Parameters
    ----------
    device
        Where the work was done.
    """
    import torch

    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.driver_allocated_memory())
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)  # macOS counts bytes, Linux kilobytes


@dataclass(frozen=True)
class Download:
    """What the Hub would send for a model.

    Parameters
    ----------
    files
        The files that are not in the cache, with their bytes; None if the Hub could not be asked.
    weights_are_here
        Whether the weights are in a folder or in the cache.
    name, revision
        The Hub id and its commit.
    """

    files: tuple[tuple[str, int], ...] | None
    weights_are_here: bool
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
    """What a run would download of a model: nothing of a folder, otherwise what the Hub's cache lacks.

    Parameters
    ----------
    model, revision
        As `find_encoder` takes them; of a Hub id the configuration is downloaded.
    """
    location = find_encoder(model, revision=revision)
    if location.is_folder:
        return Download((), weights_are_here=True, name=location.name)
    about: dict[str, Any] = {"name": location.name, "revision": location.revision or ""}
    is_here = any(_is_cached(location, "/".join(filter(None, (location.subfolder, name)))) for name in WEIGHTS)
    if location.offline:
        return Download(() if is_here else None, weights_are_here=is_here, **about)
    from huggingface_hub import HfApi

    try:
        entries = HfApi().model_info(location.place, revision=location.revision, files_metadata=True).siblings or []
    except Exception as error:  # errors of several libraries
        raise location.loading_error(error) from error
    files = files_read((entry.rfilename, entry.size or 0) for entry in entries)
    return Download(tuple((name, size) for name, size in files if not _is_cached(location, name)), is_here, **about)


def files_read(files: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The files of a Hub entry that loading an encoder reads: no weights of other libraries, and none that are there twice.

    Parameters
    ----------
    files
        Names and bytes of all files.
    """
    ours = [(name, size) for name, size in files if not any(part in name for part in OTHERS)]
    has_safetensors = any(name.endswith(".safetensors") for name, _ in ours)
    return [(name, size) for name, size in ours if not (has_safetensors and name.endswith((".bin", ".pt", ".pth")))]


def _is_cached(location: Location, name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(location.place, name, revision=location.revision), str)


def measurable(model: str | os.PathLike[str], download: Download, folder: Path, *, trust_remote_code: bool = False) -> str:
    """The model itself, or an encoder of the same shape with random weights if its own would have to be downloaded first.

    Parameters
    ----------
    model
        A folder or a Hub id.
    download
        What `download_of` returned for it.
    folder
        An empty folder, for the encoder with random weights.
    trust_remote_code
        Whether the model's own code may run.
    """
    if download.weights_are_here:
        return os.fspath(model)
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    kind: Any = AutoModel
    location = find_encoder(model, revision=download.revision or None)
    options = location.loading_options(trust_remote_code=trust_remote_code)
    try:
        with quiet_loading():
            config = AutoConfig.from_pretrained(location.place, **options)
            kind.from_config(config, trust_remote_code=trust_remote_code).save_pretrained(folder)
            AutoTokenizer.from_pretrained(location.place, **options).save_pretrained(folder)
    except Exception as error:
        raise location.loading_error(error) from error
    return str(folder)


def dry_run_result(title: str, cost: Cost, download: Download | None, notes: Sequence[str], **about: Any) -> Result:
    """A dry run as a result: the numbers as rows, and a sentence for each.

    Parameters
    ----------
    title
        What would be done.
    cost
        What it takes.
    download
        What it downloads; None for a model in memory.
    notes
        Further sentences.
    about
        Fields of every row, such as `model` and `task`.
    """
    values: dict[str, float] = {"seconds": cost.seconds, "memory_bytes": cost.memory, "disk_bytes": cost.disk}
    sentences = [
        f"time: about {duration_text(cost.seconds)}",
        f"memory: up to {bytes_text(cost.memory)}",
        f"disk: {bytes_text(cost.disk)}",
    ]
    if download is not None:
        sentences.append(str(download))
        if download.bytes is not None:
            values["download_bytes"] = download.bytes
        if not download.weights_are_here:
            sentences.append("measured with random weights of the same shape")
    rows = tuple(Row(metric=f"estimated_{name}", value=float(value), **about) for name, value in values.items())
    return Result(verb="dry run", title=f"Dry run: {title}", rows=rows, notes=(*sentences, *notes))
