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
    """Draws of n pairs with replacement, the same for all that is compared; none where `count` is 0."""

    def __init__(self, n: int, count: int, *, seed: int) -> None:
        self.n = n
        self._draws: NDArray[np.intp] = np.random.default_rng(seed).integers(0, n, (count, n))

    def spearmans(self, scores: Doubles, cosines: Doubles) -> Doubles:
        """Spearman of every draw."""
        return np.array([_spearman(scores[draw], cosines[draw]) for draw in self._draws])

    def pearsons(self, scores: Doubles, cosines: Doubles) -> Doubles:
        """Pearson of every draw."""
        return np.array([_pearson(scores[draw], cosines[draw]) for draw in self._draws])

    def change(
        self, scores: Doubles, before: Doubles, after: Doubles, metric: str, setting: str, about: Mapping[str, Any]
    ) -> Row:
        """Spearman after less Spearman before, with a paired interval."""
        (old, why), (new, other) = (score("spearman", scores, cosines) for cosines in (before, after))
        drawn = self.spearmans(scores, after) - self.spearmans(scores, before)
        return _row(metric, new - old, why or other, drawn, self.n, {**about, "setting": setting})


def correlations(scores: Doubles, cosines: Doubles, draws: Resampled, *, setting: str, about: Mapping[str, Any]) -> list[Row]:
    """Spearman and Pearson of cosines with scores, each with its interval."""
    fields = {**about, "setting": setting}
    return [
        _row(name, *score(name, scores, cosines), drawn(scores, cosines), len(scores), fields)
        for name, drawn in (("spearman", draws.spearmans), ("pearson", draws.pearsons))
    ]


def _row(metric: str, value: float, reason: str, drawn: Doubles, n: int, fields: Mapping[str, Any]) -> Row:
    low = high = None
    if len(drawn) and np.isfinite(value) and np.isfinite(drawn).all():
        low, high = map(float, np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    known = {"versions": current_versions(), **fields}
    return Row(**{**known, "metric": metric, "value": value, "reason": reason, "n": n, "low": low, "high": high})


def _spearman(x: Doubles, y: Doubles) -> float:
    from scipy.stats import rankdata

    return _pearson(rankdata(x), rankdata(y))


def _pearson(x: Doubles, y: Doubles) -> float:
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else np.nan
