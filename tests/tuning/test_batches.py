"""Every vector is the mean of the tokens it should be the mean of, whatever stands beside it in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tasks.errors import DataError  # noqa: E402
from theodolite.tuning.batches import Item, collate, pieces_of, pooled, text_items, word_items  # noqa: E402

TEXTS = ["the kind dog sees a cats .", "the river .", "a grim song finds the roads ."]


def hidden(encoder: Encoder, items: list[Item]) -> tuple[Any, Any]:
    batch = collate(items, pad=encoder.pad_id)
    states = encoder.hidden_states(batch["input_ids"], batch["attention_mask"], batch.get("token_type_ids"))
    return states[-1], batch


def test_pieces_overlap_their_words() -> None:
    offsets = [(0, 0), (0, 3), (4, 6), (6, 8), (9, 12), (0, 0)]
    assert pieces_of(offsets, [(0, 3), (4, 8), (9, 10), (10, 12)]) == [[1], [2, 3], [4], [4]]
    assert pieces_of(offsets[:3], [(0, 3), (4, 8), (9, 12)]) == [[1], [2], []]


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("unit", ["cls", "mean", "tokens"])
def test_pooling_is_that_of_each_text_alone(family: str, unit: Any, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(request.getfixturevalue(family), device="cpu")
    items = text_items(TEXTS, None, None, encoder.tokenizer, unit=unit, max_length=encoder.max_length)
    states, batch = hidden(encoder, items)
    vectors = pooled(states, batch["spots"])
    for row, text in enumerate(TEXTS):
        coded = encoder.tokenizer(text, return_tensors="pt")
        alone = encoder.hidden_states(coded["input_ids"], coded["attention_mask"])[-1][0]
        wanted = {"cls": alone[:1], "mean": alone.mean(0, keepdim=True), "tokens": alone[1:-1]}[unit]
        assert len(items[row].spots) == len(wanted)
        torch.testing.assert_close(vectors[row, : len(wanted)], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_words_are_the_mean_of_their_pieces(family: str, tags: Any, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(request.getfixturevalue(family), device="cpu")
    examples = load_task(tags, "dev")
    items = word_items(examples, None, encoder.tokenizer, max_length=encoder.max_length)
    states, batch = hidden(encoder, items[:4])
    vectors = pooled(states, batch["spots"])
    for row in range(4):
        coded = encoder.tokenizer(examples.texts[row])
        for word in range(7):
            span = coded.word_to_tokens(word) if family == "tiny_bert" else None
            start = len(" ".join(examples.words[row][:word])) + (word > 0)
            stop = start + len(examples.words[row][word])
            tokens = sorted({coded.char_to_token(c) for c in range(start, stop)})
            assert span is None or tokens == list(range(span.start, span.end))
            torch.testing.assert_close(vectors[row, word], states[row, tokens].mean(0), atol=1e-6, rtol=1e-5)


def test_plurals_have_two_pieces(tiny_bert: str, tags: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    items = word_items(load_task(tags, "dev"), None, encoder.tokenizer, max_length=None)
    assert [len(spot[0]) for spot in items[0].spots] == [1, 1, 1, 1, 1, 2, 1]


def test_pairs_stand_head_first(tiny_bert: str, relations: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    examples = load_task(relations, "dev")
    items = word_items(examples, None, encoder.tokenizer, max_length=None)
    states, batch = hidden(encoder, items[:1])
    vectors = pooled(states, batch["spots"])
    assert vectors.shape == (1, 6, 64)
    _, head, dependent = examples.places[0]
    words = word_items(load_task(relations, "dev"), None, encoder.tokenizer, max_length=None)
    assert words[0].spots[0] == ([head + 1], [dependent + 1])  # one [CLS] before, no plural among the first words
    torch.testing.assert_close(vectors[0, 0], torch.cat([states[0, head + 1], states[0, dependent + 1]]))


def test_a_word_that_is_cut_off_is_named(tiny_bert: str, tags: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    with pytest.raises(DataError, match=r"dev\.conllu, line \d+: word .* max_length=5"):
        word_items(load_task(tags, "dev"), None, encoder.tokenizer, max_length=5)


def test_targets_are_padded_with_what_losses_ignore(tiny_bert: str) -> None:
    items = [Item([2, 3], [0, 0], [([0],), ([1],)], [1.0, 4.0]), Item([2], [0], [([0],)], [3.0])]
    batch = collate(items, pad=0)
    assert batch["labels"].tolist() == [[1, 4], [3, -100]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert batch["spots"].shape == (2, 1, 2, 2) and float(batch["spots"][1, 0, 1].sum()) == 0
    assert np.isclose(float(batch["spots"].sum()), 3)
