"""A cluster of two worker processes, one of them killed while it works: the numbers of one process; faults in one sentence."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import theodolite as th
from theodolite.cli.app import app
from theodolite.core import engines
from theodolite.core.engines import EngineError, chosen_engine, in_parallel
from theodolite.core.rows import Row
from theodolite.studies.runner import run_steps
from theodolite.studies.steps import Action, Sources, Step, Store

dask = pytest.importorskip("dask", reason='needs Dask: pip install "theodolite[dask]"')
distributed = pytest.importorskip("distributed", reason='needs Dask: pip install "theodolite[dask]"')

pytestmark = pytest.mark.slow

random = np.random.default_rng(3)
X = (random.standard_normal((4000, 16)) @ random.standard_normal((16, 16)) + 1).astype(np.float32)
LABELS = np.array([f"label {number}" for number in np.arange(4000) % 6])


@pytest.fixture
def cluster() -> Iterator[Any]:
    # A piece of work may die with one worker, and not with the second: no test waits for a worker to start again.
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), small_cluster(2) as local:
        yield local


def small_cluster(workers: int) -> Any:
    return distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50)


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engines, "PIECE_BYTES", 1)
    monkeypatch.setattr(engines, "RESULTS_PER_PIECE", 0)
    monkeypatch.setattr(engines, "INLINE_SECONDS", -1.0)  # nothing is done in this process that a worker could do
    for number, part in enumerate(np.array_split(X, 20)):
        np.save(tmp_path / f"shard-{number}.npy", part)
    return tmp_path


@pytest.fixture
def killed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once a worker has died by signal 9 in its second task; what it held of results is lost with it."""
    mark = tmp_path_factory.mktemp("killed") / "mark"
    monkeypatch.setattr(engines, "_on_worker", partial(_die_once, mark, engines._on_worker))
    return mark


def _die_once(mark: Path, on_worker: Any, function: Any, task: Any) -> Any:
    global tasks_here
    tasks_here += 1
    time.sleep(0.05)  # so that both workers have work
    if tasks_here == 2:
        with suppress(FileExistsError):
            mark.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return on_worker(function, task)


tasks_here = 0  # of this process


def metric_values(result: th.Result) -> dict[Any, float]:
    timed = ("probe_seconds", "classifier_seconds")
    return {(row.metric, row.label, row.setting): row.value for row in result if row.metric not in timed}


def test_a_survey(cluster: Any, shards: Path, killed: Path) -> None:
    options: dict[str, Any] = {"cache": False, "findings": False, "sample": 1000}
    there = th.survey(shards, engine=cluster.scheduler_address, **options)
    assert killed.exists()
    assert metric_values(there) == metric_values(th.survey(shards, **options))


def test_a_cluster_based_repair(cluster: Any, shards: Path, killed: Path, tmp_path_factory: Any) -> None:
    folders = [tmp_path_factory.mktemp("repair") / "fitted" for _ in range(2)]
    there = th.repair.fit("cluster-based", shards, clusters=4, directions=2, to=folders[0], engine=cluster.scheduler_address)
    assert killed.exists()
    here = th.repair.fit("cluster-based", shards, clusters=4, directions=2, to=folders[1])
    for name in ("centroids_", "means_", "bases_", "counts_"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    np.testing.assert_array_equal(there.transform(X), here.transform(X))


def test_directprobe(cluster: Any, shards: Path, killed: Path) -> None:
    vectors, labels = X[:900] + 5 * random.standard_normal((6, 16)).astype(np.float32)[np.arange(900) % 6], LABELS[:900]
    there = th.probe(vectors, labels, hold_out=0.1, engine=cluster.scheduler_address)
    assert killed.exists()
    assert metric_values(there) == metric_values(th.probe(vectors, labels, hold_out=0.1))


def measure(work: Any) -> list[Row]:
    time.sleep(0.2)
    rows = np.random.default_rng(work.settings["seed"]).standard_normal((50, 4))
    return [Row(metric="sum", value=float(rows.sum()), seed=work.settings["seed"])]


def test_the_steps_of_a_study(cluster: Any, tmp_path: Path, killed: Path) -> None:
    steps = [Step(Action("measure", measure), {"seed": seed}) for seed in range(8)]
    stores = [Store(tmp_path / "there"), Store(tmp_path / "here")]
    with chosen_engine(engine=cluster.scheduler_address):
        outcome = run_steps(steps, stores[0], Sources())
    assert killed.exists() and not outcome.failed and len(outcome.done) == 8
    run_steps(steps, stores[1], Sources())
    for step in steps:
        assert [row.value for row in stores[0].rows(step)] == [row.value for row in stores[1].rows(step)]
    assert not list(tmp_path.rglob("*.partial"))


def test_work_that_kills_every_worker_ends_in_one_sentence(cluster: Any, shards: Path) -> None:
    def die(task: int) -> None:
        if task == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        chosen_engine(engine=cluster.scheduler_address),
        pytest.raises(EngineError, match="several workers died on the same piece"),
    ):
        list(in_parallel(die, range(6), prefer="processes"))


