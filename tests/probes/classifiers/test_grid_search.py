"""The grid and the search of its cells: a race finds what the whole grid finds, with a fraction of the networks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from theodolite.probes.classifiers.grid_search import (
    ALPHAS,
    HIDDEN,
    Folds,
    Search,
    _balanced_sample,
    grid,
    search_grid,
    search_size,
    stratified_folds,
)
from theodolite.probes.classifiers.networks import Network
from theodolite.probes.label_codes import labelled


def test_the_published_grid_has_128_cells() -> None:
    cells = grid(HIDDEN, ALPHAS)
    assert len(set(cells)) == 128
    assert {cell.hidden for cell in cells} == {(a, b) for a in (32, 64, 128, 256) for b in (32, 64, 128, 256)}
    assert sorted({cell.alpha for cell in cells}) == pytest.approx([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1])


class FakeTrainer:
    """A trainer whose networks are right on a known share of rows, so that the best cell is known without training."""

    def __init__(self, quality: dict[tuple[tuple[int, ...], float], float]) -> None:
        self.quality = quality
        self.trained = 0

    def __call__(self, jobs: Any) -> list[Network]:
        self.trained += len(jobs)
        return [self.network(self.quality[job.hidden, job.alpha]) for job in jobs]

    def network(self, quality: float) -> Network:
        # Row i has the value i / n and the label 1; 1 is predicted if i / n < quality.
        return Network((np.array([[-1.0]]),), (np.array([quality]),), 1, True)


class NoisyTrainer(FakeTrainer):
    """The same with a quality for each fold, known by its training rows."""

    def __init__(self, quality: dict[tuple[tuple[int, ...], float], Any], folds: Folds) -> None:
        super().__init__(quality)
        self.numbers = {rows.tobytes(): number for number, (rows, _) in enumerate(folds.splits)}

    def __call__(self, jobs: Any) -> list[Network]:
        return [self.network(self.quality[job.hidden, job.alpha][self.numbers[job.rows.tobytes()]]) for job in jobs]


@pytest.fixture(scope="module")
def ladder() -> tuple[Any, Any]:
    """Rows 0, 1/1000, ..., all but five of label 1, so that a quality is an accuracy; and their folds."""
    data = labelled(np.arange(1000)[:, None] / 1000, np.arange(1000) >= 5)
    return data, stratified_folds(data, 5)


def test_the_race_finds_the_best_cell_with_a_tenth_of_the_networks(ladder: tuple[Any, Any]) -> None:
    """Scores that are sums of the effects of both sizes and of the weight, with the best cell inside the grid."""
    cells = grid(HIDDEN, ALPHAS)
    quality = [
        0.5 + 0.05 * np.log2(h1) - 0.03 * (np.log2(h2) - 6) ** 2 - 0.02 * (np.log10(alpha) + 2) ** 2 / 2
        for (h1, h2), alpha in map(astuple, cells)
    ]
    by_cell = {(cell.hidden, cell.alpha): q for cell, q in zip(cells, quality, strict=True)}
    full, short = FakeTrainer(by_cell), FakeTrainer(by_cell)
    complete, raced = (search_grid(*ladder, cells, train, seed=0, kind=kind) for kind, train in (("full", full), ("race", short)))
    assert complete.best == raced.best == int(np.argmax(quality))
    assert full.trained == 128 * 5
    assert short.trained <= search_size(cells, 5, "race") == 44
    ran = ~np.isnan(raced.scores)
    assert raced.scores[ran] == pytest.approx(complete.scores[ran])
    assert np.count_nonzero(ran.all(axis=1)) == 2


def test_the_race_chooses_as_well_as_the_full_grid_if_scores_are_noisy(ladder: tuple[Any, Any]) -> None:
    """Noise as large as the effects: the choice is close to the best cell on average, and closer than the best of one fold."""
    cells = grid(HIDDEN, ALPHAS)
    true = np.array([0.5 + 0.01 * np.log2(cell.hidden[0]) + 0.005 * np.log10(cell.alpha) for cell in cells])
    chosen = []
    for seed in range(20):
        scores = true[:, None] + np.random.default_rng(seed).normal(0, 0.01, (len(cells), 5))
        train = NoisyTrainer(dict(zip([(cell.hidden, cell.alpha) for cell in cells], scores, strict=True)), ladder[1])
        chosen.append(
            [search_grid(*ladder, cells, train, seed=0, kind="race").best, scores.mean(axis=1).argmax(), scores[:, 0].argmax()]
        )
    race, full, first_fold = true.max() - true[np.array(chosen)].mean(axis=0)
    assert race == pytest.approx(full, abs=0.001)
    assert race < first_fold


def test_a_race_meets_every_value_of_the_grid_on_every_fold(ladder: tuple[Any, Any]) -> None:
    cells = grid(HIDDEN, ALPHAS)
    sample = _balanced_sample(cells, 5)
    assert len(set(sample)) == len(sample) == 30
    assert set(Counter((cells[i].alpha, fold) for i, fold in sample).values()) == {1}
    assert set(Counter(cells[i].alpha for i, _ in sample).values()) <= {3, 4}
    for layer in (0, 1):
        met = Counter((cells[i].hidden[layer], fold) for i, fold in sample)
        assert set(met.values()) <= {1, 2} and len(met) == 20


def test_a_small_grid_and_networks_of_other_depths_are_searched_too(ladder: tuple[Any, Any]) -> None:
    small = grid(((8,), (8, 4)), (1e-3, 1e-1))
    train = FakeTrainer({(cell.hidden, cell.alpha): 0.5 + 0.1 * len(cell.hidden) + cell.alpha for cell in small})
    assert search_grid(*ladder, small, train, seed=0, kind="race").best == 3
    assert train.trained == 4 * 5  # no fewer would be enough for a race
    mixed = grid(((), (8,), (16,), (8, 4), (16, 4)), ALPHAS)
    train = FakeTrainer({(cell.hidden, cell.alpha): 0.5 + 0.1 * len(cell.hidden) + cell.alpha / 10 for cell in mixed})
    best = mixed[search_grid(*ladder, mixed, train, seed=0, kind="race").best]
    assert (best.hidden, best.alpha) == ((8, 4), 1.0)


def test_only_cells_that_ran_on_all_folds_can_win() -> None:
    cells = grid(((8,),), (1e-3, 1e-2))
    scores = np.array([[1.0, math.nan], [0.5, 0.5]])
    assert Search(cells, scores, scores).best == 1


def test_folds_hold_out_every_row_once_with_the_shares_of_the_classes() -> None:
    data = labelled(np.arange(60)[:, None], np.arange(60) % 3)
    folds = stratified_folds(data, 5, seed=1)
    assert sorted(np.concatenate([test for _, test in folds.splits]).tolist()) == list(range(60)) and folds.note == ""
    assert all(np.bincount(data.codes[test]).tolist() == [4, 4, 4] for _, test in folds.splits)
    with pytest.raises(ValueError, match="2 rows of 2 classes are too few"):
        stratified_folds(labelled(np.eye(2), [0, 1]), 2)
