"""The Isotropy Layer (IL23): a small map of the embedding space onto itself, trained on vectors that were computed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal as keep_orthogonal

from theodolite.core.parallel import Progress
from theodolite.tuning.heads import Features, LinearHead
from theodolite.tuning.regularisers import Balance, JointLoss, iso_score
from theodolite.tuning.settings import Activation, LayerSettings
from theodolite.tuning.trainers import Diverged

# The task's score of (labels, logits).
Score: TypeAlias = Callable[[torch.Tensor, torch.Tensor], float]

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


class IsotropyLayer(nn.Module):
    """A feed-forward layer d → d (IL23) that is exactly the identity until it is trained.

    The paper gives neither activation, bias nor initial weights. By default the layer is one linear map W x + b that starts at
    W = I, b = 0. With an `activation` it is x + V f(W x + b) with V = 0 at the start: the only form that is the identity at
    first and still learns whatever f is (relu's gradient at 0 is 0).

    Parameters
    ----------
    d
        Dimension of the vectors.
    depth
        How many maps follow each other, at least 1. A stack of linear maps is one linear map: without an activation, depth
        changes how it is learnt, not what it can be.
    bias
        Whether there is a b.
    activation
        "identity" (none), "relu", "tanh" or "gelu".
    orthogonal
        Whether W stays a rotation (Cayley's parametrisation), which keeps distances and angles. IsoScore does not change under
        rotations, so such a layer learns from the task's loss alone.
    """

    def __init__(
        self, d: int, *, depth: int = 1, bias: bool = True, activation: Activation = "identity", orthogonal: bool = False
    ) -> None:
        super().__init__()
        for name, value in (("d", d), ("depth", depth)):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        if activation not in get_args(Activation):
            raise ValueError(f"activation={activation!r} must be one of {', '.join(get_args(Activation))}")
        if orthogonal and activation != "identity":
            raise ValueError(f"a layer with activation={activation!r} is not a rotation; leave out orthogonal or the activation")
        self.settings: dict[str, Any] = {"d": d, "depth": depth, "bias": bias, "activation": activation, "orthogonal": orthogonal}
        self.layers = nn.Sequential(*(self._block() for _ in range(depth)))

    def _block(self) -> nn.Module:
        d, bias, activation = self.settings["d"], self.settings["bias"], self.settings["activation"]
        linear = nn.Linear(d, d, bias=bias)
        nn.init.eye_(linear.weight)
        if bias:
            nn.init.zeros_(linear.bias)
        if activation != "identity":
            return _Residual(linear, _ACTIVATIONS[activation](), d)
        return keep_orthogonal(linear, orthogonal_map="cayley") if self.settings["orthogonal"] else linear

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The mapped vectors (rows, d)."""
        mapped: torch.Tensor = self.layers(X)
        return mapped

    @torch.no_grad()
    def affine(self) -> tuple[torch.Tensor, torch.Tensor]:
        """W and b of the whole layer as one map x Wᵀ + b; an error if it has an activation."""
        if self.settings["activation"] != "identity":
            raise ValueError(f"a layer with activation={self.settings['activation']!r} is not one matrix and a bias")
        first = next(self.parameters())
        weight = torch.eye(self.settings["d"], dtype=torch.float64, device=first.device)
        bias = torch.zeros_like(weight[0])
        linear: Any
        for linear in self.layers:
            own_weight = linear.weight.to(weight.dtype)
            weight = own_weight @ weight
            bias = own_weight @ bias + (0 if linear.bias is None else linear.bias)
        return weight.to(first.dtype), bias.to(first.dtype)


class _Residual(nn.Module):
    """x + V f(W x + b), with V = 0 at the start."""

    def __init__(self, inner: nn.Linear, activation: nn.Module, d: int) -> None:
        super().__init__()
        self.inner, self.activation = inner, activation
        self.outer = nn.Linear(d, d, bias=False)
        nn.init.zeros_(self.outer.weight)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        mapped: torch.Tensor = X + self.outer(self.activation(self.inner(X)))
        return mapped


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
    model: LinearHead,
    train: Features,
    validation: Features,
    score: Score,
    settings: LayerSettings,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainedLayer:
    """Train a model's layer in place. Encoder and head stay as they are, to the bit, unless `settings` train the head too.

    The model is in evaluation mode throughout: what is frozen has no dropout.
    """
    n = len(train.vectors)
    if n < settings.batch_size:
        raise ValueError(f"{n} rows are fewer than a batch of {settings.batch_size}; lower the layer's batch_size")
    assert model.layer is not None
    # Dropout in a frozen encoder would be noise: the stored vectors have none, so the head has none either.
    model.eval().requires_grad_(False)
    training = _Training(model, model.layer, train, validation, score, settings, torch.Generator().manual_seed(seed), progress)
    start = time.perf_counter()
    if settings.trains == "alternate":
        training.alternate()
    else:
        training.run("layer" if settings.trains == "layer" else "layer and head")
    model.layer.requires_grad_(True)
    assert training.best is not None
    return TrainedLayer(tuple(training.epochs), training.best, time.perf_counter() - start, training.steps)


def random_batches(n: int, size: int, random: torch.Generator) -> Iterator[torch.Tensor]:
    """Row numbers in random order, `size` at a time; a last batch of less than half that size joins the one before it."""
    order = torch.randperm(n, generator=random)
    # The IsoScore of a very small batch is mostly noise.
    count = max(1, n // size + (1 if 2 * (n % size) >= size else 0))
    for number in range(count):
        yield order[number * size : n if number == count - 1 else (number + 1) * size]


@dataclass(eq=False)
class _Training:
    model: LinearHead
    layer: nn.Module
    train: Features
    validation: Features
    score: Score
    settings: LayerSettings
    random: torch.Generator
    progress: Progress | None
    epochs: list[Epoch] = field(default_factory=list)
    best: Epoch | None = None
    steps: int = 0
    _best_weights: list[tuple[nn.Parameter, torch.Tensor]] = field(default_factory=list)

    def alternate(self) -> None:
        """The layer by the joint loss, then the head by the task's alone, again and again until neither improves the score."""
        while True:
            before = self.best
            self.run("layer")
            self.run("head")
            assert self.best is not None
            if before is not None and self.best.score <= before.score:
                break

    def run(self, trained: str) -> None:
        """Train layer, head or both until the validation score stops rising for `patience` epochs; the best weights are kept."""
        settings = self.settings
        self.layer.requires_grad_("layer" in trained)
        self.model.head.requires_grad_("head" in trained)
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=0.0)
        joint = None if trained == "head" else JointLoss(Balance(**settings.of_balance), corrected=settings.corrected)
        waited, best = 0, None
        for number in range(1, settings.epochs + 1):
            epoch = self._validated(trained, *self._one_epoch(optimizer, joint))
            self.epochs.append(epoch)
            if best is None or epoch.rank > best.rank:
                # The same score with a higher IsoScore is better, but it is not a reason to wait longer.
                waited = waited + 1 if best is not None and epoch.score == best.score else 0
                best = epoch
            else:
                waited += 1
            if self.best is None or epoch.rank > self.best.rank:
                trainable = [*self.layer.parameters(), *self.model.head.parameters()]
                self.best, self._best_weights = epoch, [(parameter, parameter.detach().clone()) for parameter in trainable]
            if self.progress is not None:
                self.progress(number, settings.epochs)
            if waited >= settings.patience:
                break
        with torch.no_grad():
            for parameter, weights in self._best_weights:
                parameter.copy_(weights)

    def _one_epoch(self, optimizer: torch.optim.Optimizer, joint: JointLoss | None) -> tuple[float, float]:
        """The mean losses (joint, the task's) of one pass; without a joint loss, the task's alone trains."""
        sums, device = [0.0, 0.0], self.validation.vectors.device
        batches = list(random_batches(len(self.train.vectors), self.settings.batch_size, self.random))
        for rows in batches:
            task, X = _task_loss(self.model, self.train, rows.to(device))
            total = task if joint is None else joint(task, X)
            if not bool(torch.isfinite(total)):
                raise Diverged(
                    f"the layer's loss is {total.item()} (the task's {task.item()}) at step {self.steps + 1} with learning rate "
                    f"{self.settings.learning_rate:g}: the training has diverged; use a lower learning rate"
                )
            optimizer.zero_grad(set_to_none=True)
            total.backward()
            optimizer.step()
            self.steps += 1
            sums = [sums[0] + total.item(), sums[1] + task.item()]
        return sums[0] / len(batches), sums[1] / len(batches)

    @torch.no_grad()
    def _validated(self, trained: str, loss: float, task_loss: float) -> Epoch:
        X = self.layer(self.validation.vectors)
        score = self.score(self.validation.labels, self.model.answer(X.unsqueeze(1))["logits"])
        return Epoch(len(self.epochs) + 1, trained, loss, task_loss, score, float(iso_score(X)))


def _task_loss(model: LinearHead, features: Features, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The task's loss of some rows, and the layer's output for them."""
    assert model.layer is not None
    X = model.layer(features.vectors[rows])
    return model.answer(X.unsqueeze(1), features.labels[rows])["loss"], X
