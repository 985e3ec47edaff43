"""Every vector is the mean of the tokens it should be the mean of, whatever else is in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.models.alignment import DroppedWordsWarning  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.extraction import extract_space  # noqa: E402
from theodolite.models.tokens import text_inputs  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tasks.examples import Examples  # noqa: E402
from theodolite.tuning.batches import Item, collate, drop_cut_words, make_items  # noqa: E402
from theodolite.tuning.heads import pooled_vectors  # noqa: E402

TEXTS = ["the kind dog sees a cats .", "the river .", "a grim song finds the roads ."]


def word_items(encoder: Encoder, examples: Examples) -> list[Item]:
    return make_items(encoder, text_inputs(examples, examples.task.unit), examples.task.unit)


def hidden(encoder: Encoder, items: list[Item]) -> tuple[Any, Any]:
    batch = collate(items, pad=encoder.pad_id)
    states = encoder.hidden_states(batch["input_ids"], batch["attention_mask"], batch.get("token_type_ids"))
    return states[-1], batch


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("unit", ["cls", "mean", "tokens"])
def test_pooling_is_that_of_each_text_alone(family: str, unit: Any, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(request.getfixturevalue(family), device="cpu")
    items = make_items(encoder, text_inputs(TEXTS, unit), unit)
    states, batch = hidden(encoder, items)
    vectors = pooled_vectors(states, batch["spots"])
    for row, text in enumerate(TEXTS):
        coded = encoder.tokenizer(text, return_tensors="pt")
        alone = encoder.hidden_states(coded["input_ids"], coded["attention_mask"])[-1][0]
        expected = {"cls": alone[:1], "mean": alone.mean(0, keepdim=True), "tokens": alone[1:-1]}[unit]
        assert len(items[row].runs) == len(expected)
        torch.testing.assert_close(vectors[row, : len(expected)], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_words_are_the_mean_of_their_pieces(family: str, tags: Any, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(request.getfixturevalue(family), device="cpu")
    examples = load_task(tags, "dev")
    items = word_items(encoder, examples)
    states, batch = hidden(encoder, items[:4])
    vectors = pooled_vectors(states, batch["spots"])
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
    items = word_items(encoder, load_task(tags, "dev"))
    assert [stop - start for ((start, stop),) in items[0].runs] == [1, 1, 1, 1, 1, 2, 1]


def test_the_head_word_of_a_pair_is_first(tiny_bert: str, relations: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    examples = load_task(relations, "dev")
    items = word_items(encoder, examples)
    states, batch = hidden(encoder, items[:1])
    vectors = pooled_vectors(states, batch["spots"])
    assert vectors.shape == (1, 6, 64)
    _, head, dependent = examples.places[0]
    # One [CLS] before, and no plural among the first words.
    assert items[0].runs[0] == [[head + 1, head + 2], [dependent + 1, dependent + 2]]
    torch.testing.assert_close(vectors[0, 0], torch.cat([states[0, head + 1], states[0, dependent + 1]]))


def test_targets_are_padded_with_what_losses_ignore(tiny_bert: str) -> None:
    items = [
        Item([2, 3], [0, 0], [[(0, 1)], [(1, 2)]], [1.0, 4.0], [0, 1]),
        Item([2], [0], [[(0, 1)]], [3.0], [2]),
    ]
    batch = collate(items, pad=0)
    assert batch["labels"].tolist() == [[1, 4], [3, -100]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert batch["spots"].shape == (2, 1, 2, 2) and float(batch["spots"][1, 0, 1].sum()) == 0
    assert np.isclose(float(batch["spots"].sum()), 3)


@pytest.mark.parametrize("kind", ["tags", "relations"])
def test_words_that_are_cut_off_are_dropped_as_in_an_extraction(
    kind: str, tiny_bert: str, request: pytest.FixtureRequest
) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu", max_length=8)
    dev = load_task(request.getfixturevalue(kind), "dev")
    with pytest.warns(DroppedWordsWarning):
        space = extract_space(encoder, dev, unit=dev.task.unit, layers="last")
    with pytest.warns(DroppedWordsWarning):
        items = word_items(encoder, dev)
    assert [example for item in items for example in item.examples] == list(space.rows["example"])
    assert 0 < space.n < len(dev)


def test_one_warning_counts_the_dropped_words_of_all_splits(tiny_bert: str, tags: Any) -> None:
    # Sentences have 7 words, of which the sixth has two tokens: of 10 tokens, 8 leave out its second one and what follows.
    encoder = Encoder.load(tiny_bert, device="cpu", max_length=8)
    splits = [load_task(tags, "train"), load_task(tags, "dev")]
    with pytest.warns(DroppedWordsWarning) as warnings:
        train, dev = drop_cut_words(splits, encoder)
    assert len(warnings) == 1
    assert str(warnings[0].message).startswith(
        "120 of 420 words, in 60 of 60 texts, have no vector and are left out: they are cut off"
    )
    assert "max_length=8" in str(warnings[0].message)
    assert (len(train), len(dev)) == (200, 100)
    assert dev.labels is not None and [dev.words[s][w] for s, w in dev.places.tolist()][:5] == splits[1].texts[0].split()[:5]


def test_whole_words_are_left_as_they_are(tiny_bert: str, tags: Any) -> None:
    dev = load_task(tags, "dev")
    assert drop_cut_words([dev], Encoder.load(tiny_bert, device="cpu"))[0] is dev
