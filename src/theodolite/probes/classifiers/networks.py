"""Small networks and their training: many as one in torch, or one after the other by scikit-learn, which is the reference.

In torch, networks with the same hidden layers and the same number of rows become one model whose parameters have a leading axis
of networks. Those that also see the same mini-batches (one fold, one seed, many L2 weights) share the product with the input,
which is nearly all of the work: one wide matrix product instead of many narrow ones. Each network takes the steps that
scikit-learn's MLPClassifier takes from the same seed, up to rounding, and leaves the batch when its loss has stopped falling.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state

from theodolite.core.vectors import Floats, Indices
from theodolite.probes.label_codes import Labelled

if TYPE_CHECKING:
    import torch

Backend: TypeAlias = Literal["auto", "torch", "sklearn"]
Count: TypeAlias = Callable[[int], None]  # called with the number of networks that have just finished

# scikit-learn's defaults, which the batched trainer must share.
_LEARNING_RATE = 1e-3
_BATCH = 200
_PATIENCE = 10  # epochs in which the loss may fail to fall by _TOLERANCE
_TOLERANCE = 1e-4
# Adam as in scikit-learn; fused takes one pass over memory.
_ADAM: dict[str, Any] = {"lr": _LEARNING_RATE, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0}
_ADAM |= {"amsgrad": False, "maximize": False, "fused": True}
_EPSILON = 1e-8
_MAX_WEIGHTS = 2**24  # of the first layers of one model; with gradients and Adam's two averages 256 MiB


@dataclass(frozen=True, eq=False)
class Job:
    """One network to train."""

    hidden: tuple[int, ...]
    alpha: float
    seed: int
    rows: Indices


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network with ReLU between its layers; the last layer gives the logits of all classes."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    epochs: int
    converged: bool

    def logits(self, X: Floats) -> Floats:
        """(n, classes) scores: the logarithms of the probabilities, up to a constant of each row."""
        out = np.asarray(X, dtype=self.weights[0].dtype)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = np.maximum(out, 0, out=out) if layer else out
            out = out @ weight.T + bias
        # Two classes have one output, as in scikit-learn: the log-odds of the second.
        return np.hstack([np.zeros_like(out), out]) if out.shape[1] == 1 else out

    def log_probabilities(self, X: Floats) -> NDArray[np.float64]:
        """(n, classes) natural logarithms of the probabilities."""
        from scipy.special import log_softmax

        return np.asarray(log_softmax(self.logits(X).astype(np.float64), axis=1))

    def predict(self, X: Floats) -> Indices:
        """The number of the most probable class of each row."""
        return np.asarray(self.logits(X).argmax(axis=1))


def trainer(
    data: Labelled, *, backend: Backend, max_iter: int, device: str = "cpu", progress: Count | None = None
) -> Callable[[Sequence[Job]], list[Network]]:
    """A function that trains networks on rows of the data, all with the same backend."""
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter} must be at least 1; the published number is 1000")
    if installed_backend(backend) == "torch":
        return partial(train_batched, data, max_iter=max_iter, device=device, progress=progress)
    return partial(train_one_by_one, data, max_iter=max_iter, progress=progress)


def installed_backend(backend: Backend) -> Literal["torch", "sklearn"]:
    """The backend to use: torch if it is installed, unless scikit-learn is requested."""
    if backend not in get_args(Backend):
        raise ValueError(f"backend={backend!r} must be one of 'auto', 'torch' and 'sklearn'")
    if backend == "auto":
        return "torch" if find_spec("torch") else "sklearn"
    return backend


def train_one_by_one(data: Labelled, jobs: Sequence[Job], *, max_iter: int, progress: Count | None = None) -> list[Network]:
    """Networks trained one after the other by scikit-learn's MLPClassifier."""
    networks = []
    for job in jobs:
        model = _train_with_scikit_learn(data.X[job.rows], data.codes[job.rows], job, len(data.classes), max_iter)
        weights, epochs = tuple(np.ascontiguousarray(weight.T) for weight in model.coefs_), len(model.loss_curve_)
        networks.append(Network(weights, tuple(model.intercepts_), epochs, epochs < max_iter))
        if progress is not None:
            progress(1)
    return networks


