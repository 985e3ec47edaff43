"""Measures of layers: shares at both of their ends, pooled pairs, correlations with paired intervals, and repairs."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from theodolite.metrics.cloud import Cloud
from theodolite.repairs import RemoveDirections, ZeroMean
from theodolite.spaces import Space
from theodolite.studies.rp21.plan import PairDraws, Pooling, _between_share, _explained_share, apply_repair, shape_rows


def with_interval(row, draws):
    return draws.row(row)


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


def test_rows_of_metrics_have_the_setting_of_the_step():
    X = np.random.default_rng(6).standard_normal((100, 4))
    cloud, about = Cloud(X, sample=50, seed=1), {"layer": 3, "setting": "tokens"}
    rows = shape_rows(cloud, ["iso_score", "hubness"], about)
    assert {(row.metric, row.setting, row.layer, row.seed) for row in rows} == {
        ("iso_score", "tokens", 3, 1),
        ("hubness", "tokens", 3, 1),
    }
    assert shape_rows(cloud, [], about) == []


@pytest.fixture
def space():
    """Eight tokens of each of three pairs, in random order, four in each sentence."""
    rng = np.random.default_rng(0)
    text = rng.permutation(np.repeat([3, 5, 9], 8))
    side = np.concatenate([np.tile([0, 1], 4)] * 3)[np.argsort(np.argsort(text, kind="stable"), kind="stable")]
    scores = {3: 1.0, 5: 2.5, 9: 4.0}
    rows = {"text": text.tolist(), "side": side.tolist(), "score": [scores[t] for t in text.tolist()]}
    return Space.of({6: rng.standard_normal((24, 5)).astype(np.float32)}, rows=rows)


def test_pooling_is_the_mean_of_each_sentences_tokens(space):
    pooling, X = Pooling(space), np.asarray(space[6], dtype=float)
    text, side = np.asarray(space.rows["text"]), np.asarray(space.rows["side"])
    for number, pair in enumerate((3, 5, 9)):
        a, b = (X[(text == pair) & (side == which)].mean(axis=0) for which in (0, 1))
        assert pooling.cosines(X)[number] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert pooling.scores.tolist() == [1.0, 2.5, 4.0]


def test_a_sentence_without_tokens_is_an_error():
    rows = {"text": [0, 0, 1], "side": [0, 1, 0], "score": [1.0, 1.0, 2.0]}
    with pytest.raises(ValueError, match="no token"):
        Pooling(Space.of({0: np.ones((3, 2))}, rows=rows))


def test_the_interval_of_a_change_is_paired():
    rng = np.random.default_rng(1)
    scores = rng.standard_normal(300)
    before = scores + rng.standard_normal(300)
    after = before + 1e-9 * rng.standard_normal(300)  # the same order: no change, and no doubt about it
    draws = PairDraws(scores, 200)
    row, better = (with_interval(*draws.change([before], [cosines], CHANGE)) for cosines in (after, scores))
    assert (row.metric, row.setting, row.value, row.low, row.high) == ("spearman_change", "x", 0, 0, 0)
    assert 0 < better.low < better.value < better.high


def test_correlations_are_scipys_and_their_intervals_cover_as_they_should():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(60):
        x, y = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 200).T
        rows = {
            row.metric: row
            for row in map(with_interval, *zip(*PairDraws(x, 200).correlations([y], {"setting": "s"}), strict=True))
        }
        assert rows["spearman"].value == pytest.approx(spearmanr(x, y).statistic)
        inside += rows["pearson"].low <= 0.6 <= rows["pearson"].high
    assert inside >= 50  # 95 % of 60 is 57


def test_no_draws_give_no_interval():
    row = with_interval(*PairDraws(np.arange(5.0), 0).correlations([np.arange(5.0) ** 2], {})[0])
    assert row.value == pytest.approx(1.0)
    assert (row.low, row.high) == (None, None)


def test_constant_cosines_have_no_correlation_and_no_interval():
    for row in (with_interval(*pair) for pair in PairDraws(np.arange(5.0), 20).correlations([np.ones(5)], {})):
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
