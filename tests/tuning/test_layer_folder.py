"""A model of transformers with a layer is saved and loaded to the same outputs, and to the plain ones without the layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
transformers = pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.insert import insert  # noqa: E402
from theodolite.tuning.isobn import IsoBN  # noqa: E402
from theodolite.tuning.isotropy_layer import IsotropyLayer  # noqa: E402
from theodolite.tuning.layer_folder import from_pretrained, save_pretrained  # noqa: E402

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
    put = insert(model, trained(kind), at=at)
    changed = model(IDS).logits
    assert not torch.allclose(plain, changed)
    save_pretrained(put, tmp_path / "model", at=at)
    assert torch.equal(from_pretrained(tmp_path / "model").model(IDS).logits, changed)
    assert torch.equal(model(IDS).logits, changed)  # saving has changed nothing
    alone = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    assert torch.equal(alone(IDS).logits, plain)


def test_what_cannot_be_saved_or_read_leaves_nothing(tmp_path: Path) -> None:
    put = insert(classifier("Bert"), torch.nn.Identity())
    with pytest.raises(ValueError, match="Identity cannot be saved"):
        save_pretrained(put, tmp_path / "model")
    head = insert(LinearHead(classifier("Bert").bert, 2), IsotropyLayer(16))
    with pytest.raises(ValueError, match="TunedClassifier"):
        save_pretrained(head, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"no layer\.json"):
        from_pretrained(tmp_path)
    put.remove()
    put = insert(put.model, IsotropyLayer(16))
    with pytest.raises(FileExistsError, match="overwrite"):
        save_pretrained(put, tmp_path)
