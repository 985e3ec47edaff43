"""Uniformity and alignment against plain loops, their extremes and invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.nearest_rows import TILE
from theodolite.metrics.registry import METRICS, UndefinedMetricWarning
from theodolite.metrics.sphere import alignment, uniformity


def rotation(d: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(9).standard_normal((d, d)))[0]


def slow(X: np.ndarray, t: float = 2.0) -> float:
    units = [x / np.linalg.norm(x) for x in X if np.any(x)]
    terms = [math.exp(-t * float((u - v) @ (u - v))) for i, u in enumerate(units) for v in units[:i]]
    return math.log(sum(terms) / len(terms))


@pytest.mark.parametrize("t", [0.5, 2.0, 5.0])
def test_uniformity_equals_plain_loops(t: float) -> None:
    X = np.random.default_rng(0).standard_normal((120, 6)) + 0.5
    X[[3, 50]] = 0
    assert uniformity(X, t=t) == pytest.approx(slow(X, t), rel=1e-12)


def test_tiles_cover_all_pairs() -> None:
    X = np.random.default_rng(0).standard_normal((TILE + 1, 4))
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    squares = ((U[:, None] - U[None]) ** 2).sum(axis=2)[np.triu_indices(len(U), 1)]
    assert uniformity(X) == pytest.approx(np.log(np.exp(-2 * squares).mean()), rel=1e-11)
    assert uniformity(X.astype(np.float32)) == pytest.approx(uniformity(X), rel=1e-5)


def test_uniformity_at_its_extremes() -> None:
    assert uniformity(np.ones((50, 3))) == 0
    assert uniformity(np.array([[1.0, 0], [-3, 0]])) == pytest.approx(-8)  # two opposite rows: |u - v|^2 = 4
    assert uniformity(np.random.default_rng(0).standard_normal((1000, 2000))) == pytest.approx(-4, abs=0.05)


def test_uniformity_with_a_t_that_would_underflow() -> None:
    assert uniformity(np.array([[1.0, 0], [-1, 0]], np.float32), t=500) == pytest.approx(-2000)


def test_uniformity_ignores_rotation_lengths_and_order_but_not_a_shift() -> None:
    X = np.random.default_rng(1).standard_normal((200, 5)) + 0.3
    lengths = np.random.default_rng(2).uniform(0.1, 9, (200, 1))
    value = uniformity(X)
    assert uniformity(lengths * X @ rotation(5)) == pytest.approx(value, rel=1e-10)
    assert uniformity(X[::-1]) == pytest.approx(value, rel=1e-12)
    assert uniformity(X + 2) > value + 0.5


def test_a_narrow_cone_keeps_its_digits_in_float32() -> None:
    X = (np.random.default_rng(3).standard_normal((300, 16)) + 1000).astype(np.float32)
    assert uniformity(X) == pytest.approx(slow(X.astype(np.float64)), rel=5e-3)  # -4e-6: eight digits of a cosine


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.ones((1, 3)), np.nan),
        (np.zeros((5, 3)), np.nan),
        (np.array([[0.0, 0], [1, 1]]), np.nan),
        (np.array([[2.0], [1.0], [-1.0]]), math.log((1 + 2 * math.exp(-8)) / 3)),
        (np.repeat(np.eye(3), 2, axis=0), math.log((3 + 12 * math.exp(-4)) / 15)),
        (np.eye(3, 40, dtype=np.float16), -4),
    ],
    ids=["one row", "zeros", "one row not zero", "d=1", "copies", "n<d"],
)
def test_uniformity_of_degenerate_clouds(X: np.ndarray, expected: float) -> None:
    value, reason = METRICS["uniformity"].value(Cloud(X))
    assert value == pytest.approx(expected, nan_ok=True)
    assert bool(reason) == np.isnan(expected)


@pytest.mark.parametrize("t", [0, -1, float("nan")])
def test_a_t_that_is_not_positive_is_an_error(t: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        uniformity(np.eye(3), t=t)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
def test_alignment_equals_plain_loops(alpha: float) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((100, 7)), rng.standard_normal((100, 7))
    lengths = [float(np.linalg.norm(x / np.linalg.norm(x) - y / np.linalg.norm(y))) for x, y in zip(X, Y, strict=True)]
    assert alignment(X, Y, alpha=alpha) == pytest.approx(sum(length**alpha for length in lengths) / 100, rel=1e-12)


def test_alignment_at_its_extremes_and_its_symmetries() -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((50, 4)), rng.standard_normal((50, 4))
    assert alignment(X, 3 * X) == pytest.approx(0, abs=1e-30)
    assert alignment(X, -X) == pytest.approx(4)
    assert alignment(X, Y) == alignment(Y, X) == pytest.approx(alignment(X @ rotation(4), Y @ rotation(4)))
    assert alignment(X, Y[::-1]) != pytest.approx(alignment(X, Y), rel=1e-3)  # pairs, not sets


def test_alignment_reads_every_row_of_streams_in_any_chunks() -> None:
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((5000, 400)).astype(np.float32), rng.standard_normal((5000, 400))
    whole = alignment(X, Y)
    assert alignment(iter([X[:1], X[1:4000], X[4000:]]), Cloud(Y, sample=10)) == pytest.approx(whole, rel=1e-12)


def test_pairs_that_do_not_match_are_errors() -> None:
    X = np.ones((6, 3))
    with pytest.raises(ValueError, match="X has 6 rows and Y has 5"):
        alignment(X, X[:5])
    with pytest.raises(ValueError, match="X has 6 rows and Y has 4"):
        alignment(iter([X]), iter([X[:2], X[2:4]]))
    with pytest.raises(ValueError, match="X has 2 rows and Y has 6"):
        alignment(iter([X[:2]]), iter([X]))
    with pytest.raises(ValueError, match="d=3 and Y has d=2"):
        alignment(X, X[:, :2])
    with pytest.raises(ValueError, match="alpha=0 must be positive"):
        alignment(X, X, alpha=0)


def test_pairs_with_a_zero_row_are_left_out() -> None:
    X, Y = np.array([[1.0, 0], [0, 0], [1, 0]]), np.array([[0.0, 1], [1, 0], [0, 0]])
    assert alignment(X, Y) == pytest.approx(2)
    with pytest.warns(UndefinedMetricWarning, match="every pair has a row of zeros"):
        assert np.isnan(alignment(0 * X, Y))
    assert alignment(np.array([[5.0]]), np.array([[-1.0]])) == pytest.approx(4)  # one row, d = 1
