"""The classifier probe of Zhou & Srikumar (2022): a small network, chosen on a grid and trained from five initialisations."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from theodolite.core.vectors import Floats, Vectors
from theodolite.probes.classifiers.batched import require_torch, train_batched
from theodolite.probes.classifiers.grid_search import (
    ALPHAS,
    HIDDEN,
    Cell,
    Folds,
    Search,
    Train,
    grid,
    race_sizes,
    search_all,
    search_by_race,
    stratified_folds,
)
from theodolite.probes.classifiers.network import Job, Network, Progress, estimator, train_one_by_one
from theodolite.probes.classifiers.scores import BaseClassifierProbe
from theodolite.probes.labels import Labelled, labelled

Backend = Literal["auto", "torch", "sklearn"]


class ClassifierProbe(BaseClassifierProbe):
    """How well a small network predicts the labels (Zhou & Srikumar 2022): accuracy, its mean and deviation over initialisations.

    Networks of two hidden layers, with ReLU and Adam; the cell of the grid is chosen by cross-validated accuracy, then trained on
    all rows from several seeds.

    Parameters
    ----------
    hidden
        Units of the hidden layers of each architecture; {32, 64, 128, 256}² by default, as published.
    alphas
        L2 weights, at least 0; 1e-7 to 1 by default, as published.
    folds
        Of the cross-validation, at least 2.
    initialisations
        Seeds from which the chosen cell is trained: `seed`, `seed` + 1, ...
    race
        Whether to try the cells on one fold and only the best on the others; False tries all cells on all folds.
    max_iter
        Epochs at most.
    backend
        "torch" trains the cells of one architecture as one model; "sklearn" trains each with MLPClassifier, from the same seeds,
        with the same batches and stopping rule; "auto" is torch if it is installed.
    device
        Of torch, such as "cpu" or "cuda".
    seed
        Of the folds, the search and the first initialisation.
    progress
        Called with (done, total) networks; may raise to cancel.
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
        """Search the grid on folds, then train the chosen cell on all rows from each seed.

        Parameters
        ----------
        X, y
            (n, d) vectors and the label of each.

        Raises
        ------
        ValueError
            An option is out of its range, X is not finite, or the labels do not match the rows.
        ImportError
            The backend is "torch", which is not installed.
        """
        start = time.perf_counter()
        if self.initialisations < 1:
            raise ValueError(f"initialisations={self.initialisations} must be at least 1; the published number is 5")
        data, cells = labelled(X, y), grid(self.hidden, self.alphas)
        folds = stratified_folds(data, self.folds, seed=self.seed)
        self.backend_ = _installed_backend(self.backend)
        count = self._counter(len(cells), len(folds.parts))
        train = trainer(data, backend=self.backend_, max_iter=self.max_iter, device=self.device, progress=count)
        if self.race:
            self.search_ = search_by_race(data, folds, cells, train, seed=self.seed)
        elif self.backend_ == "sklearn":
            self.search_ = _search_with_scikit_learn(data, folds, cells, seed=self.seed, max_iter=self.max_iter)
        else:
            self.search_ = search_all(data, folds, cells, train, seed=self.seed)
        best = self.search_.best
        self.hidden_, self.alpha_ = cells[best].hidden, cells[best].alpha
        self.cv_score_ = float(self.search_.scores[best].mean())
        all_rows = np.arange(len(data.codes))
        seeds = range(self.seed, self.seed + self.initialisations)
        self.networks_ = train([Job(self.hidden_, self.alpha_, seed, all_rows) for seed in seeds])
        self.epochs_ = tuple(network.epochs for network in self.networks_)
        self.classes_, self.n_features_in_ = data.classes, data.X.shape[1]
        unfinished = sum(not network.converged for network in self.networks_)
        note = f"{unfinished} of {len(seeds)} networks had not converged after {self.epochs_[0]} epochs" if unfinished else ""
        self.note_ = "; ".join(filter(None, [folds.note, note]))
        if count is not None:
            count(sys.maxsize)  # a race may have needed fewer networks than the estimated total
        self.seconds_ = time.perf_counter() - start
        return self

    def predict_proba(self, X: Vectors) -> NDArray[np.float64]:
        """(n, classes) probabilities, by the first initialisation.

        Parameters
        ----------
        X
            (n, d) vectors.
        """
        rows = self._checked_rows(X)
        return np.asarray(np.exp(self.networks_[0].log_probabilities(rows)))

    def _predictions(self, rows: Floats) -> Iterator[NDArray[Any]]:
        return (np.asarray(self.classes_[network.predict(rows)]) for network in self.networks_)

    def _counter(self, n_cells: int, n_folds: int) -> Callable[[int], None] | None:
        """Counts finished networks for the caller's progress; the total is an estimate, since a race may be shorter."""
        progress = self.progress
        if progress is None:
            return None
        total = self.initialisations + (sum(race_sizes(n_cells, n_folds)) if self.race else n_cells * n_folds)
        n_finished = 0

        def count(more: int) -> None:
            nonlocal n_finished
            n_finished = min(n_finished + more, total)
            progress(n_finished, total)

        return count


def trainer(
    data: Labelled, *, backend: Backend, max_iter: int, device: str = "cpu", progress: Callable[[int], None] | None = None
) -> Train:
    """A function that trains networks on rows of the data, all with the same backend.

    Parameters
    ----------
    data
        Labelled rows.
    backend, max_iter, device
        As in `ClassifierProbe`.
    progress
        Called with the number of networks that have just finished.
    """
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter} must be at least 1; the published number is 1000")

    def train(jobs: Sequence[Job]) -> list[Network]:
        options: dict[str, Any] = {"n_classes": len(data.classes), "max_iter": max_iter, "progress": progress}
        if _installed_backend(backend) == "torch":
            return train_batched(data.X, data.codes, jobs, device=device, **options)
        return train_one_by_one(data.X, data.codes, jobs, **options)

    return train


def _installed_backend(backend: Backend) -> Literal["torch", "sklearn"]:
    """The backend to use: torch if it is installed, unless scikit-learn is asked for."""
    if backend not in ("auto", "torch", "sklearn"):
        raise ValueError(f"backend={backend!r} must be one of 'auto', 'torch' and 'sklearn'")
    if backend == "torch":
        require_torch()
    if backend == "auto":
        return "torch" if find_spec("torch") else "sklearn"
    return backend


def _search_with_scikit_learn(data: Labelled, folds: Folds, cells: tuple[Cell, ...], *, seed: int, max_iter: int) -> Search:
    """Every cell on every fold, by scikit-learn's GridSearchCV."""
    values = {
        "alpha": list(dict.fromkeys(cell.alpha for cell in cells)),
        "hidden_layer_sizes": list(dict.fromkeys(cell.hidden for cell in cells)),
    }
    model = estimator(cells[0].hidden, cells[0].alpha, seed, max_iter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = GridSearchCV(model, values, cv=folds.parts, refit=False, scoring="accuracy").fit(data.X, data.codes).cv_results_
    search = Search.empty(cells, folds)
    for fold in range(len(folds.parts)):
        search.scores[:, fold] = results[f"split{fold}_test_score"]
    return search
