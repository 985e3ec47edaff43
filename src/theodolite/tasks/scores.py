"""The main scores of tasks: functions of the true and the predicted values, by name in `SCORES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.metrics.cloud import Undefined


def spearman(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Spearman's rank correlation, in [-1, 1]; 1 is the same order. Ties share their mean rank."""
    from scipy.stats import spearmanr

    return float(spearmanr(*_varying(truth, predicted)).statistic)


def pearson(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Pearson's correlation, in [-1, 1]; 1 is a rising straight line."""
    from scipy.stats import pearsonr

    return float(pearsonr(*_varying(truth, predicted)).statistic)


def matthews(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Matthews' correlation of labels, in [-1, 1]; 1 is all right, 0 is chance or only one label predicted."""
    from sklearn.metrics import matthews_corrcoef

    true, guesses = _labels(truth, predicted)
    # scikit-learn returns 0 here, which would read as chance.
    if (true == true[0]).all():
        raise Undefined("all true labels are equal")
    return float(matthews_corrcoef(true, guesses))


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Share of examples with the right label, in [0, 1]; 1 is all right."""
    true, guesses = _labels(truth, predicted)
    return float(np.mean(true == guesses))


def macro_f1(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean over labels of F1, in [0, 1]; 1 is all right. A label that is never predicted rightly counts 0."""
    from sklearn.metrics import f1_score

    return float(f1_score(*_labels(truth, predicted), average="macro", zero_division=0.0))


# All scores by name, as functions (truth, predicted).
SCORES: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "spearman": spearman,
    "pearson": pearson,
    "matthews": matthews,
    "accuracy": accuracy,
    "macro_f1": macro_f1,
}


def score(name: str, truth: ArrayLike, predicted: ArrayLike) -> tuple[float, str]:
    """A score as (value, ""), or as (nan, reason) if it is not defined.

    Parameters
    ----------
    name
        One of `SCORES`.
    truth, predicted
        The true and the predicted values.
    """
    if name not in SCORES:
        raise ValueError(f"score {name!r} is not known; known are {', '.join(SCORES)}")
    try:
        return SCORES[name](truth, predicted), ""
    except Undefined as undefined:
        return float("nan"), str(undefined)


def _varying(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as numbers, of one length, for which a correlation is defined."""
    pair = (np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64))
    _require_same_length(*pair)
    if len(pair[0]) < 2:
        raise Undefined("a correlation needs at least two examples")
    for side, values in zip(("true", "predicted"), pair, strict=True):
        if not np.isfinite(values).all():
            raise Undefined(f"{np.count_nonzero(~np.isfinite(values))} {side} scores are not finite")
        if np.ptp(values) == 0:
            raise Undefined(f"all {side} scores are equal")
    return pair


def _labels(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    pair = (np.asarray(truth), np.asarray(predicted))
    _require_same_length(*pair)
    if not len(pair[0]):
        raise Undefined("there is no example")
    # NumPy would compare "1" with 1 without complaint, and find them different.
    if (pair[0].dtype.kind in "US") != (pair[1].dtype.kind in "US"):
        raise ValueError(f"labels must be names in both or numbers in both, not {pair[0].dtype} and {pair[1].dtype}")
    return pair


def _require_same_length(truth: NDArray[Any], predicted: NDArray[Any]) -> None:
    if truth.ndim != 1 or truth.shape != predicted.shape:
        raise ValueError(f"truth of shape {truth.shape} and predictions of shape {predicted.shape} must be lists of one length")
