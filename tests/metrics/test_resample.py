"""Intervals: they hold the truth as often as they say, and shrink as rows grow."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.metrics import Cloud, compare, survey

DEVIATIONS = np.array([3.0, 2.0, 1.0, 0.5])
TRUTH = (np.square(DEVIATIONS).sum() ** 2 / np.power(DEVIATIONS, 4).sum() - 1) / 3


def draw(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 4)) * DEVIATIONS


@pytest.mark.parametrize(("n", "sample"), [(400, 400), (2000, 500)])
def test_intervals_hold_the_truth_about_as_often_as_they_say(n: int, sample: int) -> None:
    held = 0
    for seed in range(150):
        row = survey(Cloud(draw(n, seed), sample=sample, seed=seed), ["iso_score_corrected"], bootstrap=60, level=0.9)[0]
        assert row.low is not None and row.high is not None
        held += row.low <= TRUTH <= row.high
    # 90 % of 150 is 135 with a deviation of 3.7; the few replicates and rows cost some coverage.
    assert 118 <= held <= 147


def test_more_rows_give_narrower_intervals() -> None:
    widths = []
    for n in (200, 3200):
        row = survey(Cloud(draw(n, 0), sample=10_000), ["mean_cosine"], bootstrap=100)[0]
        assert row.low is not None and row.high is not None
        widths.append(row.high - row.low)
    assert widths[1] < widths[0] / 3


def test_metrics_that_repeated_draws_would_bend_have_no_interval() -> None:
    rows = {row.metric: row for row in survey(draw(200, 0), ["hubness", "iso_score"], bootstrap=30)}
    assert rows["hubness"].low is None
    assert rows["iso_score"].low is not None
    assert rows["iso_score"].setting == "half-samples=30"


def test_too_few_replicates_or_a_wrong_level_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 20"):
        survey(draw(50, 0), ["iso_score"], bootstrap=5)
    with pytest.raises(ValueError, match="level=95"):
        survey(draw(50, 0), ["iso_score"], bootstrap=20, level=95)


def test_a_tiny_cloud_has_values_without_intervals() -> None:
    row = survey(draw(5, 0), ["iso_score"], bootstrap=20)[0]
    assert row.low is None and np.isfinite(row.value)


def test_pairing_narrows_the_interval_of_a_difference() -> None:
    A = draw(600, 0)
    B = A * [1, 1, 1, 1.1]
    paired, independent = (compare(A, B, ["iso_score"], paired=kind, bootstrap=100)[0] for kind in (True, False))
    assert paired.difference == independent.difference > 0
    assert paired.high - paired.low < (independent.high - independent.low) / 5  # type: ignore[operator]
    assert paired.is_clear and not independent.is_clear


def test_equal_clouds_do_not_differ() -> None:
    found = compare(draw(300, 0), draw(300, 0), ["iso_score", "mean_cosine"], bootstrap=40)
    assert all(c.difference == 0 and c.low == c.high == 0 and not c.is_clear for c in found)


def test_unequal_clouds_are_compared_as_independent() -> None:
    found = compare(draw(300, 0), draw(200, 1), ["iso_score"], bootstrap=40)[0]
    assert not found.paired
    assert found.low < found.difference < found.high  # type: ignore[operator]
    with pytest.raises(ValueError, match="300 and 200"):
        compare(draw(300, 0), draw(200, 1), ["iso_score"], paired=True)


def test_paired_samples_must_hold_the_same_rows() -> None:
    with pytest.raises(ValueError, match="sample size and seed"):
        compare(Cloud(draw(300, 0), seed=1), Cloud(draw(300, 0)), ["iso_score"], paired=True)


def test_progress_counts_up_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    compare(draw(100, 0), draw(100, 1), ["iso_score"], bootstrap=20, progress=lambda *step: seen.append(step))
    assert seen[-1] == (40, 40)
    assert [done for done, _ in seen] == list(range(1, 41))
