"""Measures of layers: shares at both of their ends, pooled pairs, correlations with paired intervals, and repairs."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from theodolite.repairs import RemoveDirections, ZeroMean
from theodolite.studies.item_records import Recorder
from theodolite.studies.rp21.plan import PairScores, _between_share, _explained_share, apply_repair


class Pairs:
    """Scores without vectors."""

    def __init__(self, scores):
        self.scores = np.asarray(scores, dtype=float)

    def __len__(self):
        return len(self.scores)


CHANGE = {"metric": "spearman_change", "setting": "x"}


def test_the_share_between_clusters_is_1_if_they_are_points_and_0_if_their_means_agree():
    X = np.repeat(np.eye(3), 10, axis=0)
    assert _between_share(X, np.repeat([0, 1, 2], 10)) == pytest.approx(1.0)
    assert _between_share(X, np.tile([0, 1], 15)) == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(_between_share(np.ones((4, 2)), np.array([0, 0, 1, 1])))


def test_r2_is_1_for_a_linear_relation_and_near_0_for_none():
    components = np.random.default_rng(4).standard_normal((200, 2))
    assert _explained_share(components, 3 * components[:, 0] - components[:, 1] + 2) == pytest.approx(1.0)
    assert _explained_share(components, np.random.default_rng(5).standard_normal(200)) < 0.06


def test_the_interval_of_a_change_is_paired():
    rng = np.random.default_rng(1)
    scores = rng.standard_normal(300)
    before = scores + rng.standard_normal(300)
    after = before + 1e-9 * rng.standard_normal(300)  # the same order: no change, and no doubt about it
    draws = PairScores(Pairs(scores), 200)
    row, better = (draws.change([before], [cosines], CHANGE, Recorder()) for cosines in (after, scores))
    assert (row.metric, row.setting, row.value, row.low, row.high) == ("spearman_change", "x", 0, 0, 0)
    assert 0 < better.low < better.value < better.high


def test_correlations_are_scipys_and_their_intervals_cover_as_they_should():
    rng = np.random.default_rng(2)
    truth, inside = 6 / np.pi * np.arcsin(0.6 / 2), 0  # Spearman's of two normal numbers with correlation 0.6
    for _ in range(60):
        x, y = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 200).T
        spearman, pearson = PairScores(Pairs(x), 200).correlations([y], {"setting": "s"}, Recorder())
        assert spearman.value == pytest.approx(spearmanr(x, y).statistic) and pearson.value == pytest.approx(
            pearsonr(x, y).statistic
        )
        inside += spearman.low <= truth <= spearman.high
    assert inside >= 51  # 95% of 60 is 57


def test_no_draws_give_no_interval():
    row = PairScores(Pairs(np.arange(5.0)), 0).correlations([np.arange(5.0) ** 2], {}, Recorder())[0]
    assert row.value == pytest.approx(1.0)
    assert (row.low, row.high) == (None, None)


def test_constant_cosines_have_no_correlation_and_no_interval():
    for row in PairScores(Pairs(np.arange(5.0)), 20).correlations([np.ones(5)], {}, Recorder()):
        assert np.isnan(row.value) and row.reason and (row.low, row.high) == (None, None)


def test_repairs_by_their_options():
    X = np.random.default_rng(3).standard_normal((90, 16)).astype(np.float32) + 1
    assert apply_repair(X, {}, seed=0)[0] is X
    assert np.allclose(apply_repair(X, {"repair": "zero-mean"}, seed=0)[0], ZeroMean().fit_transform(X))
    repaired, removed = apply_repair(X, {"repair": "global", "which": "bottom", "scaled_from_768": 100}, seed=0)
    assert removed == 2  # 100 of 768 are 2 of 16
    assert np.allclose(repaired, RemoveDirections(2, which="bottom").fit_transform(X))
    clustered = [apply_repair(X, {"repair": "cluster-zero-mean", "n_clusters": 3}, seed=seed)[0] for seed in (1, 1)]
    assert (clustered[0] == clustered[1]).all()
