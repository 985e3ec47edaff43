"""The classifier probe of ZS22: a network with two hidden layers, chosen on a grid, trained from five initialisations."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from theodolite.core.vectors import Floats, Vectors
from theodolite.probes.batched import require_torch, train_batched
from theodolite.probes.labels import Folds, Labelled, labelled, require_match, singles, stratified
from theodolite.probes.network import Job, Network, Progress, estimator, train_one_by_one
from theodolite.probes.race import race, rounds
from theodolite.probes.score import ProbeScore, accuracies, spread, unknown_labels
from theodolite.probes.search import ALPHAS, HIDDEN, Cell, Search, Train, all_cells, blank, grid

if TYPE_CHECKING:
    from typing import Self

Backend = Literal["auto", "torch", "sklearn"]


class ClassifierProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """How well a small network tells the labels apart (ZS22): accuracy, mean and deviation over five initialisations.

    Hidden layers {32, 64, 128, 256}², ReLU, Adam, L2 weights 1e-7 to 1, at most 1000 epochs; the cell of the grid is chosen
    by five-fold cross-validated accuracy, then trained on all rows from five seeds. `race=True` tries the cells on one fold
    and only the best on the others; `race=False` is the full grid. With torch the cells of one architecture train as one
    model; `backend="sklearn"` trains each by scikit-learn's MLPClassifier, with the same seeds, batches and stopping rule.
    `predict` is the first initialisation's.
    """

    def __init__(
        self,
        *,
        hidden: Sequence[Sequence[int]] = HIDDEN,
        alphas: Sequence[float] = ALPHAS,
        folds: int = 5,
        initialisations: int = 5,
        race: bool = True,
        max_iter: int = 1000,
        backend: Backend = "auto",
        device: str = "cpu",
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.hidden = hidden
        self.alphas = alphas
        self.folds = folds
        self.initialisations = initialisations
        self.race = race
        self.max_iter = max_iter
        self.backend = backend
        self.device = device
        self.seed = seed
        self.progress = progress

    def fit(self, X: Vectors, y: Any) -> Self:
        """Search the grid on folds, then train the chosen cell on all rows from each seed."""
        began = time.perf_counter()
        if self.initialisations < 1:
            raise ValueError(f"initialisations={self.initialisations} must be at least 1; the published number is 5")
        data, cells = labelled(X, y), grid(self.hidden, self.alphas)
        folds = stratified(data, self.folds, seed=self.seed)
        self.backend_ = chosen_backend(self.backend)
        count = self._counted(len(cells), len(folds.parts))
        train = trainer(data, backend=self.backend_, max_iter=self.max_iter, device=self.device, progress=count)
        self.search_ = self._searched(data, folds, cells, train)
        best = self.search_.best
        self.hidden_, self.alpha_ = cells[best].hidden, cells[best].alpha
        self.cv_score_ = float(self.search_.scores[best].mean())
        everything = np.arange(len(data.codes))
        seeds = range(self.seed, self.seed + self.initialisations)
        self.networks_ = train([Job(self.hidden_, self.alpha_, seed, everything) for seed in seeds])
        self.classes_, self.n_features_in_ = data.classes, data.X.shape[1]
        self.note_ = "; ".join(filter(None, [folds.note, _unfinished(self.networks_)]))
        if count is not None:
            count(sys.maxsize)
        self.seconds_ = time.perf_counter() - began
        return self

    def predict(self, X: Vectors) -> NDArray[Any]:
        """The most probable label of each row, by the first initialisation."""
        return np.asarray(self.classes_[self.networks_[0].predict(self._open(X))])

    def predict_proba(self, X: Vectors) -> NDArray[np.float64]:
        """(n, classes) probabilities, by the first initialisation."""
        return np.asarray(np.exp(self.networks_[0].log_probabilities(self._open(X))))

    def evaluate(self, X: Vectors, y: Any) -> ProbeScore:
        """Accuracy of each initialisation on held-out rows; a label that was not trained on counts as wrong and is listed."""
        rows, labels = self._open(X), np.asarray(y)
        require_match(rows, labels)
        scores = accuracies([self.classes_[network.predict(rows)] for network in self.networks_], labels)
        return ProbeScore(
            mean=float(np.mean(scores)),
            sd=spread(scores),
            scores=scores,
            hidden=self.hidden_,
            alpha=self.alpha_,
            cv_score=self.cv_score_,
            epochs=tuple(network.epochs for network in self.networks_),
            seconds=self.seconds_,
            n=len(labels),
            unknown=unknown_labels(labels, self.classes_),
            note=self.note_,
        )

    def _open(self, X: Vectors) -> Floats:
        check_is_fitted(self)
        rows = singles(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {rows.shape[1]} columns; the probe was trained on {self.n_features_in_}")
        return rows

    def _searched(self, data: Labelled, folds: Folds, cells: tuple[Cell, ...], train: Train) -> Search:
        if self.race:
            return race(data, folds, cells, train, seed=self.seed)
        if self.backend_ == "sklearn":
            return grid_search(data, folds, cells, estimator(cells[0].hidden, cells[0].alpha, self.seed, self.max_iter))
        return all_cells(data, folds, cells, train, seed=self.seed)

    def _counted(self, n_cells: int, n_folds: int) -> Callable[[int], None] | None:
        """Counts finished networks for the caller's progress; an estimate of the whole, since a race may be shorter."""
        progress = self.progress
        if progress is None:
            return None
        total = self.initialisations + (sum(rounds(n_cells, n_folds)) if self.race else n_cells * n_folds)
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done = min(done + more, total)
            progress(done, total)

        return count


def chosen_backend(backend: Backend) -> Literal["torch", "sklearn"]:
    """torch where it is installed, scikit-learn where it is not or is asked for."""
    if backend not in ("auto", "torch", "sklearn"):
        raise ValueError(f"backend={backend!r} is none of 'auto', 'torch' and 'sklearn'")
    if backend == "torch":
        require_torch()
    if backend == "auto":
        return "torch" if find_spec("torch") else "sklearn"
    return backend


def trainer(
    data: Labelled, *, backend: Backend, max_iter: int, device: str = "cpu", progress: Callable[[int], None] | None = None
) -> Train:
    """A function that trains jobs on rows of the data, all with the same backend."""
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter} must be at least 1; the published number is 1000")

    def train(jobs: Sequence[Job]) -> list[Network]:
        options: dict[str, Any] = {"n_classes": len(data.classes), "max_iter": max_iter, "progress": progress}
        if chosen_backend(backend) == "torch":
            return train_batched(data.X, data.codes, jobs, device=device, **options)
        return train_one_by_one(data.X, data.codes, jobs, **options)

    return train


def grid_search(data: Labelled, folds: Folds, cells: tuple[Cell, ...], model: MLPClassifier) -> Search:
    """Every cell on every fold, by scikit-learn's GridSearchCV."""
    values = {
        "alpha": list(dict.fromkeys(cell.alpha for cell in cells)),
        "hidden_layer_sizes": list(dict.fromkeys(cell.hidden for cell in cells)),
    }
    found = GridSearchCV(model, values, cv=folds.parts, refit=False, scoring="accuracy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = found.fit(data.X, data.codes).cv_results_
    found = blank(cells, folds)
    for fold in range(len(folds.parts)):
        found.scores[:, fold] = results[f"split{fold}_test_score"]
    return found


def _unfinished(networks: Sequence[Network]) -> str:
    late = sum(not network.converged for network in networks)
    return f"{late} of {len(networks)} networks had not converged after {networks[0].epochs} epochs" if late else ""
