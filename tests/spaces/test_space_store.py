"""The space on disk: whole or absent, what is opened is what was written, and a killed writer goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theodolite.core import files
from theodolite.core.files import BusyError, Lock
from theodolite.core.vectors import array
from theodolite.spaces import Origin, Space, SpaceWriter, is_space, row_table
from theodolite.spaces.space_folder import FORMAT, StoredSpaceError, read_space, write_about

N, D, LAYERS = 50, 3, (0, 1, 7)
rng = np.random.default_rng(11)
X = {layer: rng.normal(size=(N, D)).astype(np.float32) for layer in LAYERS}
ROWS: dict[str, Any] = {
    "text": [f"sentence {i // 10}" for i in range(N)],
    "label": [None if i % 7 == 0 else "ñ" for i in range(N)],
    "word": list(range(N)),
    "gap": [None if i % 3 == 0 else i for i in range(N)],
    "frequency": [0.1 * i for i in range(N)],
}
ORIGIN = Origin(model="m", state="pre-trained", step=2, pooling="mean")
PARTS = [np.sort(part) if i % 2 else part for i, part in enumerate(np.array_split(rng.permutation(N), 7))]


def the_space() -> Space:
    return Space.of(X, rows=ROWS, origin=ORIGIN)


def writer(folder: Path, fingerprint: str = "f", **changed: Any) -> SpaceWriter:
    given = {"layers": LAYERS, "n": N, "d": D, "dtype": np.float32, "rows": ROWS, "origin": ORIGIN, **changed}
    return SpaceWriter(folder, fingerprint=fingerprint, **given)


def write_part(into: SpaceWriter, part: int, *, plus: float = 0) -> None:
    into.write(part, PARTS[part], {layer: X[layer][PARTS[part]] + np.float32(plus) for layer in LAYERS})


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def assert_same(found: Space, expected: Space) -> None:
    assert (found.layers, found.n, found.d, found.dtype) == (expected.layers, expected.n, expected.d, expected.dtype)
    assert found.origin == expected.origin
    for layer in expected.layers:
        np.testing.assert_array_equal(found[layer], expected[layer], strict=True)
    assert list(found.rows) == list(expected.rows)
    for name in expected.rows:
        assert list(found.rows[name]) == list(expected.rows[name])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# What is opened is what was written


def test_round_trip(tmp_path: Path) -> None:
    the_space().save(tmp_path / "s")
    assert is_space(tmp_path / "s") and not is_space(tmp_path)
    assert names(tmp_path) == ["s"]
    assert names(tmp_path / "s") == ["layer-00.npy", "layer-01.npy", "layer-07.npy", "rows.parquet", "space.json"]
    assert_same(Space.open(tmp_path / "s"), the_space())
    assert_same(Space.open(tmp_path / "s", verify=False), the_space())
    np.testing.assert_array_equal(np.load(tmp_path / "s" / "layer-07.npy"), X[7])  # others can read it


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_every_float_type_comes_back_bit_by_bit(tmp_path: Path, dtype: str) -> None:
    Y = rng.normal(size=(5, 2)).astype(dtype)
    Space.of({0: Y}).save(tmp_path / "s")
    found = Space.open(tmp_path / "s")
    np.testing.assert_array_equal(found[0], Y)
    assert found.dtype == np.dtype(dtype).newbyteorder("=") and dict(found.rows) == {}


def test_saving_what_was_opened_gives_the_same_bytes(tmp_path: Path) -> None:
    the_space().save(tmp_path / "a")
    Space.open(tmp_path / "a").save(tmp_path / "b")
    Space.open(tmp_path / "b").save(tmp_path / "b", overwrite=True)  # over itself, while it is mapped
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_layers_are_mapped_and_read_only(tmp_path: Path) -> None:
    the_space().save(tmp_path / "s")
    layer = Space.open(tmp_path / "s")[-1]
    assert isinstance(layer.base, np.memmap) and type(layer[[0, 2]]) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        layer[0] = 0


def test_a_save_in_many_parts_and_row_groups_is_the_same_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.spaces.space.PART_BYTES", 7 * D * 4 * len(LAYERS))
    monkeypatch.setattr(row_table, "BATCH", 8)
    the_space().save(tmp_path / "s")
    assert_same(Space.open(tmp_path / "s"), the_space())


def test_stored_columns_are_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_table, "BATCH", 8)
    the_space().save(tmp_path / "s")
    rows = Space.open(tmp_path / "s").rows
    for name in ("text", "label", "gap"):
        column, plain = rows[name], ROWS[name]
        assert len(column) == N and column[0] == plain[0] and column[-1] == plain[-1] and column[np.int64(9)] == plain[9]
        assert column[5:21] == plain[5:21] and column[::-3] == plain[::-3] and column[40:30] == []
        with pytest.raises(IndexError):
            column[N]
    assert np.asarray(rows["text"]).tolist() == ROWS["text"]
    assert np.asarray(rows["gap"]).tolist() == ROWS["gap"]
    assert rows["word"].dtype == np.int64 and rows["frequency"].dtype == np.float64  # type: ignore[attr-defined]
    with pytest.raises(KeyError, match="no column 'txt'; there are text, label"):
        rows["txt"]


def test_repeated_strings_are_kept_once(tmp_path: Path) -> None:
    texts = ["a rather long sentence " * 20] * 1000
    Space.of({0: np.zeros((1000, 1))}, rows={"text": texts}).save(tmp_path / "s")
    assert len({id(text) for text in Space.open(tmp_path / "s").rows["text"]}) == 1
    assert (tmp_path / "s" / "rows.parquet").stat().st_size < 10_000


# What is not whole is not opened


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    the_space().save(tmp_path / "s")
    return tmp_path / "s"


@pytest.mark.parametrize("name", ["layer-00.npy", "layer-07.npy", "rows.parquet"])
@pytest.mark.parametrize("verify", [True, False])
def test_a_missing_or_cut_file(stored: Path, name: str, verify: bool) -> None:
    content = (stored / name).read_bytes()
    (stored / name).write_bytes(content[:-1])
    with pytest.raises(StoredSpaceError, match=rf"{name} is cut short: it has .* bytes, written were"):
        Space.open(stored, verify=verify)
    (stored / name).write_bytes(content + b"x")
    with pytest.raises(StoredSpaceError, match=f"{name} is too long"):
        Space.open(stored, verify=verify)
    (stored / name).unlink()
    with pytest.raises(StoredSpaceError, match=f"has no {name}, which space.json lists"):
        Space.open(stored, verify=verify)


@pytest.mark.parametrize("name", ["layer-00.npy", "layer-07.npy", "rows.parquet"])
def test_one_changed_bit_is_found(stored: Path, name: str) -> None:
    content = bytearray((stored / name).read_bytes())
    content[len(content) // 2] ^= 1
    (stored / name).write_bytes(content)
    with pytest.raises(StoredSpaceError, match=f"{name} has SHA-256 .* its bytes were changed"):
        Space.open(stored)
    assert Space.open(stored, verify=False).n == N  # the way out, for who knows why


def edit(folder: Path, **changed: Any) -> None:
    path = folder / "space.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_a_changed_description(stored: Path) -> None:
    edit(stored, origin={"model": "another"})
    with pytest.raises(StoredSpaceError, match="was changed after it was written"):
        Space.open(stored)
    assert Space.open(stored, verify=False).origin.model == "another"


def test_a_newer_format_says_what_to_do(stored: Path) -> None:
    edit(stored, format=FORMAT + 1, layers="something else altogether")
    with pytest.raises(
        StoredSpaceError, match=f"format {FORMAT + 1}, this version of theodolite reads up to {FORMAT}: pip install"
    ):
        Space.open(stored)


@pytest.mark.parametrize(
    "changed",
    [
        {"format": None},
        {"format": "1"},
        {"layers": [0, 1]},
        {"layers": []},
        {"n": N + 1},
        {"d": D + 1},
        {"dtype": "float64"},
        {"origin": {"no such": 1}},
        {"files": {"../x": {"bytes": 1, "sha256": ""}}},
        {"files": []},
    ],
)
def test_descriptions_that_do_not_fit(stored: Path, changed: dict[str, Any]) -> None:
    edit(stored, **changed)
    with pytest.raises(StoredSpaceError, match=r"space\.json"):
        Space.open(stored, verify=False)


def test_a_description_that_is_no_json(stored: Path) -> None:
    (stored / "space.json").write_text('{"format": 1')
    with pytest.raises(StoredSpaceError, match="is not JSON"):
        Space.open(stored)


@pytest.mark.parametrize("rows", [N - 1, N + 1])
def test_rows_of_another_length_than_the_layers(stored: Path, rows: int) -> None:
    row_table.write_row_table({"word": np.arange(rows)}, rows, stored / "rows.parquet")
    write_about(stored, layers=LAYERS, n=N, d=D, dtype=np.dtype("f4"), origin=ORIGIN)  # all hashes are right
    with pytest.raises(StoredSpaceError, match=rf"rows.parquet has {rows} rows, the layers have n={N}"):
        Space.open(stored)


def test_a_layer_of_another_shape(stored: Path) -> None:
    np.save(stored / "layer-01.npy", X[1][:-1])
    write_about(stored, layers=LAYERS, n=N, d=D, dtype=np.dtype("f4"), origin=ORIGIN)
    with pytest.raises(StoredSpaceError, match=r"layer-01.npy holds \(49, 3\) float32, space.json says \(50, 3\) float32"):
        Space.open(stored)


def test_no_space_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(FileNotFoundError, match=r"holds no space: there is no space\.json in it"):
            Space.open(place)


# One layer as a source


def test_one_layer_by_its_number(stored: Path) -> None:
    for layer in LAYERS:
        np.testing.assert_array_equal(array(read_space(stored, key=str(layer))), X[layer])
    with pytest.raises(ValueError, match=r"is a space of 3 layers, say which with key= \(--key\): 0, 1, 7"):
        read_space(stored, key=None)
    with pytest.raises(ValueError, match="has no layer '2'; it has 0, 1, 7"):
        read_space(stored, key="2")


def test_the_only_layer_needs_no_number(tmp_path: Path) -> None:
    Space.of({4: X[0]}).save(tmp_path / "s")
    np.testing.assert_array_equal(array(read_space(tmp_path / "s", key=None)), X[0])


def test_a_layer_is_checked_when_it_is_read(stored: Path) -> None:
    content = bytearray((stored / "layer-01.npy").read_bytes())
    content[-1] ^= 1
    (stored / "layer-01.npy").write_bytes(content)
    with pytest.raises(StoredSpaceError, match="its bytes were changed"):
        read_space(stored, key="1")
    np.testing.assert_array_equal(array(read_space(stored, key="0")), X[0])


# Replacing


def test_nothing_is_overwritten_unasked(stored: Path) -> None:
    before = digests(stored)
    with pytest.raises(FileExistsError, match="exists already; choose another name, or say overwrite=True"):
        Space.of({0: X[0]}).save(stored)
    assert digests(stored) == before
    Space.of({0: X[0] + 1}).save(stored, overwrite=True)
    np.testing.assert_array_equal(Space.open(stored)[0], X[0] + 1)
    assert names(stored) == ["layer-00.npy", "space.json"] and names(stored.parent) == ["s"]


def test_a_folder_that_is_no_space_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(FileExistsError, match="is no space"):
        the_space().save(tmp_path / "photos", overwrite=True)
    assert names(tmp_path) == ["photos"] and names(tmp_path / "photos") == ["cat.jpg"]


def test_a_failed_save_leaves_what_was_there(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(stored)

    def failing(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("theodolite.spaces.store.write_about", failing)
    with pytest.raises(OSError, match="no space left"):
        Space.of({0: X[0]}).save(stored, overwrite=True)
    assert digests(stored) == before and names(stored.parent) == ["s"]


def test_a_crash_between_the_two_renames_loses_nothing(stored: Path) -> None:
    before = digests(stored)
    stored.rename(files.set_aside(stored))
    with pytest.raises(FileExistsError):
        Space.of({0: X[0]}).save(stored)
    assert digests(stored) == before and names(stored.parent) == ["s"]


def test_more_than_the_disk_holds_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"needs .* GB, .* GB are free there"):
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
    ("part", "at", "change", "said"),
    [
        (0, [0], {}, "part 0 was written already"),
        (1, [PARTS[0][2]], {}, f"row {PARTS[0][2]} was written by another part"),
        (1, [PARTS[1][0]] * 2, {}, "part 1 has a row twice"),
        (1, [N], {}, f"row {N} is out of range; there are n={N} rows"),
        (1, [-1], {}, "row -1 is out of range"),
        (1, [[PARTS[1][0]]], {}, "a list of row numbers"),
        (1, [PARTS[1][0]], {7: None}, r"part 1 has layers \[0, 1\]"),
        (1, [PARTS[1][0]], {2: np.ones((1, D))}, r"part 1 has layers \[0, 1, 2, 7\]"),
        (1, [PARTS[1][0]], {7: np.ones((1, D + 1))}, r"layer 7 has shape \(1, 4\); expected are 1 rows of d=3"),
        (1, [PARTS[1][0]], {7: np.ones((2, D))}, r"layer 7 has shape \(2, 3\)"),
    ],
)
def test_wrong_parts_change_nothing(tmp_path: Path, part: int, at: list[int], change: dict[int, Any], said: str) -> None:
    with writer(tmp_path / "s") as into:
        write_part(into, 0)
        blocks = {layer: np.full((len(at), D), 9.0) for layer in LAYERS}
        blocks = {layer: block for layer, block in {**blocks, **change}.items() if block is not None}
        with pytest.raises(ValueError, match=said):
            into.write(part, np.array(at), blocks)
        for rest in range(1, 7):
            write_part(into, rest)
        assert_same(into.finish(), the_space())


@pytest.mark.parametrize(
    ("change", "said"), [({"n": 0}, "n=0"), ({"d": 0}, "d=0"), ({"dtype": int}, "dtype=int64"), ({"layers": [1, 1]}, "twice")]
)
def test_wrong_shapes(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        writer(tmp_path / "s", **{"rows": None, **change})
    assert names(tmp_path) == []


def test_a_closed_writer_writes_no_more(tmp_path: Path) -> None:
    into = writer(tmp_path / "s")
    into.close()
    with pytest.raises(ValueError, match="is closed"):
        write_part(into, 0)
    with pytest.raises(ValueError, match="is closed"):
        into.finish()


def test_discard_leaves_nothing(tmp_path: Path) -> None:
    into = writer(tmp_path / "s")
    write_part(into, 0)
    into.discard()
    assert names(tmp_path) == []


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
    "changed",
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
def test_anything_else_starts_afresh_and_nothing_is_mixed(tmp_path: Path, changed: dict[str, Any]) -> None:
    with writer(tmp_path / "s", **changed) as into:
        into.write(0, PARTS[0], {layer: np.full((len(PARTS[0]), into.d), 99.0) for layer in into.layers})
    with writer(tmp_path / "s") as into:
        assert into.done == frozenset()
        for file in into.partial.glob("*.npy"):
            assert not np.load(file).any()
        for part in range(7):
            write_part(into, part)
        assert_same(into.finish(), the_space())
    assert names(tmp_path) == ["s"] and len(names(tmp_path / "s")) == 5


def test_half_a_line_in_the_journal_is_work_not_done(tmp_path: Path) -> None:
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


def test_the_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with writer(tmp_path / "s") as into:
        write_part(into, 0)
        with pytest.raises(BusyError, match=f"process {os.getpid()} is writing to .*s; wait"):
            writer(tmp_path / "s")
        with pytest.raises(BusyError):
            the_space().save(tmp_path / "s")
        writer(tmp_path / "other").discard()
        assert into.done == {0}
        write_part(into, 1)
    writer(tmp_path / "s").discard()


def test_another_process_is_refused_too(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from theodolite.core.files import Lock; Lock(Path({str(tmp_path / 's')!r}))"
    lock = Lock(tmp_path / "s")
    refused = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert f"BusyError: process {os.getpid()} is writing" in refused.stderr
    lock.release()
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_lock_file_without_a_living_holder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".s.lock").write_text("999999999\n")
    writer(tmp_path / "s").discard()
    assert names(tmp_path) == []


def test_a_dropped_writer_holds_no_lock(tmp_path: Path) -> None:
    writer(tmp_path / "s")
    writer(tmp_path / "s").discard()


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
            store.journal.append = die  # the vectors are written, the journal does not know
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
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
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
def test_kill_9_and_go_on_is_the_unbroken_run_bit_by_bit(
    tmp_path: Path, unbroken: dict[str, str], parts: int, place: str, kept: int
) -> None:
    assert run(tmp_path / "s", parts, place) == (-signal.SIGKILL, [])
    assert not (tmp_path / "s").exists()
    assert run(tmp_path / "s", 99, "never") == (0, list(range(kept)))
    assert digests(tmp_path / "s") == unbroken
    assert names(tmp_path) == ["s"]
    Space.open(tmp_path / "s")


def test_killed_again_and_again(tmp_path: Path, unbroken: dict[str, str]) -> None:
    for kept in (0, 3, 6):
        assert run(tmp_path / "s", 3, "data") == ((-signal.SIGKILL, list(range(kept))) if kept < 6 else (0, list(range(6))))
    assert digests(tmp_path / "s") == unbroken


def test_killed_right_after_the_rename_the_space_is_there(tmp_path: Path, unbroken: dict[str, str]) -> None:
    assert run(tmp_path / "s", 99, "rename")[0] == -signal.SIGKILL
    assert Space.open(tmp_path / "s").n == 40
    assert {name: digest for name, digest in digests(tmp_path / "s").items() if name != ".journal"} == unbroken
    assert run(tmp_path / "s", 99, "never") == (0, [])  # asked to overwrite it
    assert digests(tmp_path / "s") == unbroken and names(tmp_path) == ["s"]
