"""Vectors of all layers: what the model itself gives text by text, whatever the batches, in the order of the texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

import torch

from theodolite.models.batches import batches
from theodolite.models.encoder import Encoder
from theodolite.models.extract import extract
from theodolite.models.reading import Reading

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
    space = extract(encoder, texts, unit="tokens", specials=True)
    assert space.layers == (0, 1, 2, 3) and space.d == 16
    want = [one_by_one(encoder, text) for text in texts]
    for layer in space.layers:
        alone = np.concatenate([states[layer] for states in want])
        assert space[layer] == pytest.approx(alone, abs=1e-5)
    assert np.abs(space[1] - space[3]).max() > 0.1  # else equality above would say little
    assert list(space.rows["text"]) == [i for i, states in enumerate(want) for _ in states[0]]


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
@pytest.mark.parametrize("unit", ["mean", "max", "last"])
def test_pooled_texts(family: str, unit: Any, tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny(family))
    texts = [text for text in vector_texts if text]
    space = extract(encoder, texts, unit=unit)
    pool = {"mean": lambda s: s.mean(0), "max": lambda s: s.max(0), "last": lambda s: s[-1]}[unit]
    for layer in space.layers:
        want = np.stack([pool(one_by_one(encoder, text)[layer]) for text in texts])
        assert space[layer] == pytest.approx(want, abs=1e-5)
    assert list(space.rows["sentence"]) == texts
    assert space[-1][0] == pytest.approx(space[-1][-1], abs=1e-6)  # the same text twice


def test_cls_is_the_first_token(tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny("roberta"))
    space = extract(encoder, vector_texts, unit="cls", layers=[-1, 0])
    assert space.layers == (0, 3)
    assert space[3] == pytest.approx(np.stack([one_by_one(encoder, text)[3][0] for text in vector_texts]), abs=1e-5)


def test_an_encoder_without_cls_names_the_way_out(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match='unit="mean" or unit="last"'):
        extract(Encoder.load(tiny("gpt2")), ["the cat"], unit="cls")


@pytest.mark.parametrize("size", [1, 3, 100, "auto"])
def test_batches_and_padding_do_not_matter(size: Any, tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny("bert"))
    want = np.stack([one_by_one(encoder, text)[3].mean(0) for text in vector_texts])
    assert extract(encoder, vector_texts, batch_size=size)[-1] == pytest.approx(want, abs=1e-5)


def test_automatic_batches_keep_to_their_tokens(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.models.batches.CPU_TOKENS", 50)
    encoder = Encoder.load(tiny("bert"))
    reading = Reading.of(encoder, ["the cat " * k for k in (1, 2, 3, 4, 5, 6, 7, 30, 1, 2)])
    lengths = reading.plan.tokens.lengths
    made = batches(encoder, reading.plan)
    assert sorted(np.concatenate(made)) == list(range(10))
    assert all(len(batch) == 1 or lengths[batch].max() * len(batch) <= 50 for batch in made)
    assert np.all(np.diff(lengths[np.concatenate(made)]) <= 0)  # the longest first: what does not fit shows at once
    assert len(made) < 10


def test_a_batch_that_does_not_fit_is_halved(tiny: Tiny, vector_texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder.load(tiny("bert"))
    want = extract(encoder, vector_texts)
    forward, seen = Encoder.hidden_states, []

    def small(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        seen.append(len(ids))
        if len(ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, ids, mask, types)

    monkeypatch.setattr(Encoder, "hidden_states", small)
    got = extract(encoder, vector_texts, batch_size=8)
    assert seen[0] == 8 and seen.count(2) == 4
    assert all(got[layer] == pytest.approx(want[layer], abs=1e-5) for layer in want.layers)


def test_a_text_that_never_fits_is_named(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(Encoder, "hidden_states", never)
    with pytest.raises(MemoryError, match="lower max_length"):
        extract(Encoder.load(tiny("bert")), ["the cat", "a dog"])


def test_other_errors_pass_through(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Encoder, "hidden_states", wrong)
    with pytest.raises(RuntimeError, match="shapes differ"):
        extract(Encoder.load(tiny("bert")), ["the cat", "a dog"])


def test_half_precision_is_close_and_comes_as_float32(tiny: Tiny, vector_texts: list[str]) -> None:
    full = extract(Encoder.load(tiny("bert")), vector_texts)
    half = extract(Encoder.load(tiny("bert"), dtype="bfloat16"), vector_texts)
    assert half[-1].dtype == np.float32
    apart = np.abs(half[-1] - full[-1]).max()
    assert 0 < apart < 0.2


def test_a_model_in_training_is_read_without_dropout_and_left_as_it_was(tiny: Tiny, vector_texts: list[str]) -> None:
    loaded = Encoder.load(tiny("bert"))
    want = extract(loaded, vector_texts)
    module = loaded.module.train()
    module.embeddings.eval()  # a part that is frozen stays so
    state = torch.get_rng_state()
    got = extract(Encoder.load(module, tokenizer=loaded.tokenizer), vector_texts)
    assert np.array_equal(got[-1], want[-1])
    assert module.training and module.encoder.training and not module.embeddings.training
    assert torch.equal(torch.get_rng_state(), state)


def test_progress_counts_texts(tiny: Tiny, vector_texts: list[str]) -> None:
    seen = []
    extract(Encoder.load(tiny("bert")), vector_texts, batch_size=3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(3, 8), (6, 8), (8, 8)]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("one text", {}, "one string"),
        (["a", 3], {}, "text 1 is int"),
        ([], {}, "no texts"),
        (["a"], {"unit": "sentence"}, "must be one of"),
        (["a"], {"unit": "mean", "specials": True}, 'for unit="tokens"'),
        (["a"], {"layers": 4}, "no layer 4"),
        (["a"], {"layers": "first"}, "'all', 'last'"),
        (["a"], {"batch_size": 0}, "at least 1"),
        (["a"], {"unit": "pairs"}, "two words each"),
        ([""], {"unit": "tokens"}, "no token of their own"),
    ],
)
def test_wrong_use_is_told(texts: Any, options: dict[str, Any], message: str, tiny: Tiny) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        extract(Encoder.load(tiny("bert")), texts, **options)


def test_an_empty_text_has_specials_or_no_vector(tiny: Tiny) -> None:
    bert = Encoder.load(tiny("bert"))
    assert extract(bert, ["the cat", ""])[-1][1] == pytest.approx(one_by_one(bert, "")[3].mean(0), abs=1e-5)
    assert list(extract(bert, ["", "the cat", ""], unit="tokens").rows["text"]) == [1, 1]
    with pytest.raises(ValueError, match="text 1 has no token"):
        extract(Encoder.load(tiny("gpt2")), ["the cat", ""])
