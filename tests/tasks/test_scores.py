"""Main scores: bounds, invariances, agreement with the formula, and nan with a reason if one is not defined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.metrics.cloud import Undefined
from theodolite.tasks import SCORES, score
from theodolite.tasks.scores import accuracy, learning, macro_f1, matthews, pearson, spearman

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 200))


def test_spearman_depends_on_the_order_alone() -> None:
    assert spearman(A, np.exp(A)) == pytest.approx(1)
    assert spearman(A, -(A**3)) == pytest.approx(-1)
    assert spearman(A, A + B) == pytest.approx(spearman(np.exp(A), np.arctan(A + B)))
    assert pearson(A, np.exp(A)) < 0.95


def test_pearson_is_its_formula_and_ignores_scale() -> None:
    by_hand = np.mean((A - A.mean()) * (B - B.mean())) / (A.std() * B.std())
    assert pearson(A, B) == pytest.approx(by_hand)
    assert pearson(3 * A + 7, -2 * B) == pytest.approx(-by_hand)


def test_spearman_is_pearson_of_mean_ranks() -> None:
    tied = np.array([1.0, 2.0, 2.0, 3.0, 0.0])
    other = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert spearman(tied, other) == pytest.approx(pearson([2, 3.5, 3.5, 5, 1], [5, 1, 4, 2, 3]))


BITS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30)


@given(pairs=BITS)
def test_matthews_is_its_formula(pairs: list[tuple[int, int]]) -> None:
    tp, tn, fp, fn = (pairs.count(cell) for cell in ((1, 1), (0, 0), (0, 1), (1, 0)))
    bottom = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    truth, predicted = zip(*pairs, strict=True)
    if len(set(truth)) == 1:
        assert score("matthews", truth, predicted)[1] == "all true labels are equal"
    else:
        assert matthews(truth, predicted) == pytest.approx((tp * tn - fp * fn) / bottom if bottom else 0.0, abs=1e-12)
    assert accuracy(truth, predicted) == pytest.approx((tp + tn) / len(pairs))


def test_both_extremes_of_label_scores() -> None:
    truth, wrong = ["a", "b", "b"], ["b", "a", "a"]
    assert [SCORES[name](truth, truth) for name in ("matthews", "accuracy", "macro_f1")] == pytest.approx([1, 1, 1])
    assert [SCORES[name](truth, wrong) for name in ("matthews", "accuracy", "macro_f1")] == pytest.approx([-1, 0, 0])


def test_macro_f1_counts_rare_labels_as_much_as_common_ones() -> None:
    truth = ["a"] * 98 + ["b"] * 2
    assert accuracy(truth, ["a"] * 100) == 0.98
    assert macro_f1(truth, ["a"] * 100) == pytest.approx(0.5 * 2 * 98 / (98 + 100))


@pytest.mark.parametrize("name", ["spearman", "pearson"])
@pytest.mark.parametrize(
    ("truth", "predicted", "reason"),
    [
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], "all true scores are equal"),
        ([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], "all predicted scores are equal"),
        ([1.0], [2.0], "at least two"),
        ([1.0, 2.0], [np.nan, 2.0], "1 predicted scores are not finite"),
    ],
)
def test_an_undefined_correlation_is_nan_with_a_reason(
    name: str, truth: list[float], predicted: list[float], reason: str
) -> None:
    value, why = score(name, truth, predicted)
    assert math.isnan(value) and reason in why
    with pytest.raises(Undefined, match=reason):
        SCORES[name](truth, predicted)


@pytest.mark.parametrize("name", SCORES)
def test_lengths_must_agree_and_the_call_by_name_is_the_same(name: str) -> None:
    with pytest.raises(ValueError, match="of one length"):
        SCORES[name]([1, 2, 3], [1, 2])
    assert score(name, [0, 1, 1, 0], [0, 1, 0, 0]) == (SCORES[name]([0, 1, 1, 0], [0, 1, 0, 0]), "")
    assert math.isnan(score(name, [], [])[0])


def test_names_are_not_compared_with_numbers() -> None:
    with pytest.raises(ValueError, match="names in both or numbers in both"):
        accuracy(["1", "2"], [1, 2])


def test_an_unknown_score_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="score 'f1' is not known; known are spearman"):
        score("f1", [1], [1])


def test_a_score_is_learned_if_it_beats_what_ignores_the_input() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random(200) < 0.7).astype(int)
    right, constant = truth.copy(), np.ones_like(truth)
    right[:20] = 1 - right[:20]
    good, none = learning("accuracy", truth, right), learning("accuracy", truth, constant)
    assert good.learned and good.value == pytest.approx(0.9) and good.baseline == pytest.approx(truth.mean())
    assert not none.learned and none.one_answer and none.value == pytest.approx(truth.mean())
    assert learning("matthews", truth, right).learned and learning("macro_f1", truth, right).learned
    assert not learning("matthews", truth, constant).learned
    # A perfect score of one answer is still one answer.
    assert not learning("accuracy", np.ones(50, int), np.ones(50, int)).learned
    scores = rng.random(100)
    near, far = scores + 0.1 * rng.normal(size=100), scores + 3 * rng.normal(size=100)
    gained = learning("spearman", scores, near, far)
    assert gained.learned and gained.baseline == pytest.approx(SCORES["spearman"](scores, far))
    assert not learning("spearman", scores, near, near).learned and learning("spearman", scores, near).learned


@pytest.mark.parametrize(("name", "count", "most"), [("accuracy", 300, 24), ("spearman", 20, 3)])
def test_guesses_rarely_pass_for_learned(name: str, count: int, most: int) -> None:
    rng, passed = np.random.default_rng(1), 0
    for _ in range(count):
        truth, answers = rng.random(80) < 0.5, rng.random(80) < 0.5
        passed += learning(name, truth.astype(float), answers.astype(float)).learned
    assert passed <= most  # at a rate of 5%, more has a probability of about 1%
