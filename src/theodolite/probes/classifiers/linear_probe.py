"""The linear probe: multinomial logistic regression over the same L2 weights as the other probe.

scikit-learn's solver and not a network without hidden layers: the problem is convex, so its optimum is one number on every
machine, needs no initialisations and no torch, and a path of L2 weights from the strongest down costs little more than one fit.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from theodolite.core.vectors import Floats, Vectors
from theodolite.probes.classifiers.grid_search import ALPHAS, stratified_folds
from theodolite.probes.classifiers.network import Progress
from theodolite.probes.classifiers.scores import BaseClassifierProbe
from theodolite.probes.labels import Codes, labelled


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

    def __init__(
        self,
        *,
        alphas: Sequence[float] = ALPHAS,
        folds: int = 5,
        max_iter: int = 1000,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.alphas = alphas
        self.folds = folds
        self.max_iter = max_iter
        self.seed = seed
        self.progress = progress

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
        scores = np.empty((len(alphas), len(folds.parts)))
        for fold, (train, test) in enumerate(folds.parts):
            for i, model in enumerate(self._path(rows[train], data.codes[train], alphas)):
                scores[i, fold] = np.mean(model.predict(rows[test]) == data.codes[test])
            if self.progress is not None:
                self.progress(fold + 1, len(folds.parts) + 1)
        best = int(scores.mean(axis=1).argmax())
        # Through all stronger weights again: the same warm starts as on the folds.
        *_, self.model_ = self._path(rows, data.codes, alphas[: best + 1])
        self.classes_, self.n_features_in_ = data.classes, data.X.shape[1]
        self.hidden_, self.alpha_, self.cv_score_ = (), alphas[best], float(scores[best].mean())
        steps = int(np.max(self.model_.n_iter_))
        self.epochs_ = (steps,)
        unfinished = f"the solver had not converged after {steps} steps" if steps >= self.max_iter else ""
        self.note_ = "; ".join(filter(None, [folds.note, unfinished]))
        self.seconds_ = time.perf_counter() - start
        if self.progress is not None:
            self.progress(len(folds.parts) + 1, len(folds.parts) + 1)
        return self

    def _path(self, X: NDArray[np.float64], y: Codes, alphas: Sequence[float]) -> Iterator[LogisticRegression]:
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
