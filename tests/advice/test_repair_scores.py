"""Scores of pairs before and after repairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from theodolite.advice.repair_scores import repaired_scores, row_cosines
from theodolite.repairs import RemoveDirections, ZeroMean

RNG = np.random.default_rng(0)


def test_row_cosines_equal_a_plain_loop_and_are_zero_for_zero_rows() -> None:
    A, B = RNG.standard_normal((20, 5)), RNG.standard_normal((20, 5))
    A[3], B[7] = 0, 0
    expected = [0 if i in (3, 7) else A[i] @ B[i] / np.linalg.norm(A[i]) / np.linalg.norm(B[i]) for i in range(20)]
    np.testing.assert_allclose(row_cosines(A, B), expected, atol=1e-12)


def test_scores_are_those_of_the_repaired_rows() -> None:
    A = RNG.standard_normal((200, 6))
    B = A * RNG.uniform(0, 1, (200, 1)) + 0.5 * RNG.standard_normal((200, 6))
    scores = row_cosines(A, B)
    A[:, 0], B[:, 0] = RNG.normal(8, 3, 200), RNG.normal(8, 3, 200)  # one dimension hides what the scores are made of
    correlations = repaired_scores(A, B, scores, {"centred": ZeroMean(), "removed": RemoveDirections(1)})
    assert list(correlations) == ["none", "centred", "removed"]
    assert correlations["none"] == pytest.approx(float(spearmanr(scores, row_cosines(A, B)).statistic))
    both = ZeroMean().fit_transform(np.concatenate([A, B]))
    assert correlations["centred"] == pytest.approx(float(spearmanr(scores, row_cosines(both[:200], both[200:])).statistic))
    assert correlations["removed"] > correlations["none"] + 0.2
