"""The linear probe: multinomial logistic regression over the same L2 weights as the other probes.

scikit-learn's solver and not a network without hidden layers: the problem is convex, so its optimum is one number on every
machine, needs no initialisations and no torch, and an L2 path from the strongest weight down costs little more than one fit.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from theodolite.core.vectors import Vectors
from theodolite.probes.labels import labelled, require_match, singles, stratified
from theodolite.probes.network import Codes, Progress
from theodolite.probes.score import ProbeScore, accuracies, unknown_labels
from theodolite.probes.search import ALPHAS

if TYPE_CHECKING:
    from typing import Self


class LinearProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression whose L2 weight is chosen by cross-validated accuracy.

    Minimises the summed cross-entropy plus alpha / 2 of the squared weights (scikit-learn's C = 1 / alpha), on rows that are
    centred and divided by one number, their root mean squared deviation: a shift or a scale of the whole space changes nothing.
    Where vectors differ by little, as [CLS] does in low layers, the solver would otherwise take flat gradients for the end.
    Of weights that score alike the strongest is taken.
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
        """Choose the L2 weight on folds, then fit all rows with it."""
        began = time.perf_counter()
        data = labelled(X, y)
        rows = data.X.astype(np.float64)  # in float32 the solver's line search gives up early
        self.mean_ = rows.mean(axis=0)
        self.scale_ = float(np.sqrt(np.mean(np.square(rows - self.mean_)))) or 1.0  # all rows one point: nothing to scale
        rows = self._scaled(rows)
        folds = stratified(data, self.folds, seed=self.seed)
        alphas = sorted(set(self.alphas), reverse=True)
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
        *_, self.model_ = self._path(rows, data.codes, alphas[: best + 1])
        self.classes_, self.n_features_in_ = data.classes, data.X.shape[1]
        self.alpha_, self.cv_score_ = alphas[best], float(scores[best].mean())
        steps = int(np.max(self.model_.n_iter_))
        late = f"the solver had not converged after {steps} steps" if steps >= self.max_iter else ""
        self.note_ = "; ".join(filter(None, [folds.note, late]))
        self.seconds_ = time.perf_counter() - began
        if self.progress is not None:
            self.progress(len(folds.parts) + 1, len(folds.parts) + 1)
        return self

    def _path(self, X: NDArray[np.float64], y: Codes, alphas: Sequence[float]) -> Any:
        """The fitted model of each weight in turn, each started from the one before."""
        model = LogisticRegression(max_iter=self.max_iter, warm_start=True)
        for alpha in alphas:
            model.set_params(C=1 / alpha)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # told in the note
                yield model.fit(X, y)

    def _scaled(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray((X - self.mean_) / self.scale_, dtype=np.float64)

    def predict(self, X: Vectors) -> NDArray[Any]:
        """The most probable label of each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.model_.predict(self._scaled(singles(X)))])

    def evaluate(self, X: Vectors, y: Any) -> ProbeScore:
        """Accuracy on held-out rows; a label that was not in the training rows counts as wrong and is listed."""
        rows, labels = singles(X), np.asarray(y)
        require_match(rows, labels)
        scores = accuracies([self.predict(rows)], labels)
        return ProbeScore(
            mean=scores[0],
            sd=0.0,
            scores=scores,
            hidden=(),
            alpha=self.alpha_,
            cv_score=self.cv_score_,
            epochs=(int(np.max(self.model_.n_iter_)),),
            seconds=self.seconds_,
            n=len(labels),
            unknown=unknown_labels(labels, self.classes_),
            note=self.note_,
        )
