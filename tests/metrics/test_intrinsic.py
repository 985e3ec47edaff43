"""TwoNN: spheres and planes of known dimension, its invariances, copies, degenerate clouds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.intrinsic import intrinsic_dimension, two_nn
from theodolite.metrics.registry import METRICS


def rotation(d: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(9).standard_normal((d, d)))[0]


def slow(X: np.ndarray) -> float:
    """The definition, by loops."""
    ratios = []
    for i, x in enumerate(X):
        first, second = sorted(math.dist(x, y) for j, y in enumerate(X) if j != i)[:2]
        ratios.append(second / first)
    smallest = sorted(ratios)[: int(0.9 * len(X))]
    points = [(math.log(mu), -math.log(1 - rank / len(X))) for rank, mu in enumerate(smallest, start=1)]
    return sum(x * y for x, y in points) / sum(x * x for x, _ in points)


def test_it_equals_the_definition() -> None:
    X = np.random.default_rng(0).standard_normal((150, 5))
    assert intrinsic_dimension(X) == pytest.approx(slow(X), rel=1e-10)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_sphere_has_its_own_dimension_in_any_space(dimension: int) -> None:
    ball = np.random.default_rng(dimension).standard_normal((4000, dimension + 1))
    sphere = ball / np.linalg.norm(ball, axis=1, keepdims=True)
    inside = np.pad(sphere, ((0, 0), (0, 40 - dimension - 1))) @ rotation(40)
    assert intrinsic_dimension(inside) == pytest.approx(dimension, rel=0.06)


def test_scale_shift_rotation_and_order_do_not_matter() -> None:
    X = np.random.default_rng(1).standard_normal((300, 6)) * [3, 2, 1, 1, 0.5, 0.1]
    value = intrinsic_dimension(X)
    assert intrinsic_dimension(7 * X @ rotation(6) + 100) == pytest.approx(value, rel=1e-6)
    assert intrinsic_dimension(X[::-1]) == pytest.approx(value, rel=1e-12)
    assert intrinsic_dimension(1e-200 * X) == pytest.approx(value, rel=1e-9)
    assert intrinsic_dimension(1e200 * X) == pytest.approx(value, rel=1e-9)


def test_row_lengths_do_matter() -> None:
    """Euclidean, not cosine: points on a circle are a line, points scattered in length along it are a plane."""
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 3000)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    spread = circle * np.random.default_rng(1).uniform(0.5, 1.5, (3000, 1))
    assert intrinsic_dimension(circle) == pytest.approx(1, rel=0.05)
    assert intrinsic_dimension(spread) == pytest.approx(2, rel=0.07)


def test_copies_are_left_out_and_counted() -> None:
    X = np.random.default_rng(2).standard_normal((400, 4))
    doubled = two_nn(np.concatenate([X, X[:100]]))
    assert (doubled.rows, doubled.copies) == (400, 100)
    assert doubled.dimension == two_nn(X[:400]).dimension == pytest.approx(intrinsic_dimension(X))


def test_a_large_mean_does_not_hurt_float32() -> None:
    X = np.random.default_rng(3).integers(-4096, 4096, (500, 6)) / 4096  # exact in float32 after the shift, too
    assert intrinsic_dimension((X + 1000).astype(np.float32)) == pytest.approx(intrinsic_dimension(X), rel=1e-4)


def test_precision_of_the_input_hardly_matters() -> None:
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
def test_degenerate_clouds_are_nan_with_a_reason(X: np.ndarray, reason: str) -> None:
    value, message = METRICS["intrinsic_dimension"].value(Cloud(X))
    assert np.isnan(value)
    assert reason in message


def test_one_dimension_and_few_rows_work() -> None:
    line = np.random.default_rng(5).uniform(size=(2000, 1))
    assert intrinsic_dimension(line) == pytest.approx(1, rel=0.06)
    assert intrinsic_dimension(np.random.default_rng(6).standard_normal((20, 50))) > 0
    assert np.isfinite(intrinsic_dimension(np.concatenate([np.zeros((3, 2)), np.random.default_rng(7).standard_normal((50, 2))])))
