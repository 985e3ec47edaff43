"""Where work runs: in this process, in worker processes, or on a cluster, chosen by joblib and the same for everything.

Shards of a cloud, pairs of labels, layers, steps of a study and parts of an extraction all go through `in_parallel`. Its backend
is whatever `joblib.parallel_config` says, or what `chosen_engine` sets for a verb.
"""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from theodolite.core.parallel import available_cores, one_blas_thread
from theodolite.core.spelling import option
from theodolite.core.vectors import Floats, Indices, Source

Item = TypeVar("Item")
Output = TypeVar("Output")

INLINE_SECONDS = 0.05  # seconds of work that are not worth a second thread
CONNECT_TIMEOUT = 10.0  # seconds in which a scheduler must answer
NO_WORKERS = 15.0  # seconds that a scheduler may be without any worker while there is work
CLOSE = 2.0  # seconds for taking leave of a scheduler
SAME_VERSIONS = ("theodolite", "numpy")  # packages that must be the same in every worker, besides Python
PIECE_BYTES = 256 * 2**20  # shards are grouped to pieces of at least this size, so that results are small beside what was read
RESULTS_PER_PIECE = 8  # and a piece is at least this many times the size of its result
PIECES = 1024  # about the most pieces that a cloud is read in

# What joblib and Dask raise if a worker is gone, and what it means.
WORKER_FAILURES = {
    "TerminatedWorkerError": "a worker process was killed, usually because memory ran out; run again with fewer workers",
    "KilledWorker": "several workers died on the same piece of work, usually because memory ran out; give them more memory, or "
    "write smaller shards",
    "CancelledError": "the scheduler was lost and its work cancelled; start it again and repeat the command",
    "FutureCancelledError": "the scheduler was lost and its work cancelled; start it again and repeat the command",
}

OTHER_PACKAGES = "the cluster cannot read the work sent to it; install the same packages there as here, and repeat the command"


class EngineError(ConnectionError):
    """Workers, or their scheduler, are not there, not there any more, or of another version."""


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
    """The results of a function for every task, through joblib, whose backend a caller may have configured."""
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
    while done < len(tasks) and (jobs == 1 or (prefer == "threads" and time.perf_counter() - start <= INLINE_SECONDS)):
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
            if type(error).__name__ in WORKER_FAILURES:
                raise EngineError(WORKER_FAILURES[type(error).__name__]) from error
            raise


