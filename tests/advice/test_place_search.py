"""The choice of a layer and pooling is nested: a plain loop agrees, a planted layer is named, and equal ones are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from theodolite.advice.changes import Place
from theodolite.advice.folds import grouped_folds
from theodolite.advice.nested_validation import search_places
from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs, Signal
from theodolite.tasks.retrieval import Judgements

PLACES = tuple(Place(layer=layer, unit=unit) for layer in (3, 2, 1) for unit in ("mean", "cls"))
KINDS = ("pairs", "labels", "queries")


def signals(kind: str, noise: dict[Place, float], *, n: int = 150, d: int = 8, seed: int = 0) -> dict[Place, Signal]:
    """The same items at every place, their vectors under as much noise as is said."""
    random = np.random.default_rng(seed)
    made: dict[Place, Signal] = {}
    y = random.permutation(np.arange(n) % 3)
    first, second = random.standard_normal((2, n, d))
    second += first * random.uniform(0, 3, (n, 1))
    names = ([f"a{i}" for i in range(n)], [f"b{i}" for i in range(n)])
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    answers = random.integers(0, 100, n)
    documents = random.standard_normal((100, d))
    for place, level in noise.items():
        hidden = lambda X, level=level: X + level * random.standard_normal(X.shape)  # noqa: E731
        if kind == "pairs":
            made[place] = ScoredPairs(hidden(first), hidden(second), cosines, names=names)
        elif kind == "labels":
            made[place] = LabelledRows(hidden(np.eye(d)[y]), y, names=names[0])
        else:
            table = Judgements(np.arange(n), answers, np.ones(n))
            made[place] = JudgedQueries(hidden(documents), hidden(documents[answers]), table)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_layer_is_named_and_the_last_one_kept_where_it_is_best(kind: str) -> None:
    planted = Place(layer=2, unit="cls")
    at = signals(kind, {place: 0.3 if place == planted else 1.5 for place in PLACES})
    advice = search_places(PLACES, at.__getitem__, folds=3, draws=200)
    assert advice.verdict == "apply" and advice.choice == planted and set(advice.chosen) == {planted}
    assert advice.ranked[0].change == planted and len(advice.ranked) == len(PLACES)
    assert PLACES[0] not in advice.candidates  # what is in use is not a change
    # Now what is in use carries it: enough items show that nothing else can.
    best = signals(kind, {place: 0.1 if place == PLACES[0] else 1.5 for place in PLACES}, n=400)
    advice = search_places(PLACES, best.__getitem__, folds=3, draws=200)
    assert advice.verdict == "leave it alone" and advice.gain.gain < 0


def test_the_gain_is_that_of_a_plain_loop_that_chooses_inside_and_scores_outside() -> None:
    at = signals("pairs", {place: 0.5 + 0.1 * i for i, place in enumerate(reversed(PLACES))}, n=90)
    advice = search_places(PLACES, at.__getitem__, folds=3, draws=50, seed=4)
    signal: Any = at[PLACES[0]]
    fold = grouped_folds(signal.groups, 3, strata=signal.strata, seed=4)

    def score(place: Place, rows: Any) -> float:
        pairs: Any = at[place]
        cosine = [
            a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(pairs.first[rows], pairs.second[rows], strict=True)
        ]
        return float(spearmanr(cosine, pairs.scores[rows])[0])

    gain, chosen = 0.0, []
    for outer in range(3):
        inner = [other for other in range(3) if other != outer]
        means = {p: sum(score(p, fold == i) * (fold == i).sum() for i in inner) for p in PLACES[1:]}
        chosen.append(max(means, key=means.__getitem__))
        gain += (score(chosen[-1], fold == outer) - score(PLACES[0], fold == outer)) * (fold == outer).mean()
    assert advice.chosen == tuple(chosen)
    assert advice.gain.gain == pytest.approx(gain, abs=1e-9)


def test_labels_are_learned_without_the_folds_that_are_scored() -> None:
    """A neighbour's label leaks if a row may be its own neighbour: pure noise would then be perfect at every place."""
    random = np.random.default_rng(0)
    y = random.permutation(np.arange(120) % 2)
    at = {place: LabelledRows(random.standard_normal((120, 5)), y, names=list(range(120))) for place in PLACES}
    advice = search_places(PLACES, at.__getitem__, folds=3, draws=100)
    assert all(scored.value < 0.75 for scored in advice.ranked) and advice.verdict == "not shown"


def test_a_place_where_all_vectors_are_equal_is_listed_with_the_reason() -> None:
    flat = Place(layer=0, unit="cls")
    at = signals("pairs", dict.fromkeys(PLACES, 0.5))
    pairs: Any = at[PLACES[0]]
    at[flat] = ScoredPairs(np.ones_like(pairs.first), np.ones_like(pairs.second), pairs.scores, names=pairs.names)
    advice = search_places((*PLACES, flat), at.__getitem__, folds=3, draws=50)
    entry = next(scored for scored in advice.ranked if scored.change == flat)
    assert np.isnan(entry.value) and "is not defined" in entry.reason and flat not in advice.chosen


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_places_that_are_all_equal_are_hardly_ever_told_apart(kind: str) -> None:
    draws = 60
    wrong = 0
    for seed in range(draws):
        at = signals(kind, dict.fromkeys(PLACES, 1.0), n=90, seed=100 + seed)
        wrong += search_places(PLACES, at.__getitem__, folds=3, draws=200).verdict == "apply"
    assert wrong <= 0.05 * draws + 2 * np.sqrt(0.05 * 0.95 * draws)  # two standard errors of the simulation
