"""Siamese training: one encoder for both sides, loaded once, its cosine against the score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")
pytest.importorskip("datasets", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from transformers import AutoModel, AutoTokenizer  # noqa: E402

from theodolite.tasks import load_task, score  # noqa: E402
from theodolite.tuning import fine_tune  # noqa: E402
from theodolite.tuning.runs import load_splits  # noqa: E402
from theodolite.tuning.siamese import SiameseJob, cosines, sentence_model  # noqa: E402
from theodolite.tuning.trainers import load_encoder  # noqa: E402

Quick = Callable[..., Any]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_similarity_is_learnt(quick: Quick, alike: Any, family: str, request: pytest.FixtureRequest) -> None:
    tuned = fine_tune(quick(alike, model=request.getfixturevalue(family), epochs=10))
    losses = [row.value for row in tuned.rows if row.metric == "train_loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert tuned.after > max(0.5, tuned.before)


def test_batches_by_length_have_pairs_of_similar_length(quick: Quick, tiny_bert: str, tmp_path: Path) -> None:
    from theodolite.tasks import own_task

    rng = np.random.default_rng(0)
    texts = [" ".join(["dog"] * length) for length in rng.integers(1, 60, 2 * 160)]
    lines = [f"{text}\t{text_b}\t{number % 5}" for number, (text, text_b) in enumerate(zip(texts[::2], texts[1::2], strict=True))]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("\n".join(["text\ttext_b\tscore", *lines]) + "\n")
    files = {split: tmp_path / f"{split}.tsv" for split in ("train", "dev")}
    task = own_task(files, "similarity", name="lengths", score_range=(0, 5))

    def epoch(**options: Any) -> tuple[float, list[Any]]:
        settings = quick(task, **options)
        batches = list(SiameseJob(settings, load_splits(settings, None), tmp_path).trainer.get_train_dataloader())
        masks = [batch[f"{side}_attention_mask"] for batch in batches for side in ("text", "text_b")]
        labels = torch.cat([batch["label"] for batch in batches]).tolist()
        return 1 - float(sum(mask.sum() for mask in masks)) / sum(mask.numel() for mask in masks), sorted(labels)

    by_length, labels = epoch(by_length=True)
    random, random_labels = epoch()
    assert labels == random_labels, "every pair is in an epoch once"
    assert by_length < 0.7 * random


def test_both_sides_have_the_same_weights(quick: Quick, alike: Any) -> None:
    settings = quick(alike)
    model = sentence_model(settings, load_encoder(settings))
    assert len([part for part in model.modules() if type(part).__name__ == "BertModel"]) == 1
    dev = load_task(alike, "dev")
    swapped = type(dev)(**{**vars(dev), "texts": dev.second, "second": dev.texts})
    np.testing.assert_allclose(cosines(model, dev, 16), cosines(model, swapped, 16), atol=1e-6)


def test_the_loss_is_the_squared_error_of_the_cosine(quick: Quick, alike: Any, tmp_path: Path) -> None:
    settings = quick(alike)
    splits = load_splits(settings, None)
    job = SiameseJob(settings, splits, tmp_path)
    model = job.model.eval()
    features = [model.tokenize(list(side)) for side in (splits.dev.texts, splits.dev.second)]
    with torch.no_grad():
        loss = job.trainer.loss(features, torch.tensor(splits.dev.unit_scores()))
    expected = np.mean((cosines(model, splits.dev, 16) - splits.dev.unit_scores()) ** 2)
    assert float(loss) == pytest.approx(expected, abs=1e-5)
    assert splits.dev.unit_scores().max() == 1.0 and splits.dev.unit_scores().min() == 0.2


def test_both_libraries_load_what_is_saved(quick: Quick, alike: Any) -> None:
    tuned = fine_tune(quick(alike, epochs=2))
    dev = load_task(alike, "dev")
    model = SentenceTransformer(str(tuned.model_folder), device="cpu")
    assert score("spearman", dev.scores, cosines(model, dev, 16))[0] == pytest.approx(tuned.after, abs=1e-6)
    encoder, tokenizer = AutoModel.from_pretrained(tuned.model_folder).eval(), AutoTokenizer.from_pretrained(tuned.model_folder)
    coded = tokenizer(list(dev.texts), padding=True, return_tensors="pt")
    with torch.no_grad():
        states = encoder(**coded).last_hidden_state
    marks = torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id])
    mask = (coded["attention_mask"].bool() & ~torch.isin(coded["input_ids"], marks))[..., None]  # RP21's tokens: without these
    means = (states * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(model.encode(list(dev.texts)), means.numpy(), atol=1e-5)


def test_frozen_layers_stay_and_the_rest_moves(quick: Quick, alike: Any, tiny_bert: str) -> None:
    before = load_file(Path(tiny_bert) / "model.safetensors")
    after = load_file(fine_tune(quick(alike, epochs=1, strategy="frozen:1")).model_folder / "model.safetensors")
    for name, tensor in before.items():
        stays = name.startswith(("embeddings", "encoder.layer.0.", "pooler"))
        assert torch.equal(tensor, after[name]) == stays, name


def test_lora_is_merged_into_a_plain_encoder(quick: Quick, alike: Any, tiny_bert: str) -> None:
    pytest.importorskip("peft", reason="peft is not installed")
    tuned = fine_tune(quick(alike, epochs=2, strategy="lora"))
    before, after = load_file(Path(tiny_bert) / "model.safetensors"), load_file(tuned.model_folder / "model.safetensors")
    assert set(before) == set(after)
    changed = {name for name in before if not torch.allclose(before[name], after[name], atol=1e-7)}
    assert changed and all(name.endswith("weight") and ".layer." in name and "LayerNorm" not in name for name in changed)
    model = SentenceTransformer(str(tuned.model_folder), device="cpu")
    dev = load_task(alike, "dev")
    assert score("spearman", dev.scores, cosines(model, dev, 16))[0] == pytest.approx(tuned.after, abs=1e-3)


@pytest.mark.slow
def test_early_stopping_by_rank_correlation(quick: Quick, alike: Any) -> None:
    tuned = fine_tune(quick(alike, epochs=6, validation=0.3, patience=1))
    scores = {row.step: row.value for row in tuned.rows if row.split == "validation" and row.metric == "spearman"}
    best = max(scores, key=lambda step: (scores[step], -step))
    assert tuned.best_epoch == best / min(scores)
    assert len(scores) <= 6


def test_the_weights_are_loaded_once(quick: Quick, alike: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import BertModel

    loads: list[str] = []
    load = BertModel.from_pretrained.__func__

    def counted(cls: Any, place: str, *args: Any, **kwargs: Any) -> Any:
        loads.append(place)
        return load(cls, place, *args, **kwargs)

    monkeypatch.setattr(BertModel, "from_pretrained", classmethod(counted))
    settings = quick(alike)
    job = SiameseJob(settings, load_splits(settings, None), tmp_path)
    assert loads == [settings.model]
    assert job.model[0].auto_model is job.encoder.module
    assert type(job.model[0]).__module__.startswith("sentence_transformers.")  # what the saved folder names


def test_texts_are_cut_as_the_settings_say(quick: Quick, alike: Any) -> None:
    settings = quick(alike, max_length=5)
    model = sentence_model(settings, load_encoder(settings))
    assert model.max_seq_length == 5
    assert model.tokenize(["the kind dog sees a cat ."])["input_ids"].shape == (1, 5)
