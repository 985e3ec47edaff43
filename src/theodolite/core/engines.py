"""Where work runs: in this process, in worker processes, or on a cluster, chosen by joblib and the same for everything.

Shards of a cloud, pairs of labels, layers, steps of a study and parts of an extraction all go through `in_parallel`. Its backend
is whatever `joblib.parallel_config` says, or what `chosen_engine` sets for a verb.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, TypeVar
from uuid import uuid4
from weakref import WeakSet

import numpy as np

from theodolite.core.options import option
from theodolite.core.parallel import available_cores, one_blas_thread
from theodolite.core.vectors import Floats, Indices, Source

Item = TypeVar("Item")
Output = TypeVar("Output")

SHORT = 0.05  # seconds of work that are not worth a second thread
ANSWER = 10.0  # seconds in which a scheduler must answer
PIECE_BYTES = 256 * 2**20  # shards are grouped to pieces of at least this size, so that results are small beside what was read
RESULTS_PER_PIECE = 8  # and a piece is at least this many times the size of its result
PIECES = 1024  # about the most pieces that a cloud is read in

# What joblib and Dask raise if a worker is gone, and what it means.
DEATHS = {
    "TerminatedWorkerError": "a worker process was killed, most often because memory ran out; run again with fewer workers",
    "KilledWorker": "several workers died over one piece of work, most often because memory ran out; give them more memory, or "
    "write smaller shards",
    "CancelledError": "the scheduler was lost and its work cancelled; start it again and repeat the command",
    "FutureCancelledError": "the scheduler was lost and its work cancelled; start it again and repeat the command",
}


def in_parallel(
    function: Callable[[Item], Output],
    tasks: Sequence[Item],
    *,
    n_jobs: int | None = None,
    prefer: Literal["threads", "processes"] = "threads",
    shared_memory: bool = False,
    ordered: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Output]:
    """The results of a function for every task, through joblib, whose backend a caller may have configured.

    Parameters
    ----------
    function
        Called with one task, in any thread, process or machine; whatever it captures travels with it. Inside a worker, further
        calls of this function use that worker's own cores.
    tasks
        Independent pieces of work.
    n_jobs
        How many at a time, as in joblib. None takes what `joblib.parallel_config` or `chosen_engine` says; without that, all
        cores for threads, and one for processes.
    prefer
        What to use if no backend was chosen: threads, for functions that release the interpreter's lock, as compiled kernels
        do, or processes.
    shared_memory
        Whether the function changes what it captures, so that only threads of this process will do.
    ordered
        Whether results come in the order of the tasks; otherwise as they are finished.
    progress
        Called with (finished, total) after every task; it may raise to cancel the rest.
    """
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    done = 0

    def counted(output: Output) -> Output:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(tasks))
        return output

    jobs = n_jobs if n_jobs is not None else configured_workers(prefer)
    start = time.perf_counter()
    # Threads cost milliseconds to set up, so the first tasks run here: a short list is finished by then.
    while done < len(tasks) and (jobs == 1 or (prefer == "threads" and time.perf_counter() - start <= SHORT)):
        yield counted(function(tasks[done]))
    rest = tasks[done:]
    if not rest:
        return
    hints = {"prefer": prefer, "require": "sharedmem" if shared_memory else None}
    backend = get_active_backend(**hints)[0]
    is_local = getattr(backend, "supports_sharedmem", False)
    # Batches large enough that handing them out costs little, small enough that no worker waits long for the last one.
    batch = max(1, min(64, len(rest) // 32)) if prefer == "threads" else 1
    call = function if is_local else partial(_on_worker, function)
    calls = (delayed(call)(task) for task in rest)
    # A process that has loaded a model looks to joblib like one that leaks memory: it replaces it and warns; nothing is lost. If
    # warnings are errors, that one would end the thread that hands out the work, and the loop below would never end.
    quiet = nullcontext() if is_local else warnings.catch_warnings(action="ignore", category=UserWarning)
    with one_blas_thread() if is_local else quiet:
        way = "generator" if ordered else "generator_unordered"
        if not getattr(backend, "supports_return_generator", False):  # Ray hands all results over at the end
            way = "list"
        outputs = Parallel(n_jobs=jobs, batch_size=batch, return_as=way, **hints)(calls)
        try:
            for output in outputs:
                yield counted(output)
        except BaseException as error:
            # joblib warns that tasks were cancelled, which is intended.
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                if way != "list":
                    outputs.close()
            if type(error).__name__ in DEATHS:
                raise RuntimeError(DEATHS[type(error).__name__]) from error
            raise


def map_shards(function: Callable[[Source], Output], data: Source, *, result_bytes: int = 0) -> Iterator[Output]:
    """The results of a function for consecutive pieces of a cloud, in order; each piece is opened where the work runs.

    The pieces are groups of whole shards, and depend on the sizes of the shards alone, never on the number of workers. So does
    whatever is merged from the results in a fixed order. Rows that are not in shards are one piece.

    Parameters
    ----------
    function
        Called with a piece. `first_row` of the piece is the number of its first row in the cloud.
    data
        The rows.
    result_bytes
        Size of one result, if it is large: pieces are then larger too.
    """
    pieces = data.pieces(max(PIECE_BYTES, RESULTS_PER_PIECE * result_bytes, data.nbytes // PIECES) if data.parts else 0)
    if len(pieces) == 1:
        yield function(data)
        return
    is_here = configured_workers("processes") == 1
    if is_here:
        yield from (function(piece.here(data)) for piece in pieces)
        return
    results = in_parallel(lambda piece: function(piece.open()), pieces, prefer="processes")
    for piece, result in zip(pieces, results, strict=True):
        data.on_rows(piece.n)
        yield result


def merge_tree(parts: Iterable[Output], merge: Callable[[Output, Output], Output]) -> Output:
    """All parts merged pairwise, then the results pairwise, and so on: always in the same order, with few of them in memory.

    Parameters
    ----------
    parts
        What to merge, at least one; only as many are kept as the tree has levels.
    merge
        Merges two neighbours.
    """
    waiting: list[tuple[int, Output]] = []  # (height of its tree, value), heights descending
    for part in parts:
        height, value = 0, part
        while waiting and waiting[-1][0] == height:
            height, value = height + 1, merge(waiting.pop()[1], value)
        waiting.append((height, value))
    _, total = waiting.pop()
    while waiting:
        total = merge(waiting.pop()[1], total)
    return total


def take_rows(data: Source, rows: Indices) -> Floats:
    """Some rows of a cloud as one array; on an engine, each worker picks those of its shards.

    Parameters
    ----------
    data
        The cloud.
    rows
        Row numbers, ascending.
    """
    if not data.parts or configured_workers("processes") == 1:
        return data.take(rows)

    def pick(piece: Source) -> Floats:
        low, high = np.searchsorted(rows, (piece.first_row, piece.first_row + (piece.n or 0)))
        return piece.take(rows[low:high] - piece.first_row) if low < high else np.empty((0, piece.d), piece.dtype)

    return np.concatenate(list(map_shards(pick, data)))


@contextmanager
def chosen_engine(workers: int | None = None, engine: str | None = None) -> Iterator[None]:
    """Run what is inside on a number of workers of this machine, or on the workers of a Dask scheduler.

    Parameters
    ----------
    workers
        Number of workers on this machine: processes for shards, layers, steps and texts, threads for pairs of labels. None
        leaves what `joblib.parallel_config` has chosen.
    engine
        Address of a scheduler, such as `tcp://10.0.0.1:8786`.

    Raises
    ------
    ConnectionError
        No scheduler answers, or it has no worker.
    RuntimeError
        A worker has other versions of this package, of Python or of NumPy.
    """
    from joblib import parallel_config

    if workers is not None and engine is not None:
        fault = f"{option('workers', str(workers))} are processes of this machine and {option('engine', engine)} has its own"
        raise ValueError(f"{fault}; give one of them")
    if workers is not None and workers < 1:
        raise ValueError(f"{option('workers', str(workers))} must be at least 1")
    if engine is None:
        with nullcontext() if workers is None else parallel_config(n_jobs=workers):
            yield
        return
    with _client(engine) as client, parallel_config(backend=_dask_backend(client), n_jobs=-1):
        yield


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client of a scheduler that has workers, all of them with the versions of this process."""
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise ImportError(f'{option("engine", address)} needs Dask; run: pip install "theodolite[dask]"') from None
    # Shards are opened by the workers; what travels with a task is small beside them, if more than Dask expects of a graph.
    settings = {"distributed.admin.large-graph-warning-threshold": "1GB", "distributed.comm.timeouts.connect": f"{ANSWER}s"}
    with dask.config.set(settings):
        try:
            client = Client(address, timeout=ANSWER, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TypeError) as error:
            fault = f"no Dask scheduler answers at {address} ({error})"
            raise ConnectionError(
                f"{fault}; start one with: dask scheduler, or leave {option('engine', 'ADDRESS')} out"
            ) from None
        with client:
            try:
                client.wait_for_workers(1, timeout=ANSWER)
            except TimeoutError:
                fault = f"the scheduler at {address} has no workers"
                raise ConnectionError(f"{fault}; start one with: dask worker {address}") from None
            _require_same_versions(client.run(_versions_by_value()))
            yield client


