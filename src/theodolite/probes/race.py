"""A race for the best cell of a grid: most cells run on one fold only, and those that would run alike not at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.labels import Folds, Labelled
from theodolite.probes.search import Cell, Search, Train, blank, held_out

FINALISTS = 8  # cells that go on to the second fold; half of them to the third, and so on
ALIKE = 0.01  # two probes that differ on no larger share of the held-out rows are taken for one


def race(data: Labelled, folds: Folds, cells: tuple[Cell, ...], train: Train, *, seed: int) -> Search:
    """The grid on the first fold, the best eight cells on the second, then four, then two.

    On the first fold the L2 weights of an architecture are bisected: between two that are right on the same held-out rows, up
    to 1 %, none is tried, and only the best of such equals goes on. Weights of 1e-7 to 1e-3 often are equals: without this
    they would fill the final with copies of one probe.
    """
    found = blank(cells, folds)
    racing = _distinct(cells, _first_fold(found, data, folds, train, seed))
    for fold, most in enumerate(rounds(len(cells), len(folds.parts))[1:], start=1):
        racing = _leaders(racing, found, fold, most)
        held_out(found, data, folds, [(i, fold) for i in racing], train, seed=seed)
    return found


def rounds(n_cells: int, n_folds: int) -> list[int]:
    """How many cells at most run on each fold."""
    return [n_cells, *(min(n_cells, max(2, FINALISTS >> i)) for i in range(n_folds - 1))]


def _first_fold(found: Search, data: Labelled, folds: Folds, train: Train, seed: int) -> dict[int, NDArray[np.bool_]]:
    """Which held-out rows each cell that was tried has right."""
    right: dict[int, NDArray[np.bool_]] = {}
    paths = _paths(found.cells)
    wanted = sorted({path[at] for path in paths for at in _first_tries(len(path))})
    while wanted:
        right.update(zip(wanted, held_out(found, data, folds, [(i, 0) for i in wanted], train, seed=seed), strict=True))
        wanted = sorted(itertools.chain.from_iterable(_between(path, right) for path in paths))
    return right


def _paths(cells: Sequence[Cell]) -> list[list[int]]:
    """The cells of each architecture, by rising L2 weight."""
    order = sorted(range(len(cells)), key=lambda i: (cells[i].hidden, cells[i].alpha))
    return [list(path) for _, path in itertools.groupby(order, key=lambda i: cells[i].hidden)]


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
    """The tried cells without those that a better one of their architecture is alike to; the first of equals stays."""
    kept: list[int] = []
    for i in sorted(right, key=lambda i: (-right[i].sum(), i)):
        if not any(cells[i].hidden == cells[j].hidden and _alike(right[i], right[j]) for j in kept):
            kept.append(i)
    return sorted(kept)


def _leaders(racing: Sequence[int], found: Search, folds: int, most: int) -> list[int]:
    """The best of the racing cells on the folds so far, in grid order; of equals those that are surer of what is right."""
    scores, likelihoods = found.scores[:, :folds].mean(axis=1), found.likelihoods[:, :folds].mean(axis=1)
    return sorted(sorted(racing, key=lambda i: (-scores[i], -likelihoods[i]))[:most])


def _alike(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> bool:
    return bool(np.mean(first != second) <= ALIKE)
