"""A cluster of two worker processes, one of them killed while it works: the numbers of one process; faults in one sentence."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
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
    monkeypatch.setattr(engines, "SHORT", -1.0)  # nothing is done in this process that a worker could do
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
        small_cluster(0) as empty,
        pytest.raises(ConnectionError, match="has no workers; start one with: dask worker tcp://"),
    ):
        th.survey(X, engine=empty.scheduler_address)
