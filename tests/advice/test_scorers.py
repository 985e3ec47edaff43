"""Each signal's metric against a plain computation of it, and errors that name what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import ndcg_score
from sklearn.neighbors import KNeighborsClassifier

from theodolite.advice.scorers import RIDGE, JudgedQueries, LabelledRows, ScoredPairs, SentencePairs, Signal
from theodolite.core.moments import row_cosines
from theodolite.spaces import Space
from theodolite.tasks.retrieval import NOWHERE, Judgements

random = np.random.default_rng(0)
ALL = np.arange(40)


def same(X: Any) -> Any:
    return X


def value(signal: Signal, train: Any = ALL, test: Any = ALL) -> float:
    return float(signal.value(signal.evidence(same, train, test), test, np.ones((1, len(test))))[0])


def test_pairs_are_scored_by_spearman_of_their_cosines() -> None:
    A, B, scores = random.standard_normal((40, 6)), random.standard_normal((40, 6)), random.random(40)
    cosines = (A * B).sum(axis=1) / np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)
    assert value(ScoredPairs(A, B, scores)) == pytest.approx(spearmanr(cosines, scores).statistic)


def test_neighbours_and_the_linear_classifier_are_scikit_learns() -> None:
    y = np.arange(60) % 3
    X = random.standard_normal((60, 8)) + np.eye(8)[y] * 1.5
    train, test = np.arange(40), np.arange(40, 60)
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    nearest = KNeighborsClassifier(5, metric="cosine", weights="uniform").fit(units[train], y[train])
    votes = nearest.predict_proba(units[test])
    clear = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1  # ties are broken in different ways
    ours = LabelledRows(X, y).evidence(same, train, test)
    np.testing.assert_array_equal(ours[clear], (nearest.predict(units[test]) == y[test])[clear])
    penalty = RIDGE * X[train].var(axis=0).sum() * len(train) / 8
    peer = RidgeClassifier(alpha=penalty).fit(X[train], y[train])
    ours = LabelledRows(X, y, metric="linear_accuracy").evidence(same, train, test)
    np.testing.assert_array_equal(ours, peer.predict(X[test]) == y[test])


def test_a_tie_of_neighbours_goes_to_the_nearest() -> None:
    angles = np.radians([0, 4, 5, 40, 41, 170])
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    signal = LabelledRows(X, ["?", "a", "b", "b", "a", "c"])
    # The five others: a, b, b, a, c; a and b have two votes each, and a is nearer.
    assert signal.evidence(same, np.arange(1, 6), np.array([0])) == 0
    assert LabelledRows(X, ["a", "a", "b", "b", "a", "c"]).evidence(same, np.arange(1, 6), np.array([0])) == 1


def judged(metric: str | None = None, *, missing: bool = False) -> tuple[JudgedQueries, Any, Any]:
    generator = np.random.default_rng(1)
    D, Q = generator.standard_normal((30, 5)), generator.standard_normal((40, 5))
    grades = np.where(generator.random((40, 30)) < 0.15, generator.integers(1, 5, (40, 30)), 0)
    grades[:, 0] = 1
    query, document = np.nonzero(grades)
    table = Judgements(query, document, grades[query, document].astype(float))
    if missing:
        table = Judgements(query, np.where(document == 0, NOWHERE, document), table.grade)
    units = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in (Q, D)]
    return JudgedQueries(D, Q, table, metric=metric), grades, units[0] @ units[1].T


def test_ndcg_recall_and_mrr_are_what_they_say() -> None:
    signal, grades, similarities = judged()
    assert value(signal) == pytest.approx(ndcg_score(grades, similarities, k=10))
    order = np.argsort(-similarities, axis=1)
    relevant = np.take_along_axis(grades, order, axis=1) > 0
    recall = (relevant[:, :7].sum(axis=1) / (grades > 0).sum(axis=1)).mean()
    assert value(judged("recall@7")[0]) == pytest.approx(recall)
    assert value(judged("mrr")[0]) == pytest.approx((1 / (1 + relevant.argmax(axis=1))).mean())
    assert value(judged("ndcg@100")[0]) == pytest.approx(ndcg_score(grades, similarities))


@pytest.mark.parametrize("metric", ["ndcg@10", "ndcg@100", "recall@7", "mrr"])
@pytest.mark.parametrize("missing", [False, True])
def test_chance_is_the_mean_over_random_orders(metric: str, missing: bool) -> None:
    signal, _, _ = judged(metric, missing=missing)
    generator = np.random.default_rng(0)
    scores = [signal.score(generator.standard_normal(30), query) for query in range(len(signal)) for _ in range(200)]
    assert signal.chance == pytest.approx(np.mean(scores), abs=4 * np.std(scores) / np.sqrt(len(scores)))


def test_chance_of_labels_is_the_most_frequent_one_and_of_pairs_none() -> None:
    assert LabelledRows(random.standard_normal((10, 3)), list("aaaaaabbcc")).chance == 0.6
    assert ScoredPairs(np.eye(3), np.eye(3), [1, 2, 3]).chance == 0


def test_a_relevant_document_without_a_vector_counts_as_missed() -> None:
    for metric in ("ndcg@30", "recall@30"):
        assert value(judged(metric, missing=True)[0]) < value(judged(metric)[0])
    assert value(judged("recall@30")[0]) == 1


def test_equal_documents_are_ranked_by_their_order() -> None:
    D = np.ones((4, 2))
    judgements = Judgements(np.array([0]), np.array([2]), np.array([1.0]))
    for metric, expected in (("mrr", 1 / 3), ("recall@2", 0.0), ("recall@3", 1.0)):
        assert value(JudgedQueries(D, D[:1], judgements, metric=metric), ALL[:1], ALL[:1]) == pytest.approx(expected)


@pytest.mark.parametrize("signal", [judged()[0], LabelledRows(random.standard_normal((40, 3)), ALL % 4)])
def test_a_part_of_a_signal_gives_its_items_the_same_numbers(signal: Signal) -> None:
    items = np.array([3, 8, 9, 20, 31, 33, 34, 35, 36, 37])
    if isinstance(signal, LabelledRows):
        items = np.concatenate([items, items + 1])
    part = signal.take(items)
    here = part.evidence(same, np.arange(len(items)), np.arange(len(items)))
    np.testing.assert_array_equal(here, signal.evidence(same, items, items))


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((np.ones((4, 2)), np.ones((4, 2)), [1, np.nan, 2, np.nan]), r"pair 1 has no score \(2 of 4 pairs"),
        ((np.ones((4, 2)), np.ones((4, 2)), [3, 3, 3, 3]), r"all 4 scores are 3; a correlation needs scores that differ"),
        ((np.ones((4, 2)), np.ones((3, 2)), [1, 2, 3, 4]), r"shapes \(4, 2\) and \(3, 2\)"),
    ],
)
def test_faulty_pairs_are_named(arguments: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        ScoredPairs(*arguments)


def test_one_class_and_unknown_metrics_are_named() -> None:
    with pytest.raises(ValueError, match=r"all 4 rows have the label 'a'; there must be at least two"):
        LabelledRows(np.ones((4, 2)), list("aaaa"))
    with pytest.raises(ValueError, match=r"there are 3 labels for 4 vectors"):
        LabelledRows(np.ones((4, 2)), list("abc"))
    with pytest.raises(ValueError, match=r"metric='mrr' is not a metric of texts; it must be one of knn_accuracy"):
        LabelledRows(np.ones((4, 2)), list("abab"), metric="mrr")
    with pytest.raises(ValueError, match=r"must be one of ndcg@K, recall@K, mrr"):
        judged("ndcg@0")


@pytest.fixture
def space() -> Space:
    """Eight tokens of each of three pairs, in random order, four in each sentence."""
    rng = np.random.default_rng(0)
    text = rng.permutation(np.repeat([3, 5, 9], 8))
    side = np.concatenate([np.tile([0, 1], 4)] * 3)[np.argsort(np.argsort(text, kind="stable"), kind="stable")]
    scores = {3: 1.0, 5: 2.5, 9: 4.0}
    rows = {"text": text.tolist(), "side": side.tolist(), "score": [scores[t] for t in text.tolist()]}
    return Space.of({6: rng.standard_normal((24, 5)).astype(np.float32)}, rows=rows)


def test_a_sentence_is_the_mean_of_its_tokens(space: Space) -> None:
    pairs, X = SentencePairs(space), np.asarray(space[6], dtype=float)
    text, side = np.asarray(space.rows["text"]), np.asarray(space.rows["side"])
    for number, pair in enumerate((3, 5, 9)):
        a, b = (X[(text == pair) & (side == which)].mean(axis=0) for which in (0, 1))
        assert pairs.cosines(X)[number] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert pairs.scores.tolist() == [1.0, 2.5, 4.0] and len(pairs) == 3
    assert (np.array([3, 5, 9])[pairs.pair] == text).all()


def test_one_row_per_sentence_is_its_own_mean() -> None:
    rows = {"text": [1, 0, 0, 1], "side": [1, 0, 1, 0], "score": [2.0, 1.0, 1.0, 2.0]}
    X = np.random.default_rng(1).standard_normal((4, 3))
    np.testing.assert_allclose(SentencePairs(Space.of({0: X}, rows=rows)).cosines(X), row_cosines(X[[1, 3]], X[[2, 0]]))


def test_a_sentence_without_tokens_and_rows_that_are_not_pairs_are_errors() -> None:
    rows = {"text": [0, 0, 1], "side": [0, 1, 0], "score": [1.0, 1.0, 2.0]}
    with pytest.raises(ValueError, match="no token"):
        SentencePairs(Space.of({0: np.ones((3, 2))}, rows=rows))
    with pytest.raises(ValueError, match="not pairs of texts with scores"):
        SentencePairs(Space.of({0: np.ones((3, 2))}, rows={}))
