"""Heads learn what can be learnt, on every kind of task, and are saved so that others load them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModel, AutoTokenizer  # noqa: E402

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import tune  # noqa: E402
from theodolite.tuning.batches import IGNORED, collate, text_items  # noqa: E402
from theodolite.tuning.classify import answered  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402

Quick = Callable[..., Any]


def losses(rows: tuple[Any, ...]) -> list[float]:
    return [row.value for row in rows if row.metric == "train_loss"]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_classification_is_learnt(quick: Quick, moods: Any, pooling: str) -> None:
    tuned = tune(quick(moods, epochs=8, pooling=pooling))
    assert losses(tuned.rows)[-1] < 0.3 * losses(tuned.rows)[0]
    assert losses(tuned.rows)[0] == pytest.approx(math.log(2), abs=0.2)
    assert tuned.after >= 0.95 > tuned.before
    assert tuned.steps == 8 * 6 and tuned.best_epoch == 8


def test_pairs_of_texts_are_learnt(quick: Quick, followed: Any) -> None:
    assert tune(quick(followed, epochs=10)).after >= 0.9


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_tagging_is_learnt(quick: Quick, tags: Any, family: str, request: pytest.FixtureRequest) -> None:
    tuned = tune(quick(tags, model=request.getfixturevalue(family), epochs=6 if family == "tiny_bert" else 12, batch_size=8))
    assert tuned.after >= 0.9 > tuned.before


def test_word_pairs_are_learnt_with_both_words(quick: Quick, relations: Any) -> None:
    tuned = tune(quick(relations, epochs=6, batch_size=8))
    assert tuned.after >= 0.9
    head = load_file(tuned.folder / "head.safetensors")
    assert head["weight"].shape == (5, 64)
    assert json.loads((tuned.folder / "head.json").read_text())["labels"] == ["amod", "det", "nsubj", "obj", "punct"]


def test_regression_is_squared_error(quick: Quick, rated: Any) -> None:
    tuned = tune(quick(rated, siamese=False, epochs=10))
    assert losses(tuned.rows)[-1] < 0.5 * losses(tuned.rows)[0]
    assert load_file(tuned.folder / "head.safetensors")["weight"].shape == (1, 32)
    assert tuned.after > 0.7


def test_the_saved_encoder_and_head_give_the_score_again(quick: Quick, moods: Any) -> None:
    tuned = tune(quick(moods, epochs=3))
    encoder, tokenizer = AutoModel.from_pretrained(tuned.folder).eval(), AutoTokenizer.from_pretrained(tuned.folder)
    head = load_file(tuned.folder / "head.safetensors")
    dev = load_task(moods, "dev")
    coded = tokenizer(list(dev.texts), padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors = encoder(**coded).last_hidden_state[:, 0]  # [CLS] itself, before the pooler
    answers = (vectors @ head["weight"].T + head["bias"]).argmax(-1).numpy()
    assert np.mean(answers == dev.label_ids(["bad", "good"])) == tuned.after


def test_the_head_is_linear_on_the_vector_before_the_pooler(tiny_bert: str) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    model = LinearHead(encoder.module, 3).eval()
    texts = ["the kind dog .", "a cat sees the lovely house ."]
    batch = collate(text_items(texts, None, [2, 0], encoder.tokenizer, unit="cls", max_length=64), pad=0)
    with torch.no_grad():
        out = model(**batch)
    states = encoder.hidden_states(batch["input_ids"], batch["attention_mask"])[-1][:, 0].clone()
    wanted = (states @ model.head.weight.T + model.head.bias).detach()
    torch.testing.assert_close(out["logits"][:, 0], wanted, atol=1e-5, rtol=1e-5)
    by_hand = -torch.log_softmax(wanted, -1)[[0, 1], [2, 0]].mean()
    assert float(out["loss"]) == pytest.approx(float(by_hand), abs=1e-5)


def test_padding_counts_for_nothing() -> None:
    labels = np.array([[1, IGNORED], [0, 1]])
    logits = np.array([[[0.0, 1.0], [9.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    truth, answers = answered(labels, logits)
    assert truth.tolist() == [1, 0, 1] and answers.tolist() == [1, 1, 1]


def test_the_same_seed_gives_the_same_weights_and_another_does_not(quick: Quick, moods: Any, tmp_path: Path) -> None:
    weights = [
        load_file(tune(quick(moods, seed=seed, epochs=1, output=str(tmp_path / name))).folder / "model.safetensors")
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert not all(torch.equal(weights[0][key], weights[2][key]) for key in weights[0])


def test_the_callers_random_state_is_its_own(quick: Quick, moods: Any) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    tune(quick(moods, epochs=1))
    assert torch.equal(torch.rand(3), wanted)


def test_early_stopping_keeps_the_best_epoch(quick: Quick, moods: Any) -> None:
    tuned = tune(quick(moods, epochs=12, validation=0.3, patience=2))
    scores = {row.step: row.value for row in tuned.rows if row.split == "validation"}
    per_epoch = min(scores)
    assert per_epoch == math.ceil(0.7 * 96 / 16)
    best = max(scores, key=lambda step: (scores[step], -step))
    assert tuned.best_epoch == best / per_epoch
    assert tuned.steps == best + 2 * per_epoch < 12 * per_epoch
    assert tuned.after >= 0.9
