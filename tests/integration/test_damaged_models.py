"""Whatever is in the folder of a model or of a run, it is read or gives one sentence of ours: the seeded fuzzer for folders.

THEODOLITE_FUZZ_CASES sets the number of cases, as for files.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")

from test_damaged_files import Entry, fault, run_cases
from tiny_encoders import build

from theodolite.models.encoder import Encoder
from theodolite.models.export import check_dense, write_dense
from theodolite.models.extraction import extract_space
from theodolite.models.tokens import TokenizerWarning
from theodolite.tasks import own_task
from theodolite.tuning import LayerSettings, TunedClassifier, TuneSettings, fine_tune
from theodolite.tuning.runs import read_settings

CASES = int(os.environ.get("THEODOLITE_FUZZ_CASES", "200"))
TEXTS = ["the cat sat", "a dog on the mat"]


def build_originals(home: Path) -> dict[str, Path]:
    """One folder of every kind: a plain encoder, one with old weights, a pipeline, static vectors, an exported repair, a run."""
    import torch
    from safetensors.torch import load_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer

    plain = build("bert", home / "plain")
    old = Path(shutil.copytree(plain, home / "old"))
    torch.save(load_file(old / "model.safetensors"), old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    transformer = Transformer(str(plain))
    modules = [transformer, Pooling(16), Dense(16, 8), Normalize()]
    SentenceTransformer(modules=modules, prompts={"q": "the "}).save(str(home / "pipeline"))
    table = StaticEmbedding(transformer.tokenizer.backend_tokenizer, embedding_dim=4)
    SentenceTransformer(modules=[table]).save(str(home / "static"))
    write_dense(home / "pipeline", np.eye(8), np.ones(8), home / "exported", texts=TEXTS)
    file = home / "own.csv"
    file.write_text("text,label\n" + "".join(f"the cat {letter},x\na dog {letter},y\n" for letter in "abcdefghijkl"))
    task = own_task({"train": file, "dev": file}, "classification", name="labels")
    method: dict[str, Any] = {"method": "isolayer", "layer": LayerSettings(epochs=1, batch_size=8), "validation": 0.3}
    settings = TuneSettings(model=str(plain), task=task, output=str(home / "run"), epochs=1, device="cpu", **method)
    fine_tune(settings)
    return {path.name: path for path in home.iterdir() if path.is_dir()}


def _sentence_modules(folder: Path) -> list[Any]:
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    return [Transformer(str(folder)), Pooling(16)]


def encode(folder: Any, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TokenizerWarning)  # one sentence, and right: damage made tokens unknown
        extract_space(Encoder.load(folder, device="cpu"), TEXTS, allow_unknown=True, **options)


READ: dict[str, Callable[[Path], Any]] = {
    "plain": encode,
    "old": encode,
    "pipeline": lambda folder: encode(folder, unit="text"),
    "static": lambda folder: encode(folder, unit="text"),
    "exported": check_dense,
    "run": lambda folder: (read_settings(folder), TunedClassifier.from_pretrained(folder / "model").predict(TEXTS)),
}


def folder_readers(originals: dict[str, Path]) -> dict[str, Entry]:
    """Every file of every folder."""

    def entry(kind: str, file: Path) -> Entry:
        above = len(file.parts)
        return (
            f"{kind}/{file}",
            lambda path: shutil.copytree(originals[kind], path.parents[above - 1]),
            lambda path: READ[kind](path.parents[above - 1]),
        )

    return {
        f"{kind}, {file}": entry(kind, file)
        for kind, folder in originals.items()
        for file in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        if file.suffix not in (".md", ".parquet") and kind in READ
    }


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    return folder_readers(build_originals(tmp_path_factory.mktemp("originals")))


@pytest.mark.slow
def test_a_damaged_folder_gives_one_sentence(readers: dict[str, Entry], tmp_path: Path) -> None:
    faults = run_cases(tmp_path, range(CASES), readers=readers).faults
    assert not faults, f"{len(faults)} of {CASES} cases:\n" + "\n".join(faults[:20])


@pytest.mark.slow
def test_whole_folders_are_read_and_empty_files_are_not(readers: dict[str, Entry], tmp_path: Path) -> None:
    for number, (reader, (name, write, read)) in enumerate(readers.items()):
        path = tmp_path / str(number) / name
        write(path)
        read(path)
        path.write_bytes(b"")
        assert fault(read, path) is None, reader


def test_a_sentence_model_that_pads_with_a_token_without_an_embedding_is_one_sentence(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(modules=_sentence_modules(build("bert", tmp_path / "plain")))
    model.tokenizer.add_tokens(["[NEW]"])
    model.tokenizer.pad_token = "[NEW]"
    with pytest.raises(ValueError, match="tokens for which the encoder has no embedding"):
        encode(model, unit="text")


def test_a_padding_token_without_an_embedding_changes_no_vector(tmp_path: Path) -> None:
    folder = build("bert", tmp_path / "plain")
    before = extract_space(Encoder.load(folder, device="cpu"), TEXTS, allow_unknown=True)[-1]
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "pad_token": "[NEW]"}))
    np.testing.assert_array_equal(extract_space(Encoder.load(folder, device="cpu"), TEXTS, allow_unknown=True)[-1], before)
