"""Retrieval: agreement of cosine and inner product, stability of results, and islands of the neighbour graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from neighbour_oracles import cloud, rotation, slow_table

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.neighbours import K, neighbours_of
from theodolite.metrics.registry import METRICS
from theodolite.metrics.retrieval import components, islands, metric_agreement, retrieval_stability


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
    assert parts.sizes.tolist() == [60, 30, 15] == [len(part) for part in expected]
    assert [set(rows.tolist()) for rows in parts.members] == expected


def test_planted_islands_are_counted_and_named() -> None:
    X = np.concatenate([around(0, 270, seed=0), around(1, 12, seed=1), around(2, 18, seed=2)])
    assert islands(X) == pytest.approx(0.10)
    assert [rows.tolist() for rows in components(X).islands] == [list(range(282, 300)), list(range(270, 282))]


def test_a_second_large_part_is_not_an_island() -> None:
    X = np.concatenate([around(0, 200, seed=0), around(1, 100, seed=1)])
    assert components(X).sizes.tolist() == [200, 100]
    assert islands(X) == 0


def test_half_a_percent_is_the_limit_of_a_large_cloud() -> None:
    angle = np.linspace(0, 1, 5000)
    arc = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(5000)])
    speck = np.array([0, 0, 1.0]) + 1e-3 * np.random.default_rng(0).standard_normal((25, 3))
    assert components(np.concatenate([arc, speck])).limit == 25
    assert islands(np.concatenate([arc, speck])) == pytest.approx(25 / 5025)


def test_a_connected_cloud_has_no_islands() -> None:
    assert islands(np.random.default_rng(0).standard_normal((300, 20))) == 0


def test_a_group_of_copies_cut_off_from_the_rest_is_an_island() -> None:
    X = np.concatenate([around(0, 200, seed=0), np.tile(np.eye(12)[3], (12, 1))])
    assert islands(X) == pytest.approx(12 / 212)


def test_row_numbers_are_those_of_the_file() -> None:
    X = np.concatenate([np.zeros((5, 12)), around(0, 100, seed=0), around(1, 12, seed=1)])
    (rows,) = components(X).islands
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
