"""The grid of a classifier probe, the folds it is tried on, and which cell is best: by all cells, or by a race."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from theodolite.core.vectors import Indices
from theodolite.probes.classifiers.networks import Job, Network
from theodolite.probes.label_codes import Labelled

# The published grid (Zhou & Srikumar 2022): units of two hidden layers, and L2 weights.
HIDDEN = tuple((first, second) for first in (32, 64, 128, 256) for second in (32, 64, 128, 256))
ALPHAS = tuple(10.0**power for power in range(-7, 1))

# How the grid is searched: every cell on every fold, or a race.
SearchKind: TypeAlias = Literal["full", "race"]
# Measured by benchmarks/probe_grid.py.
RACE_LOSS = "0.3 points of accuracy on average over six data sets, and 0.8 and 1.2 on two of them"

_FINALISTS = 4  # cells of a race that run on two folds; half of them on all

# Trains networks on the rows of one data set.
Train: TypeAlias = Callable[[Sequence[Job]], list[Network]]


class Folds(NamedTuple):
    """(training rows, held-out rows) of each fold, and a note on classes that are too rare."""

    splits: list[tuple[Indices, Indices]]
    note: str


def stratified_folds(data: Labelled, folds: int, *, seed: int = 0) -> Folds:
    """Shuffled folds with the same share of each class, as far as its rows allow."""
    if folds < 2:
        raise ValueError(f"folds={folds} must be at least 2: one to score on, the others to train on")
    counts = np.bincount(data.codes)
    folds = min(folds, len(data.codes))
    # scikit-learn refuses to stratify if no class has as many rows as there are folds.
    splitter = StratifiedKFold if counts.max() >= folds else KFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about rare classes: the note reports them
        splits = list(splitter(folds, shuffle=True, random_state=seed).split(data.X, data.codes))
    # A fold whose training rows have one class trains nothing.
    usable = [(train, test) for train, test in splits if len(np.unique(data.codes[train])) > 1]
    if not usable:
        raise ValueError(
            f"{len(data.codes)} rows of {len(counts)} classes are too few to hold some out; give more rows of each class"
        )
    rare = data.classes[counts < folds]
    note = f"fewer than {folds} rows, so absent from some of the {folds} folds: {', '.join(map(str, rare))}" if len(rare) else ""
    return Folds(usable, note)


@dataclass(frozen=True)
class Cell:
    """One cell of the grid: units of the hidden layers, and L2 weight."""

    hidden: tuple[int, ...]
    alpha: float


@dataclass(frozen=True, eq=False)
class Search:
    """Results of cells on held-out folds, each (cells, folds) and nan if a cell did not run."""

    cells: tuple[Cell, ...]
    scores: NDArray[np.float64]
    epochs: NDArray[np.float64]
    note: str = ""

    @property
    def best(self) -> int:
        """The number of the cell with the highest mean over all folds; the first of equals, as in scikit-learn."""
        return int(np.nan_to_num(self.scores.mean(axis=1), nan=-1.0).argmax())


def grid(hidden: Sequence[Sequence[int]], alphas: Sequence[float]) -> tuple[Cell, ...]:
    """All pairs, in the order in which scikit-learn's ParameterGrid has them: its first of equals is ours."""
    cells = tuple(Cell(tuple(int(h) for h in layers), float(alpha)) for alpha in alphas for layers in hidden)
    for cell in cells:
        if min(cell.hidden, default=1) < 1:
            raise ValueError(f"hidden layers {cell.hidden} must all have at least one unit")
        if not 0 <= cell.alpha < np.inf:
            raise ValueError(f"alpha={cell.alpha} must be at least 0 and finite; the published grid is 1e-7 to 1")
    if not cells:
        raise ValueError("the grid is empty; give at least one pair of hidden sizes and one alpha")
    return cells


