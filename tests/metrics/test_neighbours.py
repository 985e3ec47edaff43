"""Neighbour metrics against plain loops, planted structure, invariances, and every degenerate cloud."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from neighbour_oracles import cloud, rotation, slow_table

from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest_rows import K, neighbours_of
from theodolite.metrics.neighbours import (
    components,
    density_variation,
    exact_duplicates,
    hub_share,
    hubness,
    intrinsic_dimension,
    island_components,
    islands,
    metric_agreement,
    near_duplicates,
    never_retrieved,
    outliers,
    outlying_rows,
    relative_contrast,
    retrieval_stability,
)
from theodolite.metrics.registry import METRICS, UndefinedMetricWarning

COUNTS = [hubness, never_retrieved, hub_share]
BY_COSINE = [*COUNTS, near_duplicates, relative_contrast, outliers, density_variation]
ALL = [*BY_COSINE, exact_duplicates]
Measure = Callable[..., float]


def slow_counts(X: np.ndarray) -> np.ndarray:
    counts = [0] * len(X)
    for row in slow_table(X)[0]:
        for j in row:
            counts[j] += 1
    return np.array(counts)


def test_hubs_equal_plain_loops() -> None:
    X = cloud()
    counts = slow_counts(X)
    mean, spread = counts.mean(), counts.std()
    assert hubness(X) == pytest.approx(sum((c - mean) ** 3 for c in counts) / len(X) / spread**3)
    assert never_retrieved(X) == sum(c == 0 for c in counts) / len(X)
    assert hub_share(X) == sum(sorted(counts)[-2:]) / (K * len(X))  # 1 % of 150, rounded up


def test_distances_equal_plain_loops() -> None:
    X = cloud()
    _, distance = slow_table(X)
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    pairs = [1 - units[i] @ units[j] for i in range(len(X)) for j in range(i)]
    assert relative_contrast(X) == pytest.approx(np.mean(pairs) / np.median(distance[:, 0]))
    means = distance.mean(axis=1)
    assert density_variation(X) == pytest.approx(means.std() / means.mean())
    middle = np.median(distance[:, 0])
    limit = middle + 3 * 1.4826 * np.median(abs(distance[:, 0] - middle))
    assert outliers(X) == np.mean(distance[:, 0] > limit)


def test_a_planted_hub_is_found() -> None:
    rng = np.random.default_rng(0)
    centre = np.zeros(200)
    centre[0] = 5
    X = rng.standard_normal((400, 200)) + centre
    assert hubness(np.concatenate([X, [centre]])) > hubness(X) + 1
    counts = neighbours_of(Cloud(np.concatenate([X, [centre]]))).occurrences()
    assert counts[-1] > 380  # the centre is nearly everybody's neighbour
    assert counts[:-1].max() < 200
    assert hub_share(np.concatenate([X, [centre]])) > hub_share(X)


def test_points_on_a_circle_have_no_hubs() -> None:
    angle = 2 * np.pi * np.arange(100) / 100
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    assert hubness(X) == 0
    assert never_retrieved(X) == 0
    assert hub_share(X) == pytest.approx(0.01)
    assert density_variation(X) == pytest.approx(0, abs=1e-9)
    assert outliers(X) == 0


def test_planted_duplicates_are_counted() -> None:
    X = cloud(100, 64)
    X[90:95] = X[:5]
    X[95:] = 3 * X[5:10] + 1e-3
    assert exact_duplicates(X) == pytest.approx(0.05)
    assert near_duplicates(X) == pytest.approx(0.20)
    assert near_duplicates(cloud(100, 64)) == 0


def test_a_planted_outlier_is_named_by_its_number_in_the_file() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 16)) * 0.1
    X[:, 0] += 1
    X[2500] = 0
    X[2500, 5] = -1
    seed = next(seed for seed in range(100) if 2500 in Cloud(X, sample=500, seed=seed).sample_index)
    for data in (Cloud(X), Cloud(X, sample=500, seed=seed)):
        assert outliers(data) > 0
        assert outlying_rows(data)[0] == 2500
    assert len(outlying_rows(X, count=1)) == 1


def test_copies_of_an_outlier_do_not_hide_it() -> None:
    X = np.random.default_rng(0).standard_normal((200, 8)) * 0.1
    X[:, 0] += 1
    X[:2] = -np.eye(8)[0]
    assert set(outlying_rows(X)[:2]) == {0, 1}


def test_many_copies_change_neither_contrast_nor_outliers() -> None:
    X = cloud()
    crowded = np.concatenate([X, np.tile(X[0], (300, 1))])
    assert relative_contrast(crowded) == pytest.approx(relative_contrast(X))
    assert set(outlying_rows(crowded, count=450)) - set(range(150, 450)) == set(outlying_rows(X, count=450))


def test_contrast_fades_with_the_dimension() -> None:
    low, high = (relative_contrast(np.random.default_rng(0).standard_normal((400, d))) for d in (3, 2000))
    assert low > 20
    assert 1 < high < 1.1


@pytest.mark.parametrize("measure", BY_COSINE, ids=lambda f: f.__name__)
def test_row_lengths_do_not_matter_to_cosine(measure: Measure) -> None:
    X = cloud()
    lengths = np.random.default_rng(3).uniform(0.1, 10, (len(X), 1))
    assert measure(X * lengths) == pytest.approx(measure(X), abs=1e-9)


@pytest.mark.parametrize("measure", ALL, ids=lambda f: f.__name__)
def test_rotation_and_row_order_do_not_matter(measure: Measure) -> None:
    X = cloud() * np.random.default_rng(3).uniform(0.5, 2, (150, 1))
    assert measure(X @ rotation(8)) == pytest.approx(measure(X), abs=1e-9)
    assert measure(X[::-1]) == pytest.approx(measure(X), abs=1e-9)


def test_what_must_not_be_invariant() -> None:
    X = cloud()
    assert hubness(X + 3) != pytest.approx(hubness(X), abs=1e-3)
    assert relative_contrast(X + 3) != pytest.approx(relative_contrast(X), rel=1e-2)


@pytest.mark.parametrize("measure", ALL, ids=lambda f: f.__name__)
def test_precision_of_the_input_hardly_matters(measure: Measure) -> None:
    X = cloud().astype(np.float16)
    values = [measure(X.astype(dtype)) for dtype in (np.float16, np.float32, np.float64)]
    assert values[0] == values[1] == pytest.approx(values[2], abs=0.01)


SAME, ZERO = np.ones((30, 4)), np.zeros((30, 4))
LINE = np.concatenate([np.arange(1.0, 21), -np.arange(1.0, 21)])[:, None]
NAN = float("nan")
DECIDED = {
    #                      one  two  same zero line
    "hubness": (NAN, NAN, NAN, NAN, NAN),
    "never_retrieved": (NAN, NAN, NAN, NAN, NAN),
    "hub_share": (NAN, NAN, NAN, NAN, NAN),
    "near_duplicates": (NAN, 0, 1, NAN, 1),
    "exact_duplicates": (NAN, 0, 29 / 30, 29 / 30, 0),
    "relative_contrast": (NAN, 1, NAN, NAN, 1),
    "outliers": (NAN, NAN, NAN, NAN, NAN),
    "density_variation": (NAN, 0, NAN, NAN, NAN),
}


@pytest.mark.parametrize("name", DECIDED)
def test_values_of_degenerate_clouds(name: str) -> None:
    clouds = [np.ones((1, 4)), np.array([[1.0, 0, 0], [0, 2, 0]]), SAME, ZERO, LINE]
    for X, expected in zip(clouds, DECIDED[name], strict=True):
        value, reason = METRICS[name].value(Cloud(X))
        assert value == pytest.approx(expected, nan_ok=True), X.shape
        assert bool(reason) == np.isnan(expected)


@pytest.mark.parametrize("measure", ALL, ids=lambda f: f.__name__)
def test_fewer_rows_than_dimensions_work(measure: Measure) -> None:
    assert np.isfinite(measure(cloud(20, 64)))


def test_a_direct_caller_gets_nan_and_the_reason() -> None:
    with pytest.warns(UndefinedMetricWarning, match="30 rows of zeros have no direction"):
        assert np.isnan(hubness(ZERO))


def test_rows_have_no_distinct_neighbour_when_all_are_copies() -> None:
    with pytest.raises(Undefined, match="all rows point the same way"):
        outlying_rows(SAME)


def test_above_the_sample_size_the_seed_decides_and_a_wider_sample_takes_all() -> None:
    X = cloud(400)
    assert hubness(Cloud(X, sample=200, seed=1)) == hubness(Cloud(X, sample=200, seed=1))
    assert hubness(Cloud(X, sample=200, seed=1)) != hubness(Cloud(X, sample=200, seed=2))
    assert hubness(Cloud(X, sample=400, seed=1)) == hubness(X)


def test_metric_agreement_equals_plain_loops() -> None:
    X = cloud() * np.random.default_rng(1).uniform(0.3, 3, (150, 1))
    shared = 0
    for i, row in enumerate(slow_table(X)[0]):
        by_product = sorted((j for j in range(len(X)) if j != i), key=lambda j: -(X[i] @ X[j]))[:K]
        shared += len({*row} & {*by_product})
    assert metric_agreement(X) == pytest.approx(shared / (K * len(X)))
    assert metric_agreement(X) < 0.9


def test_stability_is_high_for_clearly_ordered_neighbours() -> None:
    """Neighbours at clearly different distances survive a step; in high dimension all are equally far, and fewer do."""
    angle = np.geomspace(0.01, 1, 60)
    spaced = np.column_stack([np.cos(angle), np.sin(angle)])
    assert retrieval_stability(spaced) > 0.95
    assert 0.3 < retrieval_stability(np.random.default_rng(0).standard_normal((400, 500))) < 0.9


def test_agreement_is_perfect_for_equal_lengths_and_low_for_very_different_ones() -> None:
    X = cloud()
    lengths = np.random.default_rng(3).uniform(0.1, 10, (len(X), 1))
    assert metric_agreement(X * lengths) < 0.6
    assert metric_agreement(X / np.linalg.norm(X, axis=1, keepdims=True)) == 1


def test_agreement_of_copies_that_differ_by_rounding_is_perfect() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(cloud(40, 32), 20, axis=0)[:30].astype(np.float32)[[0] * 15 + [1] * 15]
    rows *= rng.uniform(0.5, 2, (30, 1)).astype(np.float32)
    assert metric_agreement(rows) == 1


def test_row_lengths_do_not_change_stability_and_rotation_does_not_change_agreement() -> None:
    X = cloud() * np.random.default_rng(3).uniform(0.5, 2, (150, 1))
    lengths = np.random.default_rng(4).uniform(0.1, 10, (150, 1))
    assert retrieval_stability(X * lengths) == pytest.approx(retrieval_stability(X), abs=1e-9)
    for other in (X @ rotation(8), X[::-1]):
        assert metric_agreement(other) == pytest.approx(metric_agreement(X), abs=1e-9)


@pytest.mark.parametrize("measure", [metric_agreement, retrieval_stability], ids=lambda f: f.__name__)
def test_precision_and_few_rows_do_not_hurt(measure: Callable[..., float]) -> None:
    X = cloud().astype(np.float16)
    values = [measure(X.astype(dtype)) for dtype in (np.float16, np.float32, np.float64)]
    assert values[0] == values[1] == pytest.approx(values[2], abs=0.01)
    assert np.isfinite(measure(cloud(20, 64)))


@pytest.mark.parametrize(
    ("X", "agreement"),
    [
        (np.ones((1, 4)), np.nan),
        (np.array([[1.0, 0, 0], [0, 2, 0]]), 1),
        (np.ones((30, 4)), 1),
        (np.zeros((30, 4)), np.nan),
        (np.concatenate([np.arange(1.0, 21), -np.arange(1.0, 21)])[:, None], 1),
    ],
    ids=["one row", "two rows", "identical", "zeros", "d=1"],
)
def test_agreement_and_stability_of_degenerate_clouds(X: np.ndarray, agreement: float) -> None:
    for name, expected in (("metric_agreement", agreement), ("retrieval_stability", np.nan)):
        value, reason = METRICS[name].value(Cloud(X))
        assert value == pytest.approx(expected, nan_ok=True)
        assert bool(reason) == np.isnan(expected)


def around(axis: int, count: int, *, seed: int, d: int = 12) -> np.ndarray:
    return np.eye(d)[axis] + 0.02 * np.random.default_rng(seed).standard_normal((count, d))


def slow_parts(index: np.ndarray) -> list[set[int]]:
    """Connected parts by joining sets until nothing changes."""
    parts = [{i, *row} for i, row in enumerate(index.tolist())]
    merged = True
    while merged:
        merged = False
        for i in range(len(parts)):
            for j in range(len(parts) - 1, i, -1):
                if parts[i] & parts[j]:
                    parts[i] |= parts.pop(j)
                    merged = True
    return sorted(parts, key=len, reverse=True)


def test_parts_equal_the_union_of_overlapping_lists() -> None:
    X = np.concatenate([around(axis, count, seed=axis) for axis, count in enumerate((60, 30, 15))])
    parts = components(X)
    expected = slow_parts(neighbours_of(Cloud(X)).index)
    assert [len(rows) for rows in parts] == [60, 30, 15] == [len(part) for part in expected]
    assert [set(rows.tolist()) for rows in parts] == expected


def test_planted_islands_are_counted_and_named() -> None:
    X = np.concatenate([around(0, 270, seed=0), around(1, 12, seed=1), around(2, 18, seed=2)])
    assert islands(X) == pytest.approx(0.10)
    assert [rows.tolist() for rows in island_components(X)] == [list(range(282, 300)), list(range(270, 282))]


def test_a_second_large_part_is_not_an_island() -> None:
    X = np.concatenate([around(0, 200, seed=0), around(1, 100, seed=1)])
    assert [len(rows) for rows in components(X)] == [200, 100]
    assert islands(X) == 0


def test_half_a_percent_is_the_limit_of_a_large_cloud() -> None:
    angle = np.linspace(0, 1, 5000)
    arc = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(5000)])
    speck = np.array([0, 0, 1.0]) + 1e-3 * np.random.default_rng(0).standard_normal((26, 3))
    assert islands(np.concatenate([arc, speck[:25]])) == pytest.approx(25 / 5025)
    assert islands(np.concatenate([arc, speck])) == 0


def test_a_connected_cloud_has_no_islands() -> None:
    assert islands(np.random.default_rng(0).standard_normal((300, 20))) == 0


def test_a_group_of_copies_cut_off_from_the_rest_is_an_island() -> None:
    X = np.concatenate([around(0, 200, seed=0), np.tile(np.eye(12)[3], (12, 1))])
    assert islands(X) == pytest.approx(12 / 212)


def test_row_numbers_of_islands_are_those_of_the_file() -> None:
    X = np.concatenate([np.zeros((5, 12)), around(0, 100, seed=0), around(1, 12, seed=1)])
    (rows,) = island_components(X)
    assert rows.tolist() == list(range(105, 117))


def test_islands_do_not_depend_on_rotation_or_lengths() -> None:
    X = np.concatenate([around(0, 270, seed=0), around(1, 12, seed=1), around(2, 18, seed=2)])
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]
    lengths = np.random.default_rng(1).uniform(0.1, 9, (300, 1))
    assert islands(X @ Q) == islands(X * lengths) == islands(X.astype(np.float32)) == islands(X)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.ones((1, 4)), np.nan),
        (np.zeros((9, 4)), np.nan),
        (np.array([[1.0, 0], [0, 1]]), 0),
        (np.ones((30, 4)), 0),
        (np.array([[1.0]] * 40 + [[-1.0]] * 15), 15 / 55),
        (np.random.default_rng(0).standard_normal((20, 50)).astype(np.float16), 0),
    ],
    ids=["one row", "zeros", "two rows", "identical", "d=1", "n<d"],
)
def test_islands_of_degenerate_clouds(X: np.ndarray, expected: float) -> None:
    value, reason = METRICS["islands"].value(Cloud(X))
    assert value == pytest.approx(expected, nan_ok=True)
    assert bool(reason) == np.isnan(expected)


def slow_dimension(X: np.ndarray) -> float:
    """The definition, by loops."""
    ratios = []
    for i, x in enumerate(X):
        first, second = sorted(math.dist(x, y) for j, y in enumerate(X) if j != i)[:2]
        ratios.append(second / first)
    smallest = sorted(ratios)[: int(0.9 * len(X))]
    points = [(math.log(mu), -math.log(1 - rank / len(X))) for rank, mu in enumerate(smallest, start=1)]
    return sum(x * y for x, y in points) / sum(x * x for x, _ in points)


def test_the_intrinsic_dimension_equals_its_definition() -> None:
    X = np.random.default_rng(0).standard_normal((150, 5))
    assert intrinsic_dimension(X) == pytest.approx(slow_dimension(X), rel=1e-10)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_sphere_has_its_own_dimension_in_any_space(dimension: int) -> None:
    ball = np.random.default_rng(dimension).standard_normal((4000, dimension + 1))
    sphere = ball / np.linalg.norm(ball, axis=1, keepdims=True)
    inside = np.pad(sphere, ((0, 0), (0, 40 - dimension - 1))) @ rotation(40)
    assert intrinsic_dimension(inside) == pytest.approx(dimension, rel=0.06)


def test_scale_shift_rotation_and_order_do_not_change_the_intrinsic_dimension() -> None:
    X = np.random.default_rng(1).standard_normal((300, 6)) * [3, 2, 1, 1, 0.5, 0.1]
    value = intrinsic_dimension(X)
    assert intrinsic_dimension(7 * X @ rotation(6) + 100) == pytest.approx(value, rel=1e-6)
    assert intrinsic_dimension(X[::-1]) == pytest.approx(value, rel=1e-12)
    assert intrinsic_dimension(1e-200 * X) == pytest.approx(value, rel=1e-9)
    assert intrinsic_dimension(1e200 * X) == pytest.approx(value, rel=1e-9)


def test_row_lengths_change_the_intrinsic_dimension() -> None:
    """Euclidean, not cosine: points on a circle are a line, points scattered in length along it are a plane."""
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 3000)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    spread = circle * np.random.default_rng(1).uniform(0.5, 1.5, (3000, 1))
    assert intrinsic_dimension(circle) == pytest.approx(1, rel=0.05)
    assert intrinsic_dimension(spread) == pytest.approx(2, rel=0.07)


def test_copies_do_not_change_the_intrinsic_dimension() -> None:
    X = np.random.default_rng(2).standard_normal((400, 4))
    copies = np.concatenate([X, X[:100]])
    assert intrinsic_dimension(copies) == intrinsic_dimension(X)


def test_a_large_mean_does_not_hurt_the_intrinsic_dimension_of_float32() -> None:
    X = np.random.default_rng(3).integers(-4096, 4096, (500, 6)) / 4096  # exact in float32 after the shift, too
    assert intrinsic_dimension((X + 1000).astype(np.float32)) == pytest.approx(intrinsic_dimension(X), rel=1e-4)


def test_precision_hardly_changes_the_intrinsic_dimension() -> None:
    X = np.random.default_rng(4).standard_normal((300, 5)).astype(np.float16)
    values = [intrinsic_dimension(X.astype(dtype)) for dtype in (np.float16, np.float32, np.float64)]
    assert values[0] == values[1] == pytest.approx(values[2], rel=1e-4)


@pytest.mark.parametrize(
    ("X", "reason"),
    [
        (np.ones((1, 4)), "at least 3 distinct rows, there are 1"),
        (np.eye(2), "at least 3 distinct rows, there are 2"),
        (np.ones((30, 4)), "there are 1"),
        (np.zeros((30, 4)), "there are 1"),
        (np.repeat(np.eye(2), 20, axis=0), "there are 2"),
        (np.eye(12), "equally far"),
        (0.1 * np.column_stack([a.ravel() for a in np.mgrid[:7, :9]]), "equally far"),
    ],
    ids=["one row", "two rows", "identical", "zeros", "copies of two", "simplex", "grid"],
)
def test_the_intrinsic_dimension_of_degenerate_clouds_is_nan_with_a_reason(X: np.ndarray, reason: str) -> None:
    value, message = METRICS["intrinsic_dimension"].value(Cloud(X))
    assert np.isnan(value)
    assert reason in message


def test_one_dimension_and_few_rows_have_an_intrinsic_dimension() -> None:
    line = np.random.default_rng(5).uniform(size=(2000, 1))
    assert intrinsic_dimension(line) == pytest.approx(1, rel=0.06)
    assert intrinsic_dimension(np.random.default_rng(6).standard_normal((20, 50))) > 0
    assert np.isfinite(intrinsic_dimension(np.concatenate([np.zeros((3, 2)), np.random.default_rng(7).standard_normal((50, 2))])))


def test_one_far_row_does_not_change_the_dimension_of_the_others() -> None:
    X = cloud(1000, 8).astype(np.float32)
    far = X.copy()
    far[5] = 1e7
    assert intrinsic_dimension(far) == pytest.approx(intrinsic_dimension(X), rel=0.02)


def test_rows_far_from_the_origin_are_not_copies() -> None:
    X = cloud(500, 16)
    far = (X + 1e6).astype(np.float32)
    # As float64, the same numbers are exact.
    for metric in (hubness, never_retrieved, relative_contrast):
        assert metric(far) == pytest.approx(metric(far.astype(np.float64)), rel=1e-3)
    value, reason = METRICS["near_duplicates"].value(Cloud(far))
    assert np.isnan(value) and "remove the mean first" in reason
    assert METRICS["exact_duplicates"].value(Cloud(far))[0] == 0
