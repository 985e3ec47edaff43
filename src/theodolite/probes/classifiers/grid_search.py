"""The grid of a classifier probe, the folds it is tried on, and which cell is best: by all cells, or by a race."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from theodolite.core.vectors import Indices
from theodolite.probes.classifiers.networks import Job, Network
from theodolite.probes.labels import Labelled

# The published grid (Zhou & Srikumar 2022): units of two hidden layers, and L2 weights.
HIDDEN = tuple((first, second) for first in (32, 64, 128, 256) for second in (32, 64, 128, 256))
ALPHAS = tuple(10.0**power for power in range(-7, 1))

_FINALISTS = 8  # cells that go on to the second fold; half of them to the third, and so on
_ALIKE = 0.01  # two probes that differ on no larger share of the held-out rows are taken for one

# Trains networks on the rows of one data set.
Train: TypeAlias = Callable[[Sequence[Job]], list[Network]]


class Folds(NamedTuple):
    """(training rows, held-out rows) of each fold, and a note on classes that are too rare."""

    parts: list[tuple[Indices, Indices]]
    note: str


def stratified_folds(data: Labelled, folds: int, *, seed: int = 0) -> Folds:
    """Shuffled folds with the same share of each class, as far as its rows allow.

    Parameters
    ----------
    data
        Labelled rows.
    folds
        How many, at least 2; fewer if there are fewer rows.
    seed
        Of the shuffle.

    Raises
    ------
    ValueError
        There are too few folds, or too few rows to hold some out.
    """
    if folds < 2:
        raise ValueError(f"folds={folds} must be at least 2: one to score on, the others to train on")
    counts = np.bincount(data.codes)
    folds = min(folds, len(data.codes))
    # scikit-learn refuses to stratify if no class has as many rows as there are folds.
    splitter = StratifiedKFold if counts.max() >= folds else KFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about rare classes: the note reports them
        parts = list(splitter(folds, shuffle=True, random_state=seed).split(data.X, data.codes))
    # A fold whose training rows have one class trains nothing.
    usable = [(train, test) for train, test in parts if len(np.unique(data.codes[train])) > 1]
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
    """Results of cells on held-out folds, each (cells, folds) and nan if a cell did not run.

    Parameters
    ----------
    cells
        The grid.
    scores
        Accuracies.
    likelihoods
        Mean log-probabilities of the held-out labels, with which a race breaks ties.
    epochs
        Passes over the rows.
    """

    cells: tuple[Cell, ...]
    scores: NDArray[np.float64]
    likelihoods: NDArray[np.float64]
    epochs: NDArray[np.float64]

    @property
    def best(self) -> int:
        """The number of the cell with the highest mean over all folds; the first of equals, as in scikit-learn."""
        return int(np.nan_to_num(self.scores.mean(axis=1), nan=-1.0).argmax())


def grid(hidden: Sequence[Sequence[int]], alphas: Sequence[float]) -> tuple[Cell, ...]:
    """All pairs, in the order in which scikit-learn's ParameterGrid has them: its first of equals is ours.

    Parameters
    ----------
    hidden
        Units of the hidden layers, such as (32, 64), of each architecture.
    alphas
        L2 weights, at least 0.
    """
    cells = tuple(Cell(tuple(int(h) for h in layers), float(alpha)) for alpha in alphas for layers in hidden)
    for cell in cells:
        if min(cell.hidden, default=1) < 1:
            raise ValueError(f"hidden layers {cell.hidden} must all have at least one unit")
        if not 0 <= cell.alpha < np.inf:
            raise ValueError(f"alpha={cell.alpha} must be at least 0 and finite; the published grid is 1e-7 to 1")
    if not cells:
        raise ValueError("the grid is empty; give at least one pair of hidden sizes and one alpha")
    return cells


def search_grid(data: Labelled, folds: Folds, cells: tuple[Cell, ...], train: Train, *, seed: int, race: bool = True) -> Search:
    """Cells on held-out folds: all on the first one, the best eight on the second, then four, then two.

    On the first fold the L2 weights of an architecture are bisected: between two that are right on the same held-out rows, up
    to 1 %, none is tried, and only the best of such equals goes on. Weights of 1e-7 to 1e-3 are often equals: without this
    they would fill the final with copies of one probe.

    Parameters
    ----------
    data, folds, cells
        Labelled rows, their folds, and the grid.
    train
        Trains networks on the data.
    seed
        Of every network.
    race
        False tries every cell on every fold.
    """
    search = Search(cells, *(np.full((len(cells), len(folds.parts)), np.nan) for _ in range(3)))
    if race:
        racing = _distinct(cells, _first_fold(search, data, folds, train, seed))
        for fold, at_most in enumerate(race_sizes(len(cells), len(folds.parts))[1:], start=1):
            # The best on the folds so far, in grid order; of equals those that are surer of what is right.
            scores, likelihoods = (table[:, :fold].mean(axis=1) for table in (search.scores, search.likelihoods))
            racing = sorted(sorted(racing, key=lambda i: (-scores[i], -likelihoods[i]))[:at_most])
            _run(search, data, folds, [(i, fold) for i in racing], train, seed=seed)
        return search
    # One architecture at a time trains as one model, and the networks of the whole grid need not be in memory.
    for hidden in dict.fromkeys(cell.hidden for cell in cells):
        same = [i for i, cell in enumerate(cells) if cell.hidden == hidden]
        _run(search, data, folds, [(i, fold) for fold in range(len(folds.parts)) for i in same], train, seed=seed)
    return search


def race_sizes(n_cells: int, n_folds: int) -> list[int]:
    """How many cells at most run on each fold of a race.

    Parameters
    ----------
    n_cells, n_folds
        Sizes of the grid and of the cross-validation.
    """
    return [n_cells, *(min(n_cells, max(2, _FINALISTS >> i)) for i in range(n_folds - 1))]


def _run(
    search: Search, data: Labelled, folds: Folds, runs: Sequence[tuple[int, int]], train: Train, *, seed: int
) -> list[NDArray[np.bool_]]:
    """Train each (cell, fold) and store its results in the search; returns which held-out rows each has right."""
    cells = [search.cells[i] for i, _ in runs]
    parts = [folds.parts[fold] for _, fold in runs]
    networks = train([Job(cell.hidden, cell.alpha, seed, rows) for cell, (rows, _) in zip(cells, parts, strict=True)])
    right = []
    for run, network, (_, rows) in zip(runs, networks, parts, strict=True):
        logs, codes = network.log_probabilities(data.X[rows]), data.codes[rows]
        right.append(logs.argmax(axis=1) == codes)
        search.scores[run], search.epochs[run] = right[-1].mean(), network.epochs
        search.likelihoods[run] = np.take_along_axis(logs, codes[:, None], axis=1).mean()
    return right


def _first_fold(search: Search, data: Labelled, folds: Folds, train: Train, seed: int) -> dict[int, NDArray[np.bool_]]:
    """Which held-out rows of the first fold each cell that was tried has right."""
    right: dict[int, NDArray[np.bool_]] = {}
    # The cells of each architecture, by rising L2 weight.
    order = sorted(range(len(search.cells)), key=lambda i: (search.cells[i].hidden, search.cells[i].alpha))
    paths = [list(path) for _, path in itertools.groupby(order, key=lambda i: search.cells[i].hidden)]
    to_try = sorted({path[at] for path in paths for at in _first_tries(len(path))})
    while to_try:
        right.update(zip(to_try, _run(search, data, folds, [(i, 0) for i in to_try], train, seed=seed), strict=True))
        to_try = sorted(itertools.chain.from_iterable(_between(path, right) for path in paths))
    return right


def _first_tries(length: int) -> Iterator[int]:
    """Both ends of a path, its middle, and the middles from there to the strong end, where weights matter: trained as one."""
    yield 0
    at = (length - 1) // 2
    while at < length - 1:
        yield at
        at = (at + length) // 2
    yield length - 1


def _between(path: Sequence[int], right: dict[int, NDArray[np.bool_]]) -> list[int]:
    """The middle of every stretch of untried cells whose two ends are not alike."""
    tried = [at for at, i in enumerate(path) if i in right]
    return [
        path[(low + high) // 2]
        for low, high in itertools.pairwise(tried)
        if high - low > 1 and not _alike(right[path[low]], right[path[high]])
    ]


def _distinct(cells: Sequence[Cell], right: dict[int, NDArray[np.bool_]]) -> list[int]:
    """The tried cells without those that are like a better one of their architecture; the first of equals stays."""
    distinct: list[int] = []
    for i in sorted(right, key=lambda i: (-right[i].sum(), i)):
        if not any(cells[i].hidden == cells[j].hidden and _alike(right[i], right[j]) for j in distinct):
            distinct.append(i)
    return sorted(distinct)


def _alike(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> bool:
    return bool(np.mean(first != second) <= _ALIKE)
