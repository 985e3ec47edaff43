"""Vectors that were embedded once are the encoder's own, in the order given, kept whole and only for what they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning.batches import Item, text_items  # noqa: E402
from theodolite.tuning.frozen_features import Features, embed, kept, key_of  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.insert import Inserted, insert  # noqa: E402


@pytest.fixture
def encoder(tiny_bert: str) -> Encoder:
    return Encoder.load(tiny_bert, device="cpu")


@pytest.fixture
def put(encoder: Encoder) -> Inserted:
    return insert(LinearHead(encoder.module, 2), torch.nn.Identity())


@pytest.fixture
def items(encoder: Encoder, moods: Any) -> list[Item]:
    dev = load_task(moods, "dev")
    # Texts of many lengths, so that the order in which they are read is not the order given.
    texts = [text if i % 3 else f"{text} {text}" for i, text in enumerate(dev.texts)] * 3
    targets = list(range(len(texts)))
    return text_items(texts, None, targets, encoder.tokenizer, unit="cls", max_length=64)


def features(seed: int = 0, n: int = 5) -> dict[str, Features]:
    random = torch.Generator().manual_seed(seed)
    return {"train": Features(torch.randn(n, 4, generator=random), torch.arange(n).unsqueeze(1))}


def test_every_row_is_the_encoders_cls_vector_of_its_text_alone(encoder: Encoder, put: Inserted, items: list[Item]) -> None:
    found = embed(put, items, pad=encoder.pad_id)
    assert found.vectors.shape == (len(items), 32)
    assert found.labels[:, 0].tolist() == list(range(len(items)))
    for i in range(0, len(items), 17):
        ids = torch.tensor([items[i].ids])
        alone = encoder.hidden_states(ids, torch.ones_like(ids))[-1][0, 0]
        torch.testing.assert_close(found.vectors[i], alone, atol=1e-5, rtol=1e-5)


def test_dropout_has_no_say_and_the_mode_is_put_back(encoder: Encoder, put: Inserted, items: list[Item]) -> None:
    put.model.train()
    first, second = (embed(put, items, pad=encoder.pad_id).vectors for _ in range(2))
    assert torch.equal(first, second) and not first.requires_grad
    assert put.model.encoder.training  # type: ignore[union-attr]


def test_progress_counts_the_texts(encoder: Encoder, put: Inserted, items: list[Item]) -> None:
    seen: list[tuple[int, int]] = []
    embed(put, items, pad=encoder.pad_id, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(64, 144), (128, 144), (144, 144)]


def test_what_is_kept_comes_back_to_the_bit_and_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, Features]:
        made.append(1)
        return features()

    first, second = (kept(tmp_path / "f.safetensors", "key", make)["train"] for _ in range(2))
    assert made == [1]
    assert torch.equal(first.vectors, second.vectors) and torch.equal(first.labels, second.labels)
    assert [path.name for path in tmp_path.iterdir()] == ["f.safetensors"]


def test_another_key_or_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    kept(path, "one", lambda: features(0))
    other = kept(path, "two", lambda: features(1))["train"]
    assert torch.equal(other.vectors, features(1)["train"].vectors)
    path.write_bytes(path.read_bytes()[:50])
    again = kept(path, "two", lambda: features(2))["train"]
    assert torch.equal(again.vectors, features(2)["train"].vectors)


def test_a_failure_while_embedding_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "f.safetensors", "key", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert list(tmp_path.iterdir()) == []


def test_the_key_knows_weights_texts_targets_and_splits(encoder: Encoder, items: list[Item]) -> None:
    key = key_of(encoder.fingerprint(), {"train": items})
    assert key == key_of(encoder.fingerprint(), {"train": list(items)})
    changed = [Item(items[0].ids, items[0].types, items[0].spots, [7.0]), *items[1:]]
    others = [
        key_of(encoder.fingerprint(), {"train": changed}),
        key_of(encoder.fingerprint(), {"dev": items}),
        key_of(encoder.fingerprint(), {"train": items[:-1]}),
    ]
    with torch.no_grad():
        next(encoder.module.parameters()).view(-1)[0] += 1
    others.append(key_of(encoder.fingerprint(), {"train": items}))
    assert len({key, *others}) == 5
    assert np.all([len(each) == 64 for each in others])