def _train_with_scikit_learn(X: Floats, y: Indices, job: Job, n_classes: int, max_iter: int) -> MLPClassifier:
    model = MLPClassifier(
        job.hidden,
        alpha=job.alpha,
        random_state=check_random_state(job.seed),  # a state: with a number, every `partial_fit` would shuffle alike
        max_iter=max_iter,
        learning_rate_init=_LEARNING_RATE,
        tol=_TOLERANCE,
        n_iter_no_change=_PATIENCE,
    )
    if len(np.unique(y)) == n_classes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` reports it
            return model.fit(X, y)
    # The same training epoch by epoch, which is how scikit-learn accepts classes that have no row here. From the second epoch on
    # the order of the rows is not that of a plain fit: every call shuffles them from their first order.
    best, stale = np.inf, 0
    for _ in range(max_iter):
        model.partial_fit(X, y, classes=np.arange(n_classes))
        loss = model.loss_curve_[-1]
        stale = stale + 1 if loss > best - _TOLERANCE else 0
        best = min(best, loss)
        if stale > _PATIENCE:
            break
    return model


def train_batched(
    data: Labelled, jobs: Sequence[Job], *, max_iter: int, device: str = "cpu", progress: Count | None = None
) -> list[Network]:
    """Networks trained together in torch, in the order of the jobs."""
    try:
        import torch
    except ImportError as error:
        install = 'pip install "theodolite[models]"'
        raise ImportError(f"probes trained as a batch need torch ({error}); install it with: {install}") from None

    # torch warns of arrays that cannot be written to, such as those of a file: these are copied.
    rows = np.require(data.X, requirements="W")
    X, y = torch.as_tensor(rows, dtype=torch.float32, device=device), torch.as_tensor(data.codes, device=device)
    networks: dict[int, Network] = {}
    with torch.no_grad():
        for members in _models(jobs, X.shape[1]):
            batch = _Batch(X, y, [jobs[i] for i in members], len(data.classes))
            for position, network in batch.train(max_iter):
                networks[members[position]] = network
                if progress is not None:
                    progress(1)
    return [networks[i] for i in range(len(jobs))]


def _models(jobs: Sequence[Job], d: int) -> Iterator[list[int]]:
    """Numbers of the jobs that train together; those with the same mini-batches are next to each other."""

    def shape(i: int) -> tuple[Any, ...]:
        return jobs[i].hidden, len(jobs[i].rows)

    for (hidden, _), together in itertools.groupby(sorted(range(len(jobs)), key=shape), key=shape):
        members = sorted(together, key=lambda i: _batches(jobs[i]))
        at_most = max(1, _MAX_WEIGHTS // (d * (hidden[0] if hidden else 1)))
        yield from (members[i : i + at_most] for i in range(0, len(members), at_most))


def _batches(job: Job) -> tuple[int, bytes]:
    """What decides the mini-batches of a job."""
    return job.seed, job.rows.tobytes()


@dataclass
class _Group:
    """Networks that see the same mini-batches: which rows, in which order, and how many networks are still in training."""

    rows: Indices
    order: Indices
    state: np.random.RandomState
    live: int

    def next_order(self) -> Indices:
        """The rows in the order of the next epoch: the last order shuffled, as by scikit-learn, without its checks."""
        shuffled = np.arange(len(self.order))
        self.state.shuffle(shuffled)
        self.order = self.order[shuffled]
        return self.rows[self.order]


def _first_weights(job: Job, d: int, n_classes: int) -> tuple[list[Floats], list[Floats], np.random.RandomState]:
    """First weights and biases, Glorot-uniform, and the random state that will shuffle the rows.

    Drawn in the order in which scikit-learn's MLPClassifier draws them, so that one seed means one training everywhere.
    """
    state = check_random_state(job.seed)
    sizes = [d, *job.hidden, 1 if n_classes == 2 else n_classes]
    weights: list[Floats] = []
    biases: list[Floats] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        bound = np.sqrt(6 / (fan_in + fan_out))
        weights.append(state.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32).T)
        biases.append(state.uniform(-bound, bound, fan_out).astype(np.float32))
    return weights, biases, state


class _Batch:
    """Networks of one shape in training. Arrays are (networks, units, rows), so that each layer is one batched product."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, jobs: Sequence[Job], n_classes: int) -> None:
        import torch

        self.X, self.y = X, y
        starts = [_first_weights(job, X.shape[1], n_classes) for job in jobs]

        def stacked(arrays: Sequence[Any]) -> torch.Tensor:
            return torch.as_tensor(np.stack(arrays), dtype=torch.float32, device=X.device).contiguous()

        weights = [stacked(layer) for layer in zip(*(weights for weights, _, _ in starts), strict=True)]
        biases = [stacked(layer)[:, :, None] for layer in zip(*(biases for _, biases, _ in starts), strict=True)]
        self.depth = len(weights)
        self._lay_out([weights + biases, *([torch.zeros_like(tensor) for tensor in weights + biases] for _ in range(3))])
        self.steps = torch.zeros((), device=X.device)
        self.steps_taken = 0
        self.alphas = stacked([job.alpha for job in jobs])[:, None, None]
        self.positions = np.arange(len(jobs))
        runs = [list(run) for _, run in itertools.groupby(range(len(jobs)), lambda i: _batches(jobs[i]))]
        self.groups = [_Group(jobs[run[0]].rows, np.arange(len(jobs[run[0]].rows)), starts[run[0]][2], len(run)) for run in runs]

    def _lay_out(self, kinds: Sequence[Sequence[torch.Tensor]]) -> None:
        """Copy parameters, gradients and Adam's two averages to one flat tensor each, so that a step is one pass over them."""
        import torch

        shapes = [tensor.shape for tensor in kinds[0]]
        self.flats = [torch.cat([tensor.reshape(-1) for tensor in kind]) for kind in kinds]
        sizes = [shape.numel() for shape in shapes]
        views = [[span.view(shape) for span, shape in zip(torch.split(flat, sizes), shapes, strict=True)] for flat in self.flats]
        self.parameters, self.gradients, self.averages, self.squares = views
        self.weights, self.biases = self.parameters[: self.depth], self.parameters[self.depth :]

    def train(self, max_iter: int) -> Iterator[tuple[int, Network]]:
        """(position among the jobs, network) as they finish; the rest of the batch goes on without them."""
        best = np.full(len(self.positions), np.inf)
        stale = np.zeros(len(self.positions), int)
        for epoch in range(1, max_iter + 1):
            loss = self._train_epoch()
            stale = np.where(loss > best - _TOLERANCE, stale + 1, 0)
            best = np.minimum(best, loss)
            converged = stale > _PATIENCE
            is_finished = converged | (epoch == max_iter)
            for i in np.flatnonzero(is_finished).tolist():
                yield int(self.positions[i]), self._network(i, epoch, converged=bool(converged[i]))
            if is_finished.all():
                return
            if is_finished.any():
                self._remove_finished(~is_finished)
                best, stale = best[~is_finished], stale[~is_finished]

    def _train_epoch(self) -> NDArray[np.float64]:
        """One pass over the rows of each group; the mean loss of each network."""
        import torch

        device = self.X.device
        orders = torch.as_tensor(np.stack([group.next_order() for group in self.groups]), device=device)
        lives = torch.tensor([group.live for group in self.groups], device=device)
        labels = self.y[orders].repeat_interleave(lives, dim=0)
        losses = []
        for rows, targets in zip(torch.split(orders, _BATCH, dim=1), torch.split(labels, _BATCH, dim=1), strict=True):
            loss = self._differentiate([self.X.index_select(0, batch) for batch in rows], targets)
            losses.append(loss * rows.shape[1])
            self._descend()
        mean = torch.stack(losses).cpu().numpy().sum(axis=0, dtype=np.float64) / orders.shape[1]
        if not np.isfinite(mean).all():
            largest = float(self.X.abs().max())
            raise ValueError(f"the loss of a probe is not finite; the largest entry of the vectors is {largest:.3g}: scale them")
        return np.asarray(mean)

    def _differentiate(self, inputs: Sequence[torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
        """The loss of each network on a mini-batch of each group, (rows, d), with (networks, rows) labels; fills `gradients`.

        The loss is the mean cross-entropy plus alpha / (2 rows) of the squared weights.
        """
        import torch

        rows = labels.shape[1]
        hidden, logits = self._forward(inputs)
        binary = logits.shape[1] == 1
        scores = torch.cat([torch.zeros_like(logits), logits], dim=1) if binary else logits
        delta = torch.softmax(scores, dim=1)
        true = delta.gather(1, labels[:, None])
        # scikit-learn keeps probabilities away from 0 and 1 before it takes their logarithm.
        smallest = torch.finfo(true.dtype).eps
        loss = -true.clamp(smallest, 1 - smallest).log_().mean(dim=(1, 2))
        delta.scatter_(1, labels[:, None], true - 1)
        delta = (delta[:, 1:] if binary else delta).div_(rows).contiguous()
        shrink = self.alphas / rows
        for weights in self.weights:
            loss += 0.5 * shrink[:, 0, 0] * torch.linalg.vector_norm(weights, dim=(1, 2)).square()
        self._backward(inputs, hidden, delta)
        for weights, gradient in zip(self.weights, self.gradients, strict=False):
            gradient.addcmul_(weights, shrink)
        return loss

    def _forward(self, inputs: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Outputs of the hidden layers, and the logits: all (networks, units, rows)."""
        import torch

        weights, biases = self.weights, self.biases
        out = weights[0].new_empty((*weights[0].shape[:2], inputs[0].shape[0]))
        for low, high, X in self._spans(inputs):
            # All networks of the group at once: (networks * units, d) times (d, rows).
            bias, weight, into = (tensor[low:high].flatten(0, 1) for tensor in (biases[0], weights[0], out))
            torch.addmm(bias, weight, X.T, out=into)
        hidden = []
        for weight, bias in zip(weights[1:], biases[1:], strict=True):
            hidden.append(out.relu_())
            out = torch.baddbmm(bias, weight, out)
        return hidden, out

    def _backward(self, inputs: Sequence[torch.Tensor], hidden: Sequence[torch.Tensor], delta: torch.Tensor) -> None:
        """Fill the gradients of the cross-entropy from its derivative by the logits."""
        import torch

        for layer in reversed(range(self.depth)):
            torch.sum(delta, dim=2, keepdim=True, out=self.gradients[self.depth + layer])
            if layer == 0:
                break
            below = hidden[layer - 1]
            torch.bmm(delta, below.transpose(1, 2), out=self.gradients[layer])
            delta = torch.bmm(self.weights[layer].transpose(1, 2), delta)
            # The derivative of ReLU, in one pass over memory.
            torch.ops.aten.threshold_backward.grad_input(delta, below, 0, grad_input=delta)
        for low, high, X in self._spans(inputs):
            torch.mm(delta[low:high].flatten(0, 1), X, out=self.gradients[0][low:high].flatten(0, 1))

    def _spans(self, inputs: Sequence[torch.Tensor]) -> Iterator[tuple[int, int, torch.Tensor]]:
        """(first network, end, mini-batch) of each group."""
        low = 0
        for group, X in zip(self.groups, inputs, strict=True):
            yield low, low + group.live, X
            low += group.live

    def _descend(self) -> None:
        """Adam's step along the gradients, fused: one pass over memory."""
        from torch.optim.adam import adam

        self.steps_taken += 1
        # torch adds epsilon after the correction of the squares, scikit-learn before.
        epsilon = _EPSILON / math.sqrt(1 - _ADAM["beta2"] ** self.steps_taken)
        parameters, gradients, averages, squares = ([flat] for flat in self.flats)
        adam(parameters, gradients, averages, squares, [], [self.steps], eps=epsilon, **_ADAM)

    def _remove_finished(self, live: NDArray[np.bool_]) -> None:
        """Remove the networks that have finished, and the groups that have none left."""
        import torch

        numbers = torch.as_tensor(np.flatnonzero(live), device=self.X.device)
        kinds = (self.parameters, self.gradients, self.averages, self.squares)
        self._lay_out([[tensor.index_select(0, numbers) for tensor in kind] for kind in kinds])
        self.alphas = self.alphas.index_select(0, numbers)
        self.positions = self.positions[live]
        ends = np.cumsum([group.live for group in self.groups])
        for group, members in zip(self.groups, np.split(live, ends[:-1]), strict=True):
            group.live = int(members.sum())
        self.groups = [group for group in self.groups if group.live]

    def _network(self, i: int, epochs: int, *, converged: bool) -> Network:
        """A copy of the i-th network."""
        weights = tuple(tensor[i].cpu().numpy().copy() for tensor in self.weights)
        biases = tuple(tensor[i, :, 0].cpu().numpy().copy() for tensor in self.biases)
        return Network(weights, biases, epochs, converged)
