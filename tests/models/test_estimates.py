"""Estimates: of an extraction within a factor of what it takes, of a download without a connection, and nothing is written."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

import theodolite as th
from theodolite.models import batches, estimates
from theodolite.models.encoder import Encoder
from theodolite.models.estimates import download_of, encoding_cost, files_read

Tiny = Callable[[str], Path]
TEXTS = [f"the cat {'sat on ' * (i % 7)} {i}" for i in range(300)]


def test_time_is_that_of_all_batches(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that counts tokens instead of seconds, the estimate is the padded tokens of the whole corpus."""
    encoder, ticks = Encoder.load(tiny("bert"), device="cpu"), [0.0]
    encode = batches.Reading.encode

    def counted(self: Any, batch: Any) -> Any:
        ticks[0] += float(self.plan.tokens.lengths[batch].max() * len(batch))
        return encode(self, batch)

    monkeypatch.setattr(batches.Reading, "encode", counted)
    monkeypatch.setattr(time, "perf_counter", lambda: ticks[0])
    cost = encoding_cost(encoder, TEXTS, unit="tokens", batch_size=8)
    reading = batches.Reading.of(encoder, TEXTS, unit="tokens", batch_size=8)
    exact = sum(float(reading.plan.tokens.lengths[batch].max() * len(batch)) for batch in reading.batches)
    assert ticks[0] < exact / 3  # a few batches only
    assert cost.seconds == pytest.approx(exact, rel=0.1)
    assert cost.disk == reading.plan.n * reading.d * len(reading.layers) * 4
    assert cost.memory > 10**7


def test_extract_says_what_it_would_take_and_writes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    result = th.extract(str(tiny("bert")), TEXTS, unit="mean", to=tmp_path / "space", store_dtype="float16", dry_run=True)
    assert isinstance(result, th.Result)
    assert not list(tmp_path.iterdir())
    space = th.extract(str(tiny("bert")), TEXTS, unit="mean", to=tmp_path / "space", store_dtype="float16")
    assert result.value("estimated_disk_bytes") == space.n * space.d * len(space.layers) * 2
    assert result.value("estimated_download_bytes") == 0
    text = repr(result)
    assert "Dry run: encoding 300 texts with" in text
    assert "time: about" in text and "memory: up to" in text and "stored as float16" in text
    assert "nothing would be downloaded" in text


def test_weights_that_are_not_here_are_replaced_by_random_ones(tiny: Tiny, cache_layout: Any, tmp_path: Path) -> None:
    entry = tmp_path / "entry"
    shutil.copytree(tiny("bert"), entry)
    (entry / "model.safetensors").unlink()
    commit = cache_layout(entry, "someone/encoder")
    result = th.extract("someone/encoder", TEXTS, unit="mean", dry_run=True)
    assert isinstance(result, th.Result)
    text = " ".join(repr(result).split())
    assert f"weights of someone/encoder at revision {commit[:12]}; the Hub cannot be reached" in text
    assert "measured with random weights of the same shape" in text
    assert result.value("estimated_seconds") > 0
    assert not result.where(metric="estimated_download_bytes").rows


def test_what_is_in_the_cache_is_not_downloaded(tiny: Tiny, cache_layout: Any) -> None:
    cache_layout(tiny("bert"), "someone/encoder")
    download = download_of("someone/encoder")
    assert (download.bytes, download.weights_are_here) == (0, True)


def test_online_the_files_that_are_missing_have_their_sizes(
    tiny: Tiny, cache_layout: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    entry = tmp_path / "entry"
    shutil.copytree(tiny("bert"), entry)
    (entry / "model.safetensors").unlink()
    cache_layout(entry, "someone/encoder")
    sizes = {"config.json": 570, "model.safetensors": 440_449_768, "pytorch_model.bin": 440_473_133, "tf_model.h5": 536_063_208}
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: SimpleNamespace(siblings=siblings))
    found = estimates.find_encoder("someone/encoder")
    monkeypatch.setattr(estimates, "find_encoder", lambda *_, **__: SimpleNamespace(**{**vars(found), "offline": False}))
    download = download_of("someone/encoder")
    assert download.files == (("model.safetensors", 440_449_768),)
    assert "would be downloaded: 440.4 MB of someone/encoder" in str(download)


def test_only_files_that_are_read_count() -> None:
    names = ["config.json", "onnx/model.onnx", "pytorch_model.bin", "README.md", "vocab.txt"]
    assert [name for name, _ in files_read((name, 1) for name in names)] == ["config.json", "pytorch_model.bin", "vocab.txt"]
