"""A cluster of two worker processes, one of them killed while it works: the numbers of one process; faults in one sentence."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.core import engines
from theodolite.core.engines import chosen_engine, in_parallel
from theodolite.core.rows import Row
from theodolite.studies.runner import run_steps
from theodolite.studies.steps import Action, Sources, Step, Store

distributed = pytest.importorskip("distributed", reason='needs Dask: pip install "theodolite[dask]"')

pytestmark = pytest.mark.slow

random = np.random.default_rng(3)
X = (random.standard_normal((4000, 16)) @ random.standard_normal((16, 16)) + 1).astype(np.float32)
LABELS = np.array([f"label {number}" for number in np.arange(4000) % 6])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as local:
        yield local


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engines, "PIECE_BYTES", 1)
    monkeypatch.setattr(engines, "RESULTS_PER_PIECE", 0)
    monkeypatch.setattr(engines, "SHORT", -1.0)  # nothing is done in this process that a worker could do
    for number, part in enumerate(np.array_split(X, 20)):
        np.save(tmp_path / f"shard-{number}.npy", part)
    return tmp_path


@pytest.fixture
def one_is_killed(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Kills a worker with signal 9 while it is in its second task; what it holds of results is lost with it."""
    killed: list[int] = []
    monkeypatch.setattr(engines, "_on_worker", _slow_on_worker)
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2)

        def kill() -> None:
            while not stop.is_set():
                busy = [worker for worker, calls in client.processing().items() if calls]
                if len(busy) == 2:
                    time.sleep(0.1)
                    killed.append(client.run(os.getpid, workers=busy[:1])[busy[0]])
                    os.kill(killed[0], signal.SIGKILL)
                    return
                time.sleep(0.005)

        stop = threading.Event()
        thread = threading.Thread(target=kill)
        thread.start()
        yield killed
        stop.set()
        thread.join()
        client.wait_for_workers(2)


def _slow_on_worker(function: Any, task: Any) -> Any:
    time.sleep(0.05)
    return function(task)


def metric_values(result: th.Result) -> dict[Any, float]:
    timed = ("probe_seconds", "classifier_seconds")
    return {(row.metric, row.label, row.setting): row.value for row in result if row.metric not in timed}


def test_a_survey(cluster: Any, shards: Path, one_is_killed: list[int]) -> None:
    options: dict[str, Any] = {"cache": False, "findings": False, "sample": 1000}
    there = th.survey(shards, engine=cluster.scheduler_address, **options)
    assert len(one_is_killed) == 1
    assert metric_values(there) == metric_values(th.survey(shards, **options))


def test_a_cluster_based_repair(cluster: Any, shards: Path, one_is_killed: list[int], tmp_path_factory: Any) -> None:
    folders = [tmp_path_factory.mktemp("repair") / "fitted" for _ in range(2)]
    there = th.repair.fit("cluster-based", shards, clusters=4, directions=2, to=folders[0], engine=cluster.scheduler_address)
    assert len(one_is_killed) == 1
    here = th.repair.fit("cluster-based", shards, clusters=4, directions=2, to=folders[1])
    for name in ("centroids_", "means_", "bases_", "counts_"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    np.testing.assert_array_equal(there.transform(X), here.transform(X))


def test_directprobe(cluster: Any, shards: Path, one_is_killed: list[int]) -> None:
    vectors, labels = X[:900] + 5 * random.standard_normal((6, 16)).astype(np.float32)[np.arange(900) % 6], LABELS[:900]
    there = th.probe(vectors, labels, hold_out=0.1, engine=cluster.scheduler_address)
    assert len(one_is_killed) == 1
    assert metric_values(there) == metric_values(th.probe(vectors, labels, hold_out=0.1))


def measure(work: Any) -> list[Row]:
    time.sleep(0.2)
    rows = np.random.default_rng(work.settings["seed"]).standard_normal((50, 4))
    return [Row(metric="sum", value=float(rows.sum()), seed=work.settings["seed"])]


def test_the_steps_of_a_study(cluster: Any, tmp_path: Path, one_is_killed: list[int]) -> None:
    steps = [Step(Action("measure", measure), {"seed": seed}) for seed in range(8)]
    stores = [Store(tmp_path / "there"), Store(tmp_path / "here")]
    with chosen_engine(engine=cluster.scheduler_address):
        outcome = run_steps(steps, stores[0], Sources())
    assert len(one_is_killed) == 1 and not outcome.failed and len(outcome.done) == 8
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
        pytest.raises(RuntimeError, match="several workers died over one piece"),
    ):
        list(in_parallel(die, range(6), prefer="processes"))


def test_an_error_of_a_worker_is_the_error_of_the_verb(cluster: Any, shards: Path) -> None:
    broken = np.array_split(X, 20)[7].copy()
    broken[5, 2] = np.inf
    np.save(shards / "shard-7.npy", broken)
    with pytest.raises(ValueError, match="inf at row 1405, column 2"):
        th.survey(shards, engine=cluster.scheduler_address, cache=False)


def test_a_worker_of_another_version_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = engines._versions_by_value()
    monkeypatch.setattr(engines, "_own_versions", lambda: {**own(), "numpy": "0.1"})
    with pytest.raises(RuntimeError, match=r"has numpy \d.*, this process has 0\.1; install the same version"):
        th.survey(X, engine=cluster.scheduler_address)


def test_a_scheduler_that_is_not_there_or_has_no_workers_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ANSWER", 0.3)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 .*start one with"):
        th.survey(X, engine="tcp://127.0.0.1:9")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
        pytest.raises(ConnectionError, match="has no workers; start one with: dask worker tcp://"),
    ):
        th.survey(X, engine=empty.scheduler_address)
