"""Nearest rows and the neighbour table: exact against loops and scikit-learn, across tiles, with copies, far from the origin."""

from __future__ import annotations

import numpy as np
import pytest
from neighbour_oracles import cloud, slow_table

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.nearest_rows import (
    TILE,
    K,
    distinct_rows,
    each_tile,
    largest_products,
    mean_distance,
    nearest_neighbours,
    neighbours_of,
)
from theodolite.metrics.neighbours import exact_duplicates, relative_contrast


def by_loops(X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    index, squares = [], []
    for i in range(len(X)):
        neighbours = sorted((float(((X[i] - X[j]) ** 2).sum()), j) for j in range(len(X)) if j != i)[:k]
        index.append([j for _, j in neighbours])
        squares.append([square for square, _ in neighbours])
    return np.array(index), np.array(squares)


@pytest.mark.parametrize("k", [1, 2, 10])
def test_equals_plain_loops(k: int) -> None:
    X = np.random.default_rng(k).standard_normal((90, 7))
    index, squares = nearest_neighbours(X, k)
    expected, expected_squares = by_loops(X, k)
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(squares, expected_squares, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [TILE - 1, TILE + 1, 2 * TILE + 300])
def test_equals_scikit_learn_across_tiles(m: int, dtype: type) -> None:
    from sklearn.neighbors import NearestNeighbors

    X = np.random.default_rng(m).standard_normal((m, 12)).astype(dtype)
    index, squares = nearest_neighbours(X, 10)
    distance, expected = NearestNeighbors(n_neighbors=10, algorithm="kd_tree").fit(X.astype(np.float64)).kneighbors()
    np.testing.assert_allclose(np.sqrt(squares), distance, rtol=2e-6 if dtype is np.float32 else 1e-12)
    assert np.mean(index == expected) > (0.9999 if dtype is np.float32 else 0.99999)


def test_every_row_lists_all_others_when_k_is_their_number() -> None:
    X = np.random.default_rng(0).standard_normal((8, 3))
    index, _ = nearest_neighbours(X, 7)
    for i, row in enumerate(index):
        assert sorted(row) == [j for j in range(8) if j != i]


def test_identical_rows_list_each_other_and_never_themselves() -> None:
    X = np.repeat(np.random.default_rng(0).standard_normal((700, 20)).astype(np.float32), 2, axis=0)
    index, squares = nearest_neighbours(X, 3)
    rows = np.arange(len(X))
    np.testing.assert_array_equal(index[:, 0], rows ^ 1)
    assert not squares[:, 0].any()
    assert not np.any(index == rows[:, None])


def test_thousands_of_identical_rows_are_handled() -> None:
    X = np.zeros((3000, 5), np.float32)
    X[-1] = 1
    index, squares = nearest_neighbours(X, 10)
    assert not squares[:-1].any()
    assert not np.any(index == np.arange(3000)[:, None])
    np.testing.assert_allclose(squares[-1], 5)


def test_rounding_in_the_products_does_not_change_the_neighbours() -> None:
    """Uncentred float32 products at this offset cannot separate the rows; spare candidates and differences can."""
    X = np.random.default_rng(1).standard_normal((400, 30))
    shifted = (X + 20).astype(np.float32)
    index, _ = nearest_neighbours(shifted, 5)
    expected, _ = by_loops(shifted.astype(np.float64), 5)
    assert np.mean(index == expected) > 0.999


@pytest.mark.parametrize("k", [0, 5, 6])
def test_k_out_of_range_is_an_error(k: int) -> None:
    with pytest.raises(ValueError, match=f"k={k} must be at least 1 and less than the number of rows, 5"):
        nearest_neighbours(np.eye(5), k)


def test_tiles_cover_every_pair_once() -> None:
    X = np.random.default_rng(0).standard_normal((2 * TILE + 5, 3))
    total = sum(each_tile(X, lambda rows, columns, tile: float(tile.sum()) * (1 if rows == columns else 2)))
    assert total == pytest.approx(float(X.sum(axis=0) @ X.sum(axis=0)) - len(X) * float(np.square(X).sum()), rel=1e-9)


def test_largest_products_equal_a_full_sort() -> None:
    rng = np.random.default_rng(0)
    keys, bias = rng.standard_normal((300, 6)), rng.standard_normal(300)
    own = np.arange(0, 300, 7)
    rows = largest_products(keys[own], keys, 4, bias=bias, own=own)
    for query, row in zip(own, rows, strict=True):
        scores = keys @ keys[query] + bias
        scores[query] = -np.inf
        assert set(row) == set(np.argsort(-scores)[:4])


def test_distinct_rows_are_the_first_ones_and_minus_zero_is_zero() -> None:
    X = np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [2.0, 3.0], [5.0, 5.0]])
    first, group = distinct_rows(X)
    assert first.tolist() == [0, 1, 4]
    assert group.tolist() == [0, 1, 0, 1, 2]


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


def test_the_mean_distance_is_that_of_all_pairs_of_the_rows() -> None:
    X = cloud(40)
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    rows = np.arange(0, 40, 3)
    pairs = [1 - units[i] @ units[j] for i in rows for j in rows if j < i]
    assert mean_distance(units - units.mean(axis=0), rows) == pytest.approx(np.mean(pairs))
