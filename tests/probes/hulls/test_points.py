"""Distances of points to hulls: inside, on the surface and outside, and the nearest hull without solving all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from theodolite.probes.hulls.points import hull_distances, inside_distances, nearest_hulls

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])


def test_distances_to_a_square_and_to_a_point() -> None:
    points = np.array([[1.0, 1.0], [2.0, 1.0], [5.0, 1.0], [5.0, 6.0]])
    distances = hull_distances(points, [SQUARE, np.array([[2.0, 1.0]])], 1e-7)
    np.testing.assert_allclose(distances, [[0, 1], [0, 0], [3, 3], [5, np.sqrt(34)]], atol=1e-8)
    assert hull_distances(points[:0], [SQUARE], 1e-7).shape == (0, 1)


@pytest.mark.parametrize("d", [2, 5, 70])
def test_the_nearest_hull_is_that_of_all_distances(d: int) -> None:
    random = np.random.default_rng(d)
    hulls = [random.standard_normal((20, d)) + 2 * random.standard_normal(d) for _ in range(6)]
    points = 3 * random.standard_normal((30, d))
    distances = hull_distances(points, hulls, 1e-7)
    np.testing.assert_array_equal(nearest_hulls(points, hulls, 1e-7), distances.argmin(axis=1))


def test_the_first_of_equally_near_hulls_is_taken() -> None:
    assert nearest_hulls(np.array([[1.0, 1.0]]), [SQUARE + 9, SQUARE, SQUARE], 1e-7).tolist() == [1]


@pytest.mark.parametrize("n", [2, 50, 1500])
def test_inside_distances_are_those_of_all_pairs_whatever_the_blocks(n: int) -> None:
    points = np.random.default_rng(0).standard_normal((n, 3)) + 1e4
    mean, largest = inside_distances(points)
    assert mean == pytest.approx(pdist(points).mean(), rel=1e-9) and largest == pytest.approx(pdist(points).max(), rel=1e-9)


def test_a_single_point_has_no_distance_inside() -> None:
    assert inside_distances(np.ones((1, 4))) == (0.0, 0.0)
