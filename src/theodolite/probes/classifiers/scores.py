"""What a classifier probe reports: the accuracies of its initialisations on held-out rows, and what the search chose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from theodolite.core.vectors import Floats, Vectors
from theodolite.probes.labels import require_match, single_precision


@dataclass(frozen=True)
class ProbeScore:
    """Accuracy of a probe in [0, 1] over its initialisations, higher is better, with what the search chose.

    Parameters
    ----------
    mean, sd
        Over the initialisations; the sample standard deviation is 0 if there is only one, as with a convex probe.
    scores
        The accuracy of each initialisation.
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
        Classes too rare for the folds, and trainings that did not converge.
    """

    mean: float
    sd: float
    scores: tuple[float, ...]
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
        scores = tuple(float(np.mean(predicted == labels)) for predicted in self._predictions(rows))
        return ProbeScore(
            mean=float(np.mean(scores)),
            sd=float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
            scores=scores,
            hidden=self.hidden_,
            alpha=self.alpha_,
            cv_score=self.cv_score_,
            epochs=self.epochs_,
            seconds=self.seconds_,
            n=len(labels),
            unknown=tuple(np.setdiff1d(labels, self.classes_).tolist()),
            note=self.note_,
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

    def fit(self, X: Vectors, y: Any) -> Self:
        """Train on labelled rows.

        Parameters
        ----------
        X, y
            (n, d) vectors and the label of each.
        """
        raise NotImplementedError

    def _predictions(self, rows: Floats) -> Iterator[NDArray[Any]]:
        """The labels that each initialisation predicts."""
        raise NotImplementedError
