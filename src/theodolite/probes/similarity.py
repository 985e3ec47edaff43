"""Spatial similarity: whether two representations lay the labels out alike (Zhou & Srikumar 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.moments import Doubles

FEWEST_LABELS = 4
"""Labels below which there is no interval: one left out must leave three, which have three distances."""
NEAREST_TO_ONE = 1 - 1e-15
"""Fisher's z of a correlation of exactly 1 is infinite."""


@dataclass(frozen=True)
class Similarity:
    """How alike two representations are, with an interval where there is one.

    `n` counts what was compared: labels, or rows. `dropped` are labels that only one side has. `reason` says why the value is
    nan, or, where there is a value, why there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    dropped: tuple[Any, ...] = ()
    reason: str = ""


@dataclass(frozen=True, eq=False)
class LabelDistances:
    """The distances between labels in one representation: (L, L), symmetric, nan where there is none.

    `is_linear` says that every label is one cluster, so that a distance is one between two hulls and not a mean over several.
    """

    classes: tuple[Any, ...]
    distances: Doubles
    is_linear: bool = True
    n_clusters: int | None = None

    @classmethod
    def of(cls, probe: Any) -> LabelDistances:
        """Of a fitted `DirectProbe`; what is a LabelDistances already stays as it is."""
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
        """Of a symmetric (L, L) matrix in the order of `classes`; its diagonal is not looked at."""
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

    def present(self) -> list[Any]:
        """Labels that are some distance from at least one other."""
        return [name for name, row in zip(self.classes, self.distances, strict=True) if np.isfinite(row).any()]

    def among(self, labels: Sequence[Any]) -> Doubles:
        """The matrix of these labels, in this order."""
        places = [self.classes.index(label) for label in labels]
        return self.distances[np.ix_(places, places)]


def spatial_similarity(a: Any, b: Any, *, force: bool = False, level: float = 0.95) -> Similarity:
    """Pearson of the label distances of two representations, in [-1, 1]; 1 is the same layout up to scale (Zhou & Srikumar 2022).

    `a` and `b` are fitted `DirectProbe`s or `LabelDistances`. Distances are taken over the labels that both have, in the same
    order; the others are listed as dropped. It is defined where each label is one cluster on both sides; `force` takes the mean
    distances between the labels' clusters instead.

    The interval is a jackknife that leaves out one label at a time, on Fisher's z. Pairs of labels are not independent, a label
    far from all has a hand in L - 1 of them, and resampling pairs would take them for so many observations. Leaving out labels is
    right where labels make the difference, and too wide, by up to sqrt(2), where every pair goes its own way.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1")
    first, second = LabelDistances.of(a), LabelDistances.of(b)
    known, others = first.present(), set(second.present())
    common = [label for label in known if label in others]
    dropped = tuple(label for label in dict.fromkeys([*first.classes, *second.classes]) if label not in set(common))
    old, new = first.among(common), second.among(common)
    reason = _undefined(first, second, len(common), force)
    value, reason = (math.nan, reason) if reason else _correlation(old, new)
    if reason:
        return Similarity(math.nan, n=len(common), dropped=dropped, reason=reason)
    low, high, reason = _jackknife(old, new, value, level)
    return Similarity(value, low, high, len(common), dropped, reason)


def _undefined(first: LabelDistances, second: LabelDistances, common: int, force: bool) -> str:
    """Why there is nothing to compare, or ""."""
    for name, side in (("first", first), ("second", second)):
        if not side.is_linear and not force:
            return (
                f"it is defined only where every label is one cluster; the {name} has {side.n_clusters} clusters of "
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
    flat = 1e-12 * float(np.abs(old[above]).max() * np.abs(new[above]).max()) * len(x)
    if size <= flat:
        return math.nan, "all labels are equally far apart on one side, so there is nothing to correlate"
    return float(np.clip(x @ y / size, -1.0, 1.0)), ""


def _jackknife(old: Doubles, new: Doubles, value: float, level: float) -> tuple[float | None, float | None, str]:
    from scipy.stats import t

    labels = len(old)
    if labels < FEWEST_LABELS:
        return None, None, f"an interval needs at least {FEWEST_LABELS} labels, there are {labels}"
    left_out = []
    for label in range(labels):
        rest = np.delete(np.arange(labels), label)
        correlation, reason = _correlation(old[np.ix_(rest, rest)], new[np.ix_(rest, rest)])
        if reason:
            return None, None, f"no interval: without one label, {reason}"
        left_out.append(_fisher(correlation))
    error = math.sqrt((labels - 1) / labels * float(np.square(np.array(left_out) - np.mean(left_out)).sum()))
    reach = float(t.ppf((1 + level) / 2, labels - 1)) * error
    return math.tanh(_fisher(value) - reach), math.tanh(_fisher(value) + reach), ""


def _fisher(correlation: float) -> float:
    return math.atanh(min(max(correlation, -NEAREST_TO_ONE), NEAREST_TO_ONE))
