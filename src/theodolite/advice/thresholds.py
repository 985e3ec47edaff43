"""Thresholds of cosines: what unrelated pairs show, a cutoff at a stated false-positive rate, and a map to probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.folds import resample_counts
from theodolite.core.intervals import Interval, percentile_interval, share_interval
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats, Indices

DRAWS = 1000  # bootstrap resamples behind an interval
MAP_DRAWS = 200  # those behind the map to probabilities, which is fitted again in each
MAP_POINTS = 21
FEWEST_ABOVE = 10  # pairs above a cutoff, below which its place is a guess
QUANTILES = (0.01, 0.05, 0.5, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class UnrelatedPairs:
    """Cosines of all pairs of rows that do not belong together."""

    n: int
    cosines: Doubles
    first: Indices
    second: Indices

    @classmethod
    def of(cls, X: Floats, groups: Sequence[Hashable] | None = None) -> UnrelatedPairs:
        """All pairs of rows, or only those of rows from different groups."""
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        units = np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0).astype(np.float64)
        first, second = np.triu_indices(len(X), k=1)
        if groups is not None:
            codes = np.unique(np.asarray(groups), return_inverse=True)[1]
            apart = codes[first] != codes[second]
            first, second = first[apart], second[apart]
        cosines = (units @ units.T)[first, second]
        order = np.argsort(cosines, kind="stable")
        return cls(len(X), cosines[order], first[order], second[order])

    def quantile(self, share: float) -> float:
        """The smallest of the cosines that at least this share of them does not exceed."""
        return float(self.cosines[min(len(self.cosines) - 1, int(np.ceil(share * len(self.cosines))) - 1)])

    def cutoff(self, rate: float, *, seed: int = 0, draws: int = DRAWS) -> tuple[float, Interval]:
        """The cosine that a share `rate` of the pairs exceeds, and its 95 % interval over resampled rows.

        Rows are resampled, not pairs: a row is in many pairs, which are not independent.
        """
        if not 0 < rate < 1:
            raise ValueError(f"a false-positive rate of {rate:g} must be between 0 and 1")
        if rate * len(self.cosines) < FEWEST_ABOVE:
            needed = int(np.ceil(FEWEST_ABOVE / rate))
            raise ValueError(
                f"a false-positive rate of {rate:g} needs at least {needed:,} unrelated pairs; there are {len(self.cosines):,}: "
                "choose a higher rate, or give more texts"
            )
        values = []
        for counts in resample_counts(np.arange(self.n), draws, seed=seed):
            weights = np.cumsum(counts[self.first] * counts[self.second])
            place = int(np.searchsorted(weights, (1 - rate) * weights[-1] * (1 - 1e-12)))
            values.append(self.cosines[min(place, len(weights) - 1)])
        return self.quantile(1 - rate), percentile_interval(values)


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Cosines of pairs that are known to match or not."""

    cosines: Doubles
    matches: NDArray[np.bool_]
    groups: Indices

    def __post_init__(self) -> None:
        if self.matches.all() or not self.matches.any():
            kind = "a match" if self.matches.all() else "not a match"
            raise ValueError(f"every one of the {len(self.matches)} pairs is {kind}; a threshold needs pairs of both kinds")

    def separation(self, *, seed: int = 0, draws: int = DRAWS) -> tuple[float, Interval]:
        """The share of (match, other) couples in which the match has the larger cosine (AUC), with its 95 % interval.

        0.5 is chance: no threshold is better than a coin. Resampled to first order, from how many of the others each pair beats.
        """
        sides = [self.cosines[self.matches], self.cosines[~self.matches]]
        beaten = [_share_below(own, np.sort(other)) for own, other in (sides, sides[::-1])]
        influence = np.empty(len(self.cosines))
        influence[self.matches] = beaten[0] - beaten[0].mean()
        influence[~self.matches] = -(beaten[1] - beaten[1].mean())
        counts = resample_counts(self.groups, draws, seed=seed)
        auc = float(beaten[0].mean())
        values = np.full(draws, auc)
        for side in (self.matches, ~self.matches):
            values += counts[:, side] @ influence[side] / np.maximum(counts[:, side].sum(axis=1), 1)
        return auc, percentile_interval(values.clip(0, 1))

    def probabilities(self, *, seed: int = 0, draws: int = MAP_DRAWS) -> list[dict[str, float]]:
        """How probable a match is at a few cosines: isotonic regression, so it never falls, with 95 % intervals.

        It holds for pairs that match as often as these do. An interval is at least that of the share of matches among the pairs
        that got the same probability: resamples alone would be certain of a few pairs at an end that all match.
        """
        from sklearn.isotonic import IsotonicRegression

        points = np.unique(np.quantile(self.cosines, np.linspace(0, 1, MAP_POINTS), method="nearest"))

        def fitted(weights: Doubles, asked: Doubles = points) -> Doubles:
            kept = weights > 0
            model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            model.fit(self.cosines[kept], self.matches[kept], sample_weight=weights[kept])
            return np.asarray(model.predict(asked), dtype=np.float64)

        whole = np.ones(len(self.cosines))
        values, levels = fitted(whole), fitted(whole, self.cosines)
        resampled = np.array([fitted(counts) for counts in resample_counts(self.groups, draws, seed=seed)])
        low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
        equal = [self.matches[np.isclose(levels, value)] for value in values]
        shares = np.array([share_interval(int(pairs.sum()), len(pairs)) for pairs in equal])
        low, high = np.minimum(low, shares[:, 0]), np.maximum(high, shares[:, 1])
        columns = zip(points, values, np.minimum(low, values), np.maximum(high, values), strict=True)
        return [dict(zip(("cosine", "probability", "low", "high"), map(float, row), strict=True)) for row in columns]


def _share_below(values: Doubles, others: Doubles) -> Doubles:
    """For each value the share of the others, sorted, that are smaller; equal ones count half."""
    left, right = (np.searchsorted(others, values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / 2 / len(others), dtype=np.float64)
