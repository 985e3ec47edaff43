"""The classifier probes as scikit-learn estimators: how well labels can be predicted, by a plane and by small networks.

`LinearProbe` uses scikit-learn's solver and not a network without hidden layers: the problem is convex, so its optimum is one
number on every machine, needs no initialisations and no torch, and a path of L2 weights from the strongest down costs little more
than one fit. `ClassifierProbe` is the probe of Zhou & Srikumar (2022).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from theodolite.core.parallel import Progress
from theodolite.core.vectors import Floats, Indices, Vectors
from theodolite.probes.classifiers.grid_search import (
    ALPHAS,
    HIDDEN,
    Cell,
    SearchKind,
    grid,
    search_grid,
    search_size,
    stratified_folds,
)
from theodolite.probes.classifiers.networks import Backend, Count, Job, installed_backend, trainer
from theodolite.probes.label_codes import labelled, require_match, single_precision

# Fields of a score that are attributes of the fitted probe, whose names end in an underscore there.
_CHOSEN = ("hidden", "alpha", "cv_score", "epochs", "seconds", "note")

# Root mean squared deviation below which networks learn little of vectors as they are: digits scaled to 0.1, 0.03, 0.01 and 0.003
# gave accuracies of 0.92, 0.89, 0.74 and 0.10, since the loss falls too slowly for its stopping rule; TREC failed at 0.01.
_SMALL_SPREAD = 0.03


@dataclass(frozen=True)
class ProbeScore:
    """Accuracy of a probe in [0, 1] over its initialisations, higher is better, with what the search chose.

    Parameters
    ----------
    mean, sd
        Over the initialisations; the sample standard deviation is 0 if there is only one, as with a convex probe.
    scores
        The accuracy of each initialisation.
    correct
        (initialisations, n) whether each row was predicted rightly.
    hidden, alpha
        Units of the hidden layers (empty for a linear probe) and L2 weight of the chosen cell.
    cv_score
        Mean accuracy of the chosen cell on the held-out folds.
    epochs
        Passes over the rows that each initialisation took (steps of the solver for a linear probe).
    seconds
        Time of the fit: search and initialisations.
    n
        Rows that were scored.
    unknown
        Labels among the scored rows that the probe was not trained on; such rows count as wrong.
    note
        Classes too rare for the folds, trainings that did not converge, vectors that differ too little, and what a race loses.
    """

    mean: float
    sd: float
    scores: tuple[float, ...]
    correct: NDArray[np.bool_] = field(repr=False, compare=False)
    hidden: tuple[int, ...]
    alpha: float
    cv_score: float
    epochs: tuple[int, ...]
    seconds: float
    n: int
    unknown: tuple[Any, ...] = ()
    note: str = ""


class BaseClassifierProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What both classifier probes share: once fitted, checked input, and the score on held-out rows."""

    classes_: NDArray[Any]
    n_features_in_: int
    hidden_: tuple[int, ...]
    alpha_: float
    cv_score_: float
    epochs_: tuple[int, ...]
    seconds_: float
    note_: str

    def evaluate(self, X: Vectors, y: Any) -> ProbeScore:
        """Accuracy on held-out rows; a label that the probe was not trained on counts as wrong and is listed.

        Parameters
        ----------
        X, y
            (m, d) vectors and the label of each.
        """
        rows, labels = self._checked_rows(X), np.asarray(y)
        require_match(rows, labels)
        correct = np.array([predicted == labels for predicted in self._predictions(rows)])
        scores = tuple(float(share) for share in correct.mean(axis=1))
        return ProbeScore(
            mean=float(np.mean(scores)),
            sd=float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
            scores=scores,
            correct=correct,
            n=len(labels),
            unknown=tuple(np.setdiff1d(labels, self.classes_).tolist()),
            **{name: getattr(self, f"{name}_") for name in _CHOSEN},
        )

    def predict(self, X: Vectors) -> NDArray[Any]:
        """The most probable label of each row, by the first initialisation.

        Parameters
        ----------
        X
            (m, d) vectors.
        """
        return next(self._predictions(self._checked_rows(X)))

    def _checked_rows(self, X: Vectors) -> Floats:
        check_is_fitted(self)
        rows = single_precision(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {rows.shape[1]} columns; the probe was trained on {self.n_features_in_}")
        return rows

    def _predictions(self, rows: Floats) -> Iterator[NDArray[Any]]:
        """The labels that each initialisation predicts."""
        raise NotImplementedError


@dataclass(kw_only=True, eq=False, repr=False)
class LinearProbe(BaseClassifierProbe):
    """Logistic regression whose L2 weight is chosen by cross-validated accuracy.

    Minimises the summed cross-entropy plus alpha / 2 of the squared weights (scikit-learn's C = 1 / alpha), on rows that are
    centred and divided by one number, their root mean squared deviation: a shift or a scale of the whole space changes nothing.
    Without that, if vectors differ by little, as [CLS] does in low layers, the solver would take flat gradients for the end.

    Parameters
    ----------
    alphas
        L2 weights to try, above 0; of those that score alike the strongest is taken.
    folds
        Of the cross-validation, at least 2.
    max_iter
        Steps of the solver at most.
    seed
        Of the folds.
    progress
        Called with (done, total); may raise to cancel.
    """

    alphas: Sequence[float] = ALPHAS
    folds: int = 5
    max_iter: int = 1000
    seed: int = 0
    progress: Progress | None = None

    def fit(self, X: Vectors, y: Any) -> Self:
        """Choose the L2 weight on folds, then fit all rows with it.

        Parameters
        ----------
        X, y
            (n, d) vectors and the label of each.

        Raises
        ------
        ValueError
            An option is out of its range, X is not finite, or the labels do not match the rows.
        """
        start = time.perf_counter()
        data = labelled(X, y)
        rows = data.X.astype(np.float64)  # in float32 the solver's line search gives up early
        self.mean_ = rows.mean(axis=0)
        self.scale_ = float(np.sqrt(np.mean(np.square(rows - self.mean_)))) or 1.0  # all rows one point: nothing to scale
        rows = self._scaled(rows)
        folds = stratified_folds(data, self.folds, seed=self.seed)
        alphas = sorted(set(self.alphas), reverse=True)  # argmax then takes the strongest of equals
        if not alphas or not 0 < alphas[-1] <= alphas[0] < np.inf:
            raise ValueError(
                f"alphas={tuple(self.alphas)} must be one or more finite numbers above 0; the published grid is 1e-7 to 1"
            )
        scores = np.empty((len(alphas), len(folds.splits)))
        for fold, (train, test) in enumerate(folds.splits):
            for i, model in enumerate(self._path(rows[train], data.codes[train], alphas)):
                scores[i, fold] = np.mean(model.predict(rows[test]) == data.codes[test])
            if self.progress is not None:
                self.progress(fold + 1, len(folds.splits) + 1)
        best = int(scores.mean(axis=1).argmax())
        # Through all stronger weights again: the same warm starts as on the folds.
        *_, self.model_ = self._path(rows, data.codes, alphas[: best + 1])
        self.classes_, self.n_features_in_ = data.classes, data.X.shape[1]
        self.hidden_, self.alpha_, self.cv_score_ = (), alphas[best], float(scores[best].mean())
        steps = int(np.max(self.model_.n_iter_))
        self.epochs_ = (steps,)
        unfinished = f"the solver did not converge within {steps} steps" if steps >= self.max_iter else ""
        self.note_ = "; ".join(filter(None, [folds.note, unfinished]))
        self.seconds_ = time.perf_counter() - start
        if self.progress is not None:
            self.progress(len(folds.splits) + 1, len(folds.splits) + 1)
        return self

    def _path(self, X: NDArray[np.float64], y: Indices, alphas: Sequence[float]) -> Iterator[LogisticRegression]:
        """The fitted model of each weight in turn, each started from the one before."""
        model = LogisticRegression(max_iter=self.max_iter, warm_start=True)
        for alpha in alphas:
            model.set_params(C=1 / alpha)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the note reports it
                yield model.fit(X, y)

    def _scaled(self, X: Floats) -> NDArray[np.float64]:
        return np.asarray((X - self.mean_) / self.scale_, dtype=np.float64)

    def _predictions(self, rows: Floats) -> Iterator[NDArray[Any]]:
        yield np.asarray(self.classes_[self.model_.predict(self._scaled(rows))])


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierProbe(BaseClassifierProbe):
    """How well a small network predicts the labels (Zhou & Srikumar 2022): accuracy, its mean and deviation over initialisations.

    Networks of two hidden layers, with ReLU and Adam; the cell of the grid is chosen by cross-validated accuracy, then trained on
    all rows from several seeds. The vectors are taken as they are, as published; if they differ by too little to be learned from,
    `note_` says so.

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
    search
        "full" runs every cell on every fold, as published; "race" runs a balanced sample of the cells on one fold each, and only
        the most promising cells on all folds: 15 times fewer networks, at a loss that `note_` states.
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

    hidden: Sequence[Sequence[int]] = HIDDEN
    alphas: Sequence[float] = ALPHAS
    folds: int = 5
    initialisations: int = 5
    search: SearchKind = "full"
    max_iter: int = 1000
    backend: Backend = "auto"
    device: str = "cpu"
    seed: int = 0
    progress: Progress | None = None

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
        if self.search not in get_args(SearchKind):
            raise ValueError(f"search={self.search!r} must be one of 'full' and 'race'")
        data, cells = labelled(X, y), grid(self.hidden, self.alphas)
        folds = stratified_folds(data, self.folds, seed=self.seed)
        self.backend_ = installed_backend(self.backend)
        count = self._counter(cells, len(folds.splits))
        train = trainer(data, backend=self.backend_, max_iter=self.max_iter, device=self.device, progress=count)
        self.search_ = search_grid(data, folds, cells, train, seed=self.seed, kind=self.search)
        best = self.search_.best
        self.hidden_, self.alpha_ = cells[best].hidden, cells[best].alpha
        self.cv_score_ = float(self.search_.scores[best].mean())
        all_rows = np.arange(len(data.codes))
        seeds = range(self.seed, self.seed + self.initialisations)
        self.networks_ = train([Job(self.hidden_, self.alpha_, seed, all_rows) for seed in seeds])
        self.epochs_ = tuple(network.epochs for network in self.networks_)
        self.classes_, self.n_features_in_ = data.classes, data.X.shape[1]
        unfinished = sum(not network.converged for network in self.networks_)
        note = f"{unfinished} of {len(seeds)} networks did not converge within {self.epochs_[0]} epochs" if unfinished else ""
        spread = float(np.sqrt(data.X.var(axis=0, dtype=np.float64).mean()))
        small = f"the vectors differ by only {spread:.2g}, too little for networks: standardise them, or use a linear probe"
        notes = [folds.note, note, small if spread < _SMALL_SPREAD else "", self.search_.note]
        self.note_ = "; ".join(filter(None, notes))
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

    def _counter(self, cells: Sequence[Cell], n_folds: int) -> Count | None:
        """Counts finished networks for the caller's progress; the total is an estimate, since a race may be shorter."""
        progress = self.progress
        if progress is None:
            return None
        total = self.initialisations + search_size(cells, n_folds, self.search)
        n_finished = 0

        def count(more: int) -> None:
            nonlocal n_finished
            n_finished = min(n_finished + more, total)
            progress(n_finished, total)

        return count
