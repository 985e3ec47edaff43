"""The search recommends what helps, leaves alone what does not, and its interval has paid for looking at the whole grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from theodolite.advice.changes import Change, source_of
from theodolite.advice.folds import grouped_folds
from theodolite.advice.nested_validation import TOLERATED, effect_elsewhere, sampled, search
from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs
from theodolite.tasks.retrieval import Judgements


def pairs(n: int = 240, d: int = 12, *, seed: int = 0, cone: float = 0.0, signal: bool = True) -> ScoredPairs:
    """Pairs whose cosine is what the scores measure; with a cone, a common offset hides it behind the rows' lengths."""
    random = np.random.default_rng(seed)
    cosine = random.uniform(-0.5, 1.0, n)
    first, other = (random.standard_normal((n, d)) for _ in range(2))
    second = cosine[:, None] * first + np.sqrt(1 - cosine**2)[:, None] * other
    sides = [side * random.uniform(0.2, 3.0, (n, 1)) + cone * np.eye(d)[0] for side in (first, second)]
    return ScoredPairs(*sides, cosine if signal else random.random(n))


def test_a_cone_is_worth_repairing() -> None:
    advice = search(pairs(cone=30.0), folds=3, draws=300)
    assert advice.verdict == "apply" and advice.gain.low is not None and advice.gain.low > 0.1
    assert advice.ranked[0].change == advice.choice
    assert advice.compression is not None and advice.compression.change.before == advice.choice  # without it, the cone is back


@pytest.mark.slow
def test_a_sound_space_is_left_alone_if_there_are_enough_items_and_not_shown_otherwise() -> None:
    many = search(pairs(n=1200), folds=3, draws=300)
    assert many.verdict == "leave it alone" and many.most_promising[1] < many.worth
    few = search(pairs(n=60), folds=3, draws=300)
    assert few.verdict == "not shown" and few.is_above_chance and few.most_promising[1] >= few.worth
    # What is worth having is the caller's to say.
    assert search(pairs(n=60), folds=3, draws=300, worth=0.5).verdict == "leave it alone"


def test_the_items_that_would_settle_it_do() -> None:
    few = search(pairs(n=60, seed=1), folds=3, draws=300)
    assert few.verdict == "not shown" and few.items_to_settle is not None and 60 < few.items_to_settle <= 600
    assert search(pairs(n=2 * few.items_to_settle, seed=1), folds=3, draws=300).verdict != "not shown"


def test_equal_scores_of_few_items_are_not_certainty() -> None:
    y = np.arange(60) % 3
    X = np.random.default_rng(0).standard_normal((60, 6)) * 0.1 + np.eye(6)[y]
    advice = search(LabelledRows(X, y), folds=3, draws=100)
    assert advice.base == 1 and advice.gain.low == advice.gain.high == 0  # every text is right, whatever is done
    assert advice.verdict == "not shown" and advice.most_promising[1] == pytest.approx(3 / 60) and not advice.smaller


@pytest.mark.parametrize("kind", ["pairs", "labels", "queries"])
def test_noise_is_not_above_chance_and_ends_the_search(kind: str) -> None:
    random = np.random.default_rng(1)
    X, y = random.standard_normal((150, 6)), random.permutation(np.arange(150) % 3)
    table = Judgements(np.arange(80), random.integers(0, 150, 80), np.ones(80))
    signals = {
        "pairs": lambda: pairs(n=150, seed=1, signal=False),
        "labels": lambda: LabelledRows(X, y),
        "queries": lambda: JudgedQueries(X, random.standard_normal((80, 6)), table),
    }
    advice = search(signals[kind](), folds=3, draws=300)
    assert not advice.is_above_chance and advice.verdict == "not shown"
    assert advice.items_to_settle is None and not advice.compressed


def test_the_gain_is_that_of_choosing_inside_and_scoring_outside() -> None:
    signal = pairs(cone=3.0, n=120)
    advice = search(signal, folds=3, draws=50)
    fold = grouped_folds(signal.groups, 3, strata=signal.strata, seed=0)
    grid = [each.change for each in advice.ranked if each.change not in (Change(), Change("unit-length"))]

    def spearman(change: Change, train: Any, test: Any) -> float:
        fitted = change.fit(source_of(signal.rows[signal.rows_of(train)]), signal.pairs(train))
        return float(spearmanr(signal.evidence(fitted, train, test), signal.scores[test]).statistic)

    gain = 0.0
    for outer in range(3):
        inner = [each for each in range(3) if each != outer]
        parts = [(np.flatnonzero(fold == a), np.flatnonzero(fold == b)) for a, b in (inner, inner[::-1])]
        best = max(grid, key=lambda change: sum(len(test) * spearman(change, train, test) for train, test in parts))
        assert best == advice.chosen[outer]
        train, test = np.flatnonzero(fold != outer), np.flatnonzero(fold == outer)
        gain += len(test) / 120 * (spearman(best, train, test) - spearman(Change(), train, test))
    assert advice.gain.gain == pytest.approx(gain, abs=1e-6)


@pytest.mark.slow
def test_the_best_of_the_list_looks_like_a_gain_in_noise_and_the_nested_choice_does_not() -> None:
    runs = [search(pairs(n=80, d=6, seed=seed, signal=False), folds=3, draws=50) for seed in range(8)]
    assert np.mean([advice.ranked[0].gain for advice in runs]) > 0.02
    assert np.mean([advice.gain.gain for advice in runs]) < 0.02