def map_shards(function: Callable[[Source], Output], data: Source, *, result_bytes: int = 0) -> Iterator[Output]:
    """The results of a function for consecutive pieces of a cloud, in order; each piece is opened where the work runs.

    The pieces are groups of whole shards, and depend on the sizes of the shards alone, never on the number of workers. So does
    whatever is merged from the results in a fixed order. Rows that are not in shards are one piece.
    """
    pieces = data.pieces(max(PIECE_BYTES, RESULTS_PER_PIECE * result_bytes, data.nbytes // PIECES)) if data.parts else []
    if len(pieces) < 2:
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


def reduce_shards(
    function: Callable[[Source], Output], data: Source, merge: Callable[[Output, Output], Output], *, result_bytes: int = 0
) -> Output:
    """The results of a function for all pieces of a cloud, merged; of rows that are not in shards, the function's own."""
    return merge_tree(map_shards(function, data, result_bytes=result_bytes), merge) if data.parts else function(data)


def merge_tree(parts: Iterable[Output], merge: Callable[[Output, Output], Output]) -> Output:
    """All parts merged pairwise, then the results pairwise, and so on: always in the same order, with few of them in memory."""
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
    """Some rows of a cloud as one array; on an engine, each worker picks those of its shards."""
    if not data.parts or configured_workers("processes") == 1:
        return data.take(rows)

    def pick(piece: Source) -> Floats:
        low, high = np.searchsorted(rows, (piece.first_row, piece.first_row + (piece.n or 0)))
        return piece.take(rows[low:high] - piece.first_row) if low < high else np.empty((0, piece.d), piece.dtype)

    return np.concatenate(list(map_shards(pick, data)))


@contextmanager
def chosen_engine(workers: int | None = None, engine: str | None = None) -> Iterator[None]:
    """Run what is inside on a number of workers of this machine, or on the workers of a Dask scheduler."""
    if workers is None and engine is None:
        yield
        return
    from joblib import parallel_config

    if workers is not None and engine is not None:
        problem = f"{option('workers', str(workers))} starts workers on this machine, but {option('engine', engine)} has its own"
        raise ValueError(f"{problem}; give only one")
    if workers is not None and workers < 1:
        raise ValueError(f"{option('workers', str(workers))} must be at least 1")
    if engine is None:
        with parallel_config(n_jobs=workers):
            yield
        return
    with _client(engine) as client, parallel_config(backend=_dask_backend(client), n_jobs=-1):
        yield


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client of a scheduler that has workers, all of them with the versions of this process."""
    import asyncio
    import logging

    try:
        import dask
        from distributed import Client
    except ImportError:
        raise ImportError(f'{option("engine", address)} needs Dask; run: pip install "theodolite[dask]"') from None
    if not re.fullmatch(r"\w+://.+|[^:/]+:\d+", address):
        raise ValueError(f"{option('engine', address)} is not the address of a scheduler; write it as tcp://HOST:PORT")
    start = f"start one with: dask scheduler, or leave {option('engine', 'ADDRESS')} out"
    # Shards are opened by the workers; what travels with a task is small beside them, if more than Dask expects of a graph.
    settings = {
        "distributed.admin.large-graph-warning-threshold": "1GB",
        "distributed.comm.timeouts.connect": f"{CONNECT_TIMEOUT}s",
    }
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)  # it reports at length what is one sentence here
    client: Any = None
    try:
        with dask.config.set(settings):
            try:
                # In a thread of its own: a notebook has an event loop running in this one.
                with ThreadPoolExecutor(1) as thread:
                    has_workers = thread.submit(asyncio.run, asyncio.wait_for(_has_workers(address), CONNECT_TIMEOUT)).result()
                client = Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)  # type: ignore[no-untyped-call]
                if not has_workers:
                    client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
                seen = client.sync(client._get_versions, packages=list(SAME_VERSIONS), callback_timeout=CONNECT_TIMEOUT)
            except TimeoutError as error:
                if client is not None:
                    problem = f"the scheduler at {address} has no workers that answer"
                    raise EngineError(f"{problem}; start one with: dask worker {address}") from error
                raise EngineError(f"no Dask scheduler answers at {address}; {start}") from None
            except Exception as error:  # of Dask, of its protocol, and of TLS, of every kind
                problem = " ".join(str(error).split())[:200] or type(error).__name__
                raise EngineError(f"no Dask scheduler answers at {address} ({problem}); {start}") from None
            _require_same_versions({worker: entry["packages"] for worker, entry in seen["workers"].items()})
            yield client
    finally:
        if client is not None:
            with suppress(Exception):
                client.close(timeout=CLOSE)
        log.setLevel(level)


async def _has_workers(address: str) -> bool:
    """Whether a scheduler has workers; unlike a client's own start, this ends if something listens there and says nothing."""
    from distributed import core, security

    untyped: Any = (core.rpc, security.Security)
    connect, settings = untyped
    async with connect(address, connection_args=settings().get_connection_args("client"), timeout=CONNECT_TIMEOUT) as scheduler:
        return bool(await scheduler.ncores())


def _require_same_versions(of_workers: dict[str, dict[str, str | None]]) -> None:
    own = own_versions()
    for worker, versions in of_workers.items():
        for name, value in own.items():
            other = _short(name, versions.get(name) or "not installed")
            if other != value:
                problem = f"the worker {worker} has {name} {other}, but this process has {value}"
                raise EngineError(f"{problem}; install the same version of {name} on both, so that the numbers are the same")


def own_versions() -> dict[str, str]:
    """What must be the same in a worker."""
    from distributed.versions import get_versions

    packages = get_versions(packages=list(SAME_VERSIONS))["packages"]
    return {name: _short(name, packages.get(name) or "not installed") for name in ("python", *SAME_VERSIONS)}


def _short(name: str, version: str) -> str:
    return ".".join(version.split(".")[:2]) if name == "python" else version


def _dask_backend(client: Any) -> Any:
    from uuid import uuid4

    from joblib.parallel import ParallelBackendBase

    class Backend(ParallelBackendBase):  # type: ignore[misc]
        """Pieces of work as futures of Dask, which computes what a dead worker held again.

        joblib's own backend waits for ever if a worker dies between the end of a piece and the transfer of its result, and Dask
        itself if all workers are gone: a thread watches them, and ends the call with an error.
        """

        supports_retrieve_callback = True
        default_n_jobs = -1

        def effective_n_jobs(self, *_: Any, **__: Any) -> int:
            return max(1, int(sum(client.ncores().values())))

        def start_call(self) -> None:
            self.pending: dict[Future[Any], Any] = {}
            self.fault: EngineError | None = None
            self.ended = threading.Event()
            threading.Thread(target=self._watch, daemon=True).start()

        def stop_call(self) -> None:
            self.ended.set()

        def submit(self, func: Any, callback: Any = None) -> Any:
            result: Future[Any] = Future()
            result.add_done_callback(callback)
            if self.fault is not None:
                result.set_exception(self.fault)
                return result
            future = self.pending[result] = client.submit(func, key=f"theodolite-{uuid4().hex}")
            future.add_done_callback(partial(self._hand_over, result))
            return result

        def _hand_over(self, result: Future[Any], future: Any) -> None:
            try:
                self._end(result, value=future.result())
            except BaseException as error:
                # Dask's own word for a scheduler or worker that lacks a package.
                is_other = isinstance(error, RuntimeError) and "deserialization" in str(error)
                self._end(result, error=EngineError(OTHER_PACKAGES) if is_other else error)

        def _end(self, result: Future[Any], *, value: Any = None, error: BaseException | None = None) -> None:
            with suppress(InvalidStateError):  # the watching thread and the scheduler may both end it
                result.set_result(value) if error is None else result.set_exception(error)
            self.pending.pop(result, None)

        def _watch(self) -> None:
            since, silences = None, 0  # when the last worker was gone; requests without an answer
            while self.fault is None and not self.ended.wait(1.0):
                try:
                    workers = client.sync(client.scheduler.ncores, callback_timeout=CONNECT_TIMEOUT)
                    silences = 0
                except Exception:
                    silences += 1  # a scheduler that imports packages may be silent for seconds
                    if silences > 1 or client.status != "running":
                        self.fault = EngineError(WORKER_FAILURES["CancelledError"])
                    continue
                since = None if workers else since or time.monotonic()
                if since is not None and time.monotonic() - since > NO_WORKERS:
                    problem = f"the scheduler has had no workers for {NO_WORKERS:.0f} seconds, so no work is being done"
                    self.fault = EngineError(f"{problem}; start workers again and repeat the command")
            for result in list(self.pending) if self.fault is not None else ():
                self._end(result, error=self.fault)

        def retrieve_result_callback(self, result: Any) -> Any:
            return result.result()

        def abort_everything(self, **_: Any) -> None:
            self.ended.set()
            if self.fault is None:
                client.cancel(list(self.pending.values()))

    return Backend()


def _on_worker(function: Callable[[Item], Output], task: Item) -> Output:
    """Do one task in a worker; what it spreads in turn stays on the cores of that worker."""
    from joblib import parallel_config

    with parallel_config(backend="threading", n_jobs=available_cores()):
        return function(task)


def configured_workers(prefer: Literal["threads", "processes"]) -> int:
    """How many tasks run at a time, as joblib counts them: -1 is all that there are."""
    from joblib.parallel import get_active_backend

    backend, jobs = get_active_backend()
    if jobs is None and backend.default_n_jobs != 1:  # a cluster has as many as it has workers
        jobs = backend.default_n_jobs
    return jobs if jobs is not None else available_cores() if prefer == "threads" else 1
