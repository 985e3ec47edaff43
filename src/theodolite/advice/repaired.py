"""What a repair does to a similarity task: the score of scored pairs before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats
from theodolite.tasks.scores import spearman


def pair_cosines(first: Floats, second: Floats) -> Doubles:
    """Cosine of row i of one with row i of the other; 0 where one of them is zero."""
    products = np.einsum("ij,ij->i", first, second, dtype=np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = np.zeros(len(products))
    np.divide(products, lengths, out=cosines, where=lengths > 0)
    return cosines


def repaired_scores(first: Floats, second: Floats, scores: Doubles, repairs: Mapping[str, Any]) -> dict[str, float]:
    """Spearman correlation of cosines with scores, as it is (under "none") and after each repair.

    Each repair is fitted on both sides together and applied to both.
    """
    found = {"none": spearman(scores, pair_cosines(first, second))}
    both = np.concatenate([first, second])
    for name, repair in repairs.items():
        changed = repair.fit(both).transform(both)
        found[name] = spearman(scores, pair_cosines(changed[: len(first)], changed[len(first) :]))
    return found
