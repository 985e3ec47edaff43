"""Parallel work: results in order, whole, with the errors of the workers, and cancelled on request."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from theodolite.core import parallel
from theodolite.core.parallel import available_cores, in_order, in_threads, map_blocks
from theodolite.core.vectors import source

X = np.arange(200_000 * 8, dtype=np.float64).reshape(-1, 8)


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_results_keep_the_order_of_the_rows(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: cores)
    blocks = list(map_blocks(lambda start, block: (start, block[0, 0], len(block)), source(X)))
    assert len(blocks) > 1
    assert all(first == start * 8 for start, first, _ in blocks)
    assert sum(size for *_, size in blocks) == len(X)


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_in_a_block_reaches_the_caller(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: cores)
    broken = X.copy()
    broken[150_000, 3] = np.nan
    with pytest.raises(ValueError, match="row 150000, column 3"):
        list(map_blocks(lambda start, block: start, source(broken)))


def test_stopping_early_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: 2)
    work = map_blocks(lambda start, block: start, source(X))
    assert next(work) == 0
    work.close()
    with pytest.raises(StopIteration):
        next(work)


def test_omp_num_threads_limits_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "what")
    assert available_cores() >= 1


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_in_order_reads_no_more_items_than_there_are_workers_for(workers: int) -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            read.append(number)
            yield number

    results = in_order(lambda number: number**2, items(), workers=workers)
    assert next(results) == 0
    assert len(read) <= workers + 1
    assert list(results) == [number**2 for number in range(1, 50)]


@pytest.mark.parametrize("cores", [1, 3])
def test_in_threads_returns_all_results_in_order(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: cores)
    assert in_threads(lambda number: number + 1, range(100)) == list(range(1, 101))
    assert in_threads(str, []) == []
