"""Work on all cores of this process, in order: blocks of rows, and lists of items in threads."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from theodolite.core.vectors import Floats, Source

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Output = TypeVar("Output")
# Called with (done, total) as work finishes; may raise to cancel it.
Progress: TypeAlias = Callable[[int, int], None]
# Progress of several stages: called with (stage, done, total); may raise to cancel.
Stage: TypeAlias = Callable[[str, int, int], None]

BLAS_MODULES = ("numpy", "scipy.linalg", "torch", "faiss")  # each brings a BLAS of its own


def available_cores() -> int:
    """The number of cores this process may use, or fewer if the variable OMP_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(limit))) if limit.isdigit() else cores


def one_blas_thread() -> AbstractContextManager[object]:
    """A context in which BLAS runs on one thread: for work that is spread over threads already, or too small to be.

    The loaded libraries are searched once, not at every call as by `threadpool_limits`: that takes ten milliseconds.
    """
    if available_cores() == 1:
        return nullcontext()
    limited: AbstractContextManager[object] = _controller(*map(sys.modules.__contains__, BLAS_MODULES)).limit(
        limits=1, user_api="blas"
    )
    return limited


@lru_cache
def _controller(*_loaded: bool) -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def map_blocks(function: Callable[[int, Floats], Output], data: Source, *, check: bool = True) -> Iterator[Output]:
    """The results of a function for every block of rows, in order, with a bounded number of blocks in memory.

    Reading, casting and checking a block happen in the worker thread too. BLAS runs single-threaded inside each worker: the
    elementwise half of the work then uses all cores as well, which BLAS's own threads leave idle. Results come in order, so
    sums do not depend on the number of threads.
    """
    if data.is_one_block:
        yield function(0, data.block)
        return

    def work(numbered: tuple[int, Floats]) -> Output:
        start, raw = numbered
        return function(start, data.prepare(start, raw, check=check))

    is_single = data.n is not None and data.n <= data.block_rows
    yield from in_order(work, data.raw_blocks(), workers=1 if is_single else available_cores())


def in_order(function: Callable[[Item], Output], items: Iterable[Item], *, workers: int) -> Iterator[Output]:
    """The results of a function for every item, in order, taking no more items than there are workers for."""
    if workers == 1:
        yield from map(function, items)
        return
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        running: deque[Future[Output]] = deque()
        try:
            for item in items:
                running.append(pool.submit(function, item))
                if len(running) > workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def in_threads(function: Callable[[Item], Output], items: Iterable[Item]) -> list[Output]:
    """The results of a function for every item, in order, on all cores; for items that are all in memory."""
    items = list(items)
    workers = min(available_cores(), len(items)) if len(items) > 1 else 1
    if workers == 1:
        return [function(item) for item in items]
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
