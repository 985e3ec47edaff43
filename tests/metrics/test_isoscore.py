"""IsoScore: the published steps, the invariances it has, its two ends, and what small samples do to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.moments import Moments
from theodolite.metrics.isoscore import iso_score, iso_score_corrected, iso_score_star
from theodolite.metrics.registry import UndefinedMetricWarning
from theodolite.metrics.spectral import participation_ratio


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def published_steps(X: np.ndarray) -> float:
    """Rudman et al. 2022, algorithm 1, step by step."""
    d = X.shape[1]
    turned = (X - X.mean(0)) @ np.linalg.eigh(np.cov(X.T))[1]
    diagonal = np.diag(np.cov(turned.T))
    normalised = np.sqrt(d) * diagonal / np.linalg.norm(diagonal)
    defect = np.linalg.norm(normalised - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    used = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d
    return float((used - 1) / (d - 1))


@given(n=st.integers(3, 80), d=st.integers(2, 20), seed=st.integers(0, 99))
def test_the_closed_form_is_the_published_algorithm(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.uniform(0.1, 5, d)
    assert iso_score(X) == pytest.approx(published_steps(X), rel=1e-9, abs=1e-12)


@given(seed=st.integers(0, 99), scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_rotation_scale_and_shift_change_nothing(seed: int, scale: float, shift: float) -> None:
    X = np.random.default_rng(seed).standard_normal((40, 6)) * np.arange(1, 7)
    moved = scale * X @ rotation(6, seed) + shift
    for score in (iso_score, iso_score_corrected, participation_ratio):
        assert score(moved) == pytest.approx(score(X), rel=1e-8)


def test_stretching_one_dimension_does_change_it() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6))
    assert iso_score(X * [9, 1, 1, 1, 1, 1]) < 0.1 < 0.9 < iso_score(X)


@given(seed=st.integers(0, 99), n=st.integers(2, 30), d=st.integers(2, 30))
def test_the_score_stays_in_its_bounds(seed: int, n: int, d: int) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d))
    assert -1e-12 <= iso_score(X) <= min(1.0, max(0, n - 2) / (d - 1)) + 1e-12
    assert 1 - 1e-12 <= participation_ratio(X) <= d + 1e-9


def test_both_extremes_are_reached() -> None:
    cross = np.concatenate([np.eye(7), -np.eye(7)])
    assert iso_score(cross) == pytest.approx(1, abs=1e-12)
    assert participation_ratio(cross) == pytest.approx(7, abs=1e-12)
    line = np.outer(np.arange(9.0), np.ones(7)) + 3
    assert iso_score(line) == pytest.approx(0, abs=1e-12)


def test_the_ceiling_of_few_rows_is_reached() -> None:
    simplex = np.eye(5, 12)
    assert iso_score(simplex) == pytest.approx((5 - 2) / (12 - 1))


def test_few_rows_agree_through_gram_and_scatter() -> None:
    X = np.random.default_rng(0).standard_normal((9, 40))
    thin = Moments.of(X)
    thick = Moments.of(X[:4]) | Moments.of(np.concatenate([X[4:], np.zeros((40, 40))]))
    assert thin.scatter is None and thick.rows is None
    again = np.concatenate([X, np.zeros((40, 40))])
    assert iso_score(thick) == pytest.approx(published_steps(again), rel=1e-9)
    assert iso_score(thin) == pytest.approx(published_steps(X), rel=1e-9)


def test_the_correction_is_centred_even_if_the_plain_score_is_far_off() -> None:
    rng = np.random.default_rng(1)
    plain, corrected = zip(
        *((iso_score(X), iso_score_corrected(X)) for X in (rng.standard_normal((32, 768)) for _ in range(40))), strict=True
    )
    assert np.mean(plain) == pytest.approx(0.04, abs=0.003)
    assert np.mean(corrected) == pytest.approx(1, abs=3 * np.std(corrected) / np.sqrt(40) + 0.02)


def test_the_correction_uses_unbiased_estimates() -> None:
    """(tr Σ)² and tr Σ² of a known Gaussian, averaged over many small samples."""
    rng = np.random.default_rng(2)
    deviations = np.array([3.0, 1.0, 0.5])
    truth = (np.square(deviations).sum() ** 2 / np.power(deviations, 4).sum() - 1) / 2
    many = [iso_score_corrected(rng.standard_normal((200, 3)) * deviations) for _ in range(300)]
    assert np.mean(many) == pytest.approx(truth, abs=4 * np.std(many) / np.sqrt(300))


def test_shrinking_interpolates_between_sample_and_reference() -> None:
    rng = np.random.default_rng(3)
    X, many = rng.standard_normal((30, 5)) * [3, 1, 1, 1, 1], rng.standard_normal((5000, 5))
    C0 = np.cov(many.T)
    assert iso_score_star(X, C0, zeta=0) == pytest.approx(iso_score(X))
    assert iso_score_star(X, C0, zeta=1) == pytest.approx(iso_score(many))
    assert iso_score(X) < iso_score_star(X, C0, zeta=0.5) < iso_score(many)


@pytest.mark.parametrize(
    ("X", "reason"),
    [
        (np.ones((1, 4)), "one row"),
        (np.ones((9, 4)), "same point"),
        (np.full((9, 4), 0.1, np.float32), "same point"),
        (np.zeros((9, 4)), "same point"),
        (np.arange(9.0)[:, None], "one dimension"),
    ],
)
def test_undefined_scores_are_nan_with_a_reason(X: np.ndarray, reason: str) -> None:
    with pytest.warns(UndefinedMetricWarning, match=reason):
        assert np.isnan(iso_score(X))


def test_two_rows_are_a_line_and_too_few_to_correct() -> None:
    X = np.random.default_rng(0).standard_normal((2, 5))
    assert iso_score(X) == pytest.approx(0, abs=1e-12)
    with pytest.warns(UndefinedMetricWarning, match="at least 3 rows"):
        assert np.isnan(iso_score_corrected(X))


def test_a_large_mean_in_single_precision_leaves_the_score() -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((5000, 32)) + 1000).astype(np.float32)
    assert iso_score(X) == pytest.approx(iso_score(X.astype(np.float64)), rel=1e-6)
    assert iso_score(X) > 0.98


def test_wrong_references_are_refused() -> None:
    X = np.random.default_rng(0).standard_normal((9, 3))
    with pytest.raises(ValueError, match=r"\(3, 3\)"):
        iso_score_star(X, np.eye(4))
    with pytest.raises(ValueError, match="zeta=2"):
        iso_score_star(X, np.eye(3), zeta=2)


def test_one_point_with_the_roundings_of_an_encoder_has_no_score() -> None:
    """[CLS] in the embeddings: one vector, computed in batches of different shapes."""
    rng = np.random.default_rng(0)
    point = rng.standard_normal(64).astype(np.float32)
    X = (point * (1 + rng.choice([-1, 0, 1], (200, 64)) * np.finfo(np.float32).eps)).astype(np.float32)
    with pytest.warns(UndefinedMetricWarning, match="the same point"):
        assert np.isnan(iso_score(X))
    assert 0 < iso_score(point + 1e-3 * rng.standard_normal((200, 64)).astype(np.float32)) <= 1
