"""The grid and the search of its cells: a race finds what the whole grid finds, with a fraction of the networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from theodolite.probes.classifiers.grid_search import ALPHAS, HIDDEN, Search, grid, race_sizes, search_grid, stratified_folds
from theodolite.probes.classifiers.networks import Network
from theodolite.probes.labels import labelled


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


@pytest.fixture(scope="module")
def ladder() -> tuple[Any, Any]:
    """Rows 0, 1/1000, ..., all but five of label 1, so that a quality is an accuracy; and their folds."""
    data = labelled(np.arange(1000)[:, None] / 1000, np.arange(1000) >= 5)
    return data, stratified_folds(data, 5)


def test_the_race_finds_the_best_cell_of_the_grid_with_a_quarter_of_the_networks(ladder: tuple[Any, Any]) -> None:
    cells = grid(HIDDEN, ALPHAS)
    quality = np.random.default_rng(3).uniform(0.3, 0.9, len(cells))
    by_cell = {(cell.hidden, cell.alpha): q for cell, q in zip(cells, quality, strict=True)}
    full, short = FakeTrainer(by_cell), FakeTrainer(by_cell)
    complete, raced = (search_grid(*ladder, cells, train, seed=0, race=train is short) for train in (full, short))
    assert complete.best == raced.best == int(quality.argmax())
    assert full.trained == 128 * 5
    assert short.trained <= sum(race_sizes(128, 5)) < 128 * 5 / 4
    ran = ~np.isnan(raced.scores)
    assert raced.scores[ran] == pytest.approx(complete.scores[ran])


def test_equals_run_once_in_a_race_and_the_first_wins(ladder: tuple[Any, Any]) -> None:
    """The five first tries of eight weights, all alike: the first alone goes on to the other four folds."""
    train = FakeTrainer(dict.fromkeys([((8,), alpha) for alpha in ALPHAS], 0.7))
    search = search_grid(*ladder, grid(((8,),), ALPHAS), train, seed=0)
    assert search.best == 0
    assert train.trained == 5 + 4


def test_the_race_bisects_to_where_the_weight_matters(ladder: tuple[Any, Any]) -> None:
    """Alike from 1e-7 to 1e-3, best at 1e-1: the three between 1e-7 and 1e-4, and 1e-4 and 1e-2, are never tried."""
    quality = dict(zip([((8,), alpha) for alpha in ALPHAS], [0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.9, 0.4], strict=True))
    search = search_grid(*ladder, grid(((8,),), ALPHAS), FakeTrainer(quality), seed=0)
    assert np.flatnonzero(~np.isnan(search.scores[:, 0])).tolist() == [0, 3, 5, 6, 7]
    assert search.cells[search.best].alpha == pytest.approx(1e-1)


def test_the_race_looks_closer_if_light_weights_differ(ladder: tuple[Any, Any]) -> None:
    quality = dict(zip([((8,), alpha) for alpha in ALPHAS], [0.5, 0.5, 0.9, 0.7, 0.7, 0.7, 0.7, 0.7], strict=True))
    search = search_grid(*ladder, grid(((8,),), ALPHAS), FakeTrainer(quality), seed=0)
    assert np.flatnonzero(~np.isnan(search.scores[:, 0])).tolist() == [0, 1, 2, 3, 5, 6, 7]
    assert search.cells[search.best].alpha == pytest.approx(1e-5)


def test_only_cells_that_ran_on_all_folds_can_win() -> None:
    cells = grid(((8,),), (1e-3, 1e-2))
    scores = np.array([[1.0, math.nan], [0.5, 0.5]])
    assert Search(cells, scores, scores, scores).best == 1


def test_folds_hold_out_every_row_once_with_the_shares_of_the_classes() -> None:
    data = labelled(np.arange(60)[:, None], np.arange(60) % 3)
    folds = stratified_folds(data, 5, seed=1)
    assert sorted(np.concatenate([test for _, test in folds.parts]).tolist()) == list(range(60)) and folds.note == ""
    assert all(np.bincount(data.codes[test]).tolist() == [4, 4, 4] for _, test in folds.parts)
    with pytest.raises(ValueError, match="2 rows of 2 classes are too few"):
        stratified_folds(labelled(np.eye(2), [0, 1]), 2)
