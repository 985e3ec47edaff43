"""Writing part by part: whole or absent, by one writer at a time, and continued bit by bit after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theodolite.core.files import BusyError, Lock
from theodolite.spaces import Origin, Space, SpaceWriter, is_space
from theodolite.spaces.store import _append_record, _recover_records, _runs_of

from .sample_space import LAYERS, ORIGIN, ROWS, D, N, X, assert_same, digests, names, the_space

PARTS = [np.sort(part) if i % 2 else part for i, part in enumerate(np.array_split(np.random.default_rng(2).permutation(N), 7))]


def writer(folder: Path, fingerprint: str = "f", **changes: Any) -> SpaceWriter:
    options = {"layers": LAYERS, "n": N, "d": D, "dtype": np.float32, "rows": ROWS, "origin": ORIGIN, **changes}
    return SpaceWriter(folder, fingerprint=fingerprint, **options)


def write_part(into: SpaceWriter, part: int) -> None:
    into.write(part, PARTS[part], {layer: X[layer][PARTS[part]] for layer in LAYERS})


def test_a_space_larger_than_the_disk_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"needs .* GB, but only .* GB are free"):
        writer(tmp_path / "s", n=2**22, d=2**40, rows=None)
    assert not is_space(tmp_path / "s")


# Part by part


def test_parts_in_any_order_make_the_space(tmp_path: Path) -> None:
    with writer(tmp_path / "deep" / "s") as into:
        for part in (3, 0, 6, 1, 2, 5, 4):
            assert not (tmp_path / "deep" / "s").exists()
            write_part(into, part)
        assert into.done == frozenset(range(7))
        assert_same(into.finish(), the_space())
    the_space().save(tmp_path / "whole")
    assert digests(tmp_path / "deep" / "s") == digests(tmp_path / "whole")
    assert names(tmp_path / "deep") == ["s"]


def test_an_empty_part_counts_as_done(tmp_path: Path) -> None:
    with writer(tmp_path / "s", n=1, rows=None) as into:
        into.write(0, np.array([], np.intp), {layer: np.empty((0, D)) for layer in LAYERS})
        into.write(1, np.array([0]), {layer: np.ones((1, D)) for layer in LAYERS})
        assert into.done == {0, 1} and into.finish()[0].tolist() == [[1, 1, 1]]


def test_what_is_not_complete_is_not_finished(tmp_path: Path) -> None:
    with writer(tmp_path / "s") as into:
        write_part(into, 0)
        missing = min(set(range(N)) - set(PARTS[0].tolist()))
        with pytest.raises(
            ValueError, match=f"{N - len(PARTS[0])} of n={N} rows were never written, the first is row {missing};"
        ):
            into.finish()
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("part", "at", "change", "fault"),
    [
        (0, [0], {}, "part 0 was written already"),
        (1, [PARTS[0][2]], {}, f"row {PARTS[0][2]} was written by another part"),
        (1, [PARTS[1][0]] * 2, {}, "part 1 has a row twice"),
        (1, [N], {}, f"row {N} is out of range; there are n={N} rows"),
        (1, [-1], {}, "row -1 is out of range"),
        (1, [[PARTS[1][0]]], {}, "a list of row numbers"),
        (1, [PARTS[1][0]], {7: None}, r"part 1 has layers \[0, 1\]"),
        (1, [PARTS[1][0]], {2: np.ones((1, D))}, r"part 1 has layers \[0, 1, 2, 7\]"),
        (1, [PARTS[1][0]], {7: np.ones((1, D + 1))}, r"layer 7 has shape \(1, 4\); it must be \(1, d=3\)"),
        (1, [PARTS[1][0]], {7: np.ones((2, D))}, r"layer 7 has shape \(2, 3\)"),
    ],
)
def test_wrong_parts_change_nothing(tmp_path: Path, part: int, at: list[int], change: dict[int, Any], fault: str) -> None:
    with writer(tmp_path / "s") as into:
        write_part(into, 0)
        blocks = {layer: np.full((len(at), D), 9.0) for layer in LAYERS}
        blocks = {layer: block for layer, block in {**blocks, **change}.items() if block is not None}
        with pytest.raises(ValueError, match=fault):
            into.write(part, np.array(at), blocks)
        for rest in range(1, 7):
            write_part(into, rest)
        assert_same(into.finish(), the_space())


@pytest.mark.parametrize(
    ("change", "fault"), [({"n": 0}, "n=0"), ({"d": 0}, "d=0"), ({"dtype": int}, "dtype=int64"), ({"layers": [1, 1]}, "twice")]
)
def test_wrong_shapes(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        writer(tmp_path / "s", **{"rows": None, **change})
    assert names(tmp_path) == []


def test_a_closed_writer_refuses_to_write(tmp_path: Path) -> None:
    into = writer(tmp_path / "s")
    into.close()
    with pytest.raises(ValueError, match="is closed"):
        write_part(into, 0)
    with pytest.raises(ValueError, match="is closed"):
        into.finish()


# Continuing


def test_the_same_fingerprint_continues(tmp_path: Path) -> None:
    with writer(tmp_path / "s") as into:
        write_part(into, 2)
        write_part(into, 4)
    with writer(tmp_path / "s") as into:
        assert into.done == {2, 4}
        for part in set(range(7)) - into.done:
            write_part(into, part)
        assert_same(into.finish(), the_space())


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "another model"},
        {"layers": (0, 1, 8)},
        {"n": N + 1, "rows": None},
        {"d": D + 1},
        {"dtype": np.float64},
        {"rows": {**ROWS, "text": ["other"] * N}},
        {"rows": None},
        {"origin": Origin(model="other")},
    ],
)
def test_anything_else_starts_again_and_nothing_is_mixed(tmp_path: Path, changes: dict[str, Any]) -> None:
    with writer(tmp_path / "s", **changes) as into:
        into.write(0, PARTS[0], {layer: np.full((len(PARTS[0]), into.d), 99.0) for layer in into.layers})
    with writer(tmp_path / "s") as into:
        assert into.done == frozenset()
        for file in into.partial.glob("*.npy"):
            assert not np.load(file).any()
        for part in range(7):
            write_part(into, part)
        assert_same(into.finish(), the_space())
    assert names(tmp_path) == ["s"] and len(names(tmp_path / "s")) == 5


def test_half_a_line_in_the_journal_does_not_count(tmp_path: Path) -> None:
    with writer(tmp_path / "s") as into:
        for part in range(3):
            write_part(into, part)
        journal = into.partial / ".journal"
    whole = journal.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for cut in (1, 2, len(last) // 2, len(last) - 1):
        journal.write_bytes(whole[:-cut])
        with writer(tmp_path / "s") as into:
            assert into.done == {0, 1}
    with writer(tmp_path / "s") as into:
        for part in range(2, 7):
            write_part(into, part)
    with writer(tmp_path / "s") as into:  # the line after the cut one is whole
        assert into.done == frozenset(range(7))
        assert_same(into.finish(), the_space())


def test_a_broken_line_ends_the_journal(tmp_path: Path) -> None:
    with writer(tmp_path / "s") as into:
        for part in range(3):
            write_part(into, part)
        journal = into.partial / ".journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b"\0" * 20 + b"\n", *lines[3:]]))
    with writer(tmp_path / "s") as into:
        assert into.done == {0}


def test_a_journal_does_not_vouch_for_files_that_are_gone(tmp_path: Path) -> None:
    with writer(tmp_path / "s") as into:
        write_part(into, 0)
        (into.partial / "layer-01.npy").unlink()
    with writer(tmp_path / "s") as into:
        assert into.done == frozenset()


# One writer at a time


@pytest.mark.slow
def test_the_error_of_a_second_writer_names_the_first(tmp_path: Path) -> None:
    with writer(tmp_path / "s") as into:
        write_part(into, 0)
        with pytest.raises(BusyError, match=f"process {os.getpid()} is writing to .*s; wait"):
            writer(tmp_path / "s")
        with pytest.raises(BusyError):
            the_space().save(tmp_path / "s")
        writer(tmp_path / "other").close()
        assert into.done == {0}
        write_part(into, 1)
    writer(tmp_path / "s").close()


def test_another_process_is_refused_too(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from theodolite.core.files import Lock; Lock(Path({str(tmp_path / 's')!r}))"
    lock = Lock(tmp_path / "s")
    refused = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert f"BusyError: process {os.getpid()} is writing" in refused.stderr
    lock.release()
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


def test_a_lock_file_without_a_living_holder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".s.lock").write_text("999999999\n")
    writer(tmp_path / "s").close()
    assert names(tmp_path) == [".s.partial"]


def test_a_dropped_writer_releases_its_lock(tmp_path: Path) -> None:
    writer(tmp_path / "s")
    writer(tmp_path / "s").close()


# Runs of rows, and the journal


def test_runs_cover_the_rows() -> None:
    rows = np.flatnonzero(np.random.default_rng(2).random(50) < 0.6)
    runs = _runs_of(rows)
    assert [row for start, stop in runs for row in range(start, stop)] == rows.tolist()
    assert all(stop < start for (_, stop), (start, _) in pairwise(runs))
    assert _runs_of(np.array([], np.intp)) == []


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b'{"part": 3',
        b'{"part": 3}',
        b'[3]\n{"part": 4}\n',
        b'\0\0\n{"part": 4}\n',
        b'{"part": 3}\n',
        b'{"part": 3, "runs": 5}\n',
        b'{"part": 3, "runs": [[0, "x"]]}\n',
        b'{"part": [], "runs": [[0, 1]]}\n',
    ],
)
def test_a_journal_ends_before_the_first_line_that_is_not_a_complete_record(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "journal"
    assert _recover_records(path) == []
    records = [{"part": part, "runs": [[0, part]]} for part in range(3)]
    for record in records:
        _append_record(path, record)
    complete = path.read_bytes()
    path.write_bytes(complete + tail)
    assert _recover_records(path) == records
    assert path.read_bytes() == complete  # so that the next record does not continue half a line


# Killed

SCRIPT = """
import os, sys
import numpy as np
from theodolite.core.vectors import array
from theodolite.spaces import Origin, SpaceWriter, store

