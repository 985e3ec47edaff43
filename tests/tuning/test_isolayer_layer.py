"""The Isotropy Layer: nothing changes until it is trained, and then nothing but the layer; stored vectors train it the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.metrics import isoscore as metric  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.tokens import text_inputs  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import LayerSettings  # noqa: E402
from theodolite.tuning import isotropy_layer as isolayer  # noqa: E402
from theodolite.tuning.heads import Features, LinearHead, TextDataset, embed  # noqa: E402
from theodolite.tuning.isotropy_layer import IsotropyLayer, random_batches, train_layer  # noqa: E402
from theodolite.tuning.regularisers import CeilingWarning, iso_score, isotropy_loss  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402

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


SHORT = LayerSettings(learning_rate=1e-2, batch_size=16, epochs=3)


def accuracy(labels: torch.Tensor, logits: torch.Tensor) -> float:
    return float((logits[:, 0].argmax(-1) == labels[:, 0]).float().mean())


def error(labels: torch.Tensor, logits: torch.Tensor) -> float:
    return -float((logits[:, 0, 0] - labels[:, 0]).square().mean())


class Bench:
    """A random encoder and head with a layer, and the toy task's rows both as texts and as vectors."""

    def __init__(self, folder: str, moods: Any, layer: IsotropyLayer | None = None, *, regression: bool = False) -> None:
        torch.manual_seed(3)
        encoder = Encoder.load(folder, device="cpu")
        self.model = LinearHead(encoder.module, 1 if regression else 2, regression=regression)
        torch.nn.init.normal_(self.model.head.weight)
        self.layer = layer or IsotropyLayer(32)
        self.model.layer, self.regression = self.layer, regression
        train = load_task(moods, "train")
        targets = train.label_ids(["bad", "good"]).astype(float if regression else int)
        self.dataset = TextDataset.of(encoder, text_inputs(train, "cls"), "cls", targets=targets)
        self.features = embed(self.model, self.dataset)

    def train(self, settings: LayerSettings, *, seed: int = 5) -> Any:
        score = error if self.regression else accuracy
        return train_layer(self.model, self.features, self.features, score, settings, seed=seed)

    def loss_through_encoder(self, model: LinearHead, _: Features, rows: torch.Tensor) -> tuple[Any, Any]:
        """What the training takes from stored vectors, by sending the texts through the frozen encoder instead."""
        outputs: list[torch.Tensor] = []
        handle = self.layer.register_forward_hook(lambda _layer, _inputs, output: outputs.append(output))
        loss = model(**self.dataset.__getitems__(rows.tolist()))["loss"]
        handle.remove()
        return loss, outputs[-1]


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("trains", ["layer", "alternate", "joint"])
def test_training_on_stored_vectors_is_training_through_the_frozen_model(
    tiny_bert: str, moods: Any, trains: Any, regression: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    benches = [Bench(tiny_bert, moods, regression=regression) for _ in range(2)]
    settings = replace(SHORT, trains=trains, epochs=2)
    stored = benches[0].train(settings)
    monkeypatch.setattr(isolayer, "_task_loss", benches[1].loss_through_encoder)
    through = benches[1].train(settings)
    assert stored.steps == through.steps >= 12
    first, second = (bench.model.state_dict() for bench in benches)
    for name in first:
        torch.testing.assert_close(first[name], second[name], atol=1e-5, rtol=1e-5)
    assert [e.loss for e in stored.epochs] == pytest.approx([e.loss for e in through.epochs], abs=1e-5)
    moved = (benches[0].layer.affine()[0] - torch.eye(32)).abs().max()
    assert moved > 1e-2


@pytest.mark.parametrize("trains", ["layer", "alternate", "joint"])
def test_what_is_frozen_stays_to_the_bit(tiny_bert: str, moods: Any, trains: Any) -> None:
    bench = Bench(tiny_bert, moods)
    before = copy.deepcopy(bench.model.state_dict())
    bench.train(replace(SHORT, trains=trains))
    changed = {name for name, tensor in bench.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert {name for name in changed if name.startswith("layer.")} == {"layer.layers.0.weight", "layer.layers.0.bias"}
    rest = {name for name in changed if not name.startswith("layer.")}
    # Alternating keeps what was best, which may be from before the head learnt.
    assert rest == (set() if trains == "layer" else {"head.weight", "head.bias"}) or (trains == "alternate" and not rest)


def test_the_same_seed_gives_the_same_layer_and_another_does_not(tiny_bert: str, moods: Any) -> None:
    weights = []
    for seed in (1, 1, 2):
        bench = Bench(tiny_bert, moods)
        torch.manual_seed(len(weights))  # the global state has no say
        bench.train(SHORT, seed=seed)
        weights.append(bench.layer.affine()[0])
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_isotropy_alone_raises_iso_score_more_than_the_task_alone(tiny_bert: str, moods: Any) -> None:
    scores = {}
    for alpha in (0.0, 1.0):
        bench = Bench(tiny_bert, moods)
        start = metric.iso_score(bench.features.vectors.numpy())
        bench.train(replace(SHORT, alpha=alpha, epochs=20, patience=20, balanced=False))
        scores[alpha] = metric.iso_score(bench.layer(bench.features.vectors).detach().numpy())
    assert scores[0.0] > 1.5 * start
    assert scores[1.0] < scores[0.0]


def test_the_best_epoch_on_the_validation_rows_is_kept(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    scores = iter([0.5, 0.9, 0.9, 0.7, 0.7, 0.7])
    weights: list[Any] = []

    def score(_: torch.Tensor, __: torch.Tensor) -> float:
        weights.append(bench.layer.affine()[0])
        return next(scores)

    settings = replace(SHORT, epochs=50, patience=3)
    trained = train_layer(bench.model, bench.features, bench.features, score, settings)
    # Of the two equal ones that with the higher IsoScore; the second is more isotropic after one more pass.
    assert [epoch.score for epoch in trained.epochs] == [0.5, 0.9, 0.9, 0.7, 0.7]
    assert trained.best.number == max((2, 3), key=lambda n: trained.epochs[n - 1].iso_score)
    assert torch.equal(bench.layer.affine()[0], weights[trained.best.number - 1])


def test_alternating_ends_when_neither_finds_a_better_score(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    trained = bench.train(replace(SHORT, trains="alternate", epochs=4, patience=2))
    parts = [epoch.trained for epoch in trained.epochs]
    rounds = 1 + sum(1 for before, after in pairwise(parts) if (before, after) == ("head", "layer"))
    assert rounds >= 2 and parts[0] == "layer" and parts[-1] == "head"
    assert trained.best.score == max(epoch.score for epoch in trained.epochs)
    last = [epoch.score for epoch in trained.epochs[len(parts) - 1 - parts[::-1].index("layer") :]]
    assert max(last) <= trained.best.score


def test_all_rows_are_in_batches_once_and_none_is_short() -> None:
    for n, size in ((100, 32), (97, 32), (64, 32), (33, 32), (48, 32), (5, 5)):
        batches = list(random_batches(n, size, torch.Generator().manual_seed(0)))
        assert sorted(torch.cat(batches).tolist()) == list(range(n))
        assert all(size / 2 <= len(rows) < 1.5 * size for rows in batches)


def test_a_small_batch_without_correction_is_warned_of_with_its_ceiling(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    with pytest.warns(CeilingWarning, match="16 rows in 32 dimensions"):
        bench.train(replace(SHORT, corrected=False, epochs=1))


def test_a_loss_that_is_not_a_number_raises_diverged(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    broken = Features(torch.where(torch.arange(32) == 3, torch.nan, bench.features.vectors), bench.features.labels)
    with pytest.raises(Diverged, match=r"step 1 with learning rate 0\.01"):
        train_layer(bench.model, broken, bench.features, accuracy, SHORT)


def test_fewer_rows_than_a_batch_are_an_error(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    with pytest.raises(ValueError, match="96 rows"):
        bench.train(replace(SHORT, batch_size=128))
