"""Cosines of random pairs: all pairs where they are few, intervals that cover the truth where they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.pairs import pair_cosine_median, pair_cosine_p05, pair_cosine_p95, pair_cosines, similar_pairs
from theodolite.metrics.registry import METRICS

NAMES = ("pair_cosine_p05", "pair_cosine_median", "pair_cosine_p95", "similar_pairs")


def slow(X: np.ndarray) -> list[float]:
    return [float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))) for i, x in enumerate(X) for y in X[:i]]


def test_few_rows_are_measured_pair_by_pair() -> None:
    X = np.random.default_rng(0).standard_normal((120, 5)) + 0.7
    cosines = slow(X)
    found = pair_cosines(X)
    np.testing.assert_allclose(found.quantiles, np.quantile(cosines, found.levels), atol=1e-12)
    assert found.share_above == np.mean(np.array(cosines) > 0.8) > 0
    assert (found.pairs, found.drawn) == (120 * 119 // 2, False)
    np.testing.assert_array_equal(found.low, found.high)
    assert [pair_cosine_p05(X), pair_cosine_median(X), pair_cosine_p95(X)] == found.quantiles.tolist()
    assert similar_pairs(X) == found.share_above


def test_intervals_cover_the_value_over_all_pairs_as_often_as_they_say() -> None:
    X = np.random.default_rng(1).standard_normal((150, 6)) + 0.7
    whole = pair_cosines(X)
    hits, shares = np.zeros(3), 0
    for seed in range(200):
        drawn = pair_cosines(Cloud(X, seed=seed), pairs=1000)
        assert drawn.drawn
        hits += (drawn.low <= whole.quantiles) & (whole.quantiles <= drawn.high)
        shares += drawn.share_low <= whole.share_above <= drawn.share_high
    # 95 % of 200 is 190 with standard deviation 3.1.
    assert np.all(hits >= 180)
    assert shares >= 180


def test_intervals_shrink_with_the_number_of_pairs() -> None:
    X = np.random.default_rng(2).standard_normal((1000, 6))
    few, many = (pair_cosines(X, pairs=pairs) for pairs in (1_000, 100_000))
    ratio = (few.high - few.low) / (many.high - many.low)
    assert np.all((ratio > 5) & (ratio < 20))  # about sqrt(100)


def test_the_seed_fixes_the_pairs_and_no_row_meets_itself() -> None:
    X = np.random.default_rng(3).standard_normal((700, 300))
    assert pair_cosine_median(Cloud(X, seed=4)) == pair_cosine_median(Cloud(X, seed=4))
    assert pair_cosine_median(Cloud(X, seed=4)) != pair_cosine_median(Cloud(X, seed=5))
    assert pair_cosines(X, threshold=0.5).share_above == 0  # a row with itself would have cosine 1


def test_the_work_is_done_once_per_cloud() -> None:
    asked = Cloud(np.random.default_rng(4).standard_normal((50, 3)))
    assert pair_cosines(asked) is pair_cosines(asked)
    assert pair_cosines(asked, threshold=0.1) is not pair_cosines(asked)


@pytest.mark.parametrize("name", NAMES)
def test_rotation_and_lengths_do_not_matter_but_a_shift_does(name: str) -> None:
    measure = METRICS[name].function
    X = np.random.default_rng(5).standard_normal((100, 4)) + 0.2
    Q = np.linalg.qr(np.random.default_rng(6).standard_normal((4, 4)))[0]
    lengths = np.random.default_rng(7).uniform(0.1, 9, (100, 1))
    assert measure(lengths * X @ Q) == pytest.approx(measure(X), abs=1e-12)
    assert measure(X.astype(np.float32)) == pytest.approx(measure(X), abs=1e-3)
    assert measure(X + 2) > measure(X)


def test_a_narrow_cone_and_a_full_sphere() -> None:
    sphere = np.random.default_rng(8).standard_normal((800, 400))
    assert similar_pairs(sphere) == 0
    assert pair_cosine_median(sphere) == pytest.approx(0, abs=0.01)
    assert pair_cosine_p95(sphere) == pytest.approx(1.645 / np.sqrt(400), rel=0.05)
    assert similar_pairs(sphere + 10) == 1
    assert pair_cosine_p05(sphere + 10) > 0.9


ORTHOGONAL = np.array([[1.0, 0], [0, 3]])


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.ones((1, 3)), (np.nan,) * 4),
        (np.zeros((4, 3)), (np.nan,) * 4),
        (ORTHOGONAL, (0, 0, 0, 0)),
        (np.concatenate([ORTHOGONAL, np.zeros((2, 2))]), (0, 0, 0, 0)),
        (np.full((20, 3), 7.0), (1, 1, 1, 1)),
        (np.array([[1.0], [2.0], [5.0], [-1.0]]), (-1, 0, 1, 0.5)),
        (np.eye(4, 9, dtype=np.float16), (0, 0, 0, 0)),
    ],
    ids=["one row", "zeros", "two rows", "zero rows", "identical", "d=1", "n<d"],
)
def test_degenerate_clouds_have_a_decided_answer(X: np.ndarray, expected: tuple[float, ...]) -> None:
    for name, value in zip(NAMES, expected, strict=True):
        found, reason = METRICS[name].value(Cloud(X))
        assert found == pytest.approx(value, abs=1e-7, nan_ok=True), name
        assert bool(reason) == np.isnan(value)


def test_no_pairs_is_an_error() -> None:
    with pytest.raises(ValueError, match="pairs=0 must be at least 1"):
        pair_cosines(np.eye(3), pairs=0)