def _require_same_versions(of_workers: dict[str, dict[str, str]]) -> None:
    own = _own_versions()
    for worker, versions in of_workers.items():
        for name, value in own.items():
            if versions[name] != value:
                fault = f"the worker {worker} has {name} {versions[name]}, this process has {value}"
                raise RuntimeError(f"{fault}; install the same version of {name} on both, so that the numbers are the same")


def _own_versions() -> dict[str, str]:
    return _versions_by_value()()


def _versions_by_value() -> Callable[[], dict[str, str]]:
    """A function that travels as code, so that it also runs on a worker that has no theodolite."""

    def versions() -> dict[str, str]:
        import sys
        from importlib.metadata import PackageNotFoundError, version

        found = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}"}
        for name in ("theodolite", "numpy"):
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "not installed"
        return found

    return versions


def _dask_backend(client: Any) -> Any:
    from joblib.parallel import ParallelBackendBase

    class Backend(ParallelBackendBase):  # type: ignore[misc]
        """Pieces of work as futures of Dask, which computes what a dead worker held again.

        joblib's own backend waits for ever if a worker dies between the end of a piece and the transfer of its result.
        """

        supports_retrieve_callback = True
        default_n_jobs = -1

        def effective_n_jobs(self, *_: Any, **__: Any) -> int:
            return max(1, int(sum(client.ncores().values())))

        def start_call(self) -> None:
            self.futures: WeakSet[Any] = WeakSet()

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = client.submit(func, key=f"theodolite-{uuid4().hex}")
            self.futures.add(future)
            future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, future: Any) -> Any:
            return future.result()

        def abort_everything(self, **_: Any) -> None:
            client.cancel(list(self.futures))

    return Backend()


def _on_worker(function: Callable[[Item], Output], task: Item) -> Output:
    """Do one task in a worker; what it spreads in turn stays on the cores of that worker."""
    from joblib import parallel_config

    with parallel_config(backend="threading", n_jobs=available_cores()):
        return function(task)


def configured_workers(prefer: Literal["threads", "processes"]) -> int:
    """How many tasks run at a time, as joblib counts them: -1 is all that there are.

    Parameters
    ----------
    prefer
        What decides if nothing was chosen: threads are as many as cores, processes one.
    """
    from joblib.parallel import get_active_backend

    backend, jobs = get_active_backend()
    if jobs is None and backend.default_n_jobs != 1:  # a cluster has as many as it has workers
        jobs = backend.default_n_jobs
    return jobs if jobs is not None else available_cores() if prefer == "threads" else 1
