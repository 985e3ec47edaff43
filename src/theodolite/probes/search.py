"""The grid of a probe, and which of its cells is best by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.labels import Folds, Labelled
from theodolite.probes.network import Job, Network

HIDDEN = tuple((first, second) for first in (32, 64, 128, 256) for second in (32, 64, 128, 256))
ALPHAS = tuple(10.0**power for power in range(-7, 1))
QUICK_HIDDEN = ((64, 64),)
QUICK_ALPHAS = (1e-3, 1e-1)
"""A grid for a first look: two cells instead of 128."""

Train: TypeAlias = Callable[[Sequence[Job]], list[Network]]
"""Trains networks on the rows of one data set."""


@dataclass(frozen=True)
class Cell:
    hidden: tuple[int, ...]
    alpha: float


@dataclass(frozen=True, eq=False)
class Search:
    """Accuracies of cells on held-out folds."""

    cells: tuple[Cell, ...]
    scores: NDArray[np.float64]
    """(cells, folds); nan where a cell did not run."""
    likelihoods: NDArray[np.float64]
    """(cells, folds) mean log-probability of the held-out labels; what a race breaks ties with."""
    epochs: NDArray[np.float64]
    """(cells, folds) passes over the rows; nan where a cell did not run, or scikit-learn's search does not tell."""

    @property
    def best(self) -> int:
        """Number of the cell with the highest mean over all folds; the first of equals, as in scikit-learn."""
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


def all_cells(data: Labelled, folds: Folds, cells: tuple[Cell, ...], train: Train, *, seed: int) -> Search:
    """Every cell on every fold."""
    found = blank(cells, folds)
    # An architecture at a time: what trains as one model, without keeping the networks of the whole grid.
    for hidden in dict.fromkeys(cell.hidden for cell in cells):
        members = [i for i, cell in enumerate(cells) if cell.hidden == hidden]
        held_out(found, data, folds, [(i, fold) for fold in range(len(folds.parts)) for i in members], train, seed=seed)
    return found


def blank(cells: tuple[Cell, ...], folds: Folds) -> Search:
    """A search in which nothing has run yet."""
    shape = len(cells), len(folds.parts)
    return Search(cells, *(np.full(shape, np.nan) for _ in range(3)))


def held_out(
    found: Search, data: Labelled, folds: Folds, runs: Sequence[tuple[int, int]], train: Train, *, seed: int
) -> list[NDArray[np.bool_]]:
    """Train each (cell, fold) and write its score down; returns which held-out rows each has right."""
    cells = [found.cells[i] for i, _ in runs]
    parts = [folds.parts[fold] for _, fold in runs]
    networks = train([Job(cell.hidden, cell.alpha, seed, rows) for cell, (rows, _) in zip(cells, parts, strict=True)])
    right = []
    for run, network, (_, rows) in zip(runs, networks, parts, strict=True):
        logs, codes = network.log_probabilities(data.X[rows]), data.codes[rows]
        right.append(logs.argmax(axis=1) == codes)
        found.scores[run], found.epochs[run] = right[-1].mean(), network.epochs
        found.likelihoods[run] = np.take_along_axis(logs, codes[:, None], axis=1).mean()
    return right
