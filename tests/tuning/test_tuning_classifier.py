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

from theodolite.models.alignment import DroppedWordsWarning  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import fine_tune  # noqa: E402
from theodolite.tuning.classifier import ClassifierJob, drop_cut_words  # noqa: E402
from theodolite.tuning.heads import embed  # noqa: E402
from theodolite.tuning.regularisers import CosineRegulariser  # noqa: E402
from theodolite.tuning.runs import Splits, load_splits  # noqa: E402

Quick = Callable[..., Any]


def losses(rows: tuple[Any, ...]) -> list[float]:
    return [row.value for row in rows if row.metric == "train_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_classification_is_learnt(quick: Quick, moods: Any, pooling: str) -> None:
    tuned = fine_tune(quick(moods, epochs=8, pooling=pooling))
    assert losses(tuned.rows)[-1] < 0.3 * losses(tuned.rows)[0]
    assert losses(tuned.rows)[0] == pytest.approx(math.log(2), abs=0.2)
    assert tuned.after >= 0.95 > tuned.before
    assert tuned.steps == 8 * 6 and tuned.best_epoch == 8
    assert tuned.result.answer is not None and tuned.result.answer.verdict == "learned"


@pytest.mark.slow
def test_pairs_of_texts_are_learnt(quick: Quick, followed: Any) -> None:
    assert fine_tune(quick(followed, epochs=10)).after >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_tagging_is_learnt(quick: Quick, tags: Any, family: str, request: pytest.FixtureRequest) -> None:
    tuned = fine_tune(quick(tags, model=request.getfixturevalue(family), epochs=6 if family == "tiny_bert" else 12, batch_size=8))
    assert tuned.after >= 0.9 > tuned.before


def test_word_pairs_are_learnt_with_both_words(quick: Quick, relations: Any) -> None:
    tuned = fine_tune(quick(relations, epochs=6, batch_size=8))
    assert tuned.after >= 0.9
    head = load_file(tuned.model_folder / "head.safetensors")
    assert head["weight"].shape == (5, 64)
    assert json.loads((tuned.model_folder / "head.json").read_text())["labels"] == ["amod", "det", "nsubj", "obj", "punct"]


@pytest.mark.slow
def test_regression_is_squared_error(quick: Quick, rated: Any) -> None:
    tuned = fine_tune(quick(rated, siamese=False, epochs=10))
    assert losses(tuned.rows)[-1] < 0.5 * losses(tuned.rows)[0]
    assert load_file(tuned.model_folder / "head.safetensors")["weight"].shape == (1, 32)
    assert tuned.after > 0.7


def test_the_saved_encoder_and_head_give_the_score_again(quick: Quick, moods: Any) -> None:
    tuned = fine_tune(quick(moods, epochs=3))
    encoder, tokenizer = AutoModel.from_pretrained(tuned.model_folder).eval(), AutoTokenizer.from_pretrained(tuned.model_folder)
    head = load_file(tuned.model_folder / "head.safetensors")
    dev = load_task(moods, "dev")
    coded = tokenizer(list(dev.texts), padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors = encoder(**coded).last_hidden_state[:, 0]  # [CLS] itself, before the pooler
    answers = (vectors @ head["weight"].T + head["bias"]).argmax(-1).numpy()
    assert np.mean(answers == dev.label_ids(["bad", "good"])) == tuned.after


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_another_does_not(quick: Quick, moods: Any, tmp_path: Path) -> None:
    weights = [
        load_file(fine_tune(quick(moods, seed=seed, epochs=1, output=str(tmp_path / name))).model_folder / "model.safetensors")
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert not all(torch.equal(weights[0][key], weights[2][key]) for key in weights[0])


def test_early_stopping_keeps_the_best_epoch(quick: Quick, moods: Any) -> None:
    tuned = fine_tune(quick(moods, epochs=12, validation=0.3, patience=2))
    scores = {row.step: row.value for row in tuned.rows if row.split == "validation"}
    per_epoch = min(scores)
    assert per_epoch == math.ceil(0.7 * 96 / 16)
    best = max(scores, key=lambda step: (scores[step], -step))
    assert tuned.best_epoch == best / per_epoch
    assert tuned.steps == best + 2 * per_epoch < 12 * per_epoch
    assert tuned.after >= 0.9


@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_the_loss_is_the_tasks_and_the_penalty_of_the_heads_vectors_in_training_only(
    quick: Quick, moods: Any, tmp_path: Path, strength: float
) -> None:
    settings = quick(moods, method="cosreg", strength=strength)
    job = ClassifierJob(settings, load_splits(settings, None), tmp_path)
    for part in job.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    dataset = job.classifier.dataset(load_task(moods, "dev"))
    batch, X = dataset.__getitems__(range(12)), embed(job.model, dataset).vectors[:12]
    with torch.no_grad():
        training, evaluated = (job.trainer.compute_loss(job.model.train(mode), dict(batch)) for mode in (True, False))
        task = job.model(**batch)["loss"]
    assert float(evaluated) == pytest.approx(float(task), abs=1e-6)
    assert float(training) == pytest.approx(float(task) + strength * float(CosineRegulariser()(X)), abs=1e-5)


def test_one_warning_counts_the_dropped_words_of_all_splits(tiny_bert: str, tags: Any) -> None:
    # Sentences have 7 words, of which the sixth has two tokens: of 10 tokens, 8 leave out its second one and what follows.
    encoder = Encoder.load(tiny_bert, device="cpu", max_length=8)
    splits = Splits(load_task(tags, "train"), None, load_task(tags, "dev"), ())
    with pytest.warns(DroppedWordsWarning) as warnings:
        rest = drop_cut_words(splits, encoder)
    train, dev = rest.train, rest.dev
    assert len(warnings) == 1
    assert str(warnings[0].message).startswith(
        "120 of 420 words, in 60 of 60 texts, have no vector and are left out: they are cut off"
    )
    assert "max_length=8" in str(warnings[0].message)
    assert (len(train), len(dev)) == (200, 100)
    assert dev.labels is not None and [dev.words[s][w] for s, w in dev.places.tolist()][:5] == splits.dev.texts[0].split()[:5]


def test_whole_words_are_left_as_they_are(tiny_bert: str, tags: Any) -> None:
    splits = Splits(load_task(tags, "train"), None, load_task(tags, "dev"), ())
    rest = drop_cut_words(splits, Encoder.load(tiny_bert, device="cpu"))
    assert rest.train is splits.train and rest.dev is splits.dev


def test_cut_words_are_dropped_from_training_scoring_and_tracking_with_one_warning(quick: Quick, tags: Any) -> None:
    settings = quick(tags, epochs=1, batch_size=8, max_length=8, validation=0.2, track="epoch")
    with pytest.warns(DroppedWordsWarning) as warnings:
        tuned = fine_tune(settings)
    dropped = [warning for warning in warnings if warning.category is DroppedWordsWarning]
    assert [str(warning.message).partition(",")[0] for warning in dropped] == ["120 of 420 words"]
    assert {row.split: row.n for row in tuned.rows if row.split} == {"train": 160, "validation": 40, "dev": 100}
    assert tuned.result.notes == ("120 of 420 words of the task were cut off or have no tokens, and were left out.",)


def test_a_tokenizer_without_cls_needs_another_pooling(quick: Quick, moods: Any, tmp_path: Path, tiny_bert: str) -> None:
    folder = tmp_path / "without-cls"
    AutoModel.from_pretrained(tiny_bert).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    tokenizer.cls_token = None
    tokenizer.save_pretrained(folder)
    settings = quick(moods, model=str(folder))
    with pytest.raises(ValueError, match=r"no \[CLS\] token; use pooling='last' or pooling='mean'"):
        ClassifierJob(settings, load_splits(settings, None), tmp_path)
