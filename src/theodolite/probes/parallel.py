"""Independent pieces of work side by side, in threads through joblib, with results in order."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

SHORT = 0.05
"""Seconds of work that are not worth a second thread."""


def in_parallel(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """`function` of each task. `n_jobs` as in joblib, but None is all cores; `progress` may raise to cancel what is left.

    The kernels release the interpreter's lock, so threads are enough, and nothing is copied. Each keeps its BLAS to one thread.
    """
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_limits

    from theodolite.core.blocks import available_cores

    jobs = available_cores() if n_jobs is None else n_jobs
    results: list[Result] = []
    begun = time.perf_counter()
    while len(results) < len(tasks):
        # Threads cost milliseconds to set up: what is nearly done by then is finished here.
        spent = time.perf_counter() - begun
        if jobs != 1 and spent > SHORT:
            break
        results.append(function(tasks[len(results)]))
        if progress is not None:
            progress(len(results), len(tasks))
    tasks = tasks[len(results) :]
    if not tasks:
        return results
    total = len(results) + len(tasks)
    with threadpool_limits(1, user_api="blas"):
        running = Parallel(n_jobs=jobs, prefer="threads", return_as="generator", batch_size=_batch(len(tasks)))(
            delayed(function)(task) for task in tasks
        )
        try:
            for result in running:
                results.append(result)
                if progress is not None:
                    progress(len(results), total)
        except BaseException:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that work was given up is what was asked for
                running.close()
            raise
    return results


def _batch(tasks: int) -> int:
    """So many tasks at once that handing them out costs little, and few enough that no thread waits long for the last."""
    return max(1, min(64, tasks // 32))
