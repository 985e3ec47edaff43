"""The main scores of tasks: functions of the true and the predicted values, by name in `SCORES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.intervals import LEVEL, standard_error_interval
from theodolite.metrics.cloud import Undefined

# Level of a two-sided interval whose lower end is a one-sided bound at 5%.
ONE_SIDED = 2 * LEVEL - 1
# Resamples of the examples behind a lower limit.
RESAMPLES = 200
# Answers that differ by less are one answer: a cosine of float32 vectors has such rounding.
SAME_ANSWER = 1e-6


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


@dataclass(frozen=True)
class Learning:
    """A score next to the one of a model that ignores the input: the task is learned if the lower limit is above that baseline.

    `low` is the one-sided 95% lower limit over examples. A model with one answer for every example has learned nothing.
    """

    value: float
    low: float
    baseline: float
    what: str = ""  # the baseline in words
    one_answer: bool = False

    @property
    def learned(self) -> bool:
        """Whether the score shows that the model uses its input."""
        return self.low > self.baseline and not self.one_answer


def learning(name: str, truth: NDArray[Any], answers: NDArray[Any], untuned: NDArray[Any] | None = None) -> Learning:
    """Whether answers show that a task was learned; `untuned` are the answers of the encoder before, if it can give any."""
    if name == "accuracy":
        return accuracy_learning(truth, answers)
    resamples = np.random.default_rng(0).integers(0, len(truth), (RESAMPLES, len(truth)))
    value, draws = score(name, truth, answers)[0], np.array([score(name, truth[at], answers[at])[0] for at in resamples])
    baseline, what = 0.0, "what ignoring the input gives"
    if name == "macro_f1":  # guessing with the classes' own frequencies
        baseline = 1 / len(np.unique(truth))
    if untuned is not None and not has_one_answer(untuned):
        baseline, what = score(name, truth, untuned)[0], "the untuned encoder"
        draws = draws - np.array([score(name, truth[at], untuned[at])[0] for at in resamples])
    low = lower_limit(value, draws[np.isfinite(draws)], len(truth))
    return Learning(value, low, baseline, what, has_one_answer(answers))


def accuracy_learning(truth: NDArray[Any], answers: NDArray[Any]) -> Learning:
    """The accuracy of answers, paired example by example with a model that always answers the largest class."""
    values, counts = np.unique(truth, return_counts=True)
    gains = (answers == truth).astype(float) - (truth == values[counts.argmax()])
    share, n = float(counts.max() / len(truth)), len(gains)
    value, error = share + float(gains.mean()), float(gains.std(ddof=1)) / np.sqrt(n) if n > 1 else np.nan
    low, _ = standard_error_interval(value, error, max(1, n - 1), level=ONE_SIDED)
    return Learning(value, low, share, "the share of the largest class", has_one_answer(answers))


def lower_limit(value: float, draws: NDArray[Any], n: int) -> float:
    """The one-sided 95% lower limit of a score of n examples, from its values in resamples of them; nan without resamples."""
    error = float(draws.std(ddof=1)) if len(draws) > 1 else np.nan
    return standard_error_interval(value, error, max(1, n - 1), level=ONE_SIDED)[0]


def has_one_answer(answers: NDArray[Any]) -> bool:
    """Whether a model answers the same, or nothing that is a number, to every example."""
    return not np.ptp(answers) > SAME_ANSWER


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