def search_grid(data: Labelled, folds: Folds, cells: tuple[Cell, ...], train: Train, *, seed: int, kind: SearchKind) -> Search:
    """Cells on held-out folds: all of them, or, in a race, only those that a balanced sample of the grid shows to be good.

    A race first runs a few cells on one fold each, chosen so that every size of a layer, every L2 weight and every fold
    meet about equally often. The effects of sizes, weight and fold, added up, predict the score of every cell; the best four run
    on two folds, and the better two of these on all. The best of 128 cells on one fold would mostly be the luckiest one: an
    effect is the mean of many networks on all rows.
    """
    n_folds = len(folds.splits)
    is_race = search_size(cells, n_folds, kind) < len(cells) * n_folds
    note = f"the grid was searched by a race, which lost {RACE_LOSS}, compared with the full grid" if is_race else ""
    scores, epochs = (np.full((len(cells), n_folds), np.nan) for _ in range(2))
    search = Search(cells, scores, epochs, note)
    run = partial(_run, search, data, folds, train, seed)
    finalists = list(range(len(cells)))
    if is_race:
        sample = _balanced_sample(cells, n_folds)
        run(sample)
        finalists = _best(finalists, _predicted_scores(search, sample), _FINALISTS)
        run([(i, fold) for i in finalists for fold in range(2)])
        finalists = _best(finalists, search.scores[:, :2].mean(axis=1), _FINALISTS // 2)
    # One architecture at a time trains as one model, and the networks of the whole grid need not be in memory.
    for hidden in dict.fromkeys(cells[i].hidden for i in finalists):
        run([(i, fold) for i in finalists for fold in range(n_folds) if cells[i].hidden == hidden])
    return search


def search_size(cells: Sequence[Cell], n_folds: int, kind: SearchKind) -> int:
    """How many networks a search trains; in a race, at most."""
    in_full = len(cells) * n_folds
    race = n_folds * _sample_size(cells) + 2 * _FINALISTS + (n_folds - 2) * (_FINALISTS // 2)
    return min(race, in_full) if kind == "race" else in_full


def _best(cells: Sequence[int], scores: NDArray[np.float64], at_most: int) -> list[int]:
    """The cells with the highest scores, in the order of the grid; the first of equals."""
    return sorted(sorted(cells, key=lambda i: -scores[i])[:at_most])


def _sample_size(cells: Sequence[Cell]) -> int:
    """Cells per fold: three for every four values of the most varied setting, so that each value meets most folds."""
    return math.ceil(0.75 * max(len(set(column)) for column in itertools.zip_longest(*map(_settings, cells))))


def _settings(cell: Cell) -> tuple[float, ...]:
    return (cell.alpha, len(cell.hidden), *cell.hidden)


def _indicators(cells: Sequence[Cell]) -> NDArray[np.float64]:
    """(cells, values): 1 if the cell has the value of a setting (L2 weight, number of layers, size of each layer)."""
    columns = itertools.zip_longest(*map(_settings, cells))  # None for the size of a layer that a network does not have
    return np.hstack([np.equal.outer(column, tuple(dict.fromkeys(column))) for column in columns]).astype(np.float64)


def _balanced_sample(cells: Sequence[Cell], n_folds: int) -> list[tuple[int, int]]:
    """(cell, fold) to run first: one by one, the run whose values and pairs of values have been taken least; ties by order."""
    values = np.hstack([np.repeat(_indicators(cells), n_folds, axis=0), np.tile(np.eye(n_folds), (len(cells), 1))])
    values /= np.sqrt(values.mean(axis=0))  # of eight values, each is to be taken half as often as of four
    taken = np.zeros((values.shape[1], values.shape[1]))  # how often two values met; on the diagonal, how often one was taken
    cost = np.zeros(len(values))
    sample = []
    for _ in range(n_folds * _sample_size(cells)):
        run = int(cost.argmin())
        cell = run // n_folds
        sample.append((cell, run % n_folds))
        taken += np.outer(values[run], values[run])
        cost = np.einsum("ij,ij->i", values @ taken, values)
        for tried, fold in sample:
            cost[tried * n_folds + fold] = np.inf
    return sample


def _predicted_scores(search: Search, sample: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """The score of every cell as a sum of effects, fitted to those that ran by least squares with a ridge of one run."""
    indicators, folds = _indicators(search.cells), np.eye(search.scores.shape[1])
    design = np.array([np.r_[indicators[cell], folds[fold]] for cell, fold in sample])
    scores = np.array([search.scores[run] for run in sample])
    system = design.T @ design + np.eye(design.shape[1])
    effects = np.linalg.solve(system, design.T @ (scores - scores.mean()))
    return np.asarray(indicators @ effects[: indicators.shape[1]])


def _run(search: Search, data: Labelled, folds: Folds, train: Train, seed: int, runs: Sequence[tuple[int, int]]) -> None:
    """Train each (cell, fold) that has not run yet, and store its results in the search."""
    runs = [run for run in runs if np.isnan(search.scores[run])]
    jobs = [Job(search.cells[i].hidden, search.cells[i].alpha, seed, folds.splits[fold][0]) for i, fold in runs]
    for (i, fold), network in zip(runs, train(jobs), strict=True):
        held_out = folds.splits[fold][1]
        search.scores[i, fold] = np.mean(network.predict(data.X[held_out]) == data.codes[held_out])
        search.epochs[i, fold] = network.epochs
