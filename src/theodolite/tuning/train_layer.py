"""Train an Isotropy Layer in its place between a frozen encoder and its head: on kept vectors, or through the encoder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from theodolite.tuning.balance import Balance, JointLoss
from theodolite.tuning.batches import Item, collate
from theodolite.tuning.frozen_features import Features
from theodolite.tuning.insert import Inserted, freeze
from theodolite.tuning.isoscore_loss import iso_score
from theodolite.tuning.layer_settings import LayerSettings
from theodolite.tuning.trainers import Diverged

Score = Callable[[torch.Tensor, torch.Tensor], float]
"""The task's score of (labels, logits)."""
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Source(Protocol):
    """Rows to train on: the task's loss and the layer's output for any of them."""

    def __len__(self) -> int: ...

    def __call__(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...


@dataclass(frozen=True, eq=False)
class Kept:
    """Vectors that are there already: a step costs what layer and head cost."""

    put: Inserted
    features: Features

    def __len__(self) -> int:
        return len(self.features)

    def __call__(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with self.put.outputs() as seen:
            made = self.put.forward(self.features.vectors[rows], self.features.labels[rows])
        return made["loss"], seen[-1]


@dataclass(frozen=True, eq=False)
class Through:
    """Texts that go through the frozen encoder at every step: the same training, many times slower."""

    put: Inserted
    items: Sequence[Item]
    pad: int
    regression: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def __call__(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch = collate([self.items[row] for row in rows.tolist()], pad=self.pad, regression=self.regression)
        device = next(self.put.model.parameters()).device
        with self.put.outputs() as seen:
            made: Any = self.put.model(**{name: tensor.to(device) for name, tensor in batch.items()})
        return made["loss"], seen[-1]


@dataclass(frozen=True)
class Epoch:
    """One pass over the training rows: what trained, the mean losses, and score and IsoScore on the validation rows."""

    number: int
    trained: str
    loss: float
    task_loss: float
    score: float
    iso_score: float

    @property
    def rank(self) -> tuple[float, float]:
        # A score that is not defined is worse than any.
        return (self.score if self.score == self.score else float("-inf"), self.iso_score)


@dataclass(frozen=True)
class Trained:
    """A training of a layer: every pass, the one whose weights were kept, and how long it took."""

    epochs: tuple[Epoch, ...]
    best: Epoch
    seconds: float
    steps: int


def train_layer(
    put: Inserted,
    train: Source,
    validation: Features,
    score: Score,
    settings: LayerSettings,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Train the layer of `put` in place as the settings say; encoder and head stay as they are, to the bit, unless asked.

    The model is in evaluation mode throughout: what is frozen has no dropout. `seed` gives the order of the rows. A loss that is
    no number raises `Diverged`.
    """
    if len(train) < settings.batch_size:
        raise ValueError(f"there are {len(train)} rows to train the layer on, fewer than one batch of {settings.batch_size}")
    put.model.eval()
    freeze(put.model, head=settings.trains == "layer")
    learning = [parameter for parameter in put.model.parameters() if parameter.requires_grad]
    run = _Running(put, train, validation, score, settings, torch.Generator().manual_seed(seed), learning, progress)
    start = time.perf_counter()
    if settings.trains == "alternate":
        _alternate(run)
    else:
        run.train("layer" if settings.trains == "layer" else "layer and head", run.joint())
    run.restore()
    assert run.best is not None
    return Trained(tuple(run.epochs), run.best, time.perf_counter() - start, run.steps)


def _alternate(run: _Running) -> None:
    """The layer by the joint loss, then the head by the task's alone, and again until neither finds a better validation score."""
    while True:
        before = run.best
        for part in ("layer", "head"):
            freeze(run.put.model, head=part == "layer")
            run.put.layer.requires_grad_(part == "layer")
            run.train(part, run.joint() if part == "layer" else lambda task, _: task)
            run.restore()
        assert run.best is not None
        if before is not None and run.best.score <= before.score:
            break
    run.put.layer.requires_grad_(True)


@dataclass(eq=False)
class _Running:
    put: Inserted
    source: Source
    validation: Features
    score: Score
    settings: LayerSettings
    random: torch.Generator
    learning: list[nn.Parameter]
    """Whatever trains at some time."""
    progress: Callable[[int, int], None] | None
    epochs: list[Epoch] = field(default_factory=list)
    best: Epoch | None = None
    steps: int = 0
    _weights: list[torch.Tensor] = field(default_factory=list)

    def joint(self) -> nn.Module:
        return JointLoss(Balance(**self.settings.of_balance()), corrected=self.settings.corrected)

    def train(self, what: str, loss: Loss) -> None:
        """Passes until the validation score has not risen for `patience` of them; the best of all weights are remembered."""
        parameters = [parameter for parameter in self.learning if parameter.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=self.settings.learning_rate, weight_decay=0.0)
        waited, best = 0, None
        for number in range(1, self.settings.epochs + 1):
            epoch = self._judged(what, *self._pass(optimizer, loss))
            self.epochs.append(epoch)
            if best is None or epoch.rank > best.rank:
                waited = waited + 1 if best is not None and epoch.score == best.score else 0
                best = epoch
            else:
                waited += 1
            if self.best is None or epoch.rank > self.best.rank:
                self.best, self._weights = epoch, [parameter.detach().clone() for parameter in self.learning]
            if self.progress is not None:
                self.progress(number, self.settings.epochs)
            if waited >= self.settings.patience:
                break

    def restore(self) -> None:
        """Back to the best weights."""
        with torch.no_grad():
            for parameter, weights in zip(self.learning, self._weights, strict=True):
                parameter.copy_(weights)

    def _pass(self, optimizer: torch.optim.Optimizer, loss: Loss) -> tuple[float, float]:
        sums, device = [0.0, 0.0], self.validation.vectors.device
        batches = list(in_batches(len(self.source), self.settings.batch_size, self.random))
        for rows in batches:
            task, X = self.source(rows.to(device))
            total = loss(task, X)
            if not bool(torch.isfinite(total)):
                raise Diverged(
                    f"the layer's loss is {total.item()} (the task's {task.item()}) at step {self.steps + 1} with learning rate "
                    f"{self.settings.learning_rate:g}: the training has diverged; use a lower learning rate"
                )
            optimizer.zero_grad(set_to_none=True)
            total.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            self.steps += 1
            sums = [sums[0] + total.item(), sums[1] + task.item()]
        return sums[0] / len(batches), sums[1] / len(batches)

    @torch.no_grad()
    def _judged(self, what: str, loss: float, task_loss: float) -> Epoch:
        with self.put.outputs() as seen:
            logits = self.put.forward(self.validation.vectors)["logits"]
        value = self.score(self.validation.labels, logits)
        return Epoch(len(self.epochs) + 1, what, loss, task_loss, value, float(iso_score(seen[-1])))


def in_batches(n: int, size: int, random: torch.Generator) -> Iterator[torch.Tensor]:
    """All rows in random order, `size` at a time; a last batch of less than half goes to the one before it."""
    order = torch.randperm(n, generator=random)
    count = max(1, n // size + (1 if 2 * (n % size) >= size else 0))
    for number in range(count):
        yield order[number * size : n if number == count - 1 else (number + 1) * size]
