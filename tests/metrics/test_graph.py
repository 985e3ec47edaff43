"""Islands: planted ones are found and named, a connected cloud has none."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.graph import components, islands
from theodolite.metrics.neighbours import neighbours_of
from theodolite.metrics.registry import METRICS


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
    assert parts.sizes.tolist() == [60, 30, 15] == [len(part) for part in expected]
    assert [set(rows.tolist()) for rows in parts.members] == expected


def test_planted_islands_are_counted_and_named() -> None:
    X = np.concatenate([around(0, 270, seed=0), around(1, 12, seed=1), around(2, 18, seed=2)])
    assert islands(X) == pytest.approx(0.10)
    assert [rows.tolist() for rows in components(X).islands] == [list(range(282, 300)), list(range(270, 282))]


def test_a_second_continent_is_no_island() -> None:
    X = np.concatenate([around(0, 200, seed=0), around(1, 100, seed=1)])
    assert components(X).sizes.tolist() == [200, 100]
    assert islands(X) == 0


def test_half_a_percent_is_the_limit_of_a_large_cloud() -> None:
    angle = np.linspace(0, 1, 5000)
    arc = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(5000)])
    speck = np.array([0, 0, 1.0]) + 1e-3 * np.random.default_rng(0).standard_normal((25, 3))
    assert components(np.concatenate([arc, speck])).limit == 25
    assert islands(np.concatenate([arc, speck])) == pytest.approx(25 / 5025)


def test_a_connected_cloud_has_none_and_noise_bridges() -> None:
    assert islands(np.random.default_rng(0).standard_normal((300, 20))) == 0


def test_a_crowd_of_copies_cut_off_from_the_rest_is_an_island() -> None:
    X = np.concatenate([around(0, 200, seed=0), np.tile(np.eye(12)[3], (12, 1))])
    assert islands(X) == pytest.approx(12 / 212)


def test_row_numbers_are_those_of_the_file() -> None:
    X = np.concatenate([np.zeros((5, 12)), around(0, 100, seed=0), around(1, 12, seed=1)])
    (rows,) = components(X).islands
    assert rows.tolist() == list(range(105, 117))


def test_rotation_and_lengths_do_not_matter() -> None:
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
def test_degenerate_clouds_have_a_decided_answer(X: np.ndarray, expected: float) -> None:
    value, reason = METRICS["islands"].value(Cloud(X))
    assert value == pytest.approx(expected, nan_ok=True)
    assert bool(reason) == np.isnan(expected)
