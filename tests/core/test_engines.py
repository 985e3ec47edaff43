"""Work on engines: the same numbers for a fixed sharding, whatever runs it, and faults that say the way out."""

from __future__ import annotations

import functools
import itertools
import operator
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import numpy as np
import pytest
from joblib import parallel_config

from theodolite.core import engines
from theodolite.core.engines import EngineError, chosen_engine, in_parallel, map_shards, merge_tree, take_rows
from theodolite.core.kmeans import k_means
from theodolite.core.moments import Moments
from theodolite.core.vectors import Source, array, source
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.repairs import ClusterRemoveDirections, ClusterZeroMean
from theodolite.spaces import read

rng = np.random.default_rng(5)
X = (rng.standard_normal((3000, 12)) @ rng.standard_normal((12, 12)) + 2).astype(np.float32)
BOUNDS = (0, 700, 705, 1500, 1500, 2900, 3000)  # shards of different length, one of them empty


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shards, each of which is a piece of its own."""
    monkeypatch.setattr(engines, "PIECE_BYTES", 1)
    monkeypatch.setattr(engines, "RESULTS_PER_PIECE", 0)
    for number, (low, high) in enumerate(itertools.pairwise(BOUNDS)):
        np.save(tmp_path / f"shard-{number}.npy", X[low:high])
    return tmp_path


def values(data: Source, metrics: list[str] | None = None) -> list[float]:
    return [row.value for row in metric_rows(Cloud(data, sample=500), metrics)]


@pytest.mark.parametrize("n_jobs", [None, 1, 3])
@pytest.mark.parametrize("short", [-1.0, 60.0])
def test_in_parallel_returns_all_results_in_order(n_jobs: int | None, short: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of -1 s every task goes to joblib, with 60 s none does."""
    monkeypatch.setattr(engines, "INLINE_SECONDS", short)
    steps: list[tuple[int, int]] = []
    results = in_parallel(lambda number: number**2, range(40), n_jobs=n_jobs, progress=lambda *step: steps.append(step))
    assert list(results) == [number**2 for number in range(40)]
    assert steps == [(number, 40) for number in range(1, 41)]
    assert list(in_parallel(str, [])) == []


