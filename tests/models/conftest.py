"""Encoders in the layouts of sentence-transformers and of the Hub; no test here may open a connection."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tiny = Callable[[str], Path]


@pytest.fixture(autouse=True)
def no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: Any) -> None:
        raise OSError(f"a test tried to connect to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def sentence_folder(tiny: Tiny, tmp_path: Path) -> Path:
    """A sentence-transformers model whose transformer is in a folder of its own."""
    folder = tmp_path / "sentences"
    shutil.copytree(tiny("bert"), folder / "0_Transformer")
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 16, "pooling_mode_mean_tokens": true}')
    return folder


@pytest.fixture
def cache_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str], str]:
    """Puts a folder into a Hub cache under an id, as a download would have, with the Hub switched off."""
    commit = "0123456789abcdef0123456789abcdef01234567"

    def put(folder: Path, name: str) -> str:
        home = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        (home / "snapshots").mkdir(parents=True)
        (home / "snapshots" / commit).symlink_to(folder, target_is_directory=True)
        (home / "refs").mkdir()
        (home / "refs" / "main").write_text(commit)
        return commit

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return put
