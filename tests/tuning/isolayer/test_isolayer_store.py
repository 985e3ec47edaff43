"""A model of transformers with a layer is saved and loaded to the same outputs, and to the plain ones without the layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
transformers = pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.isobn import IsoBN  # noqa: E402
from theodolite.tuning.isolayer.insertion import insert_layer  # noqa: E402
from theodolite.tuning.isolayer.layer import IsotropyLayer  # noqa: E402
from theodolite.tuning.isolayer.store import load_with_layer, save_with_layer  # noqa: E402

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
IDS = torch.arange(5, 29).view(4, 6)


def classifier(family: str) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES, max_position_embeddings=64, num_labels=3)
    return transformers.AutoModelForSequenceClassification.from_config(config).eval()


def trained(kind: type) -> Any:
    layer = kind(16)
    random = torch.Generator().manual_seed(1)
    if kind is IsoBN:
        layer.train()(torch.randn(32, 16, generator=random) * torch.arange(1, 17))
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=random)
    return layer.eval()


@torch.no_grad()
@pytest.mark.parametrize("at", ["before_pooler", "after_pooler"])
@pytest.mark.parametrize("kind", [IsotropyLayer, IsoBN])
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_the_outputs_come_back_to_the_bit(family: str, kind: type, at: Any, tmp_path: Path) -> None:
    model = classifier(family)
    plain = model(IDS).logits
    inserted = insert_layer(model, trained(kind), at=at)
    changed = model(IDS).logits
    assert not torch.allclose(plain, changed)
    save_with_layer(inserted, tmp_path / "model", at=at)
    assert torch.equal(load_with_layer(tmp_path / "model").model(IDS).logits, changed)
    assert torch.equal(model(IDS).logits, changed)  # saving has changed nothing
    alone = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    assert torch.equal(alone(IDS).logits, plain)


def test_what_cannot_be_saved_or_read_leaves_nothing(tmp_path: Path) -> None:
    inserted = insert_layer(classifier("Bert"), torch.nn.Identity())
    with pytest.raises(ValueError, match="Identity cannot be saved"):
        save_with_layer(inserted, tmp_path / "model")
    head = insert_layer(LinearHead(classifier("Bert").bert, 2), IsotropyLayer(16))
    with pytest.raises(ValueError, match="TunedClassifier"):
        save_with_layer(head, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"no layer\.json"):
        load_with_layer(tmp_path)
    inserted.remove()
    inserted = insert_layer(inserted.model, IsotropyLayer(16))
    with pytest.raises(FileExistsError, match="overwrite"):
        save_with_layer(inserted, tmp_path)
