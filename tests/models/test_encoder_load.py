"""Where encoders come from: folders, the hub's cache, sentence-transformers' layout, and clear words where they do not."""

from __future__ import annotations

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

from theodolite.models.encoder import Encoder
from theodolite.models.extract import extract
from theodolite.models.locate import EncoderError

Tiny = Callable[[str], Path]

TEXTS = ["the cat sat", "a dog"]


@pytest.fixture
def sentence_folder(tiny: Tiny, tmp_path: Path) -> Path:
    """A sentence-transformers model whose transformer lies in a folder of its own."""
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


def test_a_folder_gives_its_name_and_shape(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("distilbert"))
    assert (encoder.name, encoder.n_layers, encoder.d, encoder.revision) == ("tiny-distilbert", 4, 16, "")
    assert not encoder.module.training
    assert Encoder.load(encoder) is encoder


def test_the_transformer_part_of_a_sentence_model(sentence_folder: Path, tiny: Tiny) -> None:
    encoder = Encoder.load(sentence_folder)
    assert encoder.max_length == 12
    assert np.array_equal(extract(encoder, TEXTS)[-1], extract(Encoder.load(tiny("bert")), TEXTS)[-1])


def test_a_sentence_model_in_memory_and_its_own_vectors(sentence_folder: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    model = library.SentenceTransformer(str(sentence_folder), device="cpu")
    texts = [*TEXTS, "unbelievable " * 30, ""]
    for encoder in (Encoder.load(model), Encoder.load(sentence_folder)):
        assert extract(encoder, texts)[-1] == pytest.approx(model.encode(texts), abs=1e-5)


def test_an_id_is_found_in_the_cache_without_the_hub(tiny: Tiny, cache_layout: Callable[[Path, str], str]) -> None:
    commit = cache_layout(tiny("bert"), "someone/tiny")
    encoder = Encoder.load("someone/tiny")
    assert (encoder.name, encoder.revision) == ("someone/tiny", commit)
    assert np.array_equal(extract(encoder, TEXTS)[-1], extract(Encoder.load(tiny("bert")), TEXTS)[-1])
    assert Encoder.load("someone/tiny", revision=commit).revision == commit


def test_a_sentence_model_is_found_in_the_cache(sentence_folder: Path, cache_layout: Callable[[Path, str], str]) -> None:
    cache_layout(sentence_folder, "someone/sentences")
    assert Encoder.load("someone/sentences").max_length == 12


def test_an_id_that_is_not_in_the_cache_is_one_sentence(cache_layout: Callable[[Path, str], str]) -> None:
    with pytest.raises(EncoderError, match="HF_HUB_OFFLINE is set") as caught:
        Encoder.load("someone/else")
    assert "\n" not in str(caught.value)


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the hub's library is patient
    with pytest.raises(EncoderError, match="'someone/else' could not be had from the hub") as caught:
        Encoder.load("someone/else")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a/b/c"])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(EncoderError, match="there is no folder"):
        Encoder.load(name)


def test_a_folder_that_is_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no config\.json"):
        Encoder.load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(EncoderError, match="not the folder of an encoder"):
        Encoder.load(tmp_path)


def test_a_folder_has_no_revision(tiny: Tiny) -> None:
    with pytest.raises(EncoderError, match="revision='main'"):
        Encoder.load(tiny("bert"), revision="main")


def test_remote_code_is_not_run_unasked(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    shutil.copytree(tiny("bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard-of", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text("raise SystemExit('this ran')")
    with pytest.raises(EncoderError, match=r"code of its own.*trust_remote_code=True"):
        Encoder.load(folder)


def test_weights_that_are_missing_are_not_made_up(tiny: Tiny, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "part"
    shutil.copytree(tiny("bert"), folder)
    weights = load_file(folder / "model.safetensors")
    without_pooler = {key: value for key, value in weights.items() if not key.startswith("pooler")}
    save_file(without_pooler, folder / "model.safetensors", metadata={"format": "pt"})
    want = extract(Encoder.load(tiny("bert")), TEXTS)[-1]
    assert np.array_equal(extract(Encoder.load(folder), TEXTS)[-1], want)  # the pooler is not read
    fewer = {key: value for key, value in without_pooler.items() if "layer.2." not in key}
    save_file(fewer, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EncoderError, match=r"lack .* weights"):
        Encoder.load(folder)


def test_a_model_in_memory_needs_its_tokenizer(tiny: Tiny) -> None:
    loaded = Encoder.load(tiny("bert"))
    with pytest.raises(EncoderError, match="tokenizer="):
        Encoder.load(loaded.module)
    assert Encoder.load(loaded.module, tokenizer=loaded.tokenizer, name="mine").name == "mine"


def test_the_fingerprint_is_that_of_the_weights(tiny: Tiny) -> None:
    one, same, other = (Encoder.load(tiny(name)) for name in ("bert", "bert", "roberta"))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    one.module.embeddings.word_embeddings.weight.data[3, 3] += 1e-3
    assert one.fingerprint() != same.fingerprint()
    assert Encoder.load(tiny("bert"), dtype="bfloat16").fingerprint() != same.fingerprint()


def test_an_unknown_precision_is_refused(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="float32, bfloat16, float16"):
        Encoder.load(tiny("bert"), dtype="int8")  # type: ignore[arg-type]


def test_without_the_extra_one_sentence_names_the_command(tmp_path: Path) -> None:
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip().endswith('pip install "theodolite[models]"') and len(done.stdout.splitlines()) == 1
