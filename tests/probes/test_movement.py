"""Centroids that move by a known step, stay, or share a direction; and paths in a plane that loses nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from theodolite.probes.movement import centroid_movement, centroid_paths, closest_labels, movement_directions

Y = np.array(list("abcab" * 40))


def normal(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def test_a_known_step_is_found_whatever_the_rotation() -> None:
    X = normal(200, 6, 0)
    steps = {"a": 0.0, "b": 3.0, "c": 5.0}
    direction = np.eye(6)[0]
    after = X + np.array([steps[label] for label in Y])[:, None] * direction
    Q = np.linalg.qr(normal(6, 6, 1))[0]
    rotated = centroid_movement(2 * X @ Q + 9, 2 * after @ Q + 9, Y)
    for plain, turned in zip(centroid_movement(X, after, Y), rotated, strict=True):
        assert plain.distance == pytest.approx(steps[plain.label], abs=1e-12)
        assert turned.distance == pytest.approx(2 * plain.distance, abs=1e-9)
        assert turned.relative == pytest.approx(plain.relative, abs=1e-9)
        assert plain.low == pytest.approx(plain.distance, abs=1e-12) == plain.high  # every row takes the same step
        rows = X[plain.label == Y]
        assert plain.spread == pytest.approx(math.sqrt(np.square(rows - rows.mean(axis=0)).sum(axis=1).mean()))
        assert plain.n == (plain.label == Y).sum()


def test_nothing_moved_is_zero_and_noise_shrinks_with_rows() -> None:
    X = normal(200, 6, 0)
    assert all(movement.distance == 0 for movement in centroid_movement(X, X, Y))
    few = centroid_movement(normal(50, 6, 0), normal(50, 6, 1), ["a"] * 50)[0]
    many = centroid_movement(normal(5000, 6, 0), normal(5000, 6, 1), ["a"] * 5000)[0]
    assert many.distance < few.distance / 4


def test_intervals_cover_the_truth_about_as_often_as_their_level() -> None:
    covered = 0
    for seed in range(150):
        X = normal(80, 2, seed)
        movement = centroid_movement(X, X + [3.0, 4.0] + normal(80, 2, seed + 999), ["a"] * 80, bootstrap=60, level=0.9)[0]
        assert movement.low is not None and movement.high is not None
        covered += movement.low <= 5 <= movement.high
    # 90 % of 150 is 135 with a deviation of 3.7; sixty replicates cost some coverage.
    assert 120 <= covered <= 147


def test_a_label_of_few_rows_has_a_distance_without_an_interval_and_one_row_no_spread() -> None:
    X = normal(20, 3, 0)
    y = np.array(["many"] * 16 + ["few"] * 3 + ["one"])
    movements = {movement.label: movement for movement in centroid_movement(X, X + 1, y)}
    assert movements["many"].low is not None
    assert movements["few"].low is None and movements["few"].distance == pytest.approx(math.sqrt(3))
    assert math.isnan(movements["one"].relative) and "one point" in movements["one"].reason
    assert all(movement.low is None for movement in centroid_movement(X, X + 1, y, bootstrap=0))


def test_one_common_direction_has_all_movement_and_opposite_ways_count_too() -> None:
    X = normal(200, 6, 0)
    step = np.array([{"a": 1.0, "b": -2.0, "c": 4.0}[label] for label in Y])
    directions = movement_directions(X, X + step[:, None] * np.eye(6)[2] + 5e-4 * normal(200, 6, 2), Y, components=3)
    assert directions.shares[0] == pytest.approx(1, abs=1e-6) and directions.shares[1] < 1e-6
    assert directions.low is not None and directions.high is not None and directions.low[0] > 0.999 and directions.high[0] <= 1
    np.testing.assert_allclose(np.abs(directions.components[0]), np.eye(6)[2], atol=1e-3)
    np.testing.assert_allclose(directions.scores[:, 0], [1, -2, 4], atol=1e-2)
    same = movement_directions(X, X + np.eye(6)[2], Y)
    assert same.shares[0] == pytest.approx(1)


def test_unrelated_steps_spread_over_as_many_directions_as_labels() -> None:
    X = normal(200, 6, 0)
    step = np.array([{"a": np.eye(6)[0], "b": np.eye(6)[1], "c": np.eye(6)[2]}[label] for label in Y])
    np.testing.assert_allclose(movement_directions(X, X + step, Y, components=9).shares, 1 / 3)
    assert np.isnan(movement_directions(X, X, Y).shares).all()


def test_paths_keep_all_distances_when_the_plane_has_room_and_share_less_otherwise() -> None:
    states = [normal(200, 6, 0) * scale + shift for scale, shift in ((1, 0), (1, 1), (2, 3))]
    full = centroid_paths(states, Y, components=6)
    assert full.points.shape == (3, 3, 6) and full.shares.sum() == pytest.approx(1)
    expected = np.stack([X[label == Y].mean(axis=0) for X in states for label in "abc"])
    np.testing.assert_allclose(pdist(full.points.reshape(9, 6)), pdist(expected), atol=1e-9)
    plane = centroid_paths(states, Y)
    np.testing.assert_allclose(plane.points, full.points[..., :2], atol=1e-9)
    np.testing.assert_allclose(
        plane.points @ plane.components + plane.mean, full.points[..., :2] @ full.components[:2] + full.mean
    )
    assert plane.shares.sum() < 1
    two = centroid_paths(states, Y, labels=["c", "a"])
    assert two.labels == ("c", "a") and two.points.shape == (3, 2, 2)


def test_the_closest_labels_are_those_of_a_plain_search() -> None:
    names = list("abcdefgh")
    matrix = squareform(pdist(normal(8, 3, 4)))
    best = min(itertools.combinations(range(8), 3), key=lambda s: matrix[s[0], s[1]] + matrix[s[0], s[2]] + matrix[s[1], s[2]])
    np.fill_diagonal(matrix, np.nan)
    assert closest_labels(names, matrix) == tuple(names[i] for i in best)
    pair = np.unravel_index(np.nanargmin(matrix), matrix.shape)
    assert set(closest_labels(names, matrix, count=2)) == {names[i] for i in pair}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: centroid_movement(normal(5, 3, 0), normal(5, 3, 0), list("abab")), "4 labels for 5 rows"),
        (lambda: centroid_movement(normal(5, 3, 0), normal(5, 2, 0), list("ababa")), "(5, 3) and (5, 2)"),
        (lambda: centroid_movement(normal(5, 3, 0), normal(5, 3, 0), list("ababa"), bootstrap=3), "bootstrap=3"),
        (lambda: centroid_paths([normal(5, 3, 0)], list("ababa")), "at least 2 states"),
        (lambda: centroid_paths([normal(5, 3, 0)] * 2, list("ababa"), labels=["z"]), "'z' does not occur; choose among a, b"),
        (lambda: centroid_paths([normal(5, 3, 0), normal(5, 2, 0)], list("ababa")), "one width"),
        (lambda: movement_directions(normal(5, 3, 0), normal(5, 3, 0), list("ababa"), components=0), "components=0"),
        (lambda: closest_labels("abc", np.ones((3, 3)), count=4), "count=4"),
        (lambda: closest_labels("abc", np.ones((2, 2))), "(2, 2)"),
    ],
)
def test_wrong_input_is_an_error_that_names_it(call: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)
