"""Dry runs: what would be encoded and downloaded, with and without a connection, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")


import theodolite as th
from theodolite.models import location
from theodolite.models.location import download_of, files_read

Tiny = Callable[[str], Path]
TEXTS = [f"the cat {'sat on ' * (i % 7)} {i}" for i in range(300)]


def test_extract_says_what_it_would_do_and_writes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    result = th.extract(str(tiny("bert")), TEXTS, unit="mean", to=tmp_path / "space", store_dtype="float16", dry_run=True)
    assert isinstance(result, th.Result) and not list(tmp_path.iterdir())
    text = " ".join(repr(result).split())
    assert "Dry run: encoding 300 texts with" in text and "nothing would be downloaded" in text
    assert f"300 texts, unit mean, layers all, to be stored in {tmp_path / 'space'} as float16" in " ".join(result.notes)


def test_weights_that_are_not_here_are_named(tiny: Tiny, cache_layout: Any, tmp_path: Path) -> None:
    entry = tmp_path / "entry"
    shutil.copytree(tiny("bert"), entry)
    (entry / "model.safetensors").unlink()
    commit = cache_layout(entry, "someone/encoder")
    result = th.extract("someone/encoder", TEXTS, unit="mean", dry_run=True)
    assert isinstance(result, th.Result)
    assert f"weights of someone/encoder at revision {commit[:12]}; the Hub cannot be reached" in " ".join(result.notes)


def test_what_is_in_the_cache_is_not_downloaded(tiny: Tiny, cache_layout: Any) -> None:
    cache_layout(tiny("bert"), "someone/encoder")
    download = download_of("someone/encoder")
    assert download.bytes == 0


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
    found = location.find_encoder("someone/encoder")
    monkeypatch.setattr(location, "find_encoder", lambda *_, **__: SimpleNamespace(**{**vars(found), "offline": False}))
    download = download_of("someone/encoder")
    assert download.files == (("model.safetensors", 440_449_768),)
    assert "would be downloaded: 440.4 MB of someone/encoder" in str(download)


def test_only_files_that_are_read_count() -> None:
    names = ["config.json", "onnx/model.onnx", "pytorch_model.bin", "README.md", "vocab.txt"]
    assert [name for name, _ in files_read((name, 1) for name in names)] == ["config.json", "pytorch_model.bin", "vocab.txt"]
