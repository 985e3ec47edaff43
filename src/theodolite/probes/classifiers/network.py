"""A small network, the job of training it, and its training by scikit-learn: the reference for the batched trainer."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state

from theodolite.core.vectors import Floats
from theodolite.probes.labels import Codes

# Called with (done, total); an error it raises ends the work.
Progress: TypeAlias = Callable[[int, int], None]

# scikit-learn's defaults, which the batched trainer must share.
LEARNING_RATE = 1e-3
BATCH = 200
PATIENCE = 10  # epochs in which the loss may fail to fall by TOLERANCE
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Job:
    """One network to train.

    Parameters
    ----------
    hidden
        Units of the hidden layers.
    alpha
        L2 weight.
    seed
        Of the first weights and of the shuffles.
    rows
        Numbers of the rows to train on.
    """

    hidden: tuple[int, ...]
    alpha: float
    seed: int
    rows: Codes


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network with ReLU between its layers; the last layer gives the logits of all classes.

    Parameters
    ----------
    weights, biases
        (out, in) and (out,) of each layer.
    epochs
        Passes over the rows that its training took.
    converged
        Whether the loss had stopped falling before the last epoch that was allowed.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    epochs: int
    converged: bool

    def logits(self, X: Floats) -> Floats:
        """(n, classes) scores: the logarithms of the probabilities, up to a constant of each row.

        Parameters
        ----------
        X
            (n, d) vectors.
        """
        out = np.asarray(X, dtype=self.weights[0].dtype)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = np.maximum(out, 0, out=out) if layer else out
            out = out @ weight.T + bias
        # Two classes have one output, as in scikit-learn: the log-odds of the second.
        return np.hstack([np.zeros_like(out), out]) if out.shape[1] == 1 else out

    def log_probabilities(self, X: Floats) -> NDArray[np.float64]:
        """(n, classes) natural logarithms of the probabilities.

        Parameters
        ----------
        X
            (n, d) vectors.
        """
        logits = self.logits(X).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    def predict(self, X: Floats) -> Codes:
        """The number of the most probable class of each row.

        Parameters
        ----------
        X
            (n, d) vectors.
        """
        return np.asarray(self.logits(X).argmax(axis=1))


def first_weights(job: Job, d: int, n_classes: int) -> tuple[list[Floats], list[Floats], np.random.RandomState]:
    """First weights and biases, Glorot-uniform, and the random state that will shuffle the rows.

    Drawn in the order in which scikit-learn's MLPClassifier draws them, so that one seed means one training everywhere.

    Parameters
    ----------
    job
        The network to train.
    d, n_classes
        Width of the vectors and number of classes.
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


def train_one_by_one(
    X: Floats, y: Codes, jobs: Sequence[Job], *, n_classes: int, max_iter: int, progress: Callable[[int], None] | None = None
) -> list[Network]:
    """Networks trained one after the other by scikit-learn's MLPClassifier.

    Parameters
    ----------
    X, y
        (n, d) float32 vectors and the number of each label.
    jobs
        The networks to train.
    n_classes
        Number of classes; some may have no row.
    max_iter
        Epochs at most.
    progress
        Called with 1 whenever a network is finished.
    """
    networks = []
    for job in jobs:
        networks.append(_with_scikit_learn(X[job.rows], y[job.rows], job, n_classes, max_iter))
        if progress is not None:
            progress(1)
    return networks


def estimator(hidden: tuple[int, ...], alpha: float, seed: Any, max_iter: int) -> MLPClassifier:
    """The scikit-learn classifier of a job.

    Parameters
    ----------
    hidden, alpha, seed, max_iter
        Units of the hidden layers, L2 weight, seed or random state, epochs at most.
    """
    return MLPClassifier(
        hidden,
        alpha=alpha,
        random_state=seed,
        max_iter=max_iter,
        learning_rate_init=LEARNING_RATE,
        tol=TOLERANCE,
        n_iter_no_change=PATIENCE,
    )


def _with_scikit_learn(X: Floats, y: Codes, job: Job, n_classes: int, max_iter: int) -> Network:
    if len(np.unique(y)) == n_classes:
        model = estimator(job.hidden, job.alpha, job.seed, max_iter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` reports it
            model.fit(X, y)
    else:
        model = _with_absent_classes(X, y, job, n_classes, max_iter)
    epochs = len(model.loss_curve_)
    return Network(
        tuple(np.ascontiguousarray(weight.T) for weight in model.coefs_),
        tuple(model.intercepts_),
        epochs,
        epochs < max_iter,
    )


def _with_absent_classes(X: Floats, y: Codes, job: Job, n_classes: int, max_iter: int) -> MLPClassifier:
    """The same training epoch by epoch, which is how scikit-learn accepts classes that have no row here.

    From the second epoch on the order of the rows is not that of a plain fit: every call shuffles them from their first order.
    """
    # A state, not a number: with a number, every epoch would shuffle alike.
    model = estimator(job.hidden, job.alpha, check_random_state(job.seed), max_iter)
    best, stale = np.inf, 0
    for _ in range(max_iter):
        model.partial_fit(X, y, classes=np.arange(n_classes))
        loss = model.loss_curve_[-1]
        stale = stale + 1 if loss > best - TOLERANCE else 0
        best = min(best, loss)
        if stale > PATIENCE:
            break
    return model
