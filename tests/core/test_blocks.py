"""Block work comes back in order, whole, and with its errors."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.core import blocks
from theodolite.core.blocks import available_cores, map_blocks
from theodolite.core.vectors import source

X = np.arange(200_000 * 8, dtype=np.float64).reshape(-1, 8)


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_results_keep_the_order_of_the_rows(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "available_cores", lambda: cores)
    found = list(map_blocks(lambda start, block: (start, block[0, 0], len(block)), source(X)))
    assert len(found) > 1
    assert all(first == start * 8 for start, first, _ in found)
    assert sum(size for *_, size in found) == len(X)


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_in_a_block_reaches_the_caller(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "available_cores", lambda: cores)
    broken = X.copy()
    broken[150_000, 3] = np.nan
    with pytest.raises(ValueError, match="row 150000, column 3"):
        list(map_blocks(lambda start, block: start, source(broken)))


def test_stopping_early_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "available_cores", lambda: 2)
    work = map_blocks(lambda start, block: start, source(X))
    assert next(work) == 0
    work.close()
    with pytest.raises(StopIteration):
        next(work)


def test_fewer_threads_are_used_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "what")
    assert available_cores() >= 1
