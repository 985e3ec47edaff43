"""CKA: compared with its definition on n × n matrices, its invariances, and a case in which the plug-in misleads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import theodolite.probes.kernel_alignment as module
from theodolite.core.vectors import Source
from theodolite.probes.kernel_alignment import cka, cka_similarity


def normal(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def by_definition(X: np.ndarray, Y: np.ndarray, *, debiased: bool) -> float:
    """CKA as the papers write it, with n × n matrices."""
    n = len(X)
    one, H = np.ones(n), np.eye(n) - 1 / n

    def hsic(K: np.ndarray, L: np.ndarray) -> float:
        if not debiased:
            return float(np.trace(K @ H @ L @ H)) / (n - 1) ** 2
        K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
        inside = np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ K @ L @ one)
        return float(inside) / (n * (n - 3))

    K, L = X @ X.T, Y @ Y.T
    return hsic(K, L) / math.sqrt(hsic(K, K) * hsic(L, L))


@settings(deadline=None)
@given(n=st.integers(5, 60), dx=st.integers(1, 30), dy=st.integers(1, 30), seed=st.integers(0, 50), debiased=st.booleans())
def test_it_is_the_definition_whichever_matrices_are_smaller(n: int, dx: int, dy: int, seed: int, debiased: bool) -> None:
    X = normal(n, dx, seed) + 3
    Y = normal(n, dy, seed + 1) + X[:, :1]
    assert cka(X, Y, debiased=debiased) == pytest.approx(by_definition(X, Y, debiased=debiased), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("debiased", [True, False])
@pytest.mark.parametrize("n", [12, 300])
def test_rotation_scale_and_shift_change_nothing_but_other_maps_do(n: int, debiased: bool) -> None:
    X, Y = normal(n, 20, 0) * np.linspace(3, 0.1, 20), normal(n, 20, 1) + normal(n, 20, 0)
    Q = np.linalg.qr(normal(20, 20, 2))[0]
    assert cka(X, 5 * X @ Q + 100, debiased=debiased) == pytest.approx(1)
    assert cka(X @ Q - 7, 0.01 * Y, debiased=debiased) == pytest.approx(cka(X, Y, debiased=debiased))
    assert cka(X, Y, debiased=debiased) == pytest.approx(cka(Y, X, debiased=debiased))
    assert cka(X, X * np.linspace(0.1, 5, 20), debiased=debiased) < 0.95


def test_unrelated_clouds_with_as_many_dimensions_as_rows() -> None:
    values = [cka(normal(200, 200, 2 * i), normal(200, 200, 2 * i + 1)) for i in range(10)]
    assert abs(np.mean(values)) < 0.01
    assert min(cka(normal(200, 200, 2 * i), normal(200, 200, 2 * i + 1), debiased=False) for i in range(3)) > 0.45


def test_the_debiased_estimate_does_not_depend_on_the_number_of_rows() -> None:
    """Truth by d × d covariances: |C_xy|² / (|C_xx| |C_yy|) of Y = X A."""
    A = normal(30, 30, 7) * np.linspace(2, 0.1, 30)
    truth = float(np.vdot(A, A) / math.sqrt(30 * np.vdot(A.T @ A, A.T @ A)))

    def mean(n: int, debiased: bool) -> float:
        return float(np.mean([cka(X, X @ A, debiased=debiased) for X in (normal(n, 30, seed) for seed in range(30))]))

    assert mean(40, True) == pytest.approx(truth, abs=0.03)
    assert mean(1000, True) == pytest.approx(truth, abs=0.01)
    assert mean(40, False) > truth + 0.1


def test_blocks_of_unequal_length_and_streams_give_the_same() -> None:
    X, Y = normal(500, 6, 0), normal(500, 9, 1) + normal(500, 6, 0)[:, :1]
    chunks = [X[:7], X[7:300], X[300:]]
    others = [Y[:250], Y[250:251], Y[251:]]
    left, right = (Source(lambda p=part: iter(p), n=None, d=part[0].shape[1], dtype=X.dtype) for part in (chunks, others))
    assert cka(left, right) == pytest.approx(cka(X, Y), rel=1e-12)
    small = cka(X.astype(np.float32), (Y + 1000).astype(np.float32))
    assert small == pytest.approx(cka(X, Y), abs=1e-4)


def test_no_large_matrix_of_rows_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a Gram matrix of all rows")

    monkeypatch.setattr(module, "_gram", fail)
    assert cka(normal(400, 20, 0), normal(400, 20, 0) + normal(400, 20, 1)) > 0.3


def test_intervals_cover_the_truth_about_as_often_as_their_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_RESAMPLED", 150)
    A = np.diag([2.0, 1.0, 0.5])
    # Y = XA + noise: C_xy = A, C_yy = A² + I
    truth = float(np.vdot(A, A) / math.sqrt(3 * np.square(np.diag(A) ** 2 + 1).sum()))
    covered = 0
    for seed in range(120):
        n = 150 if seed % 2 else 300  # all rows, and a sample of them
        X = normal(n, 3, seed)
        result = cka_similarity(X, X @ A + normal(n, 3, seed + 999), bootstrap=100, level=0.9, seed=seed)
        assert result.low is not None and result.high is not None
        covered += result.low <= truth <= result.high
    # 90 % of 120 is 108 with a deviation of 3.3
    assert 97 <= covered <= 118


def test_half_samples_are_seeded_and_are_those_of_the_definition() -> None:
    X = normal(60, 4, 0)
    Y = X * [1, 2, 3, 4] + normal(60, 4, 1)
    first, again, other = (cka_similarity(X, Y, bootstrap=50, seed=seed) for seed in (3, 3, 4))
    assert (first.low, first.high) == (again.low, again.high) != (other.low, other.high)
    assert first.value == pytest.approx(cka(X, Y)) and first.n == 60
    generator = np.random.default_rng(3)
    halves = [generator.permutation(60)[:30] for _ in range(50)]
    values = np.array([by_definition(X[half], Y[half], debiased=True) for half in halves])
    low, high = first.value + np.quantile(values - values.mean(), [0.025, 0.975])
    assert (first.low, first.high) == (pytest.approx(low), pytest.approx(min(1.0, high)))


def test_undefined_values_have_a_reason() -> None:
    X = normal(20, 3, 0)
    for left, right in ((X, np.full((20, 3), 0.1)), (np.full((20, 30), 0.1), X)):
        for debiased in (True, False):
            result = cka_similarity(left, right, debiased=debiased)
            assert math.isnan(result.value) and "same point" in result.reason
    few = cka_similarity(X[:3], X[:3])
    assert math.isnan(few.value) and "at least 4 rows, there are 3" in few.reason
    assert cka(X[:3], X[:3], debiased=False) == pytest.approx(1)
    simplex = np.eye(20)  # all pairs are equally far apart
    assert "more alike than another" in cka_similarity(simplex, normal(20, 20, 0)).reason
    assert cka_similarity(X[:6], X[:6]).low is None


def test_wrong_input_is_an_error_that_names_it() -> None:
    X = normal(30, 3, 0)
    with pytest.raises(ValueError, match="30 and 29 rows"):
        cka(X, X[1:])
    for part, word in ((X[1:], "fewer"), (np.vstack([X, X]), "more")):
        with pytest.raises(ValueError, match=f"{word} rows than the first"):
            cka(X, Source(lambda part=part: iter([part]), n=None, d=3, dtype=X.dtype))
    with pytest.raises(ValueError, match="bootstrap=5 is too few"):
        cka_similarity(X, X, bootstrap=5)
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="NaN at row 4, column 1"):
        cka(X, X)
