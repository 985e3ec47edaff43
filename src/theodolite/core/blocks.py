"""Block work on all cores: results come back in order, so that sums do not depend on the number of threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from theodolite.core.vectors import Floats, Source

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_blocks(function: Callable[[int, Floats], Result], data: Source, *, check: bool = True) -> Iterator[Result]:
    """`function(first row, block)` of every block, in order, with a bounded number of blocks in flight.

    BLAS runs single-threaded inside each worker: the elementwise half of the work then uses all cores too, which BLAS's own
    threads leave idle. Reading, casting and checking a block happen in the worker as well; a later pass over the same rows
    need not check again.
    """

    def work(start: int, raw: Floats) -> Result:
        return function(start, data.prepare(start, raw, check=check))

    single = data.n is not None and data.n <= data.block_rows
    yield from in_order(lambda item: work(*item), data.raw_blocks(), workers=1 if single else available_cores())


def in_order(function: Callable[[Item], Result], items: Iterable[Item], *, workers: int) -> Iterator[Result]:
    """The function of every item, in order, with no more items in flight than there are workers to take them."""
    if workers == 1:
        yield from map(function, items)
        return
    with _pool(workers) as pool:
        flying: deque[Future[Result]] = deque()
        try:
            for item in items:
                flying.append(pool.submit(function, item))
                if len(flying) > workers:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:
            for future in flying:
                future.cancel()


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function of every item, in order, on all cores; BLAS stays single-threaded inside each worker."""
    todo = list(items)
    workers = min(available_cores(), len(todo))
    if workers <= 1:
        return [function(item) for item in todo]
    with _pool(workers) as pool:
        return list(pool.map(function, todo))


def available_cores() -> int:
    """Cores this process may use, or fewer where OMP_NUM_THREADS asks for fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(asked))) if asked.isdigit() else cores


@contextmanager
def _pool(count: int) -> Iterator[ThreadPoolExecutor]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(count) as pool:
        yield pool
