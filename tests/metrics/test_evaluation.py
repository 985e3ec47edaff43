"""Rows and comparisons: the numbers of the functions, in few passes, with reasons and with intervals that cover the truth."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.core.intervals import half_samples
from theodolite.metrics import (
    METRICS,
    Cloud,
    compare_clouds,
    default_metrics,
    iso_score,
    log_partition_isotropy,
    mean_cosine,
    metric_rows,
    nearest_rows,
    sphere,
)
from theodolite.metrics import cosine as cosine_module
from theodolite.metrics.evaluation import half_clouds

X = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32) * np.arange(1, 9) + 1
DEVIATIONS = np.array([3.0, 2.0, 1.0, 0.5])
RESAMPLED = [name for name in default_metrics() if METRICS[name].resample]
TRUTH = (np.square(DEVIATIONS).sum() ** 2 / np.power(DEVIATIONS, 4).sum() - 1) / 3


def draw(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 4)) * DEVIATIONS


def test_rows_hold_what_the_functions_give() -> None:
    rows = {row.metric: row for row in metric_rows(X)}
    assert list(rows) == default_metrics()
    assert rows["iso_score"].value == iso_score(X)
    assert rows["mean_cosine"].value == mean_cosine(X)
    assert rows["log_partition_isotropy"].value == log_partition_isotropy(X)
    assert all((row.n, row.d, row.seed) == (300, 8, 0) and "numpy" in row.versions for row in rows.values())


@pytest.mark.parametrize("kind", ["plain", "far from the origin", "copies and zeros"])
def test_one_search_gives_what_four_give(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(5).standard_normal((1500, 12)).astype(np.float32) * np.arange(1, 13, dtype=np.float32)
    if kind == "far from the origin":
        rows += 300
    if kind == "copies and zeros":
        rows[10:20], rows[30] = rows[40], 0
    tiles: list[int] = []
    each_tile = nearest_rows.each_tile

    def counted(points: np.ndarray, visit: object) -> object:
        tiles.append(len(points))
        return each_tile(points, visit)  # type: ignore[arg-type]

    for module in (nearest_rows, sphere):
        monkeypatch.setattr(module, "each_tile", counted)
    names = ["uniformity", "intrinsic_dimension", "hubness", "outliers", "metric_agreement"]
    together = [row.value for row in metric_rows(rows, names)]
    assert len(tiles) == (1 if kind != "copies and zeros" else 3)
    apart = [METRICS[name].value(Cloud(rows))[0] for name in names]
    assert together == pytest.approx(apart, rel=1e-6)


def test_two_passes_are_enough_for_everything_that_reads_all_rows() -> None:
    counts: list[int] = []
    names = [name for name, entry in METRICS.items() if entry.needs in ("sums", "moments", "second pass")]
    metric_rows(Cloud(Cloud(X).source.watched(counts.append)), names)
    assert sum(counts) == 2 * len(X)


def test_moments_alone_need_one_pass() -> None:
    counts: list[int] = []
    metric_rows(Cloud(Cloud(X).source.watched(counts.append)), ["iso_score", "ev_1", "mean_cosine", "effective_rank"])
    assert sum(counts) == len(X)


def test_a_stream_is_read_once_and_metrics_that_need_two_passes_say_so() -> None:
    rows = {row.metric: row for row in metric_rows(Cloud(iter(np.array_split(X, 9)), sample=100))}
    whole = {row.metric: row for row in metric_rows(Cloud(X, sample=100))}
    for name, row in rows.items():
        if METRICS[name].needs == "second pass":
            assert np.isnan(row.value)
            assert "second pass" in row.reason
        else:
            assert row.value == pytest.approx(whole[name].value, rel=1e-5, nan_ok=True)


def test_rows_state_the_sample_they_used() -> None:
    rows = {row.metric: row for row in metric_rows(Cloud(X, sample=100, seed=3), ["hubness", "iso_score"])}
    assert rows["hubness"].sample == 100 and rows["hubness"].setting == ""
    assert rows["iso_score"].setting == ""
    assert {row.setting for row in metric_rows(X, ["hubness"])} == {""}


def test_seeds_fix_the_sample() -> None:
    def value(seed: int) -> float:
        return metric_rows(Cloud(X, sample=50, seed=seed), ["hubness"])[0].value

    assert value(1) == value(1) != value(2)


def test_further_fields_are_in_every_row() -> None:
    row = metric_rows(X, ["iso_score"], about={"model": "tiny", "layer": 3})[0]
    assert (row.model, row.layer) == ("tiny", 3)


def test_nothing_breaks_on_one_row() -> None:
    rows = metric_rows(np.ones((1, 4)))
    assert all(np.isfinite(row.value) or row.reason for row in rows)
    assert {row.metric for row in rows if np.isfinite(row.value)} >= {"mean_norm", "zero_rows", "ev_1"}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "sample"), [(400, 400), (2000, 500)])
def test_intervals_cover_the_truth_about_as_often_as_they_should(n: int, sample: int) -> None:
    covered = 0
    for seed in range(150):
        row = metric_rows(Cloud(draw(n, seed), sample=sample, seed=seed), ["iso_score_corrected"], bootstrap=60, level=0.9)[0]
        assert row.low is not None and row.high is not None
        covered += row.low <= TRUTH <= row.high
    # 90 % of 150 is 135 with a deviation of 3.7; the few replicates and rows cost some coverage.
    assert 118 <= covered <= 147


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_differences_cover_as_often_as_they_say(paired: bool) -> None:
    names = ["iso_score", "ev_1_centered", "effective_rank", "mean_cosine", "pair_cosine_median", "uniformity", "mean_norm"]
    repeats = 100

    def pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(seed)
        A, other = random.standard_t(8, (2, 250, 4)) * DEVIATIONS + 0.5
        return A, (A if paired else other) * [1, 1.3, 1, 1] + random.standard_normal(A.shape)

    # A metric of few rows is biased, which no interval of the same rows can show: the truth is its mean over other draws.
    others = [compare_clouds(*pair(10_000 + seed), names, paired=paired, bootstrap=0) for seed in range(2 * repeats)]
    truth = np.mean([[each.difference for each in comparisons] for comparisons in others], axis=0)
    covered = np.zeros(len(names))
    for seed in range(repeats):
        A, B = pair(seed)
        comparisons = compare_clouds(Cloud(A, seed=seed), Cloud(B, seed=seed), names, paired=paired)
        covered += [each.low <= value <= each.high for each, value in zip(comparisons, truth, strict=True)]  # type: ignore[operator]
    # 95 % of 100 is 95 with a deviation of 2.2, for each of seven metrics.
    assert (covered >= 87).all(), dict(zip(names, covered, strict=True))
    assert covered.mean() <= 99


def test_more_rows_give_narrower_intervals() -> None:
    widths = []
    for n in (200, 3200):
        row = metric_rows(Cloud(draw(n, 0), sample=10_000), ["mean_cosine"], bootstrap=100)[0]
        assert row.low is not None and row.high is not None
        widths.append(row.high - row.low)
    assert widths[1] < widths[0] / 3


def test_metrics_that_resampling_would_bias_have_no_interval() -> None:
    rows = {row.metric: row for row in metric_rows(draw(200, 0), ["hubness", "iso_score"], bootstrap=30)}
    assert rows["hubness"].low is None
    assert rows["iso_score"].low is not None


def test_too_few_replicates_or_a_wrong_level_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 20"):
        metric_rows(draw(50, 0), ["iso_score"], bootstrap=5)
    with pytest.raises(ValueError, match="level=95"):
        metric_rows(draw(50, 0), ["iso_score"], bootstrap=20, level=95)


def test_a_tiny_cloud_has_values_without_intervals() -> None:
    row = metric_rows(draw(5, 0), ["iso_score"], bootstrap=20)[0]
    assert row.low is None and np.isfinite(row.value)


def test_pairing_narrows_the_interval_of_a_difference() -> None:
    A = draw(600, 0)
    B = A * [1, 1, 1, 1.1]
    paired, independent = (compare_clouds(A, B, ["iso_score"], paired=kind, bootstrap=100)[0] for kind in (True, False))
    assert paired.difference == independent.difference > 0
    assert paired.high - paired.low < (independent.high - independent.low) / 5  # type: ignore[operator]
    assert paired.is_clear and not independent.is_clear


def test_equal_clouds_do_not_differ() -> None:
    comparisons = compare_clouds(draw(300, 0), draw(300, 0), ["iso_score", "mean_cosine"], paired=True, bootstrap=40)
    assert all(c.difference == 0 and c.low == c.high == 0 and not c.is_clear for c in comparisons)


def test_a_difference_within_rounding_is_never_clear() -> None:
    A = draw(300, 0)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((A.shape[1],) * 2))[0]
    names = ["iso_score", "mean_cosine", "effective_rank", "ev_1", "uniformity"]
    comparisons = compare_clouds(A.astype(np.float32), (A @ turn).astype(np.float32), names, paired=True)
    assert any(c.difference != 0 for c in comparisons) and not any(c.is_clear for c in comparisons)
    # Of unit rows, the lengths vary by rounding alone.
    unit = A / np.linalg.norm(A, axis=1, keepdims=True)
    sides = unit.astype(np.float32), unit.astype(np.float32).astype(np.float64) * (1 + 1e-7 * (np.arange(300) % 2)[:, None])
    (variation,) = compare_clouds(*sides, ["norm_variation"], paired=True)
    assert variation.difference != 0 and not variation.is_clear
    assert all(c.is_clear for c in compare_clouds(A, A * [1, 1, 1, 1.5], names, paired=True) if c.metric != "mean_cosine")


@pytest.mark.parametrize("has_groups", [True, False])
def test_tokens_of_equal_populations_are_seldom_starred_if_whole_texts_are_halved(has_groups: bool) -> None:
    names = ["iso_score", "mean_cosine", "mean_norm"]
    texts = np.repeat(np.arange(80), 8)
    stars = 0
    for seed in range(20):
        A, B = (
            np.repeat(random.standard_normal((80, 6)) + 0.5, 8, axis=0) + 0.3 * random.standard_normal((640, 6))
            for random in (np.random.default_rng(2 * seed), np.random.default_rng(2 * seed + 1))
        )
        groups = (texts, texts) if has_groups else (None, None)
        stars += sum(each.is_clear for each in compare_clouds(A, B, names, groups=groups, bootstrap=20))
    # 3 of 60 are expected; with every row for itself, most are.
    assert stars <= 9 if has_groups else stars >= 24


def test_unequal_clouds_are_compared_as_independent() -> None:
    comparison = compare_clouds(draw(300, 0), draw(200, 1), ["iso_score"], bootstrap=40)[0]
    assert not comparison.paired
    assert comparison.low < comparison.difference < comparison.high  # type: ignore[operator]
    with pytest.raises(ValueError, match="300 rows and B 200"):
        compare_clouds(draw(300, 0), draw(200, 1), ["iso_score"], paired=True)


def test_paired_samples_must_have_the_same_rows() -> None:
    with pytest.raises(ValueError, match="sample size and seed"):
        compare_clouds(Cloud(draw(300, 0), seed=1), Cloud(draw(300, 0)), ["iso_score"], paired=True)


def test_progress_counts_up_to_the_end() -> None:
    steps: list[tuple[int, int]] = []
    compare_clouds(draw(100, 0), draw(100, 1), ["iso_score"], bootstrap=20, progress=lambda *step: steps.append(step))
    assert steps[-1] == (40, 40)
    assert [done for done, _ in steps] == list(range(1, 41))


def test_a_wrong_level_is_refused_without_intervals_too() -> None:
    with pytest.raises(ValueError, match="level=2 must be between 0 and 1"):
        compare_clouds(draw(50, 0), draw(50, 1), ["iso_score"], bootstrap=0, level=2)


def test_a_setting_of_the_caller_comes_before_those_of_the_measurement() -> None:
    rows = metric_rows(Cloud(X, sample=100), ["mean_cosine_centered", "iso_score"], bootstrap=20, about={"setting": "mean"})
    assert [(row.setting, row.sample) for row in rows] == [("mean", 100), ("mean", None)]


def spread_rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 6)) * np.arange(1, 7) + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_half_has_the_values_of_its_spread_rows(dtype: type) -> None:
    X = spread_rows(200).astype(dtype)
    X[[3, 50]] = 0  # rows without a direction
    halves = half_samples(len(X), 3, seed=5)
    for half, part in zip(halves, half_clouds(Cloud(X), RESAMPLED, 3, seed=5), strict=True):
        alone = Cloud(X[half])
        for name in RESAMPLED:
            expected = METRICS[name].value(alone)[0]
            assert METRICS[name].value(part)[0] == pytest.approx(expected, rel=1e-4 if dtype is np.float32 else 1e-9), name


def test_pairs_of_a_large_cloud_are_drawn_once_and_as_many_as_a_half_would_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.metrics.evaluation.PAIRS", 500)
    drawn: list[int] = []
    measure = cosine_module.draw_pairs
    monkeypatch.setattr(
        "theodolite.metrics.evaluation.draw_pairs", lambda cloud, pairs: drawn.append(pairs) or measure(cloud, pairs)
    )
    sizes = [
        cosine_module.pair_cosines(part, pairs=500).pairs
        for part in half_clouds(Cloud(spread_rows(300)), ["pair_cosine_median"], 10, seed=0)
    ]
    assert drawn == [2000]
    assert 400 < np.mean(sizes) < 600


def test_a_half_without_two_directions_has_no_value_instead_of_another_ones() -> None:
    X = np.zeros((12, 3))
    X[:2] = np.eye(3)[:2]
    values = [METRICS["uniformity"].value(part)[0] for part in half_clouds(Cloud(X), ["uniformity"], 20, seed=0)]
    assert np.isnan(values).any()
    assert all(np.isnan(value) or value == pytest.approx(-4) for value in values)  # |u - v|^2 = 2
