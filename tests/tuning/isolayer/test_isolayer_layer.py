"""The Isotropy Layer: nothing changes until it is trained, and then nothing but the layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer  # noqa: E402

from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.isolayer.insertion import freeze, insert_layer  # noqa: E402
from theodolite.tuning.isolayer.layer import IsotropyLayer  # noqa: E402
from theodolite.tuning.isolayer.loss import JointLoss, iso_score, isotropy_loss  # noqa: E402

TEXTS = ["the fine dog sees a cat .", "the awful dog likes a river", "a book", "the grim tree keeps a song . the cat"]
KINDS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"depth": 3},
    {"orthogonal": True},
    {"orthogonal": True, "depth": 2},
    *({"activation": name, "depth": depth} for name in ("relu", "tanh", "gelu") for depth in (1, 2)),
]


def cloud(n: int = 100, d: int = 6) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0)) * torch.arange(1, d + 1) + 2


def trained(layer: IsotropyLayer, loss: Callable[[torch.Tensor], torch.Tensor], steps: int = 30) -> IsotropyLayer:
    descent = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(steps):
        descent.zero_grad()
        loss(layer(cloud())).backward()
        descent.step()
    return layer


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_layer_is_exactly_the_identity(kind: dict[str, Any]) -> None:
    X = cloud()
    assert torch.equal(IsotropyLayer(6, **kind)(X), X)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.get("orthogonal")])
def test_every_layer_but_a_rotation_learns_isotropy(kind: dict[str, Any]) -> None:
    layer = trained(IsotropyLayer(6, **kind), isotropy_loss)
    assert float(isotropy_loss(layer(cloud()).detach())) < float(isotropy_loss(cloud())) - 0.05


@pytest.mark.parametrize("depth", [1, 2])
def test_an_orthogonal_layer_stays_one_and_leaves_iso_score_alone(depth: int) -> None:
    layer = trained(IsotropyLayer(6, orthogonal=True, depth=depth), lambda X: (X - cloud().flip(1)).square().mean())
    weight, _ = layer.affine()
    assert not torch.allclose(weight, torch.eye(6), atol=0.05)
    torch.testing.assert_close(weight @ weight.T, torch.eye(6), rtol=0, atol=1e-5)
    assert float(iso_score(layer(cloud()).detach())) == pytest.approx(float(iso_score(cloud())), rel=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "activation" not in kind])
def test_a_linear_layer_is_one_matrix_and_a_bias(kind: dict[str, Any]) -> None:
    layer = trained(IsotropyLayer(6, **kind), lambda X: (X - cloud().flip(1)).square().mean())
    weight, bias = layer.affine()
    torch.testing.assert_close(torch.nn.functional.linear(cloud(), weight, bias), layer(cloud()).detach(), rtol=1e-4, atol=1e-4)
    assert bool(bias.any()) == kind.get("bias", True)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_and_state_make_the_layer_again(kind: dict[str, Any]) -> None:
    layer = trained(IsotropyLayer(6, **kind), lambda X: (X - cloud().flip(1)).square().mean(), steps=5)
    again = IsotropyLayer(**layer.settings)
    again.load_state_dict(layer.state_dict())
    assert not torch.equal(layer(cloud()), cloud())
    torch.testing.assert_close(again(cloud()), layer(cloud()), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"depth": 0}, "depth=0 must be at least 1"),
        ({"activation": "sine"}, "activation='sine' must be one of identity, relu, tanh, gelu"),
        ({"activation": "relu", "orthogonal": True}, "not a rotation"),
    ],
)
def test_wrong_options_are_errors(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IsotropyLayer(6, **wrong)


def test_a_nonlinear_layer_is_not_one_matrix() -> None:
    with pytest.raises(ValueError, match="activation='tanh' is not one matrix"):
        IsotropyLayer(6, activation="tanh").affine()


@pytest.fixture(params=["tiny_bert", "tiny_roberta"])
def folder(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.mark.parametrize("at", ["before_pooler", "after_pooler"])
@pytest.mark.parametrize("kind", [{}, {"orthogonal": True}, {"activation": "gelu", "depth": 2}])
def test_an_identity_layer_leaves_the_model_unchanged(folder: str, kind: dict[str, Any], at: Any) -> None:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    batch = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        before = model(**batch).logits
        inserted = insert_layer(model, IsotropyLayer(32, **kind), at=at)
        torch.testing.assert_close(model(**batch).logits, before, rtol=0, atol=1e-6)
        inserted.remove()
        assert torch.equal(model(**batch).logits, before)


@pytest.mark.parametrize("own", [True, False], ids=["linear head", "transformers"])
def test_frozen_parameters_are_bit_identical_after_training(folder: str, own: bool) -> None:
    torch.manual_seed(0)
    if own:
        model: Any = LinearHead(AutoModel.from_pretrained(folder), 2)
    else:
        model = AutoModelForSequenceClassification.from_pretrained(folder)
    batch = dict(AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt"))
    batch["labels"] = torch.tensor([0, 1, 0, 1])
    if own:
        batch["spots"] = torch.zeros(4, 1, 1, batch["input_ids"].shape[1])
        batch["spots"][..., 0] = 1
        batch["labels"] = batch["labels"].unsqueeze(1)
    layer = IsotropyLayer(32)
    inserted = insert_layer(model, layer)
    freeze(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    joint = JointLoss(corrected=True)
    # Weight decay would move whatever is not frozen, with or without a gradient.
    descent = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.1)
    model.eval()
    for _ in range(3):
        descent.zero_grad()
        with inserted.outputs() as outputs:
            task = model(**batch)["loss"]
        joint(task, outputs[-1]).backward()
        descent.step()
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if ".inserted." in name}
    assert len(moved) == 2
