"""Thresholds of cosines: what unrelated pairs show, a cutoff at a stated false-positive rate, and a map to probabilities.

Intervals resample what is independent: domains or texts, and groups of pairs that share a text or a query.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.folds import resample_counts
from theodolite.advice.scorers import JudgedQueries
from theodolite.core.intervals import LEVEL, Interval, percentile_interval, share_interval
from theodolite.core.moments import Doubles, unit_rows
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Floats, Indices
from theodolite.tasks.retrieval import NOWHERE

DRAWS = 1000  # bootstrap resamples behind an interval
MAP_DRAWS = 200  # those behind the map to probabilities, which is fitted again in each
MAP_POINTS = 21
FEWEST_ABOVE = 10  # pairs above a cutoff, below which its position is a guess
MOST_EXACT = 20_000  # pairs above which the map is fitted to cosines rounded to three digits
MOST_JUDGED = 200_000  # pairs of queries and documents
QUANTILES = (0.01, 0.05, 0.5, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class UnrelatedPairs:
    """Cosines of all pairs of rows that do not belong together, ascending, and of those that share a group."""

    groups: Indices
    cosines: Doubles
    first: Indices
    second: Indices
    inside: Doubles

    @classmethod
    def of(cls, X: Floats, groups: Sequence[Hashable] | None = None) -> UnrelatedPairs:
        """All pairs of rows, or only those of rows from different groups."""
        units = unit_rows(X).astype(np.float64)
        first, second = np.triu_indices(len(X), k=1)
        codes = np.arange(len(X)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        apart = codes[first] != codes[second]
        all_cosines = (units @ units.T)[first, second]
        first, second, cosines = first[apart], second[apart], all_cosines[apart]
        order = np.argsort(cosines, kind="stable")
        return cls(codes, cosines[order], first[order], second[order], all_cosines[~apart])

    def quantile(self, share: float) -> float:
        """The smallest of the cosines that at least this share of them does not exceed."""
        return float(self.cosines[min(len(self.cosines) - 1, int(np.ceil(share * len(self.cosines))) - 1)])

    def cutoff(self, rate: float, *, seed: int = 0, draws: int = DRAWS) -> tuple[float, Interval]:
        """The cosine that a share `rate` of the pairs exceeds, and its 95% interval over resampled groups of rows.

        Rows are resampled, not pairs: a row is in many pairs, which are not independent; nor are sentences of one domain.
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
        for counts in resample_counts(self.groups, draws, seed=seed):
            weights = np.cumsum(counts[self.first] * counts[self.second])
            position = int(np.searchsorted(weights, (1 - rate) * weights[-1] * (1 - 1e-12)))
            values.append(self.cosines[min(position, len(weights) - 1)])
        return self.quantile(1 - rate), percentile_interval(values)


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Cosines of pairs that are known to match or not; `groups` are numbers of what is independent, such as queries."""

    cosines: Doubles
    matches: NDArray[np.bool_]
    groups: Indices

    def __post_init__(self) -> None:
        if self.matches.all() or not self.matches.any():
            kind = "matches" if self.matches.all() else "non-matches"
            raise ValueError(f"all {len(self.matches)} pairs are {kind}; a threshold needs pairs of both kinds")

    @classmethod
    def of_queries(cls, signal: JudgedQueries, *, seed: int = 0, most: int = MOST_JUDGED) -> LabelledPairs:
        """Every query with every document, or with a sample of them next to the relevant ones, which are the matches."""
        n, count = len(signal.rows), len(signal.queries)
        judged = signal.judgements
        present = judged.document != NOWHERE
        matches = np.zeros((count, n), bool)
        matches[judged.query[present], judged.document[present]] = True
        kept = matches.copy()
        kept[:, sample_rows(n, max(1, most // count), seed=seed)] = True
        query, document = np.nonzero(kept)
        cosines = (unit_rows(signal.queries) @ unit_rows(signal.rows).T)[query, document]
        return cls(cosines.astype(np.float64), matches[query, document], signal.groups[query])

    def cutoff(self, rate: float) -> tuple[float, Interval]:
        """The cosine that a share `rate` of the pairs that do not match exceeds, and its 95% interval.

        Of n pairs in groups as many count as would give the same error if they were independent (Woodruff 1952; Korn and
        Graubard 1998). The upper limit is 1 if there are too few of them above the cutoff for one.
        """
        others, groups = self.cosines[~self.matches], self.groups[~self.matches]
        ordered, n = np.sort(others), len(others)
        value = float(np.quantile(ordered, 1 - rate, method="higher"))
        effective = n / _design_effect(others > value, groups)
        low, high = _jeffreys_interval((1 - rate) * effective, effective)
        top = int(np.ceil(high * n))
        return value, (float(ordered[max(0, int(low * n) - 1)]), float(ordered[top]) if top < n else 1.0)

    def share_above(self, cutoff: float, *, of_matches: bool) -> tuple[float, Interval, int]:
        """The share of the matches, or of the other pairs, above a cutoff, its 95% interval over groups, and their number."""
        side = self.matches if of_matches else ~self.matches
        above, n = self.cosines[side] > cutoff, int(side.sum())
        return float(above.mean()), _share_interval(above, self.groups[side]), n

    def separation(self, *, seed: int = 0, draws: int = DRAWS) -> tuple[float, Interval]:
        """The share of (match, other) couples in which the match has the larger cosine (AUC), with its 95% interval.

        0.5 is chance: no threshold is better than a coin. Resampled to first order, from how many of the others each pair beats.
        """
        sides = [self.cosines[self.matches], self.cosines[~self.matches]]
        beaten = [_share_below(own, np.sort(other)) for own, other in (sides, sides[::-1])]
        auc = float(beaten[0].mean())
        _, codes = np.unique(self.groups, return_inverse=True)
        counts = resample_counts(np.arange(codes.max() + 1), draws, seed=seed)
        values = np.full(draws, auc)
        for side, wins, sign in ((self.matches, beaten[0], 1), (~self.matches, beaten[1], -1)):
            influence = np.bincount(codes[side], sign * (wins - wins.mean()), minlength=counts.shape[1])
            sizes = np.bincount(codes[side], minlength=counts.shape[1])
            values += counts @ influence / np.maximum(counts @ sizes, 1)
        return auc, percentile_interval(values.clip(0, 1))

    def probabilities(self, *, seed: int = 0, draws: int = MAP_DRAWS) -> list[dict[str, float]]:
        """How probable a match is at a few cosines: isotonic regression, so it never falls, with 95% intervals.

        It holds for pairs that match as often as these do. An interval is at least that of the share of matches among the pairs
        that got the same probability: resamples alone would be certain of a few pairs at an end that all match.
        """
        from sklearn.isotonic import IsotonicRegression

        # Where few pairs match, quantiles of all of them would all lie where none does.
        cosines = self.cosines if len(self.cosines) <= MOST_EXACT else self.cosines.round(3)
        shown = cosines if self.matches.mean() > 0.1 else cosines[self.matches]
        quantiles = np.quantile(shown, np.linspace(0, 1, MAP_POINTS), method="nearest")
        points = np.unique([*quantiles, cosines.min(), cosines.max()])
        bins, codes = np.unique(cosines, return_inverse=True)

        def fitted(weights: Doubles, asked: Doubles = points) -> Doubles:
            total = np.bincount(codes, weights, minlength=len(bins))
            hits = np.bincount(codes, weights * self.matches, minlength=len(bins))
            kept = total > 0
            model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            model.fit(bins[kept], hits[kept] / total[kept], sample_weight=total[kept])
            return np.asarray(model.predict(asked), dtype=np.float64)

        every = np.ones(len(self.cosines))
        values, levels = fitted(every), fitted(every, bins)[codes]
        _, groups = np.unique(self.groups, return_inverse=True)
        resampled = resample_counts(np.arange(groups.max() + 1), draws, seed=seed)
        low, high = np.quantile([fitted(counts[groups]) for counts in resampled], [0.025, 0.975], axis=0)
        equal = [np.isclose(levels, value) for value in values]
        shares = np.array([_share_interval(self.matches[pairs], groups[pairs]) for pairs in equal])
        low, high = np.minimum(low, shares[:, 0]), np.maximum(high, shares[:, 1])
        columns = zip(points, values, np.minimum(low, values), np.maximum(high, values), strict=True)
        return [dict(zip(("cosine", "probability", "low", "high"), map(float, row), strict=True)) for row in columns]


def _design_effect(above: NDArray[np.bool_], groups: Indices) -> float:
    """How many times as large the variance of a share is as that of independent pairs; at least 1."""
    share, n = float(above.mean()), len(above)
    codes = np.unique(groups, return_inverse=True)[1]
    totals = np.bincount(codes, above - share)
    m = len(totals)
    if m in (1, n) or share in (0.0, 1.0):
        return 1.0
    return max(1.0, float(totals @ totals) * m / (m - 1) / (n * share * (1 - share)))


def _share_interval(above: NDArray[np.bool_], groups: Indices) -> tuple[float, float]:
    """The 95% interval of a share; for pairs in groups, of as many as would give the same error if they were independent."""
    effect = _design_effect(above, groups)
    count, n = above.sum() / effect, len(above) / effect
    return share_interval(int(count), int(n)) if effect == 1 else _jeffreys_interval(count, n)


def _jeffreys_interval(count: float, n: float) -> tuple[float, float]:
    """Jeffreys' 95% interval of a share, for numbers that need not be whole."""
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    low = float(betaincinv(count + 0.5, n - count + 0.5, tail)) if count > 0 else 0.0
    return low, float(betaincinv(count + 0.5, n - count + 0.5, 1 - tail)) if count < n else 1.0


def _share_below(values: Doubles, others: Doubles) -> Doubles:
    """For each value the share of the others, sorted, that are smaller; equal ones count half."""
    left, right = (np.searchsorted(others, values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / 2 / len(others), dtype=np.float64)
