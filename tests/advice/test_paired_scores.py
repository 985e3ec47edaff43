"""The difference of two scores on the same items: the two scores computed plainly, and how often it is wrong by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from theodolite.advice.paired_scores import ScoreDifference, score_difference
from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs, Signal
from theodolite.tasks.retrieval import Judgements

D = 8
Random = np.random.Generator


def judged(random: Random, n: int, noise: tuple[float, float] = (1.0, 1.0)) -> tuple[JudgedQueries, JudgedQueries]:
    """Two encoders that read the same n queries, each with errors of its own."""
    documents = random.standard_normal((3 * n, D))
    judgements = Judgements(np.arange(n), np.arange(n), random.integers(1, 3, n).astype(np.float64))
    sides = []
    for size in noise:
        queries = documents[:n] + size * random.standard_normal((n, D))
        sides.append(JudgedQueries(documents + 0.3 * random.standard_normal(documents.shape), queries, judgements))
    return sides[0], sides[1]


def scored(random: Random, n: int, noise: tuple[float, float] = (1.0, 1.0)) -> tuple[ScoredPairs, ScoredPairs]:
    first, second = random.standard_normal((2, n, D))
    second = second + random.uniform(0, 3, (n, 1)) * first
    scores = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    scores += 0.2 * random.standard_normal(n)
    sides = [[side + size * random.standard_normal((n, D)) for side in (first, second)] for size in noise]
    return ScoredPairs(*sides[0], scores), ScoredPairs(*sides[1], scores)


def labelled(random: Random, n: int, noise: tuple[float, float] = (1.0, 1.0)) -> tuple[LabelledRows, LabelledRows]:
    labels = np.arange(n) % 2
    base = 1.5 * labels[:, None] * np.eye(D)[0] + 0.5 * random.standard_normal((n, D))
    return tuple(LabelledRows(base + size * random.standard_normal((n, D)), labels) for size in noise)  # type: ignore[return-value]


KINDS: dict[str, Callable[..., tuple[Signal, Signal]]] = {"queries": judged, "pairs": scored, "labels": labelled}


def test_judged_queries_get_the_scores_of_a_plain_loop() -> None:
    sides = judged(np.random.default_rng(0), 30)
    found = score_difference(*sides)
    scores = []
    for side in sides:
        total = 0.0
        for number, query in enumerate(side.queries):
            cosines = [query @ row / np.linalg.norm(query) / np.linalg.norm(row) for row in side.rows]
            rank = sorted(range(len(cosines)), key=lambda j: -cosines[j]).index(number)
            total += 1 / np.log2(rank + 2) if rank < 10 else 0.0
        scores.append(total / len(side.queries))
    assert (found.before, found.after) == pytest.approx(scores)
    assert found.difference == pytest.approx(scores[1] - scores[0]) and (found.n, found.noun) == (30, "queries")


def test_scored_pairs_get_spearmans_correlation() -> None:
    sides = scored(np.random.default_rng(1), 80)
    found = score_difference(*sides)
    expected = []
    for side in sides:
        cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(side.first, side.second, strict=True)]
        expected.append(spearmanr(cosines, side.scores).statistic)
    assert (found.before, found.after) == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_side_does_not_differ_from_itself_and_order_turns_the_sign(kind: str) -> None:
    a, b = KINDS[kind](np.random.default_rng(2), 80, (0.2, 3.0))
    same, there, back = score_difference(a, a), score_difference(a, b), score_difference(b, a)
    assert same.difference == 0 and not same.is_clear
    assert there.difference == pytest.approx(-back.difference) and there.low == pytest.approx(-back.high)  # type: ignore[operator]
    assert there.is_clear and there.difference < 0


def rates(kind: str, n: int, repetitions: int, noise: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float, float]:
    """Shares of repetitions that are clear, and in which the interval holds the mean difference; and that mean."""
    random = np.random.default_rng([n, len(kind)])
    found: list[ScoreDifference] = [score_difference(*KINDS[kind](random, n, noise), draws=300) for _ in range(repetitions)]
    truth = float(np.mean([each.difference for each in found])) if noise[0] != noise[1] else 0.0
    covered = np.mean([(each.low or 0.0) <= truth <= (each.high or 0.0) for each in found])
    return float(np.mean([each.is_clear for each in found])), float(covered), truth


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [30, 80])
def test_equal_encoders_are_seldom_told_apart(kind: str, n: int) -> None:
    """At 5%, of 100 repetitions 11 or fewer are clear with probability 0.99."""
    assert rates(kind, n, 100)[0] <= 0.11


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_difference_of_unequal_encoders(kind: str) -> None:
    clear, covered, truth = rates(kind, 80, 80, (0.5, 1.6))
    assert truth < 0 and clear > 0.3 and covered >= 0.88  # of 80 at 95%, 71 or more with probability 0.99


def test_few_items_that_all_speak_for_one_side_do_not_decide() -> None:
    """A bootstrap of three such items alone would be certain."""
    labels = np.arange(40) % 2
    far = 10.0 * labels[:, None] * np.eye(D)[0] + 0.01 * np.random.default_rng(3).standard_normal((40, D))
    worse = far.copy()
    worse[[0, 2, 4]] += 10 * np.eye(D)[0]
    found = score_difference(LabelledRows(worse, labels), LabelledRows(far, labels))
    assert found.difference > 0 and not found.is_clear


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (lambda r: (judged(r, 30)[0], scored(r, 30)[1]), "A is scored by queries and B by pairs"),
        (lambda r: (judged(r, 30)[0], judged(r, 20)[1]), "A has 30 queries and B 20"),
        (lambda r: (scored(r, 30)[0], scored(r, 30)[1]), "the scores of A and B first differ in row 0"),
        (lambda r: (labelled(r, 4)[0], labelled(r, 4)[1]), "4 rows in 4 groups of equal rows are too few"),
    ],
)
def test_other_items_are_refused_in_one_sentence(sides: Callable[[Random], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        score_difference(*sides(np.random.default_rng(4)))
