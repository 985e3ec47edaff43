"""Cosines: all pairs as the oracle, bounds, the dimensions they come from, and intervals of sampled pairs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.moments import Moments
from theodolite.core.pictures import draw_picture
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.cosine import (
    LEVELS,
    dimension_contributions,
    largest_variance_ratio,
    mean_cosine,
    mean_cosine_centered,
    mean_norm,
    norm_variation,
    pair_cosine_median,
    pair_cosine_p05,
    pair_cosine_p95,
    pair_cosines,
    rogue_share,
    similar_pairs,
    zero_rows,
)
from theodolite.metrics.evaluation import metric_rows
from theodolite.metrics.registry import METRICS, UndefinedMetricWarning

SUMS_METRICS = [name for name, entry in METRICS.items() if entry.needs == "sums"]
NAMES = ("pair_cosine_p05", "pair_cosine_median", "pair_cosine_p95", "similar_pairs")


def over_all_pairs(X: np.ndarray) -> float:
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    return float(np.mean([units[i] @ units[j] for i in range(len(X)) for j in range(len(X)) if i != j]))


@given(n=st.integers(2, 20), d=st.integers(1, 8), seed=st.integers(0, 99), mean=st.sampled_from([0.0, 2.0]))
def test_mean_cosine_is_the_mean_over_all_pairs(n: int, d: int, seed: int, mean: float) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d)) + mean
    assert mean_cosine(X) == pytest.approx(over_all_pairs(X), abs=1e-10)
    assert mean_cosine(Moments.of(X)) == pytest.approx(mean_cosine(X), abs=1e-14)
    assert dimension_contributions(X).sum() == pytest.approx(mean_cosine(X))
    assert -1 / (n - 1) - 1e-12 <= mean_cosine(X) <= 1 + 1e-12


@given(seed=st.integers(0, 50))
def test_lengths_do_not_matter_and_rotation_moves_contributions_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 5)) + [4, 0, 0, 0, 0]
    lengths = rng.uniform(0.1, 10, (30, 1))
    turned = X @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    assert mean_cosine(X * lengths) == pytest.approx(mean_cosine(X))
    np.testing.assert_allclose(dimension_contributions(X * lengths), dimension_contributions(X), atol=1e-12)
    assert mean_cosine(turned) == pytest.approx(mean_cosine(X))
    assert dimension_contributions(X)[0] > 0.9 * mean_cosine(X)
    assert dimension_contributions(turned).max() < dimension_contributions(X)[0]


def test_the_bounds_are_reached() -> None:
    assert mean_cosine(np.ones((9, 3))) == pytest.approx(1)
    simplex = np.eye(4) - 0.25
    assert mean_cosine(simplex) == pytest.approx(-1 / 3)


def test_zero_rows_are_left_out_and_counted() -> None:
    X = np.array([[1.0, 0], [0, 0], [1, 1], [0, 0]])
    assert mean_cosine(X) == pytest.approx(np.sqrt(0.5))
    assert zero_rows(X) == 0.5
    with pytest.warns(UndefinedMetricWarning, match="two rows that are not zero"):
        assert np.isnan(mean_cosine(np.array([[1.0, 0], [0, 0]])))


def test_centring_removes_a_cone() -> None:
    X = np.random.default_rng(0).standard_normal((400, 16)) + 4
    assert mean_cosine(X) > 0.9
    assert abs(mean_cosine_centered(X)) < 0.01
    assert mean_cosine_centered(X) == pytest.approx(over_all_pairs(X - X.mean(0)), abs=1e-10)


def test_rogue_dimensions_stand_out() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 50))
    X[:, 7] += 30
    assert rogue_share(X) > 0.95
    assert dimension_contributions(X).argmax() == 7
    wide = np.random.default_rng(0).standard_normal((2000, 50)) * np.where(np.arange(50) == 3, 7, 1)
    assert largest_variance_ratio(wide) == pytest.approx(49 * 50 / (49 + 49), rel=0.1)
    assert largest_variance_ratio(np.concatenate([np.eye(5), -np.eye(5)])) == pytest.approx(1)


def test_lengths_are_measured() -> None:
    X = np.array([[3.0, 4], [0, 5], [0, 10]])
    assert mean_norm(X) == pytest.approx(20 / 3)
    assert norm_variation(X) == pytest.approx(np.std([5, 5, 10]) / np.mean([5, 5, 10]))
    assert norm_variation(X / np.linalg.norm(X, axis=1, keepdims=True)) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("measure", [mean_cosine_centered, largest_variance_ratio])
def test_one_point_many_times_has_no_spread(measure: object) -> None:
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(measure(np.ones((5, 3))))  # type: ignore[operator]


def all_cosines(X: np.ndarray) -> list[float]:
    return [float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))) for i, x in enumerate(X) for y in X[:i]]


def test_few_rows_are_measured_pair_by_pair() -> None:
    X = np.random.default_rng(0).standard_normal((120, 5)) + 0.7
    cosines = all_cosines(X)
    result = pair_cosines(X)
    np.testing.assert_allclose(result.quantiles, np.quantile(cosines, LEVELS), atol=1e-12)
    assert result.share_above == np.mean(np.array(cosines) > 0.8) > 0
    assert (result.pairs, result.is_sample) == (120 * 119 // 2, False)
    np.testing.assert_array_equal(*result.quantile_bounds)
    assert result.share_bounds == (result.share_above, result.share_above)
    assert [pair_cosine_p05(X), pair_cosine_median(X), pair_cosine_p95(X)] == result.quantiles.tolist()
    assert similar_pairs(X) == result.share_above


def test_intervals_cover_the_value_over_all_pairs_as_often_as_they_should() -> None:
    X = np.random.default_rng(1).standard_normal((150, 6)) + 0.7
    whole = pair_cosines(X)
    hits, shares = np.zeros(3), 0
    for seed in range(80):
        sampled = pair_cosines(Cloud(X, seed=seed), pairs=1000)
        assert sampled.is_sample
        low, high = sampled.quantile_bounds
        hits += (low <= whole.quantiles) & (whole.quantiles <= high)
        shares += sampled.share_bounds[0] <= whole.share_above <= sampled.share_bounds[1]
    # Of 80, fewer than 70 are covered with probability 0.002 at 95%, and with 0.94 at 80%.
    assert np.all(hits >= 70)
    assert shares >= 70


def test_intervals_shrink_with_the_number_of_pairs() -> None:
    X = np.random.default_rng(2).standard_normal((1000, 6))
    few, many = (pair_cosines(X, pairs=pairs) for pairs in (1_000, 100_000))
    ratio = np.subtract(*few.quantile_bounds) / np.subtract(*many.quantile_bounds)
    assert np.all((ratio > 5) & (ratio < 20))  # about sqrt(100)


def test_the_seed_fixes_the_pairs_and_no_row_meets_itself() -> None:
    X = np.random.default_rng(3).standard_normal((700, 300))
    assert pair_cosine_median(Cloud(X, seed=4)) == pair_cosine_median(Cloud(X, seed=4))
    assert pair_cosine_median(Cloud(X, seed=4)) != pair_cosine_median(Cloud(X, seed=5))
    assert pair_cosines(X, threshold=0.5).share_above == 0  # a row with itself would have cosine 1


def test_pair_cosines_are_computed_once_per_cloud() -> None:
    cloud = Cloud(np.random.default_rng(4).standard_normal((50, 3)))
    assert pair_cosines(cloud) is pair_cosines(cloud)
    assert pair_cosines(cloud, threshold=0.1) is not pair_cosines(cloud)


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
def test_pair_cosines_of_degenerate_clouds(X: np.ndarray, expected: tuple[float, ...]) -> None:
    for name, value in zip(NAMES, expected, strict=True):
        measured, reason = METRICS[name].value(Cloud(X))
        assert measured == pytest.approx(value, abs=1e-7, nan_ok=True), name
        assert bool(reason) == np.isnan(value)


def test_no_pairs_is_an_error() -> None:
    with pytest.raises(ValueError, match="pairs=0 must be at least 1"):
        pair_cosines(np.eye(3), pairs=0)


@pytest.mark.parametrize("length", [1e-20, 1e-30, 1e-38])
def test_the_length_of_a_row_does_not_change_its_direction(length: float) -> None:
    X = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    scaled = X.copy()
    scaled[7] *= np.float32(length)
    assert mean_cosine(scaled) == pytest.approx(mean_cosine(X), abs=1e-6)
    assert rogue_share(scaled) == pytest.approx(rogue_share(X), abs=1e-5)


@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (40_000, 16)])
@pytest.mark.parametrize("name", sorted(SUMS_METRICS))
def test_sums_alone_give_what_all_moments_give_to_the_last_bit(name: str, shape: tuple[int, int]) -> None:
    X = (np.random.default_rng(1).standard_normal(shape) + 0.3).astype(np.float32)
    both = Cloud(X)
    assert both.moments.n == shape[0]
    assert METRICS[name].value(Cloud(X)) == METRICS[name].value(both) == METRICS[name].value(Moments.of(X))


def test_sums_alone_never_multiply_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    X, wide = np.ones((300, 20)), np.eye(20, 300) + 1
    alone = metric_rows(X, sorted(SUMS_METRICS))
    assert "moments" not in Cloud(X).__dict__
    for data in (X, wide):
        cloud = Cloud(data)
        metric_rows(cloud, sorted(SUMS_METRICS))
        assert "moments" not in cloud.__dict__ and cloud.sums.scatter is None and cloud.sums.rows is None
    cloud = Cloud(X)
    together = metric_rows(cloud, [*sorted(SUMS_METRICS), "iso_score"])
    assert cloud.sums is cloud.moments  # one pass for all
    assert [row.value for row in together][: len(alone)] == [row.value for row in alone]


def test_few_rows_of_many_dimensions_make_no_matrix_of_all_dimensions() -> None:
    tracemalloc.start()
    X = np.random.default_rng(0).standard_normal((50, 20_000)).astype(np.float32)
    mean_cosine(X)
    Moments.of(X)
    draw_picture(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 8 * X.size  # and a (d, d) matrix is 400 times the rows
