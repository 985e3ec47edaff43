"""Correlations of cosines with scores, with intervals from resampled pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.core.rows import Row, current_versions
from theodolite.tasks.scores import score

LEVEL = 0.95


class Resampled:
    """Draws of pairs with replacement, the same for all that is compared with their `scores`; none where `count` is 0."""

    def __init__(self, scores: Doubles, count: int, *, seed: int) -> None:
        self.scores = scores
        self._draws: NDArray[np.intp] = np.random.default_rng(seed).integers(0, len(scores), (count, len(scores)))
        self._ranked = _ranks(scores[self._draws])

    def spearmans(self, cosines: Doubles) -> Doubles:
        """Spearman of every draw."""
        return _pearsons(self._ranked, _ranks(cosines[self._draws]))

    def pearsons(self, cosines: Doubles) -> Doubles:
        """Pearson of every draw."""
        return _pearsons(self.scores[self._draws], cosines[self._draws])

    def change(self, before: Doubles, after: Doubles, metric: str, setting: str, about: Mapping[str, Any]) -> Row:
        """Spearman after less Spearman before, with a paired interval."""
        (old, why), (new, other) = (score("spearman", self.scores, cosines) for cosines in (before, after))
        drawn = self.spearmans(after) - self.spearmans(before)
        return _row(metric, new - old, why or other, drawn, len(self.scores), {**about, "setting": setting})

    def correlations(self, cosines: Doubles, setting: str, about: Mapping[str, Any]) -> list[Row]:
        """Spearman and Pearson of cosines with the scores, each with its interval."""
        return [
            _row(name, *score(name, self.scores, cosines), drawn(cosines), len(self.scores), {**about, "setting": setting})
            for name, drawn in (("spearman", self.spearmans), ("pearson", self.pearsons))
        ]


def _row(metric: str, value: float, reason: str, drawn: Doubles, n: int, fields: Mapping[str, Any]) -> Row:
    low = high = None
    if len(drawn) and np.isfinite(value) and np.isfinite(drawn).all():
        low, high = map(float, np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    known = {"versions": current_versions(), **fields}
    return Row(**{**known, "metric": metric, "value": value, "reason": reason, "n": n, "low": low, "high": high})


def _ranks(values: Doubles) -> Doubles:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=1), dtype=np.float64) if len(values) else values


def _pearsons(X: Doubles, Y: Doubles) -> Doubles:
    """Pearson of each row of one with the same row of the other; nan where one has no spread."""
    if not len(X):
        return np.empty(0)
    X, Y = X - X.mean(axis=1, keepdims=True), Y - Y.mean(axis=1, keepdims=True)
    sizes = np.sqrt(np.einsum("ij,ij->i", X, X) * np.einsum("ij,ij->i", Y, Y))
    products = np.einsum("ij,ij->i", X, Y)
    return np.asarray(np.divide(products, sizes, out=np.full(len(X), np.nan), where=sizes > 0))
