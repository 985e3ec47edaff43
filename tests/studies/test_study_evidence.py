"""Estimates: their intervals cover what they should, and differences are paired if they can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from theodolite.studies.claims.evidence import Estimate, difference, magnitude, mean_estimate, rank_correlation


def test_paired_seeds_see_what_unpaired_ones_cannot() -> None:
    before = {seed: float(seed) for seed in range(5)}
    after = {seed: seed + 0.1 + 0.001 * seed for seed in before}
    a, b = (replace(mean_estimate(list(values.values()), "seeds"), by_seed=values) for values in (after, before))
    paired, unpaired = difference(a, b), difference(replace(a, by_seed={}), replace(b, by_seed={}))
    assert paired is not None and unpaired is not None
    assert paired.value == pytest.approx(unpaired.value) == pytest.approx(0.102)
    assert paired.low is not None and paired.low > 0 and "paired" in paired.how
    assert unpaired.low is not None and unpaired.low < 0


def test_intervals_have_their_coverage() -> None:
    rng = np.random.default_rng(0)
    means = [mean_estimate(list(rng.standard_normal(5)), "seeds") for _ in range(1000)]
    inside = np.mean([(mean.low or 0) <= 0 <= (mean.high or 0) for mean in means])
    assert 0.93 <= inside <= 0.97


def test_the_size_of_an_interval_around_zero_begins_at_zero() -> None:
    assert magnitude(Estimate(value=-0.2, low=-0.3, high=-0.1)).bounds == (0.1, 0.3)
    assert magnitude(Estimate(value=-0.1, low=-0.3, high=0.2)).bounds == (0.0, 0.3)


def test_what_is_missing_has_no_difference_and_what_is_constant_no_correlation() -> None:
    assert difference(None, Estimate(value=1.0)) is None and difference(Estimate(value=1.0), None) is None
    assert rank_correlation([1, 2], [1, 2], "layers") is None
    assert rank_correlation([1, 2, 3], [1, 1, 1], "layers") is None
