"""Training a layer on stored vectors is training it through the frozen model; what is frozen stays, to the bit."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.metrics.isoscore import iso_score  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.tokens import text_inputs  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import LayerSettings  # noqa: E402
from theodolite.tuning.batches import collate, make_items  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.isolayer import training  # noqa: E402
from theodolite.tuning.isolayer.features import Features, embed  # noqa: E402
from theodolite.tuning.isolayer.insertion import InsertedLayer, insert_layer  # noqa: E402
from theodolite.tuning.isolayer.layer import IsotropyLayer  # noqa: E402
from theodolite.tuning.isolayer.loss import CeilingWarning  # noqa: E402
from theodolite.tuning.isolayer.training import random_batches, train_layer  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402

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
        self.inserted: InsertedLayer = insert_layer(self.model, layer or IsotropyLayer(32), tokenizer=encoder.tokenizer)
        train = load_task(moods, "train")
        self.pad, self.regression = encoder.pad_id, regression
        targets = train.label_ids(["bad", "good"]).tolist()
        self.items = make_items(encoder, text_inputs(train, "cls"), "cls", targets=targets)
        self.features = embed(self.inserted, self.items, pad=self.pad, regression=regression)

    def train(self, settings: LayerSettings, *, seed: int = 5) -> Any:
        score = error if self.regression else accuracy
        return train_layer(self.inserted, self.features, self.features, score, settings, seed=seed)

    def loss_through_encoder(self, inserted: InsertedLayer, _: Features, rows: torch.Tensor) -> tuple[Any, Any]:
        """What the training takes from stored vectors, by sending the texts through the frozen encoder instead."""
        batch = collate([self.items[row] for row in rows.tolist()], pad=self.pad, regression=self.regression)
        with inserted.outputs() as outputs:
            loss = inserted.model(**batch)["loss"]
        return loss, outputs[-1]


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("trains", ["layer", "alternate", "joint"])
def test_training_on_stored_vectors_is_training_through_the_frozen_model(
    tiny_bert: str, moods: Any, trains: Any, regression: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    benches = [Bench(tiny_bert, moods, regression=regression) for _ in range(2)]
    settings = replace(SHORT, trains=trains, epochs=2)
    stored = benches[0].train(settings)
    monkeypatch.setattr(training, "_task_loss", benches[1].loss_through_encoder)
    through = benches[1].train(settings)
    assert stored.steps == through.steps >= 12
    first, second = (bench.model.state_dict() for bench in benches)
    for name in first:
        torch.testing.assert_close(first[name], second[name], atol=1e-5, rtol=1e-5)
    assert [e.loss for e in stored.epochs] == pytest.approx([e.loss for e in through.epochs], abs=1e-5)
    moved = (benches[0].inserted.layer.affine()[0] - torch.eye(32)).abs().max()  # type: ignore[operator]
    assert moved > 1e-2


@pytest.mark.parametrize("trains", ["layer", "alternate", "joint"])
def test_what_is_frozen_stays_to_the_bit(tiny_bert: str, moods: Any, trains: Any) -> None:
    bench = Bench(tiny_bert, moods)
    before = copy.deepcopy(bench.model.state_dict())
    bench.train(replace(SHORT, trains=trains))
    changed = {name for name, tensor in bench.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert {name for name in changed if ".inserted." in name} == {"head.inserted.layers.0.weight", "head.inserted.layers.0.bias"}
    rest = {name for name in changed if ".inserted." not in name}
    # Alternating keeps what was best, which may be from before the head learnt.
    assert rest == (set() if trains == "layer" else {"head.weight", "head.bias"}) or (trains == "alternate" and not rest)


def test_the_same_seed_gives_the_same_layer_and_another_does_not(tiny_bert: str, moods: Any) -> None:
    weights = []
    for seed in (1, 1, 2):
        bench = Bench(tiny_bert, moods)
        torch.manual_seed(len(weights))  # the global state has no say
        bench.train(SHORT, seed=seed)
        weights.append(bench.inserted.layer.affine()[0])  # type: ignore[operator]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_isotropy_alone_raises_iso_score_more_than_the_task_alone(tiny_bert: str, moods: Any) -> None:
    scores = {}
    for alpha in (0.0, 1.0):
        bench = Bench(tiny_bert, moods)
        start = iso_score(bench.features.vectors.numpy())
        bench.train(replace(SHORT, alpha=alpha, epochs=20, patience=20, balanced=False))
        scores[alpha] = iso_score(bench.inserted.layer(bench.features.vectors).detach().numpy())
    assert scores[0.0] > 1.5 * start
    assert scores[1.0] < scores[0.0]


def test_the_best_epoch_on_the_validation_rows_is_kept(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    scores = iter([0.5, 0.9, 0.9, 0.7, 0.7, 0.7])
    weights: list[Any] = []

    def score(_: torch.Tensor, __: torch.Tensor) -> float:
        weights.append(bench.inserted.layer.affine()[0])  # type: ignore[operator]
        return next(scores)

    settings = replace(SHORT, epochs=50, patience=3)
    trained = train_layer(bench.inserted, bench.features, bench.features, score, settings)
    # Of the two equal ones that with the higher IsoScore; the second is more isotropic after one more pass.
    assert [epoch.score for epoch in trained.epochs] == [0.5, 0.9, 0.9, 0.7, 0.7]
    assert trained.best.number == max((2, 3), key=lambda n: trained.epochs[n - 1].iso_score)
    assert torch.equal(bench.inserted.layer.affine()[0], weights[trained.best.number - 1])  # type: ignore[operator]


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
        train_layer(bench.inserted, broken, bench.features, accuracy, SHORT)


def test_fewer_rows_than_a_batch_are_an_error(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    with pytest.raises(ValueError, match="96 rows"):
        bench.train(replace(SHORT, batch_size=128))
