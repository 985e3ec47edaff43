"""Estimates: their intervals cover what they should, and differences are paired if they can be."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from theodolite.studies.claims.evidence import (
    Estimate,
    difference,
    magnitude,
    mean_estimate,
    rank_correlation,
    share_estimate,
)


def test_paired_seeds_see_what_unpaired_ones_cannot() -> None:
    before = {seed: float(seed) for seed in range(5)}
    after = {seed: seed + 0.1 + 0.001 * seed for seed in before}
    a, b = (replace(mean_estimate(list(one.values()), "seeds"), by_seed=one) for one in (after, before))
    paired, unpaired = difference(a, b), difference(replace(a, by_seed={}), replace(b, by_seed={}))
    assert paired.value == pytest.approx(unpaired.value) == pytest.approx(0.102)
    assert paired.low is not None and paired.low > 0 and "paired" in paired.how
    assert unpaired.low is not None and unpaired.low < 0


def test_intervals_have_their_coverage() -> None:
    rng = np.random.default_rng(0)
    means = [mean_estimate(list(rng.standard_normal(5)), "seeds") for _ in range(1000)]
    inside = np.mean([(one.low or 0) <= 0 <= (one.high or 0) for one in means])
    assert 0.93 <= inside <= 0.97
    # Wilson's coverage is exact to compute; on average over shares it is 95 %.
    n, coverage = 30, []
    shares = [share_estimate(count, n, "labels") for count in range(n + 1)]
    for p in np.linspace(0.05, 0.95, 91):
        chances = [math.comb(n, count) * p**count * (1 - p) ** (n - count) for count in range(n + 1)]
        coverage.append(sum(c for c, one in zip(chances, shares, strict=True) if (one.low or 0) <= p <= (one.high or 1)))
    assert np.mean(coverage) == pytest.approx(0.95, abs=0.01)


def test_the_size_of_an_interval_around_zero_begins_at_zero() -> None:
    assert magnitude(Estimate(value=-0.2, low=-0.3, high=-0.1)).bounds == (0.1, 0.3)
    assert magnitude(Estimate(value=-0.1, low=-0.3, high=0.2)).bounds == (0.0, 0.3)
    assert rank_correlation([1, 2], [1, 2], "layers") is None
    assert rank_correlation([1, 2, 3], [1, 1, 1], "layers") is None
