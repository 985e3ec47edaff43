"""Train an Isotropy Layer in its place between a frozen encoder and its head, on vectors that were computed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import nn

from theodolite.models.batches import Progress
from theodolite.tuning.isolayer.features import Features
from theodolite.tuning.isolayer.insertion import InsertedLayer, freeze
from theodolite.tuning.isolayer.loss import Balance, JointLoss, iso_score
from theodolite.tuning.isolayer.settings import LayerSettings
from theodolite.tuning.trainers import Diverged

# The task's score of (labels, logits).
Score: TypeAlias = Callable[[torch.Tensor, torch.Tensor], float]
# The loss to minimise, of the task's loss and the layer's output.
Loss: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


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
        """The score, then the IsoScore; a score that is not defined is worse than any."""
        return (self.score if self.score == self.score else float("-inf"), self.iso_score)


@dataclass(frozen=True)
class TrainedLayer:
    """A layer's training: every epoch, the one whose weights were kept, and how long all of them took."""

    epochs: tuple[Epoch, ...]
    best: Epoch
    seconds: float
    steps: int


def train_layer(
    inserted: InsertedLayer,
    train: Features,
    validation: Features,
    score: Score,
    settings: LayerSettings,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainedLayer:
    """Train an inserted layer in place. Encoder and head stay as they are, to the bit, unless `settings` train the head too.

    The model is in evaluation mode throughout: what is frozen has no dropout.

    Parameters
    ----------
    inserted
        The layer in its model.
    train, validation
        The encoder's vectors to train on, and to choose the best epoch by.
    score
        The task's score of (labels, logits); larger is better.
    settings
        How to train.
    seed
        Seed of the order of the rows.
    progress
        Called with the number of epochs that are done, and the largest number there can be.

    Raises
    ------
    Diverged
        The loss is not a finite number.
    """
    if len(train) < settings.batch_size:
        raise ValueError(
            f"there are {len(train)} rows to train the layer on, fewer than one batch of {settings.batch_size}; "
            "lower the layer's batch_size"
        )
    # Dropout in a frozen encoder would be noise: the stored vectors have none, so the head has none either.
    inserted.model.eval()
    freeze(inserted.model, head=settings.trains == "layer")
    trainable = [parameter for parameter in inserted.model.parameters() if parameter.requires_grad]
    random = torch.Generator().manual_seed(seed)
    training = _Training(inserted, train, validation, score, settings, random, trainable, progress)
    start = time.perf_counter()
    if settings.trains == "alternate":
        _alternate(training)
    else:
        training.run("layer" if settings.trains == "layer" else "layer and head", training.joint_loss())
    training.restore_best()
    assert training.best is not None
    return TrainedLayer(tuple(training.epochs), training.best, time.perf_counter() - start, training.steps)


def random_batches(n: int, size: int, random: torch.Generator) -> Iterator[torch.Tensor]:
    """Row numbers in random order, `size` at a time; a last batch of less than half that size joins the one before it.

    Parameters
    ----------
    n
        Number of rows.
    size
        Rows per batch.
    random
        Source of the order.
    """
    order = torch.randperm(n, generator=random)
    # The IsoScore of a very small batch is mostly noise.
    count = max(1, n // size + (1 if 2 * (n % size) >= size else 0))
    for number in range(count):
        yield order[number * size : n if number == count - 1 else (number + 1) * size]


def _alternate(training: _Training) -> None:
    """The layer by the joint loss, then the head by the task's alone, again and again until neither improves the score."""
    while True:
        before = training.best
        for part in ("layer", "head"):
            freeze(training.inserted.model, head=part == "layer")
            training.inserted.layer.requires_grad_(part == "layer")
            training.run(part, training.joint_loss() if part == "layer" else lambda task, _: task)
            training.restore_best()
        assert training.best is not None
        if before is not None and training.best.score <= before.score:
            break
    training.inserted.layer.requires_grad_(True)


def _task_loss(inserted: InsertedLayer, features: Features, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The task's loss of some rows, and the layer's output for them."""
    with inserted.outputs() as outputs:
        loss = inserted.forward(features.vectors[rows], features.labels[rows])["loss"]
    return loss, outputs[-1]


@dataclass(eq=False)
class _Training:
    inserted: InsertedLayer
    train: Features
    validation: Features
    score: Score
    settings: LayerSettings
    random: torch.Generator
    trainable: list[nn.Parameter]  # whatever trains at some time
    progress: Progress | None
    epochs: list[Epoch] = field(default_factory=list)
    best: Epoch | None = None
    steps: int = 0
    _best_weights: list[torch.Tensor] = field(default_factory=list)

    def joint_loss(self) -> nn.Module:
        return JointLoss(Balance(**self.settings.of_balance), corrected=self.settings.corrected)

    def run(self, part: str, loss: Loss) -> None:
        """Train until the validation score has not risen for `patience` epochs; the best weights of all are remembered."""
        parameters = [parameter for parameter in self.trainable if parameter.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=self.settings.learning_rate, weight_decay=0.0)
        waited, best = 0, None
        for number in range(1, self.settings.epochs + 1):
            epoch = self._validated(part, *self._one_epoch(optimizer, loss))
            self.epochs.append(epoch)
            if best is None or epoch.rank > best.rank:
                # The same score with a higher IsoScore is better, but it is not a reason to wait longer.
                waited = waited + 1 if best is not None and epoch.score == best.score else 0
                best = epoch
            else:
                waited += 1
            if self.best is None or epoch.rank > self.best.rank:
                self.best, self._best_weights = epoch, [parameter.detach().clone() for parameter in self.trainable]
            if self.progress is not None:
                self.progress(number, self.settings.epochs)
            if waited >= self.settings.patience:
                break

    @torch.no_grad()
    def restore_best(self) -> None:
        for parameter, weights in zip(self.trainable, self._best_weights, strict=True):
            parameter.copy_(weights)

    def _one_epoch(self, optimizer: torch.optim.Optimizer, loss: Loss) -> tuple[float, float]:
        """The mean losses (joint, the task's) of one pass."""
        sums, device = [0.0, 0.0], self.validation.vectors.device
        batches = list(random_batches(len(self.train), self.settings.batch_size, self.random))
        for rows in batches:
            task, X = _task_loss(self.inserted, self.train, rows.to(device))
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
    def _validated(self, part: str, loss: float, task_loss: float) -> Epoch:
        with self.inserted.outputs() as outputs:
            logits = self.inserted.forward(self.validation.vectors)["logits"]
        score = self.score(self.validation.labels, logits)
        return Epoch(len(self.epochs) + 1, part, loss, task_loss, score, float(iso_score(outputs[-1])))
