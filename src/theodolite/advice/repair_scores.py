"""What a repair does to a similarity task: the score of scored pairs before and after it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats
from theodolite.repairs.base import Repair
from theodolite.tasks.scores import spearman

NO_REPAIR = "none"  # the name of the score without a repair


def row_cosines(first: Floats, second: Floats) -> Doubles:
    """Cosine of row i of one array with row i of the other; 0 if one of them is zero.

    Parameters
    ----------
    first, second
        (n, d) rows.
    """
    products = np.einsum("ij,ij->i", first, second, dtype=np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines: Doubles = np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0)
    return cosines


def repaired_scores(first: Floats, second: Floats, scores: Doubles, repairs: Mapping[str, Repair]) -> dict[str, float]:
    """Spearman correlation of cosines with scores, without a repair (under "none") and after each repair.

    Parameters
    ----------
    first, second
        (n, d) rows: row i of both is a pair.
    scores
        One number per pair.
    repairs
        Repairs by name. Each is fitted on both sides together, and applied to both.
    """
    both = np.concatenate([first, second])
    correlations = {NO_REPAIR: spearman(scores, row_cosines(first, second))}
    for name, repair in repairs.items():
        repaired = repair.fit(both).transform(both)
        correlations[name] = spearman(scores, row_cosines(repaired[: len(first)], repaired[len(first) :]))
    return correlations