def test_an_error_of_a_worker_is_the_error_of_the_verb(cluster: Any, shards: Path) -> None:
    broken = np.array_split(X, 20)[7].copy()
    broken[5, 2] = np.inf
    np.save(shards / "shard-7.npy", broken)
    with pytest.raises(ValueError, match="inf at row 1405, column 2"):
        th.survey(shards, engine=cluster.scheduler_address, cache=False)


def test_a_worker_of_another_version_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = engines.own_versions()
    monkeypatch.setattr(engines, "own_versions", lambda: {**own, "numpy": "0.1"})
    with pytest.raises(EngineError, match=r"has numpy \d.*, but this process has 0\.1; install the same version"):
        th.survey(X, engine=cluster.scheduler_address)


def test_a_scheduler_that_is_not_there_or_has_no_workers_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "CONNECT_TIMEOUT", 0.3)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9.*start one with"):
        th.survey(X, engine="tcp://127.0.0.1:9")
    monkeypatch.setattr(engines, "CONNECT_TIMEOUT", 5.0)  # a scheduler without workers must still answer, on a busy machine too
    with (
        small_cluster(0) as empty,
        pytest.raises(EngineError, match="has no workers that answer; start one with: dask worker tcp://"),
    ):
        th.survey(X, engine=empty.scheduler_address)


@contextmanager
def bare_cluster(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """The address of a scheduler, its process, and its only worker's, which nobody starts again."""
    file = folder / "scheduler.json"
    started = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # where this module is, with what kills a process
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([sys.executable, "-m", *words], env=environment, **quiet)
        started.append(process)
        return process

    try:
        options = ("--scheduler-file", str(file))
        scheduler = start("distributed.cli.dask_scheduler", *options, "--port", "0", "--no-dashboard", "--host", "127.0.0.1")
        worker = start("distributed.cli.dask_worker", *options, "--no-nanny", "--nthreads", "2", "--no-dashboard")
        while not file.is_file() or not file.read_text().strip():
            assert scheduler.poll() is None
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"], scheduler, worker
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("victim", "message"),
    [
        ("worker", "no workers for 2 seconds, so no work is being done; start workers again"),
        ("scheduler", "the scheduler was lost"),
    ],
)
def test_a_lost_cluster_ends_in_one_sentence_and_writes_nothing(
    victim: str, message: str, shards: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "NO_WORKERS", 2.0)
    monkeypatch.setattr(engines, "CONNECT_TIMEOUT", 60.0)  # a busy machine takes long to start them
    folder = tmp_path_factory.mktemp("cluster")
    with bare_cluster(folder) as (address, scheduler, worker):
        number = {"worker": worker, "scheduler": scheduler}[victim].pid
        monkeypatch.setattr(engines, "_on_worker", partial(_kill_other, number))
        monkeypatch.setattr(engines, "_client", _short_answers(engines._client, monkeypatch))
        with pytest.raises(EngineError, match=message):
            th.repair.fit("cluster-based", shards, clusters=4, to=folder / "repair", engine=address)
    assert sorted(path.name for path in folder.iterdir() if "repair" in path.name) == []


def _kill_other(number: int, function: Any, task: Any) -> None:
    os.kill(number, signal.SIGKILL)
    time.sleep(60)


def _short_answers(client: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same client; once it is connected, the scheduler must answer within seconds."""

    @contextmanager
    def connected(address: str) -> Iterator[Any]:
        with client(address) as connection:
            monkeypatch.setattr(engines, "CONNECT_TIMEOUT", 10.0)
            yield connection

    return connected


def test_an_address_that_is_none_and_a_port_that_says_nothing_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "vectors.npy", X)
    monkeypatch.setattr(engines, "CONNECT_TIMEOUT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = {"nonsense": "is not the address of a scheduler; write it as tcp://HOST:PORT"}
        addresses[f"tcp://127.0.0.1:{silent.getsockname()[1]}"] = "no Dask scheduler answers at tcp://127.0.0.1:"
        for address, message in addresses.items():
            call = ["survey", str(tmp_path / "vectors.npy"), "--engine", address, "--output", str(tmp_path / "rows.json")]
            ended = CliRunner().invoke(app, call)
            assert ended.exit_code == 2 and message in " ".join(ended.output.split()), ended.output
            assert ended.output.count("\n") == 1 and "Traceback" not in ended.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["vectors.npy"]


def test_every_wait_for_a_cluster_ends_within_half_a_minute() -> None:
    assert engines.CONNECT_TIMEOUT + engines.NO_WORKERS + engines.CLOSE < 30