def test_in_parallel_can_be_cancelled_by_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "INLINE_SECONDS", -1.0)
    finished: list[int] = []

    def stop_at_three(count: int, _total: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(in_parallel(finished.append, range(10_000), n_jobs=2, progress=stop_at_three))
    assert len(finished) < 10_000


def test_in_parallel_passes_on_the_error_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "INLINE_SECONDS", -1.0)
    with pytest.raises(ZeroDivisionError):
        list(in_parallel(lambda number: 1 // (number - 30), range(100), n_jobs=2))


def test_threads_are_all_that_may_change_what_a_function_captures() -> None:
    finished: list[int] = []
    with parallel_config(backend="loky", n_jobs=2):
        list(in_parallel(finished.append, range(5), shared_memory=True))
    assert sorted(finished) == list(range(5))


def test_pieces_are_whole_shards_in_order_and_large_enough(shards: Path) -> None:
    data = read(shards)
    pieces = data.pieces(1)
    assert [(piece.start, piece.n) for piece in pieces] == [(0, 700), (700, 5), (705, 795), (1500, 1400), (2900, 100)]
    assert [piece.n for piece in data.pieces(1000 * 12 * 4)] == [1500, 1400, 100]
    for piece in pieces:
        np.testing.assert_array_equal(array(piece.open()), X[piece.start : piece.start + piece.n])


def test_a_tree_merges_neighbours_in_order_and_keeps_few_of_them() -> None:
    merged: list[tuple[str, str]] = []

    def merge(first: str, second: str) -> str:
        merged.append((first, second))
        return first + second

    assert merge_tree("abcdefg", merge) == "abcdefg"
    assert merged[:3] == [("a", "b"), ("c", "d"), ("ab", "cd")]
    assert merge_tree(iter([5]), operator.add) == 5


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_a_fixed_sharding_gives_the_same_bits_on_any_number_of_workers(shards: Path, backend: str) -> None:
    def measured() -> tuple[list[float], np.ndarray, np.ndarray]:
        repair = ClusterRemoveDirections(4, 2).fit(read(shards))
        return values(read(shards)), repair.means_, repair.bases_

    alone = measured()
    for workers in (2, 3):
        with parallel_config(backend=backend, n_jobs=workers):
            for one, other in zip(alone, measured(), strict=True):
                np.testing.assert_array_equal(one, other)


def test_shards_measure_as_one_array_does(shards: Path) -> None:
    """In float64; the products of float32 rows are rounded block by block, and blocks end where shards end."""
    doubles = X.astype(np.float64)
    for number, (low, high) in enumerate(itertools.pairwise(BOUNDS)):
        np.save(shards / f"shard-{number}.npy", doubles[low:high])
    np.testing.assert_allclose(values(read(shards)), values(source(doubles)), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(k_means(read(shards), 5).centroids, k_means(doubles, 5).centroids, rtol=1e-10)
    labels = np.arange(len(X)) % 3
    for kind in (ClusterZeroMean, ClusterRemoveDirections):
        shard_fit, whole_fit = (kind(3).fit(data, labels=labels) for data in (read(shards), doubles))
        np.testing.assert_allclose(shard_fit.means_, whole_fit.means_, rtol=1e-10)
        np.testing.assert_allclose(kind(3).fit_transform(read(shards)), kind(3).fit_transform(doubles), atol=1e-10)


def test_a_folder_a_pattern_and_a_list_are_the_same_cloud(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shards)
    for name in (shards, f"{shards}/*.npy", "shard-?.npy", f"file://{shards}/shard-*.npy", sorted(shards.glob("*.npy"))):
        data = read(name)
        assert len(data.pieces(1)) == 5
        np.testing.assert_array_equal(array(data), X)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*\*\.parquet"):
        read(f"{shards}/*.parquet")


def test_shards_in_memory_are_read_in_this_process(shards: Path) -> None:
    system = fsspec.filesystem("memory")
    system.put(f"{shards}/", "/engines-test/", recursive=True)
    with parallel_config(backend="loky", n_jobs=2):  # no process but this one has them
        assert values(read("memory://engines-test/shard-*.npy"), ["iso_score"]) == values(
            read("memory://engines-test"), ["iso_score"]
        )


def test_a_fault_names_the_row_of_the_whole_cloud(shards: Path) -> None:
    broken = X[1500:2900].copy()
    broken[7, 3] = np.nan
    np.save(shards / "shard-4.npy", broken)
    with pytest.raises(ValueError, match="NaN at row 1507, column 3"):
        Moments.of(read(shards))


def test_shards_that_change_are_refused(shards: Path) -> None:
    data = read(shards)
    np.save(shards / "shard-2.npy", X[:10])
    with parallel_config(backend="threading", n_jobs=2), pytest.raises(ValueError, match="10 rows on the worker but 795"):
        Moments.of(data)


def test_progress_counts_all_rows_once(shards: Path) -> None:
    for workers in (None, 2):
        counts: list[int] = []
        with parallel_config(backend="threading", n_jobs=workers):
            Moments.of(read(shards).watched(counts.append))
        assert sum(counts) == len(X)


def test_rows_are_taken_by_the_workers(shards: Path) -> None:
    rows = np.array([0, 699, 700, 704, 1500, 2999])
    with parallel_config(backend="threading", n_jobs=2):
        np.testing.assert_array_equal(take_rows(read(shards), rows), X[rows])


def test_work_inside_a_worker_stays_on_its_cores(shards: Path) -> None:
    def processes(_: Source) -> set[int]:
        return {os.getpid(), *in_parallel(lambda _: os.getpid(), range(200), prefer="processes")}

    with chosen_engine(workers=2):
        seen = list(map_shards(processes, read(shards)))
    assert all(len(each) == 1 for each in seen) and os.getpid() not in functools.reduce(operator.or_, seen)


def test_wrong_choices_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="give only one"), chosen_engine(workers=2, engine="tcp://127.0.0.1:1"):
        pass
    with pytest.raises(ValueError, match="workers=0 must be at least 1"), chosen_engine(workers=0):
        pass


def test_a_worker_process_that_dies_is_one_sentence(shards: Path) -> None:
    def die(_: Source) -> None:
        os.kill(os.getpid(), 9)

    with chosen_engine(workers=2), pytest.raises(EngineError, match="a worker process was killed"):
        list(map_shards(die, read(shards)))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_interrupted_command_leaves_no_worker_and_no_file(tmp_path: Path) -> None:
    for number in range(4):
        np.save(tmp_path / f"shard-{number}.npy", np.random.default_rng(number).standard_normal((150_000, 256), dtype=np.float32))
    call = [sys.executable, "-m", "theodolite", "survey", "shard-*.npy", "--workers", "2", "--report", "page.html"]
    command = subprocess.Popen(
        call, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    workers: list[int] = []
    while len(workers) < 2 and command.poll() is None:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        found = [int(child) for child in children.read_text().split()] if children.exists() else []
        workers = [child for child in found if "loky" in Path(f"/proc/{child}/cmdline").read_text()]
        time.sleep(0.05)
    command.send_signal(signal.SIGINT)
    _, told = command.communicate(timeout=600)
    assert command.returncode == 130 and "interrupted" in told and "Traceback" not in told
    assert {path.suffix for path in tmp_path.iterdir()} == {".npy"}
    end = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < end:
        time.sleep(0.1)
    assert workers and not any(Path(f"/proc/{worker}").exists() for worker in workers)