def test_labels_hidden_behind_one_wide_direction_are_found() -> None:
    random = np.random.default_rng(0)
    y = np.arange(300) % 3
    wide = 8 * random.standard_normal((300, 3)) @ np.eye(10)[7:]
    X = random.standard_normal((300, 10)) * 0.4 + np.eye(10)[y] + wide
    advice = search(LabelledRows(X, y), folds=4)
    assert advice.is_recommended
    assert advice.choice.repair in ("global", "whiten", "power-whiten", "standardize", "cluster-based", "drop-rogue", "truncate")


def judged(cone: float) -> JudgedQueries:
    random = np.random.default_rng(0)
    D = random.standard_normal((200, 12))
    Q = D[:80] + 0.8 * random.standard_normal((80, 12))
    lengths = 1 + random.random((200, 1))  # a common offset hurts rows of different length differently
    offset = cone * np.eye(12)[0]
    return JudgedQueries(D * lengths + offset, Q + offset, Judgements(np.arange(80), np.arange(80), np.ones(80)))


def test_retrieval_is_repaired_by_what_all_documents_show() -> None:
    advice = search(judged(20.0))
    assert advice.is_recommended and advice.metric == "ndcg@10" and advice.n == 80
    assert not search(judged(0.0)).is_recommended


def test_of_equal_compressions_the_simplest_is_named() -> None:
    advice = search(pairs(n=400, d=16), folds=3, draws=300)
    by_name = {str(each.change): each for each in advice.compressed}
    assert abs(by_name["float16"].gain) < 1e-3
    assert by_name["binary"].gain < by_name["int8"].gain
    # int8 after centring or a rotation is as good; half of the dimensions and signs alone are not.
    assert [str(form.change) for form in advice.smaller] == ["float16", "int8"]
    for form in advice.smaller:
        assert form.low is not None and form.low >= -TOLERATED * advice.base


def test_fewer_dimensions_are_found_where_they_hold_everything() -> None:
    random = np.random.default_rng(0)
    y, (turn, _) = np.arange(300) % 3, np.linalg.qr(random.standard_normal((48, 48)))
    X = 0.6 * random.standard_normal((300, 48)) + 1.5 * turn[y]  # two directions with the labels, and noise in all others
    advice = search(LabelledRows(X, y), folds=3, draws=300, dimensions="2,12")
    assert advice.verdict == "apply" and advice.choice.repair == "pca"


def test_the_cost_of_a_compression_is_that_of_choosing_it_inside() -> None:
    signal = pairs(n=120, d=8)
    advice = search(signal, folds=3, draws=50)
    fold = grouped_folds(signal.groups, 3, strata=signal.strata, seed=0)
    assert advice.smaller[0].change == Change(code="float16")

    def spearman(change: Change, train: Any, test: Any) -> float:
        fitted = change.fit(source_of(signal.rows[signal.rows_of(train)]))
        return float(spearmanr(signal.evidence(fitted, train, test), signal.scores[test]).statistic)

    cost = 0.0
    for outer in range(3):
        train, test = np.flatnonzero(fold != outer), np.flatnonzero(fold == outer)
        cost += len(test) / 120 * (spearman(Change(code="float16"), train, test) - spearman(Change(), train, test))
    assert advice.smaller[0].gain == pytest.approx(cost, abs=1e-9)


def test_the_effect_elsewhere_is_measured_on_items_that_were_not_fitted_on() -> None:
    whole = pairs(n=400, cone=30.0)
    here, there = whole.take(np.arange(200)), whole.take(np.arange(200, 400))
    effect = effect_elsewhere(Change("zero-mean"), here, there)
    assert effect.low is not None and effect.low > 0.1
    expected = there.evidence(lambda X: X - here.rows.mean(axis=0), np.arange(200), np.arange(200))
    assert effect.value == pytest.approx(there.value(expected, np.arange(200), np.ones((1, 200)))[0])
    y = np.arange(200) % 2
    X = np.random.default_rng(0).standard_normal((200, 4)) + y[:, None]
    labelled = LabelledRows(X, y)
    effect = effect_elsewhere(Change("zero-mean"), labelled.take(np.arange(100)), labelled.take(np.arange(100, 200)))
    assert 0.5 < effect.value <= 1


def test_a_fold_of_equal_scores_is_an_error_that_says_so() -> None:
    signal = pairs(n=30)
    signal.scores = np.r_[1.0, np.zeros(29)]
    with pytest.raises(ValueError, match=r"spearman is not defined on the \d+ pairs of fold"):
        search(signal, folds=5)


def test_progress_reaches_its_total_and_samples_keep_their_size() -> None:
    steps: list[tuple[str, int, int]] = []
    search(pairs(n=60), folds=3, draws=20, progress=lambda *step: steps.append(step))
    for stage in ("trying repairs", "trying compression"):
        counts = [done for name, done, _ in steps if name == stage]
        total = {total for name, _, total in steps if name == stage}
        assert sorted(counts) == list(range(1, total.pop() + 1))
    assert len(sampled(pairs(n=60), 25)) == 25