folder, parts, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
n, d, layers = 40, 5, (0, 3)

def die(*_, **__):
    os.kill(os.getpid(), 9)

def block(part, layer, at):
    return np.random.default_rng([part, layer]).normal(size=(len(at), d)).astype(np.float32)

rows = {"text": [str(i) for i in range(n)], "label": list(range(n))}
origin = Origin(model="m")
with SpaceWriter(folder, layers=layers, n=n, d=d, rows=rows, origin=origin, fingerprint="x", overwrite=True) as writer:
    print(*sorted(writer.done), flush=True)
    written = 0
    for part, at in enumerate(np.array_split(np.random.default_rng(0).permutation(n), 8)):
        if part in writer.done:
            continue
        if written == parts and place == "data":
            store._append_record = die  # the vectors are written, the journal does not know
        if written == parts and place == "part":
            die()
        writer.write(part, at, {layer: block(part, layer, at) for layer in layers})
        written += 1
    if place in ("write_about", "replace_folder"):
        setattr(store, place, die)
    if place == "rename":
        from theodolite.core import files
        # The first sync after the folder has its name.
        files.sync = lambda path: die() if os.path.exists(f"{folder}/space.json") else None
    writer.finish()
"""


def run(folder: Path, parts: int, place: str) -> tuple[int, list[int]]:
    command = [sys.executable, "-c", SCRIPT, str(folder), str(parts), place]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, [int(part) for part in done.stdout.split()]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("unbroken") / "s"
    assert run(folder, 99, "never") == (0, [])
    return digests(folder)


@pytest.mark.parametrize(
    ("parts", "place", "kept"),
    [(3, "part", 3), (3, "data", 3), (99, "write_about", 8), (99, "replace_folder", 8)],
)
def test_continued_after_kill_9_the_files_equal_those_of_an_unbroken_run(
    tmp_path: Path, unbroken: dict[str, str], parts: int, place: str, kept: int
) -> None:
    assert run(tmp_path / "s", parts, place) == (-signal.SIGKILL, [])
    assert not (tmp_path / "s").exists()
    assert run(tmp_path / "s", 99, "never") == (0, list(range(kept)))
    assert digests(tmp_path / "s") == unbroken
    assert names(tmp_path) == ["s"]
    Space.open(tmp_path / "s")


@pytest.mark.slow
def test_a_writer_may_be_killed_several_times(tmp_path: Path, unbroken: dict[str, str]) -> None:
    for kept in (0, 3, 6):
        assert run(tmp_path / "s", 3, "data") == ((-signal.SIGKILL, list(range(kept))) if kept < 6 else (0, list(range(6))))
    assert digests(tmp_path / "s") == unbroken


def test_killed_right_after_the_rename_the_space_is_complete(tmp_path: Path, unbroken: dict[str, str]) -> None:
    assert run(tmp_path / "s", 99, "rename")[0] == -signal.SIGKILL
    assert Space.open(tmp_path / "s").n == 40
    assert {name: digest for name, digest in digests(tmp_path / "s").items() if name != ".journal"} == unbroken
    assert run(tmp_path / "s", 99, "never") == (0, [])  # asked to overwrite it
    assert digests(tmp_path / "s") == unbroken and names(tmp_path) == ["s"]


def test_unfinished_layers_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".s.partial").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError, match=r"\.s\.partial is a link"):
        SpaceWriter(tmp_path / "s", layers=[0], n=2, d=2, fingerprint="x")
    assert names(tmp_path / "elsewhere") == []
