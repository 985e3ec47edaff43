"""Thresholds against plain computations: quantiles of pairs, AUC, and a map that never falls."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from theodolite.advice.scorers import JudgedQueries
from theodolite.advice.thresholds import LabelledPairs, UnrelatedPairs
from theodolite.core.intervals import share_interval
from theodolite.tasks.retrieval import judgements_of

random = np.random.default_rng(0)
X = random.standard_normal((120, 8)) + 0.5


def labelled(n: int = 300, effect: float = 1.0, seed: int = 0) -> LabelledPairs:
    generator = np.random.default_rng(seed)
    matches = generator.random(n) < 0.4
    return LabelledPairs(np.round(generator.standard_normal(n) + effect * matches, 1), matches, np.arange(n) // 2)


def test_only_pairs_of_different_groups_are_unrelated() -> None:
    groups = np.arange(120) % 10
    pairs = UnrelatedPairs.of(X, groups.tolist())
    apart = groups[:, None] != groups[None, :]
    assert len(pairs.cosines) == np.triu(apart, 1).sum() == 120 * 108 / 2
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(pairs.cosines, np.sort((units @ units.T)[np.triu(apart, 1)]))


def test_a_cutoff_is_exceeded_by_the_stated_share() -> None:
    pairs = UnrelatedPairs.of(X)
    for rate in (0.2, 0.05, 0.01):
        value, (low, high) = pairs.cutoff(rate)
        assert (pairs.cosines > value).mean() == pytest.approx(rate, abs=1e-3)
        assert low is not None and high is not None and low <= value <= high
    assert pairs.cutoff(0.01)[0] > pairs.cutoff(0.2)[0]


def test_pairs_in_groups_count_for_less() -> None:
    generator = np.random.default_rng(0)
    effects = np.repeat(generator.standard_normal(100), 6)
    cosines, matches = 0.05 * (effects + 0.3 * generator.standard_normal(600)), np.arange(600) % 6 == 0
    groups = np.arange(600) // 6
    apart, linked = (LabelledPairs(cosines, matches, names).cutoff(0.1) for names in (np.arange(600), groups))
    assert apart[0] == linked[0]
    (low, high), (wide_low, wide_high) = apart[1], linked[1]
    assert low is not None and high is not None and wide_low is not None and wide_high is not None
    assert wide_low < low < apart[0] < high < wide_high
    shares = [LabelledPairs(cosines, matches, names).share_above(0.05, of_matches=False) for names in (np.arange(600), groups)]
    assert shares[0][0] == shares[1][0] and shares[1][1][0] < shares[0][1][0]  # type: ignore[operator]


def test_a_cutoff_that_few_pairs_exceed_has_no_upper_limit() -> None:
    cosines = np.linspace(0, 0.5, 80)
    value, (low, high) = LabelledPairs(cosines, np.arange(80) % 4 == 0, np.arange(80)).cutoff(0.01)
    assert high == 1.0 and low is not None and low < value


def test_judged_queries_are_all_pairs_or_a_sample_with_the_relevant_ones() -> None:
    documents, queries = random.standard_normal((300, 8)), random.standard_normal((10, 8))
    table = judgements_of([[i, 3 * i, 1] for i in range(10)], queries=10, documents=300)
    signal = JudgedQueries(documents, queries, table)
    pairs = LabelledPairs.of_queries(signal)
    assert len(pairs.cosines) == 3000 and pairs.matches.sum() == 10 and len(set(pairs.groups.tolist())) == 10
    few = LabelledPairs.of_queries(signal, most=500)
    assert few.matches.sum() == 10 and 500 <= len(few.cosines) <= 510
    assert sorted(few.cosines[few.matches]) == pytest.approx(sorted(pairs.cosines[pairs.matches]))


def test_a_rate_that_the_pairs_cannot_show_is_refused() -> None:
    pairs = UnrelatedPairs.of(X[:20])
    with pytest.raises(ValueError, match=r"0\.001 needs at least 10,000 unrelated pairs; there are 190"):
        pairs.cutoff(0.001)
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        pairs.cutoff(1.0)


def test_separation_is_the_area_under_the_curve() -> None:
    pairs = labelled()
    auc, (low, high) = pairs.separation()
    assert auc == pytest.approx(roc_auc_score(pairs.matches, pairs.cosines))
    assert low is not None and high is not None and 0.5 < low < auc < high
    generator = np.random.default_rng(5)
    draws = []
    for _ in range(300):
        chosen = generator.integers(0, 150, 150)
        rows = np.concatenate([chosen * 2, chosen * 2 + 1])  # groups of two, as declared
        draws.append(roc_auc_score(pairs.matches[rows], pairs.cosines[rows]))
    np.testing.assert_allclose((low, high), np.quantile(draws, [0.025, 0.975]), atol=0.02)


def test_the_map_is_isotonic_regression_with_an_interval_around_it() -> None:
    pairs = labelled()
    points = pairs.probabilities(draws=50)
    probabilities = [point["probability"] for point in points]
    assert probabilities == sorted(probabilities)
    peer = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(pairs.cosines, pairs.matches)
    np.testing.assert_allclose(probabilities, peer.predict([point["cosine"] for point in points]))
    assert all(point["low"] <= point["probability"] <= point["high"] for point in points)


def test_a_few_pairs_at_the_end_that_all_match_make_no_certainty() -> None:
    cosines, matches = np.linspace(0, 1, 40), np.arange(40) >= 37
    points = LabelledPairs(cosines, matches, np.arange(40)).probabilities(draws=50)
    assert points[-1]["probability"] == 1 and points[-1]["low"] <= share_interval(3, 3)[0]
    assert points[0]["probability"] == 0 and points[0]["high"] >= share_interval(0, 37)[1] > 0


def test_one_kind_of_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="all 3 pairs are matches"):
        LabelledPairs(np.ones(3), np.ones(3, bool), np.arange(3))
