"""The test of two samples: p is uniform if nothing shifted, also for tokens of whole texts, and a shift is seen and located."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.probes import two_sample_shift


def cloud(seed: int, n: int = 120, d: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)) * np.linspace(2, 0.5, d)


def tokens(seed: int, texts: int = 30, each: int = 6, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = np.repeat(random.standard_normal((texts, d)), each, axis=0) + 0.3 * random.standard_normal((texts * each, d))
    return X, np.repeat(np.arange(texts), each)


def test_p_is_uniform_for_two_samples_of_one_population() -> None:
    p = [two_sample_shift(cloud(2 * i), cloud(2 * i + 1), permutations=39, seed=i).p for i in range(60)]
    # Of 60, 3 at most 0.05 and 30 at most 0.5 are expected: eight is beyond 0.6 %, and 18 to 42 holds 99.9 %.
    assert np.count_nonzero(np.array(p) <= 0.05) <= 7
    assert 18 <= np.count_nonzero(np.array(p) <= 0.5) <= 42


def test_tokens_are_permuted_by_text() -> None:
    by_text, by_row = [], []
    for i in range(24):
        (A, a), (B, b) = tokens(2 * i), tokens(2 * i + 1)
        by_text.append(two_sample_shift(A, B, groups=(a, b), permutations=39, seed=i).is_shifted)
        by_row.append(two_sample_shift(A, B, permutations=39, seed=i).is_shifted)
    assert sum(by_text) <= 4 and sum(by_row) >= 12  # 1 is expected; texts taken for independent rows always seem to shift


def test_a_shift_of_the_mean_is_found_and_the_rows_that_moved_are_named() -> None:
    A, B = cloud(0, 400), cloud(1, 300)
    B[:60] += 4
    shift = two_sample_shift(A, B)
    assert shift.is_shifted and shift.p == pytest.approx(1 / 201) and shift.auc > 0.55
    assert set(shift.unlike_b) <= set(range(60))
    assert shift.mean_shift > 3 * shift.mean_shift_chance
    assert (shift.n_a, shift.n_b) == (400, 300)


def test_the_shift_of_the_means_is_in_units_of_the_spread() -> None:
    A, B = cloud(0, 900, 3), cloud(1, 900, 3)
    B[:, 0] += 2
    spread = np.sqrt((A.var(axis=0) + B.var(axis=0)).sum() / 2)
    gap = np.linalg.norm(A.mean(axis=0) - B.mean(axis=0))
    assert two_sample_shift(A, B).mean_shift == pytest.approx(gap / spread, rel=1e-6)


def test_what_cannot_be_tested_is_refused() -> None:
    with pytest.raises(ValueError, match="8 and 5 dimensions"):
        two_sample_shift(cloud(0), cloud(1)[:, :5])
    with pytest.raises(ValueError, match="at least 10 rows of each; there are 120 and 9"):
        two_sample_shift(cloud(0), cloud(1)[:9])
