"""Vectors that were computed once are the encoder's own, in the order given, and cached only for what they were made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.tokens import text_inputs  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning.batches import Item, make_items  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.isolayer.features import Features, cached_features, embed, features_key  # noqa: E402
from theodolite.tuning.isolayer.insertion import InsertedLayer, insert_layer  # noqa: E402


@pytest.fixture
def encoder(tiny_bert: str) -> Encoder:
    return Encoder.load(tiny_bert, device="cpu")


@pytest.fixture
def inserted(encoder: Encoder) -> InsertedLayer:
    return insert_layer(LinearHead(encoder.module, 2), torch.nn.Identity())


@pytest.fixture
def items(encoder: Encoder, moods: Any) -> list[Item]:
    dev = load_task(moods, "dev")
    # Texts of many lengths, so that the order in which they are read is not the order given.
    texts = [text if i % 3 else f"{text} {text}" for i, text in enumerate(dev.texts)] * 3
    targets = list(range(len(texts)))
    return make_items(encoder, text_inputs(texts, "cls"), "cls", targets=targets)


def features(seed: int = 0, n: int = 5) -> dict[str, Features]:
    random = torch.Generator().manual_seed(seed)
    return {"train": Features(torch.randn(n, 4, generator=random), torch.arange(n).unsqueeze(1))}


def test_every_row_is_the_encoders_cls_vector_of_its_text_alone(
    encoder: Encoder, inserted: InsertedLayer, items: list[Item]
) -> None:
    embedded = embed(inserted, items, pad=encoder.pad_id)
    assert embedded.vectors.shape == (len(items), 32)
    assert embedded.labels[:, 0].tolist() == list(range(len(items)))
    for i in range(0, len(items), 17):
        ids = torch.tensor([items[i].ids])
        alone = encoder.hidden_states(ids, torch.ones_like(ids))[-1][0, 0]
        torch.testing.assert_close(embedded.vectors[i], alone, atol=1e-5, rtol=1e-5)


def test_dropout_has_no_effect_and_the_mode_is_put_back(encoder: Encoder, inserted: InsertedLayer, items: list[Item]) -> None:
    inserted.model.train()
    first, second = (embed(inserted, items, pad=encoder.pad_id).vectors for _ in range(2))
    assert torch.equal(first, second) and not first.requires_grad
    assert inserted.model.encoder.training  # type: ignore[union-attr]


def test_progress_counts_the_texts(encoder: Encoder, inserted: InsertedLayer, items: list[Item]) -> None:
    reports: list[tuple[int, int]] = []
    embed(inserted, items, pad=encoder.pad_id, progress=lambda done, total: reports.append((done, total)))
    assert reports == [(64, 144), (128, 144), (144, 144)]


def test_cached_features_come_back_to_the_bit_and_are_made_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, Features]:
        calls.append(1)
        return features()

    first, second = (cached_features(tmp_path / "f.safetensors", "key", make)["train"] for _ in range(2))
    assert calls == [1]
    assert torch.equal(first.vectors, second.vectors) and torch.equal(first.labels, second.labels)
    assert [path.name for path in tmp_path.iterdir()] == ["f.safetensors"]


def test_another_key_or_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    cached_features(path, "one", lambda: features(0))
    other = cached_features(path, "two", lambda: features(1))["train"]
    assert torch.equal(other.vectors, features(1)["train"].vectors)
    path.write_bytes(path.read_bytes()[:50])
    again = cached_features(path, "two", lambda: features(2))["train"]
    assert torch.equal(again.vectors, features(2)["train"].vectors)


def test_a_failure_while_embedding_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        cached_features(tmp_path / "f.safetensors", "key", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert list(tmp_path.iterdir()) == []


def test_the_key_depends_on_weights_texts_targets_and_splits(encoder: Encoder, items: list[Item]) -> None:
    key = features_key(encoder.fingerprint(), {"train": items})
    assert key == features_key(encoder.fingerprint(), {"train": list(items)})
    changed = [replace(items[0], targets=[7.0]), *items[1:]]
    others = [
        features_key(encoder.fingerprint(), {"train": changed}),
        features_key(encoder.fingerprint(), {"dev": items}),
        features_key(encoder.fingerprint(), {"train": items[:-1]}),
    ]
    with torch.no_grad():
        next(encoder.module.parameters()).view(-1)[0] += 1
    others.append(features_key(encoder.fingerprint(), {"train": items}))
    assert len({key, *others}) == 5
    assert np.all([len(each) == 64 for each in others])
