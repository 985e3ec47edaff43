"""Vectors with a label each: checked together, the labels as numbers, the rows cut into folds."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from theodolite.core.vectors import Floats, Vectors, array, require_finite
from theodolite.probes.network import Codes


class Labelled(NamedTuple):
    """Rows of float32, the number of each row's label, and the labels in order."""

    X: Floats
    codes: Codes
    classes: NDArray[Any]


class Folds(NamedTuple):
    """(training rows, held-out rows) of each fold, and what there is to say about them."""

    parts: list[tuple[Codes, Codes]]
    note: str


def labelled(X: Vectors, y: Any) -> Labelled:
    """Vectors and labels, checked: as many of one as of the other, finite, at least two different labels."""
    rows = singles(X)
    return Labelled(rows, *label_codes(rows, y))


def label_codes(rows: Floats, y: Any) -> tuple[Codes, NDArray[Any]]:
    """The number of each row's label, and the labels in order; an error unless each row has one and there are at least two."""
    labels = np.asarray(y)
    require_match(rows, labels)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"the labels cannot be put in order ({error}); make all of them text, or all of them numbers") from None
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"label {row} is {labels[row]}; leave out rows without a label")
    if len(classes) < 2:
        raise ValueError(
            f"all {len(labels)} rows have the label {classes[0]!s}; a probe needs at least two classes to tell apart"
        )
    return codes.reshape(-1), classes


def singles(X: Vectors) -> Floats:
    """The vectors in float32, in which probes are trained."""
    given = array(X)
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(given, dtype=np.float32)
    if rows.dtype != given.dtype:
        require_finite(rows)  # what float32 cannot hold has become infinite
    return rows


def require_match(rows: Floats, labels: NDArray[Any]) -> None:
    """Raise an error where there is not one label for each row."""
    if labels.ndim != 1:
        raise ValueError(f"the labels have shape {labels.shape}; there must be one label for each row: a list of {len(rows)}")
    if len(labels) != len(rows):
        raise ValueError(f"there are {len(labels):,} labels for {len(rows):,} rows of vectors; row i needs label i")


def stratified(data: Labelled, folds: int, *, seed: int = 0) -> Folds:
    """Shuffled folds with the same share of each class, as far as its rows allow; the note says where they do not."""
    if folds < 2:
        raise ValueError(f"folds={folds} must be at least 2: one to score on, the others to train on")
    counts = np.bincount(data.codes)
    folds = min(folds, len(data.codes))
    kind = StratifiedKFold if counts.max() >= folds else KFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rare classes: the note says it
        parts = list(kind(folds, shuffle=True, random_state=seed).split(data.X, data.codes))
    usable = [(train, test) for train, test in parts if len(np.unique(data.codes[train])) > 1]
    if not usable:
        raise ValueError(
            f"{len(data.codes)} rows of {len(counts)} classes are too few to hold some out; give more rows of each class"
        )
    rare = data.classes[counts < folds]
    note = f"fewer than {folds} rows, so absent from some of the {folds} folds: {', '.join(map(str, rare))}" if len(rare) else ""
    return Folds(usable, note)
