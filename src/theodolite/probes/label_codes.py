"""Vectors with a label each: checked together, the labels as numbers, and the labels of held-out rows against the fitted ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.spelling import option
from theodolite.core.vectors import Floats, Indices, Vectors, array, require_finite


class Labelled(NamedTuple):
    """Rows of float32, the number of each row's label, and the labels in order."""

    X: Floats
    codes: Indices
    classes: NDArray[Any]


def labelled(X: Vectors, y: Any) -> Labelled:
    """Vectors and labels, checked: as many of one as of the other, finite, at least two different labels."""
    rows = single_precision(X)
    return Labelled(rows, *code_labels(rows, y))


def code_labels(rows: Floats, y: Any) -> tuple[Indices, NDArray[Any]]:
    """The number of each row's label, and the labels in order."""
    labels = np.asarray(y)
    require_match(rows, labels)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"the labels cannot be sorted ({error}); make all of them text, or all of them numbers") from None
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"label {row} is {labels[row]}; leave out rows without a label")
    if len(classes) < 2:
        raise ValueError(f"all {len(labels):,} rows have the label {classes[0]!s}; a probe needs at least two classes")
    return codes.reshape(-1), classes


def single_precision(X: Vectors) -> Floats:
    """The vectors in float32, in which classifiers are trained."""
    vectors = array(X)
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
    if rows.dtype != vectors.dtype:
        require_finite(rows)  # a value that float32 cannot hold has become infinite
    return rows


def require_match(rows: Floats, labels: NDArray[Any]) -> None:
    """Raise an error unless there is one label per row."""
    if labels.ndim != 1:
        raise ValueError(f"the labels have shape {labels.shape}; there must be one label per row: a list of {len(rows)}")
    if len(labels) != len(rows):
        raise ValueError(f"there are {len(labels):,} labels for {len(rows):,} rows of vectors; row i needs label i")


def check_label_sets(
    train_labels: ArrayLike, test_labels: ArrayLike, drop_unseen: bool = False
) -> tuple[NDArray[np.bool_], list[tuple[Any, int]]]:
    """Which held-out rows have a label that was fitted.

    Examples
    --------
    >>> usable, unseen = check_label_sets(["A", "B"], ["B", "C", "A", "C"], drop_unseen=True)
    >>> usable.tolist(), unseen
    ([True, False, True, False], [('C', 2)])
    """
    test = np.asarray(test_labels)
    usable = np.isin(test, np.asarray(train_labels))
    labels, counts = np.unique(test[~usable], return_counts=True)
    unseen = list(zip(labels.tolist(), counts.tolist(), strict=True))
    names = ", ".join(f"{label} ({count})" for label, count in unseen)
    if unseen and not drop_unseen:
        raise ValueError(
            f"held-out row {int(np.flatnonzero(~usable)[0])} has a label that no fitted row has; all unseen labels: {names}. "
            f"Correct the labels, or leave those rows out with {option('drop_unseen')}"
        )
    if not usable.any():
        raise ValueError(f"no held-out row has a label that was fitted; theirs are {names}: give rows with the fitted labels")
    return usable, unseen
