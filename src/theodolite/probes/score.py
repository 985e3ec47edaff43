"""What a probe reports: the accuracies of its initialisations, and what was chosen to get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ProbeScore:
    """Accuracy of a probe in [0, 1] over its initialisations, higher is better, with what the search chose (ZS22)."""

    mean: float
    sd: float
    """Sample standard deviation over the initialisations; 0 where there is one, as with a convex probe."""
    scores: tuple[float, ...]
    """Of each initialisation."""
    hidden: tuple[int, ...]
    """Units of the hidden layers of the chosen cell; empty for a linear probe."""
    alpha: float
    """L2 weight of the chosen cell."""
    cv_score: float
    """Mean accuracy of the chosen cell on the held-out folds."""
    epochs: tuple[int, ...]
    """Passes over the rows that each initialisation took (steps of the solver for a linear probe)."""
    seconds: float
    """Time of the fit: search and initialisations."""
    n: int
    """Rows that were scored."""
    unknown: tuple[Any, ...] = ()
    """Labels among the scored rows that the probe was not trained on; such rows count as wrong."""
    note: str = ""


def accuracies(predictions: Sequence[NDArray[Any]], y: NDArray[Any]) -> tuple[float, ...]:
    """Share of rows that each prediction has right."""
    return tuple(float(np.mean(predicted == y)) for predicted in predictions)


def spread(scores: Sequence[float]) -> float:
    """Sample standard deviation, 0 of a single score."""
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0


def unknown_labels(y: NDArray[Any], classes: NDArray[Any]) -> tuple[Any, ...]:
    """Labels of y that are not among the classes, in order."""
    return tuple(np.setdiff1d(y, classes).tolist())
