"""Folding: a chain of affine repairs becomes one matrix and one bias."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sklearn.pipeline import Pipeline

from theodolite.repairs.base import Affine, Repair


def fold_affine(repairs: Repair | Sequence[Repair] | Pipeline) -> Affine:
    """Matrix and bias of fitted repairs applied one after the other: x @ matrix + bias equals the whole chain.

    Parameters
    ----------
    repairs
        One fitted repair, several in the order in which they are applied, or a scikit-learn pipeline of them.

    Raises
    ------
    TypeError
        One of the steps is not an affine repair.
    ValueError
        There is no step, or the widths of two steps do not match.
    """
    steps: list[Any]
    if isinstance(repairs, Pipeline):
        steps = [step for _, step in repairs.steps if step is not None and step != "passthrough"]
    else:
        steps = [repairs] if isinstance(repairs, Repair) else list(repairs)
    if not steps:
        raise ValueError("there is no repair to fold; give at least one")
    for position, step in enumerate(steps):
        if not isinstance(step, Repair):
            raise TypeError(f"step {position} is a {type(step).__name__}, not a repair, so it has no known matrix and bias")
    matrix, bias = steps[0].affine()
    for before, step in pairwise(steps):
        next_matrix, next_bias = step.affine()
        if matrix.shape[1] != len(next_matrix):
            raise ValueError(
                f"{type(before).__name__} gives {matrix.shape[1]} columns and {type(step).__name__} takes {len(next_matrix)}; "
                "fit each repair on the output of the one before"
            )
        matrix, bias = matrix @ next_matrix, bias @ next_matrix + next_bias
    return matrix, bias
