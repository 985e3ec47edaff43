"""Spatial similarity: whether two representations arrange the labels alike (Zhou & Srikumar 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.intervals import LEVEL, jackknife_interval, require_level
from theodolite.core.moments import Doubles

_MIN_LABELS = 4  # for an interval: one left out must leave three, which have three distances


@dataclass(frozen=True)
class Similarity:
    """How alike two representations are, with an interval if there is one.

    Parameters
    ----------
    value
        The similarity; nan if it is not defined.
    low, high
        Its interval; None if there is none.
    n
        What was compared: the number of labels, or of rows.
    dropped
        Labels that only one side has.
    reason
        Why the value is nan, or, if there is a value, why there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    dropped: tuple[Any, ...] = ()
    reason: str = ""


@dataclass(frozen=True, eq=False)
class LabelDistances:
    """The distances between labels in one representation.

    Parameters
    ----------
    classes
        The labels.
    distances
        (labels, labels), symmetric; nan for pairs without a distance.
    is_linear
        Whether every label is one cluster, so that a distance is one between two hulls and not a mean over several.
    n_clusters
        The number of clusters; None if it is not known.
    """

    classes: tuple[Any, ...]
    distances: Doubles
    is_linear: bool = True
    n_clusters: int | None = None

    @classmethod
    def of(cls, probe: Any) -> LabelDistances:
        """The distances of a fitted probe.

        Parameters
        ----------
        probe
            A fitted `DirectProbe`; a `LabelDistances` stays as it is.
        """
        if isinstance(probe, cls):
            return probe
        if not hasattr(probe, "label_distances_"):
            raise TypeError(
                f"{type(probe).__name__} has no label distances; give a fitted DirectProbe, or LabelDistances(classes, distances)"
            )
        return cls.from_matrix(
            probe.classes_, probe.label_distances_, is_linear=bool(probe.is_linear_), n_clusters=int(probe.n_clusters_)
        )

    @classmethod
    def from_matrix(
        cls, classes: Sequence[Any], distances: ArrayLike, *, is_linear: bool = True, n_clusters: int | None = None
    ) -> LabelDistances:
        """Distances from a matrix, checked.

        Parameters
        ----------
        classes
            The labels, each once.
        distances
            A symmetric (labels, labels) matrix in the order of `classes`; its diagonal is not used.
        is_linear, n_clusters
            As in the class; by default as many clusters as labels.

        Raises
        ------
        ValueError
            The matrix has another shape or is not symmetric, or a label occurs twice.
        """
        names = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
        matrix = np.array(distances, dtype=np.float64)
        if matrix.shape != (len(names), len(names)):
            raise ValueError(
                f"the distances of {len(names)} labels are an ({len(names)}, {len(names)}) matrix, not {matrix.shape}"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"label {twice!r} is named twice; every label has one row of the matrix")
        if not np.allclose(matrix, matrix.T, rtol=1e-6, equal_nan=True):
            raise ValueError("the distances are not symmetric; the distance from A to B must be that from B to A")
        np.fill_diagonal(matrix, np.nan)
        return cls(names, matrix, is_linear, len(names) if n_clusters is None else n_clusters)

    def _measured(self) -> list[Any]:
        """Labels with a distance to at least one other label."""
        return [name for name, row in zip(self.classes, self.distances, strict=True) if np.isfinite(row).any()]

    def _among(self, labels: Sequence[Any]) -> Doubles:
        """The matrix of some labels, in their order."""
        places = [self.classes.index(label) for label in labels]
        return self.distances[np.ix_(places, places)]


def spatial_similarity(a: Any, b: Any, *, force: bool = False, level: float = LEVEL) -> Similarity:
    """Pearson of the label distances of two representations, in [-1, 1]; 1 is the same layout up to scale (Zhou & Srikumar 2022).

    Distances are compared over the labels that both have; the others are listed as dropped. The interval is a jackknife that
    leaves out one label at a time, on Fisher's z. Pairs of labels are not independent: a label far from all has a part in L - 1
    of them, and resampling pairs would count it as L - 1 observations. Leaving out labels is right if labels make the difference,
    and too wide, by up to sqrt(2), if every pair goes its own way.

    Parameters
    ----------
    a, b
        Fitted `DirectProbe`s or `LabelDistances`.
    force
        Whether to compare mean distances between clusters if a label has several; without it the similarity is then not defined.
    level
        Coverage of the interval, between 0 and 1.
    """
    require_level(level)
    first, second = LabelDistances.of(a), LabelDistances.of(b)
    in_second = set(second._measured())
    common = [label for label in first._measured() if label in in_second]
    dropped = tuple(label for label in dict.fromkeys([*first.classes, *second.classes]) if label not in set(common))
    old, new = first._among(common), second._among(common)
    reason = _undefined(first, second, len(common), force)
    value, reason = (math.nan, reason) if reason else _correlation(old, new)
    if reason:
        return Similarity(math.nan, n=len(common), dropped=dropped, reason=reason)
    labels = np.arange(len(common))
    if len(labels) < _MIN_LABELS:
        reason = f"an interval needs at least {_MIN_LABELS} labels, there are {len(labels)}"
        return Similarity(value, n=len(common), dropped=dropped, reason=reason)
    without_one = [np.ix_(places, places) for places in (np.delete(labels, label) for label in labels)]
    correlations, reasons = zip(*(_correlation(old[places], new[places]) for places in without_one), strict=True)
    if any(reasons):
        reason = f"no interval: without one label, {next(filter(None, reasons))}"
        return Similarity(value, n=len(common), dropped=dropped, reason=reason)
    low, high = jackknife_interval(value, correlations, correlation=True, level=level)
    return Similarity(value, low, high, len(common), dropped)


def _undefined(first: LabelDistances, second: LabelDistances, common: int, force: bool) -> str:
    """Why there is nothing to compare, or ""."""
    for name, side in (("first", first), ("second", second)):
        if not side.is_linear and not force:
            return (
                f"it is defined only if every label is one cluster; the {name} has {side.n_clusters} clusters of "
                f"{len(side.classes)} labels: force=True compares mean distances between labels"
            )
    return f"{common} labels are in both; a correlation needs the distances of at least 3" if common < 3 else ""


def _correlation(old: Doubles, new: Doubles) -> tuple[float, str]:
    """Pearson over the pairs above the diagonal, or (nan, why not)."""
    above = np.triu_indices(len(old), 1)
    x, y = old[above], new[above]
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return math.nan, "some pairs of labels have no distance on one side"
    x, y = x - x.mean(), y - y.mean()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    # Distances that differ by rounding alone have no correlation.
    rounding = 1e-12 * float(np.abs(old[above]).max() * np.abs(new[above]).max()) * len(x)
    if size <= rounding:
        return math.nan, "all labels are equally far apart on one side, so there is nothing to correlate"
    return float(np.clip(x @ y / size, -1.0, 1.0)), ""
