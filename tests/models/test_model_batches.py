"""Batches and padding change nothing: vectors of all layers are what the model gives text by text, in the order of the texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

import torch

from theodolite.models.batches import TokenReading
from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.tasks import load_task

Tiny = Callable[[str], Path]

FAMILIES = ["bert", "roberta", "distilbert", "gpt2", "albert", "electra", "mpnet", "modernbert"]


def one_by_one(encoder: Encoder, text: str) -> list[np.ndarray]:
    """Hidden states (tokens, d) of each layer of one text alone: no batch, no padding, no code of ours."""
    ids = encoder.tokenizer(text, return_tensors="pt", truncation=True, max_length=encoder.max_length)
    with torch.no_grad():
        states = encoder.module(**ids, output_hidden_states=True).hidden_states
    return [state[0].float().numpy() for state in states]


@pytest.mark.parametrize("family", FAMILIES)
def test_all_layers_are_the_hidden_states(family: str, tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny(family))
    texts = [text for text in vector_texts if text]
    space = extract_space(encoder, texts, unit="tokens", specials=True)
    assert space.layers == (0, 1, 2, 3) and space.d == 16
    want = [one_by_one(encoder, text) for text in texts]
    for layer in space.layers:
        alone = np.concatenate([states[layer] for states in want])
        assert space[layer] == pytest.approx(alone, abs=1e-5)
    assert np.abs(space[1] - space[3]).max() > 0.1  # else equality above would say little
    assert list(space.rows["text"]) == [i for i, states in enumerate(want) for _ in states[0]]


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
@pytest.mark.parametrize("unit", ["mean", "max", "last"])
def test_pooled_texts_are_pools_of_their_hidden_states(family: str, unit: Any, tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny(family))
    texts = [text for text in vector_texts if text]
    space = extract_space(encoder, texts, unit=unit)
    pool = {"mean": lambda s: s.mean(0), "max": lambda s: s.max(0), "last": lambda s: s[-1]}[unit]
    for layer in space.layers:
        want = np.stack([pool(one_by_one(encoder, text)[layer]) for text in texts])
        assert space[layer] == pytest.approx(want, abs=1e-5)
    assert list(space.rows["sentence"]) == texts
    assert space[-1][0] == pytest.approx(space[-1][-1], abs=1e-6)  # the same text twice


def test_cls_is_the_first_token(tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny("roberta"))
    space = extract_space(encoder, vector_texts, unit="cls", layers=[-1, 0])
    assert space.layers == (0, 3)
    assert space[3] == pytest.approx(np.stack([one_by_one(encoder, text)[3][0] for text in vector_texts]), abs=1e-5)


@pytest.mark.parametrize("size", [1, 3, 100, "auto"])
def test_batches_and_padding_do_not_matter(size: Any, tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny("bert"))
    want = np.stack([one_by_one(encoder, text)[3].mean(0) for text in vector_texts])
    assert extract_space(encoder, vector_texts, batch_size=size)[-1] == pytest.approx(want, abs=1e-5)


def test_automatic_batches_stay_within_their_tokens(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.models.batches.CPU_TOKENS", 50)
    encoder = Encoder.load(tiny("bert"))
    reading = TokenReading.of(encoder, ["the cat " * k for k in (1, 2, 3, 4, 5, 6, 7, 30, 1, 2)])
    lengths = reading.plan.tokens.lengths
    batches = reading.batches
    assert sorted(np.concatenate(batches)) == list(range(10))
    assert all(len(batch) == 1 or lengths[batch].max() * len(batch) <= 50 for batch in batches)
    assert np.all(np.diff(lengths[np.concatenate(batches)]) <= 0)  # the longest first: what does not fit shows at once
    assert len(batches) < 10


def test_a_batch_that_does_not_fit_is_halved(tiny: Tiny, vector_texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder.load(tiny("bert"))
    want = extract_space(encoder, vector_texts)
    forward, batch_sizes = Encoder.hidden_states, []

    def small(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        batch_sizes.append(len(ids))
        if len(ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, ids, mask, types)

    monkeypatch.setattr(Encoder, "hidden_states", small)
    got = extract_space(encoder, vector_texts, batch_size=8)
    assert batch_sizes[0] == 8 and batch_sizes.count(2) == 4
    assert all(got[layer] == pytest.approx(want[layer], abs=1e-5) for layer in want.layers)


def test_a_text_that_never_fits_is_named(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(Encoder, "hidden_states", never)
    with pytest.raises(MemoryError, match="lower max_length=64"):
        extract_space(Encoder.load(tiny("bert")), ["the cat", "a dog"])


def test_other_errors_pass_through(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Encoder, "hidden_states", wrong)
    with pytest.raises(RuntimeError, match="shapes differ"):
        extract_space(Encoder.load(tiny("bert")), ["the cat", "a dog"])


def test_the_tokens_of_sts_dev_are_as_many_as_the_paper_has(models: Path, data: Path) -> None:
    encoder = Encoder.load(models / "minilm-mlm", device="cpu")
    reading = TokenReading.of(encoder, load_task("stsb", "dev", data), unit="tokens")
    assert reading.plan.n == 42_709


def test_no_word_of_the_treebank_is_lost(models: Path, data: Path) -> None:
    encoder = Encoder.load(models / "minilm-mlm", device="cpu")
    assert TokenReading.of(encoder, load_task("pos", "test", data), unit="words").plan.n == 4322
    pairs = TokenReading.of(encoder, load_task("dep", "test", data), unit="pairs")
    assert (pairs.plan.n, pairs.d) == (4122, 768)


def test_an_empty_text_is_its_special_tokens_or_has_no_vector(tiny: Tiny) -> None:
    bert = Encoder.load(tiny("bert"))
    assert extract_space(bert, ["the cat", ""])[-1][1] == pytest.approx(one_by_one(bert, "")[3].mean(0), abs=1e-5)
    assert list(extract_space(bert, ["", "the cat", ""], unit="tokens").rows["text"]) == [1, 1]
    with pytest.raises(ValueError, match="text 1 has no token"):
        extract_space(Encoder.load(tiny("gpt2")), ["the cat", ""])
