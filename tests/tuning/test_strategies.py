"""Which parameters train: exactly those, bit by bit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tuning import fine_tune  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.strategies import apply_strategy  # noqa: E402

Quick = Callable[..., Any]


def changed(before: str, after: Path) -> set[str]:
    old, new = load_file(Path(before) / "model.safetensors"), load_file(after / "model.safetensors")
    assert set(old) == set(new)
    return {name for name in old if not torch.equal(old[name], new[name])}


def test_full_moves_everything_but_the_pooler(quick: Quick, moods: Any, tiny_bert: str) -> None:
    moved = changed(tiny_bert, fine_tune(quick(moods, epochs=1)).model_folder)
    names = {name for name in load_file(Path(tiny_bert) / "model.safetensors") if not name.startswith("pooler")}
    # Softmax is blind to a constant: the key's bias gets no gradient beyond rounding.
    assert names - moved <= {name for name in names if name.endswith("key.bias")}


@pytest.mark.parametrize(("strategy", "still"), [("frozen:0", 0), ("frozen:1", 1), ("frozen:2", 2)])
def test_frozen_layers_are_bit_identical(quick: Quick, moods: Any, tiny_bert: str, strategy: str, still: int) -> None:
    moved = changed(tiny_bert, fine_tune(quick(moods, epochs=1, strategy=strategy)).model_folder)
    assert not any(name.startswith("embeddings") for name in moved)
    for layer in range(2):
        assert any(name.startswith(f"encoder.layer.{layer}.") for name in moved) == (layer >= still)


def test_head_leaves_the_encoder_and_still_learns(quick: Quick, moods: Any, tiny_bert: str) -> None:
    tuned = fine_tune(quick(moods, epochs=12, strategy="head", pooling="mean", learning_rate=0.1))
    assert changed(tiny_bert, tuned.model_folder) == set()
    assert tuned.after >= 0.8 > 0.6 > tuned.before  # of a random encoder, whose vectors need not be separable


def test_a_frozen_encoder_sees_no_dropout(tiny_bert: str) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu").module
    model = LinearHead(encoder, 2).train()
    assert encoder.training
    apply_strategy(encoder, "head")
    assert not model.train().encoder.training and model.training


def test_lora_learns_and_leaves_a_plain_encoder(quick: Quick, moods: Any, tiny_bert: str) -> None:
    pytest.importorskip("peft", reason="peft is not installed")
    tuned = fine_tune(quick(moods, epochs=6, strategy="lora", learning_rate=2e-2))
    assert not any(name.startswith("embeddings") for name in changed(tiny_bert, tuned.model_folder))
    assert tuned.after >= 0.9


def test_lora_without_peft_names_the_command(tiny_bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match="needs peft, which is not installed; run: pip install peft"):
        apply_strategy(Encoder.load(tiny_bert, device="cpu").module, "lora")


def test_freezing_more_layers_than_there_are_is_an_error(tiny_bert: str) -> None:
    with pytest.raises(ValueError, match="frozen:3' must be between 0 and 2, the layers of the encoder"):
        apply_strategy(Encoder.load(tiny_bert, device="cpu").module, "frozen:3")
