"""A saved classifier gives what it gave before it was saved, with and without a layer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import TunedClassifier  # noqa: E402
from theodolite.tuning.isotropy_layer import IsotropyLayer  # noqa: E402


def test_an_untrained_layer_gives_the_plain_models_logits(plain_run: Path, moods: Any) -> None:
    loaded, dev = TunedClassifier.from_pretrained(plain_run / "model"), load_task(moods, "dev")
    logits = loaded.logits(dev.texts)
    loaded.insert(IsotropyLayer(32))
    assert np.array_equal(loaded.logits(dev.texts), logits)
    loaded.insert(None)
    assert np.array_equal(loaded.logits(dev.texts), logits)


def test_a_saved_layer_loads_to_the_same_outputs(plain_run: Path, moods: Any, tmp_path: Path) -> None:
    dev = load_task(moods, "dev")
    for layer in (IsotropyLayer(32, depth=2), IsotropyLayer(32, activation="gelu"), IsotropyLayer(32, orthogonal=True)):
        loaded = TunedClassifier.from_pretrained(plain_run / "model")
        for parameter in layer.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        loaded.insert(layer)
        loaded.save_pretrained(tmp_path / "saved")
        again = TunedClassifier.from_pretrained(tmp_path / "saved")
        assert np.array_equal(again.logits(dev.texts), loaded.logits(dev.texts))
        assert np.array_equal(again.vectors(dev.texts), loaded.vectors(dev.texts))
        assert "inserted" not in "".join(load_file(tmp_path / "saved" / "head.safetensors"))


def test_a_folder_that_is_not_a_classifier_is_an_error(tiny_bert: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no head\.json, so it is not a classifier saved by a run"):
        TunedClassifier.from_pretrained(tiny_bert)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        TunedClassifier.from_pretrained("./nowhere")


def test_a_head_that_names_a_pooler_without_weights_is_an_error(plain_run: Path, tmp_path: Path) -> None:
    shutil.copytree(plain_run / "model", tmp_path / "model")
    about = json.loads((tmp_path / "model" / "head.json").read_text())
    (tmp_path / "model" / "head.json").write_text(json.dumps({**about, "pooler": True}))
    with pytest.raises(ValueError, match=r"it names a pooler, but there is no pooler\.safetensors"):
        TunedClassifier.from_pretrained(tmp_path / "model")


def test_reading_texts_leaves_the_classifier_as_it_was(plain_run: Path) -> None:
    loaded = TunedClassifier.from_pretrained(plain_run / "model")
    keys = set(loaded.model.state_dict())
    assert loaded.vectors(["the kind dog ."]).shape == (1, 32)
    assert loaded.model.layer is None and set(loaded.model.state_dict()) == keys
