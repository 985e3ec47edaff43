"""Neighbour metrics against plain loops, planted structure, invariances, and every degenerate cloud."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from neighbour_oracles import cloud, rotation, slow_table

from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.neighbours import (
    K,
    density_variation,
    exact_duplicates,
    hub_share,
    hubness,
    near_duplicates,
    neighbours_of,
    never_retrieved,
    outliers,
    outlying_rows,
    relative_contrast,
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


def test_the_table_equals_plain_loops() -> None:
    X = cloud()
    table = neighbours_of(Cloud(X))
    index, distance = slow_table(X)
    np.testing.assert_array_equal(table.index, index)
    np.testing.assert_allclose(table.distance, distance, atol=1e-12)


def test_the_table_is_computed_once() -> None:
    data = Cloud(cloud())
    assert neighbours_of(data) is neighbours_of(data)


def test_zero_rows_are_left_out_and_row_numbers_are_those_of_the_cloud() -> None:
    X = cloud(40)
    X[[0, 7]] = 0
    table = neighbours_of(Cloud(X))
    assert table.rows.tolist() == [i for i in range(40) if i not in (0, 7)]
    np.testing.assert_array_equal(table.index, slow_table(np.delete(X, [0, 7], axis=0))[0])


def test_copies_list_each_other_and_never_themselves() -> None:
    X = np.repeat(cloud(30), 3, axis=0)
    table = neighbours_of(Cloud(X))
    for i, row in enumerate(table.index):
        assert i not in row
        assert len(set(row)) == K
        assert set(row[:2]) == {3 * (i // 3) + o for o in range(3)} - {i}
    np.testing.assert_allclose(table.distance, slow_table(X)[1], atol=1e-12)


def test_the_first_of_many_copies_does_not_become_a_hub() -> None:
    X = np.concatenate([np.ones((50, 8)), cloud(100)])
    counts = neighbours_of(Cloud(X)).occurrences()[:50]
    assert counts.min() >= K
    assert counts.max() - counts.min() <= 10  # those that others list are spread over all copies


def test_rows_that_differ_by_rounding_are_copies() -> None:
    """The same rows at other lengths, and with the noise of another batch, differ in the last digits of float32."""
    rng = np.random.default_rng(0)
    X = np.repeat(cloud(40, 32), 20, axis=0)
    noisy = (X * rng.uniform(0.5, 2, (800, 1)) * (1 + 1e-6 * rng.standard_normal(X.shape))).astype(np.float32)
    exact, table = neighbours_of(Cloud(X)), neighbours_of(Cloud(noisy))
    np.testing.assert_array_equal(table.distinct, np.arange(0, 800, 20))
    np.testing.assert_array_equal(table.group, exact.group)
    np.testing.assert_array_equal(table.index, exact.index)
    assert relative_contrast(noisy) == pytest.approx(relative_contrast(X), rel=1e-4)
    assert exact_duplicates(noisy) == 0
    one_direction = (X[:30] * rng.uniform(0.5, 2, (30, 1))).astype(np.float32)[[0] * 15 + [1] * 15]
    one_direction *= rng.uniform(0.5, 2, (30, 1)).astype(np.float32)
    assert len(neighbours_of(Cloud(one_direction)).distinct) == 1


def test_a_tiny_cloud_has_shorter_lists() -> None:
    assert neighbours_of(Cloud(cloud(5))).index.shape == (5, 4)


def test_float32_finds_the_neighbours_if_all_cosines_are_almost_one() -> None:
    """At mean 1000 and deviation 1 the cosines differ in the seventh digit: plain float32 products list the wrong rows."""
    X = (np.random.default_rng(0).standard_normal((200, 32)) + 1000).astype(np.float32)
    exact = slow_table(X.astype(np.float64))[0]
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    naive = units @ units.T
    np.fill_diagonal(naive, -np.inf)
    assert np.mean([len({*a} & {*b}) for a, b in zip(np.argsort(-naive, axis=1)[:, :K], exact, strict=True)]) < 0.9 * K
    lists = neighbours_of(Cloud(X)).index
    assert np.mean([len({*a} & {*b}) for a, b in zip(lists, exact, strict=True)]) > 0.99 * K


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
