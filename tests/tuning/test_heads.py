"""Every vector is the mean of the tokens it should be the mean of, and the head is linear on these vectors."""

from __future__ import annotations

from dataclasses import replace
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
from theodolite.tuning.heads import (  # noqa: E402
    IGNORED,
    LinearHead,
    TextDataset,
    embed,
    pooled_vectors,
    truth_and_answers,
)
from theodolite.tuning.isotropy_layer import IsotropyLayer  # noqa: E402

TEXTS = ["the kind dog sees a cats .", "the river .", "a grim song finds the roads ."]


def word_dataset(encoder: Encoder, examples: Examples) -> TextDataset:
    return TextDataset.of(encoder, text_inputs(examples, examples.task.unit), examples.task.unit)


def batch_of(dataset: TextDataset, count: int | None = None) -> Any:
    return dataset.__getitems__(range(len(dataset) if count is None else count))


def hidden(encoder: Encoder, batch: Any) -> Any:
    return encoder.hidden_states(batch["input_ids"], batch["attention_mask"], batch.get("token_type_ids"))[-1]


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("unit", ["cls", "mean", "tokens"])
def test_pooling_is_that_of_each_text_alone(family: str, unit: Any, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(request.getfixturevalue(family), device="cpu")
    batch = batch_of(TextDataset.of(encoder, text_inputs(TEXTS, unit), unit))
    vectors = pooled_vectors(hidden(encoder, batch), batch["spots"])
    for row, text in enumerate(TEXTS):
        coded = encoder.tokenizer(text, return_tensors="pt")
        alone = encoder.hidden_states(coded["input_ids"], coded["attention_mask"])[-1][0]
        expected = {"cls": alone[:1], "mean": alone.mean(0, keepdim=True), "tokens": alone[1:-1]}[unit]
        assert int((batch["labels"][row] != IGNORED).sum()) == len(expected)
        torch.testing.assert_close(vectors[row, : len(expected)], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_words_are_the_mean_of_their_pieces(family: str, tags: Any, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(request.getfixturevalue(family), device="cpu")
    examples = load_task(tags, "dev")
    batch = batch_of(word_dataset(encoder, examples), 4)
    states = hidden(encoder, batch)
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
    batch = batch_of(word_dataset(encoder, load_task(tags, "dev")), 1)
    assert (batch["spots"][0, 0] > 0).sum(-1).tolist() == [1, 1, 1, 1, 1, 2, 1]


def test_the_head_word_of_a_pair_is_first(tiny_bert: str, relations: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    examples = load_task(relations, "dev")
    batch = batch_of(word_dataset(encoder, examples), 1)
    states = hidden(encoder, batch)
    vectors = pooled_vectors(states, batch["spots"])
    assert vectors.shape == (1, 6, 64)
    _, head, dependent = examples.places[0]
    # One [CLS] before, and no plural among the first words.
    assert [spot.nonzero().ravel().tolist() for spot in batch["spots"][0, :, 0]] == [[head + 1], [dependent + 1]]
    torch.testing.assert_close(vectors[0, 0], torch.cat([states[0, head + 1], states[0, dependent + 1]]))


@pytest.mark.parametrize("targets", [np.array([4, 3, 1, 2]), np.array([0.4, 0.3, 0.1, 0.2])], ids=["labels", "scores"])
def test_targets_are_padded_with_what_losses_ignore(tiny_bert: str, targets: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    texts = ["the dog", "cat", "a .", "dogs"]
    dataset = TextDataset.of(encoder, text_inputs(texts, "tokens"), "tokens", targets=targets)
    batch = dataset.__getitems__([1, 0])
    expected = torch.tensor([[targets[1], IGNORED], [targets[0], targets[0]]], dtype=batch["labels"].dtype)
    assert batch["labels"].dtype == (torch.int64 if targets.dtype.kind == "i" else torch.float32)
    assert torch.equal(batch["labels"], expected)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert batch["spots"].shape == (2, 1, 2, 4) and float(batch["spots"][0, 0, 1].sum()) == 0
    assert np.isclose(float(batch["spots"].sum()), 3)


def test_a_batch_depends_on_its_texts_alone(tiny_bert: str, tags: Any) -> None:
    dataset = word_dataset(Encoder.load(tiny_bert, device="cpu"), load_task(tags, "dev"))
    part = replace(dataset, texts=dataset.texts[[7, 2, 11]])
    first, second = dataset.__getitems__([7, 2, 11]), batch_of(part)
    assert len(part) == 3 and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("kind", ["tags", "relations"])
def test_words_that_are_cut_off_are_dropped_as_in_an_extraction(
    kind: str, tiny_bert: str, request: pytest.FixtureRequest
) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu", max_length=8)
    dev = load_task(request.getfixturevalue(kind), "dev")
    with pytest.warns(DroppedWordsWarning):
        space = extract_space(encoder, dev, unit=dev.task.unit, layers="last")
    with pytest.warns(DroppedWordsWarning):
        dataset = word_dataset(encoder, dev)
    rows, _ = dataset.plan.rows_of(dataset.texts)
    assert dataset.examples[rows].tolist() == list(space.rows["example"])
    assert 0 < space.n < len(dev)


def test_the_head_is_linear_on_the_vector_before_the_pooler(tiny_bert: str) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    model = LinearHead(encoder.module, 3).eval()
    texts = ["the kind dog .", "a cat sees the lovely house ."]
    batch = batch_of(TextDataset.of(encoder, text_inputs(texts, "cls"), "cls", targets=np.array([2, 0])))
    with torch.no_grad():
        out = model(**batch)
    states = encoder.hidden_states(batch["input_ids"], batch["attention_mask"])[-1][:, 0].clone()
    expected = (states @ model.head.weight.T + model.head.bias).detach()
    torch.testing.assert_close(out["logits"][:, 0], expected, atol=1e-5, rtol=1e-5)
    by_hand = -torch.log_softmax(expected, -1)[[0, 1], [2, 0]].mean()
    assert float(out["loss"]) == pytest.approx(float(by_hand), abs=1e-5)


def test_padding_counts_for_nothing() -> None:
    labels = np.array([[1, IGNORED], [0, 1]])
    logits = np.array([[[0.0, 1.0], [9.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    truth, answers = truth_and_answers(labels, logits)
    assert truth.tolist() == [1, 0, 1] and answers.tolist() == [1, 1, 1]


@pytest.fixture
def encoder(tiny_bert: str) -> Encoder:
    return Encoder.load(tiny_bert, device="cpu")


@pytest.fixture
def dataset(encoder: Encoder, moods: Any) -> TextDataset:
    dev = load_task(moods, "dev")
    # Texts of many lengths, so that the order in which they are read is not the order given.
    texts = [text if i % 3 else f"{text} {text}" for i, text in enumerate(dev.texts)] * 3
    return TextDataset.of(encoder, text_inputs(texts, "cls"), "cls", targets=np.arange(len(texts)))


def test_every_row_is_the_encoders_cls_vector_of_its_text_alone(encoder: Encoder, dataset: TextDataset) -> None:
    embedded = embed(LinearHead(encoder.module, 2), dataset)
    assert embedded.vectors.shape == (len(dataset), 32)
    assert embedded.labels[:, 0].tolist() == list(range(len(dataset)))
    for i in range(0, len(dataset), 17):
        ids = dataset.__getitems__([i])["input_ids"]
        alone = encoder.hidden_states(ids, torch.ones_like(ids))[-1][0, 0]
        torch.testing.assert_close(embedded.vectors[i], alone, atol=1e-5, rtol=1e-5)


def test_dropout_has_no_effect_and_the_mode_is_put_back(encoder: Encoder, dataset: TextDataset) -> None:
    model = LinearHead(encoder.module, 2).train()
    first, second = (embed(model, dataset).vectors for _ in range(2))
    assert torch.equal(first, second) and not first.requires_grad
    assert model.encoder.training


def test_progress_counts_the_texts(encoder: Encoder, dataset: TextDataset) -> None:
    reports: list[tuple[int, int]] = []
    embed(LinearHead(encoder.module, 2), dataset, progress=lambda done, total: reports.append((done, total)))
    assert reports == [(64, 144), (128, 144), (144, 144)]


def test_a_layer_is_between_the_encoders_vectors_and_the_head(encoder: Encoder, dataset: TextDataset) -> None:
    model = LinearHead(encoder.module, 144).eval()
    batch = batch_of(dataset, 20)
    with torch.no_grad():
        plain = model(**batch)
        model.layer = IsotropyLayer(32)
        assert torch.equal(model(**batch)["logits"], plain["logits"])
        torch.nn.init.normal_(next(model.layer.parameters()))
        layered = model(**batch)
        vectors = embed(model, dataset).vectors[:20]
        stored = model.answer(model.layer(vectors).unsqueeze(1), batch["labels"])
    assert (layered["logits"] - plain["logits"]).abs().max() > 1e-3
    for name in ("logits", "loss"):
        torch.testing.assert_close(stored[name], layered[name], rtol=0, atol=1e-4)
    model.layer = None
    with torch.no_grad():
        assert torch.equal(model(**batch)["logits"], plain["logits"])


def test_words_have_no_place_for_a_layer(encoder: Encoder, tags: Any) -> None:
    model = LinearHead(encoder.module, 5)
    model.layer = IsotropyLayer(32)
    with pytest.raises(ValueError, match="one vector per text, not 7; tasks on words"):
        model(**batch_of(word_dataset(encoder, load_task(tags, "dev")), 3))
