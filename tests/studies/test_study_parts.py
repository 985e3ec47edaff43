"""The parts of studies: pooled pairs, paired intervals, repairs by wish, and wishes laid over settings."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from theodolite.repairs import RemoveDirections, ZeroMean
from theodolite.spaces import Space
from theodolite.studies.actions.repair import Pooling, repaired
from theodolite.studies.actions.structure import _between, _explained
from theodolite.studies.correlate import Resampled
from theodolite.studies.identity import Model, data_hash
from theodolite.studies.results import cleaned
from theodolite.studies.wish import Wish
from theodolite.tasks.load import load_task


@pytest.fixture
def space():
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


def test_a_sentence_without_tokens_is_named():
    rows = {"text": [0, 0, 1], "side": [0, 1, 0], "score": [1.0, 1.0, 2.0]}
    with pytest.raises(ValueError, match="no token"):
        Pooling(Space.of({0: np.ones((3, 2))}, rows=rows))


def test_the_interval_of_a_change_is_paired():
    rng = np.random.default_rng(1)
    scores = rng.standard_normal(300)
    before = scores + rng.standard_normal(300)
    after = before + 1e-9 * rng.standard_normal(300)  # the same order: no change, and no doubt about it
    draws = Resampled(scores, 200, seed=0)
    row = draws.change(before, after, "spearman_change", "x", {})
    assert row.value == 0 and row.low == 0 and row.high == 0
    better = draws.change(before, scores, "spearman_change", "x", {})
    assert 0 < better.low < better.value < better.high


def test_correlations_are_scipys_and_their_intervals_cover_as_they_should():
    rng = np.random.default_rng(2)
    inside = 0
    for trial in range(60):
        x, y = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 200).T
        rows = {row.metric: row for row in Resampled(x, 200, seed=trial).correlations(y, "s", {})}
        assert rows["spearman"].value == pytest.approx(spearmanr(x, y).statistic)
        inside += rows["pearson"].low <= 0.6 <= rows["pearson"].high
    assert inside >= 50  # 95 % of 60 is 57


def test_no_draws_give_no_interval():
    (row, _) = Resampled(np.arange(5.0), 0, seed=0).correlations(np.arange(5.0) ** 2, "", {})
    assert row.value == pytest.approx(1.0)
    assert (row.low, row.high) == (None, None)


def test_repairs_by_wish():
    X = np.random.default_rng(3).standard_normal((90, 16)).astype(np.float32) + 1
    assert repaired(X, {}, seed=0)[0] is X
    assert np.allclose(repaired(X, {"repair": "zero-mean"}, seed=0)[0], ZeroMean().fit_transform(X))
    got, removed = repaired(X, {"repair": "global", "which": "bottom", "scaled_from_768": 100}, seed=0)
    assert removed == 2  # 100 of 768 are 2 of 16
    assert np.allclose(got, RemoveDirections(2, which="bottom").fit_transform(X))
    clustered = [repaired(X, {"repair": "cluster-zero-mean", "n_clusters": 3}, seed=seed)[0] for seed in (1, 1)]
    assert (clustered[0] == clustered[1]).all()


def test_between_share_and_r2_at_their_ends():
    X = np.repeat(np.eye(3), 10, axis=0)
    labels = np.repeat([0, 1, 2], 10)
    assert _between(X, labels) == pytest.approx(1.0)
    assert _between(X, np.tile([0, 1], 15)) == pytest.approx(0.0, abs=1e-12)
    scores = np.random.default_rng(4).standard_normal((200, 2))
    assert _explained(scores, 3 * scores[:, 0] - scores[:, 1] + 2) == pytest.approx(1.0)
    assert _explained(scores, np.random.default_rng(5).standard_normal(200)) < 0.06


MODEL = Model("m", "somewhere", "hash", 6)
WRITTEN = {"points": 100, "tuning": {"preset": "rp21"}, "quick": {"points": 5, "tuning": {"epochs": 1}}}


def test_quick_sizes_and_changes_are_laid_over_the_settings():
    assert Wish(models=(MODEL,)).settings(WRITTEN) == {"points": 100, "tuning": {"preset": "rp21"}}
    quick = Wish(models=(MODEL,), quick=True, changes={"points": 7, "tuning.train_rows": 9}).settings(WRITTEN)
    assert quick == {"points": 7, "tuning": {"preset": "rp21", "epochs": 1, "train_rows": 9}}
    assert WRITTEN["points"] == 100  # the study itself stays as it is


@pytest.mark.parametrize(("changes", "said"), [({"pionts": 3}, "pionts.*points"), ({"points.x": 3}, "no table")])
def test_a_setting_that_is_not_there_is_named(changes, said):
    with pytest.raises(ValueError, match=said):
        Wish(models=(MODEL,), changes=changes).settings(WRITTEN)


def test_tasks_seeds_and_layers_are_chosen_or_all():
    wish = Wish(models=(MODEL,), tasks=("b",), seeds=(4,), layers=(1, 6))
    assert (wish.chosen_tasks(["a", "b"]), wish.chosen_seeds([0]), wish.chosen_layers(MODEL)) == (["b"], [4], [1, 6])
    everything = Wish(models=(MODEL,))
    assert (everything.chosen_tasks(["a", "b"]), everything.chosen_seeds([0, 1])) == (["a", "b"], [0, 1])
    assert everything.chosen_layers(MODEL) == list(range(7))
    with pytest.raises(ValueError, match="no task 'c'; it has a, b"):
        Wish(models=(MODEL,), tasks=("c",)).chosen_tasks(["a", "b"])
    with pytest.raises(ValueError, match="no layer 7"):
        Wish(models=(MODEL,), layers=(7,)).chosen_layers(MODEL)


def test_the_hash_of_examples_is_of_what_they_say():
    one = load_task("demo-pairs", "dev")
    assert data_hash(one) == data_hash(load_task("demo-pairs", "dev"))
    assert data_hash(one) != data_hash(one.take(range(len(one) - 1)))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/absolute", "a\x00b", "..", "</script>", "\u202eevil", "x" * 5000])
def test_names_cannot_leave_their_folder(name, tmp_path):
    made = cleaned(name)
    assert (tmp_path / made).resolve().parent == tmp_path.resolve()
    assert made.isascii() and 0 < len(made) <= 100 and not made.startswith(".")
