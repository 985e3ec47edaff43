"""Intervals: against SciPy and textbook values, and by simulation: they cover the truth as often as they should."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from theodolite.core.intervals import (
    NO_INTERVAL,
    deviation_interval,
    half_samples,
    jackknife_interval,
    percentile_interval,
    quantile_interval,
    replicate_interval,
    require_level,
    share_interval,
    standard_error_interval,
    student_interval,
)

REPEATS = 400
"""Simulations: 95 % of 400 is 380 with a standard deviation of 4.4; 362 is four of them away."""
FEWEST = 362


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan])
def test_a_level_is_between_0_and_1(level: float) -> None:
    with pytest.raises(ValueError, match=f"level={level} must be between 0 and 1"):
        require_level(level)
    for interval in (
        lambda: percentile_interval([1.0, 2.0], level=level),
        lambda: deviation_interval(1.0, None, level=level),
        lambda: replicate_interval(1.0, None, level=level),
        lambda: student_interval([1.0, 2.0], level=level),
        lambda: share_interval(1, 2, level=level),
        lambda: quantile_interval([1.0, 2.0], 0.5, level=level),
        lambda: jackknife_interval(1.0, [1.0, 2.0], level=level),
    ):
        with pytest.raises(ValueError, match="level="):
            interval()


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_the_percentile_interval_holds_its_share_of_the_draws(level: float) -> None:
    draws = np.random.default_rng(0).standard_normal(1001)
    low, high = percentile_interval(draws, level=level)
    assert low is not None and high is not None
    assert np.mean((draws >= low) & (draws <= high)) == pytest.approx(level, abs=0.002)
    assert np.mean(draws < low) == pytest.approx(np.mean(draws > high), abs=0.002)


def test_there_is_no_interval_without_finite_draws() -> None:
    assert percentile_interval([]) == percentile_interval([1.0, math.nan]) == percentile_interval([math.inf]) == NO_INTERVAL
    assert deviation_interval(1.0, None) == deviation_interval(math.nan, [0.1, -0.1]) == NO_INTERVAL
    assert deviation_interval(1.0, [math.nan]) == deviation_interval(1.0, []) == NO_INTERVAL
    assert student_interval([1.0]) == student_interval([]) == student_interval([1.0, math.inf]) == NO_INTERVAL


def test_deviations_are_put_around_the_estimate() -> None:
    deviations = np.random.default_rng(0).standard_normal(501)
    low, high = percentile_interval(deviations)
    assert low is not None and high is not None
    assert deviation_interval(7.0, deviations) == (7 + low, 7 + high)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("n", [2, 5, 30])
def test_the_student_interval_is_that_of_scipy(n: int, level: float) -> None:
    values = np.random.default_rng(n).standard_normal(n) + 3
    expected = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert student_interval(values, level=level) == pytest.approx((expected.low, expected.high))
    error = float(stats.sem(values))
    assert standard_error_interval(values.mean(), error, n - 1, level=level) == pytest.approx((expected.low, expected.high))


def test_many_degrees_of_freedom_give_the_normal_interval() -> None:
    assert standard_error_interval(0.0, 1.0, 1e9) == pytest.approx((-1.959964, 1.959964), abs=1e-5)


@pytest.mark.parametrize(("count", "n"), [(0, 10), (3, 10), (10, 10), (117, 400)])
def test_shares_are_wilsons_and_clopper_and_pearsons(count: int, n: int) -> None:
    z, p = stats.norm.ppf(0.975), count / n
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    wilson = (max(0, (centre - half) / (1 + z * z / n)), min(1, (centre + half) / (1 + z * z / n)))
    assert share_interval(count, n) == pytest.approx(wilson, abs=1e-9)
    low, high = share_interval(count, n, method="exact")
    # Clopper and Pearson by definition: at the bounds, what was seen or something more extreme has a chance of 2.5 %.
    assert (low == 0) if count == 0 else stats.binom.sf(count - 1, n, low) == pytest.approx(0.025, abs=1e-6)
    assert (high == 1) if count == n else stats.binom.cdf(count, n, high) == pytest.approx(0.025, abs=1e-6)


@pytest.mark.parametrize("p", [0.02, 0.3])
def test_shares_cover_the_truth(p: float) -> None:
    counts = np.random.default_rng(0).binomial(50, p, REPEATS).tolist()
    intervals = {k: (share_interval(k, 50), share_interval(k, 50, method="exact")) for k in set(counts)}
    bounds = [intervals[k] for k in counts]
    wilson, exact = (sum(pair[i][0] <= p <= pair[i][1] for pair in bounds) for i in (0, 1))
    assert wilson >= FEWEST - 15  # right on average over shares, not at each of them
    assert exact >= FEWEST


@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.95])
def test_quantiles_are_covered_at_least_as_often_as_they_should(quantile: float) -> None:
    random, truth, hits = np.random.default_rng(1), stats.norm.ppf(quantile), 0
    for _ in range(REPEATS):
        low, high = quantile_interval(np.sort(random.standard_normal(300)), quantile)
        hits += low <= truth <= high
    assert FEWEST <= hits < REPEATS


@pytest.mark.parametrize(("n", "quantile"), [(20, 0.5), (300, 0.05), (1000, 0.95)])
def test_quantile_bounds_are_the_narrowest_order_statistics(n: int, quantile: float) -> None:
    """Of the values 1 to n the bounds are ranks: each end misses the quantile with at most 2.5 %, and one rank less with more."""
    low, high = (int(bound) for bound in quantile_interval(np.arange(1, n + 1), quantile))
    below = stats.binom(n, quantile)
    assert below.cdf(low - 1) <= 0.025 < below.cdf(low)
    assert below.sf(high - 1) <= 0.025 < below.sf(high - 2)


def test_too_few_values_are_bounded_by_the_smallest_and_largest() -> None:
    assert quantile_interval([1.0, 2.0, 3.0], 0.5) == (1.0, 3.0)
    assert quantile_interval([4.0], 0.95) == (4.0, 4.0)


def test_the_jackknife_of_a_mean_is_the_student_interval() -> None:
    values = np.random.default_rng(3).standard_normal(25)
    without = [float(np.delete(values, i).mean()) for i in range(25)]
    assert jackknife_interval(float(values.mean()), without) == pytest.approx(student_interval(values))


def test_the_jackknife_of_a_correlation_covers_the_truth_and_stays_in_its_range() -> None:
    random, hits = np.random.default_rng(4), 0
    for _ in range(200):
        x, y = random.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 40).T
        without = [float(np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1]) for i in range(40)]
        low, high = jackknife_interval(float(np.corrcoef(x, y)[0, 1]), without, correlation=True)
        assert -1 <= low < high <= 1
        hits += low <= 0.8 <= high
    assert hits >= 176  # 190 with a standard deviation of 3.1, and a jackknife of 40 units is a little short
    assert jackknife_interval(1.0, [1.0, 1.0, 1.0], correlation=True) == pytest.approx((1, 1))


def test_a_jackknife_of_one_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="a jackknife over 1 units has no spread; it needs at least 2"):
        jackknife_interval(1.0, [1.0])


@pytest.mark.parametrize("n", [8, 9, 100])
def test_half_samples_are_seeded_ascending_halves(n: int) -> None:
    halves = half_samples(n, 30, seed=5)
    assert len(halves) == 30
    for half in halves:
        assert len(half) == n // 2
        assert np.all(np.diff(half) > 0)
        assert half.min() >= 0 and half.max() < n
    assert all(np.array_equal(a, b) for a, b in zip(halves, half_samples(n, 30, seed=5), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(halves, half_samples(n, 30, seed=6), strict=True))


def test_means_of_half_samples_vary_as_means_of_samples_do() -> None:
    values = np.random.default_rng(6).standard_normal(200)
    means = [values[half].mean() for half in half_samples(200, 4000, seed=0)]
    assert np.std(means) == pytest.approx(values.std(ddof=1) / math.sqrt(200), rel=0.05)


def test_the_replicate_interval_covers_with_few_replicates_and_is_none_without_a_spread_to_measure() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(REPEATS):
        estimate, *replicates = random.standard_normal(21)
        low, high = replicate_interval(estimate, replicates)
        covered += low <= 0 <= high  # type: ignore[operator]
    assert FEWEST <= covered <= REPEATS - 5
    assert replicate_interval(1.0, [0.5, math.nan]) == replicate_interval(math.nan, [1.0, 2.0]) == NO_INTERVAL
    assert replicate_interval(1.0, None) == replicate_interval(1.0, [0.0]) == NO_INTERVAL
