"""Intervals of `calibrate` cover the true value in 95% of samples, over domains of texts and groups of pairs.

`benchmarks/calibration_coverage.py` runs the same simulation for longer.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from theodolite.advice.thresholds import LabelledPairs, UnrelatedPairs


@dataclass(frozen=True)
class Domains:
    """25 domains of some sentences: a domain's centre with variances k**-decay, and as much noise around it."""

    between: float
    decay: float
    rate: float
    size: int = 10

    def draw(self, generator: np.random.Generator, domains: int, size: int) -> tuple[Any, Any]:
        scale = np.arange(1, 49) ** (-self.decay / 2)
        centres = self.between * scale * generator.standard_normal((domains, 48))
        X = np.repeat(centres, size, axis=0) + scale * generator.standard_normal((domains * size, 48)) + 0.15
        return X, np.repeat(np.arange(domains), size)

    @cached_property
    def truth(self) -> float:
        generator = np.random.default_rng(123)
        return float(np.mean([UnrelatedPairs.of(self.draw(generator, 2000, 1)[0]).quantile(1 - self.rate) for _ in range(3)]))

    def covers(self, generator: np.random.Generator, *, grouped: bool) -> dict[str, bool]:
        X, domain = self.draw(generator, 25, self.size)
        pairs = UnrelatedPairs.of(X, domain.tolist())
        if not grouped:
            pairs = UnrelatedPairs(np.arange(len(X)), pairs.cosines, pairs.first, pairs.second, pairs.inside)
        return {"cutoff": within(self.truth, pairs.cutoff(self.rate, draws=100)[1])}


@dataclass(frozen=True)
class Groups:
    """Groups of pairs that are linked, of 1 to `size` pairs, with a share `shared` of the variance in common; 40% match."""

    groups: int
    size: int
    shared: float
    rate: float

    def covers(self, generator: np.random.Generator, *, grouped: bool) -> dict[str, bool]:
        group = np.repeat(np.arange(self.groups), generator.integers(1, self.size + 1, self.groups))
        matches = generator.random(len(group)) < 0.4
        common = math.sqrt(self.shared) * generator.standard_normal(self.groups)[group]
        values = common + math.sqrt(1 - self.shared) * generator.standard_normal(len(group)) + 0.8 * matches
        pairs = LabelledPairs(0.5 + 0.1 * values, matches, group if grouped else np.arange(len(group)))
        return {
            "cutoff": within(0.5 + 0.1 * norm.ppf(1 - self.rate), pairs.cutoff(self.rate)[1]),
            "separation": within(norm.cdf(0.8 / math.sqrt(2)), pairs.separation()[1]),
            "share above": within(norm.sf(1.5), pairs.share_above(0.65, of_matches=False)[1]),
        }


DOMAINS = [Domains(1, 0.3, 0.01), Domains(1, 0.3, 0.05), Domains(2, 0.6, 0.01), Domains(2, 0.6, 0.05), Domains(1, 1.0, 0.05)]
GROUPS = [Groups(400, 1, 0.0, 0.05), Groups(100, 8, 0.3, 0.05), Groups(300, 8, 0.3, 0.01), Groups(300, 6, 0.8, 0.05)]


def within(truth: float, interval: Any) -> bool:
    return bool(interval[0] <= truth <= interval[1])


def coverage(case: Domains | Groups, *, repetitions: int, seed: int, grouped: bool = True) -> dict[str, float]:
    """The share of samples whose interval holds the true value, by what it is an interval of."""
    counts: Counter[str] = Counter()
    for number in range(repetitions):
        counts.update(
            {name: int(hit) for name, hit in case.covers(np.random.default_rng([seed, number]), grouped=grouped).items()}
        )
    return {name: count / repetitions for name, count in counts.items()}


@pytest.mark.parametrize("case", [pytest.param(Domains(2, 0.6, 0.05, size=3), marks=pytest.mark.slow), Groups(100, 8, 0.3, 0.05)])
def test_intervals_cover_over_domains_and_groups(case: Domains | Groups) -> None:
    shares = coverage(case, repetitions=40, seed=2)
    assert all(share >= 0.87 for share in shares.values()), shares
    naive = coverage(case, repetitions=40, seed=2, grouped=False)
    assert naive["cutoff"] < shares["cutoff"], (naive, shares)  # rows or pairs taken as independent cover less
