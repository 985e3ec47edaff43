"""Every architecture that the documentation lists: extracted, tuned both ways, saved, and read again.

`THEODOLITE_WRITE_DOCS=1 pytest tests/tuning/test_architectures.py` writes the table again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")

import sentence_transformers
from architectures import ARCHITECTURES, build_architecture

from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.location import EncoderError
from theodolite.tasks import own_task
from theodolite.tuning import TunedClassifier, TuneSettings, fine_tune

DOCS = Path(__file__).parents[2] / "docs" / "encoders.md"
TEXTS = ["the cat sat", "a dog on the mat"]
WITHOUT_CLS = {"gpt2", "eos last"}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A classification and a similarity task of 25 examples."""
    folder, words = tmp_path_factory.mktemp("tasks"), ("cat", "dog", "river", "bank", "mat")
    pairs = [(first, second) for first in words for second in words]
    labels, scores = folder / "labels.csv", folder / "scores.csv"
    labels.write_text("text,label\n" + "".join(f"the {a} sat {b},{'xy'[a < 'd']}\n" for a, b in pairs))
    scores.write_text("text,text_b,score\n" + "".join(f"the {a} sat,a {b} sat,{i % 6}\n" for i, (a, b) in enumerate(pairs)))
    return {
        "classification": own_task({"train": labels, "dev": labels}, "classification", name="labels"),
        "similarity": own_task({"train": scores, "dev": scores}, "similarity", name="scores", score_range=(0, 5)),
    }


def tuned(folder: Path, task: Any, output: Path, pooling: Any) -> Path:
    settings = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "device": "cpu", "validation": 0.2, "pooling": pooling}
    return fine_tune(TuneSettings(task=task, model=str(folder), output=str(output), **settings)).model_folder


def mean_of_own_tokens(encoder: Encoder) -> Any:
    """The mean of each text's tokens without special ones, which is what similarity training pools."""
    space = extract_space(encoder, TEXTS, unit="tokens")  # both at once: some families' vectors depend on the padding
    return np.stack([space[-1][np.asarray(space.rows["text"]) == i].mean(axis=0) for i in range(len(TEXTS))])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of some models' own code
def test_the_table_of_architectures(tasks: dict[str, Any], tmp_path: Path) -> None:
    lines = ["| architecture | extract | tune, classification | tune, similarity |", "|---|---|---|---|"]
    for number, (name, (*_, tokenizer)) in enumerate(ARCHITECTURES.items()):
        folder = build_architecture(name, tmp_path / str(number) / "model")
        space = extract_space(Encoder.load(folder, device="cpu"), TEXTS)
        assert all(np.isfinite(space[layer]).all() for layer in space.layers), name

        pooling = "last" if tokenizer in WITHOUT_CLS else None
        labelled = tuned(folder, tasks["classification"], tmp_path / str(number) / "labels", pooling)
        unit: Any = pooling or "cls"
        classifier = TunedClassifier.from_pretrained(labelled)
        read = extract_space(Encoder.load(labelled, device="cpu"), TEXTS, unit=unit)
        assert classifier.vectors(TEXTS) == pytest.approx(read[-1], abs=1e-5), name

        paired = tuned(folder, tasks["similarity"], tmp_path / str(number) / "scores", pooling)
        model = sentence_transformers.SentenceTransformer(str(paired), device="cpu")
        encoder = Encoder.load(paired, device="cpu")
        expected = extract_space(encoder, TEXTS, unit=pooling)[-1] if pooling else mean_of_own_tokens(encoder)
        assert model.encode(TEXTS) == pytest.approx(expected, abs=1e-5), name
        lines.append(f"| {name} | {len(space.layers)} layers | {pooling or 'cls'} | {pooling or 'mean'} |")
    page = DOCS.read_text(encoding="utf-8")
    written = re.sub(r"\| architecture \|.*?\n\n", lambda _: "\n".join(lines) + "\n\n", page, count=1, flags=re.DOTALL)
    if os.environ.get("THEODOLITE_WRITE_DOCS"):
        DOCS.write_text(written, encoding="utf-8")
    assert written == DOCS.read_text(encoding="utf-8")


def test_cls_in_the_last_place_is_the_token_that_trains(tasks: dict[str, Any], tmp_path: Path) -> None:
    folder = build_architecture("XLNet", tmp_path / "model")
    paired = tuned(folder, tasks["similarity"], tmp_path / "run", "cls")
    model = sentence_transformers.SentenceTransformer(str(paired), device="cpu")
    encoder = Encoder.load(paired, device="cpu")
    last = extract_space(encoder, TEXTS, unit="cls")
    assert list(last[-1].shape) == [2, 16] and model.encode(TEXTS) == pytest.approx(last[-1], abs=1e-5)


def test_transposed_weights_of_a_bin_file_are_tuned(tasks: dict[str, Any], tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    folder = build_architecture("BERT", tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({name: w.T.contiguous().T if w.ndim == 2 else w for name, w in weights.items()}, folder / "pytorch_model.bin")
    assert (tuned(folder, tasks["classification"], tmp_path / "run", "cls") / "model.safetensors").is_file()


def test_a_funnel_without_its_decoder_is_refused(tmp_path: Path) -> None:
    from transformers import FunnelBaseModel, FunnelConfig

    folder = build_architecture("Funnel", tmp_path / "model")
    FunnelBaseModel(FunnelConfig.from_pretrained(folder)).save_pretrained(folder)
    with pytest.raises(EncoderError, match="hidden states"):
        extract_space(Encoder.load(folder, device="cpu"), TEXTS)
