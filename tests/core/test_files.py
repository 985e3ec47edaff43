"""Files and folders are whole or absent, are replaced only on request, and have one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from theodolite.core import files
from theodolite.core.files import (
    BusyError,
    Lock,
    Marker,
    atomic_file,
    atomic_files,
    atomic_folder,
    backup_path,
    hidden,
    natural_key,
    recover_files,
    recover_folder,
    recover_interrupted_replace,
    replace_folder,
    require_free,
    require_free_folder,
    require_outside,
    sha256_of,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def full_disk(*_: Any) -> None:
    raise OSError("no space left")


@pytest.mark.parametrize(
    "ordered",
    [
        ["shard-2", "shard-10", "shard-100"],
        ["1", "1a", "2", "a", "a1", "a²", "b"],
        ["layer_1_part_9", "layer_1_part_10", "layer_2_part_1"],
        ["", "x"],
    ],
)
def test_natural_order_counts_numbers_by_value(ordered: list[str]) -> None:
    shuffled = ordered[::-1]
    assert sorted(shuffled, key=natural_key) == ordered


@pytest.mark.parametrize("size", [0, 1, 2**18 - 1, 2**18, 2**21 + 17])
def test_the_hash_is_that_of_the_whole_file(tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "x").write_bytes(content[:size])
    assert sha256_of(tmp_path / "x") == hashlib.sha256(content[:size]).hexdigest()


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_file(path) as partial:
        partial.write_text("half")
        assert not path.exists()
        assert partial.parent == tmp_path
    assert path.read_text() == "half"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_failed_write_leaves_the_old_file_or_none(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "a.txt"
    if exists:
        path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as partial:
        partial.write_text(f"new {1 / 0}")
    assert names(tmp_path) == (["a.txt"] if exists else [])
    assert not exists or path.read_text() == "old"


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(FileExistsError, match="exists already; choose another name, or replace it with overwrite=True"):
        write_text(path, "new", overwrite=False)
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"


def test_a_file_needs_a_folder_and_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        require_free(tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere to write a\.txt into"):
        require_free(tmp_path / "nowhere" / "a.txt")
    assert require_free(str(tmp_path / "a.txt")) == tmp_path / "a.txt"


def test_text_is_utf8_with_plain_line_ends_and_json_is_readable(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "ü\nß")
    assert (tmp_path / "a.txt").read_bytes() == "ü\nß".encode()
    write_json(tmp_path / "a.json", {"name": "ü", "values": [1, None]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"name": "ü", "values": [1, None]}
    assert "ü" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "folder"
    with atomic_folder(target) as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "x").write_text("1")
        assert not target.exists()
    assert (target / "inner" / "x").read_text() == "1"
    assert names(target.parent) == ["folder"]


def test_a_folder_is_readable_by_those_whom_the_umask_allows(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with atomic_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


@pytest.mark.parametrize("exists", [False, True])
def test_a_failed_folder_leaves_the_old_one_or_none(tmp_path: Path, exists: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "folder"
    if exists:
        with atomic_folder(target) as partial:
            (partial / "x").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(target, overwrite=True) as partial:
        raise RuntimeError
    monkeypatch.setattr(files, "sync", full_disk)
    with pytest.raises(OSError, match="no space left"), atomic_folder(target, overwrite=True) as partial:
        (partial / "x").write_text("new")
    assert names(tmp_path) == (["folder"] if exists else [])
    assert not exists or (target / "x").read_text() == "old"


def test_a_folder_is_replaced_whole_and_only_on_request(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with atomic_folder(target) as partial:
        (partial / "old").write_text("1")
    with pytest.raises(FileExistsError, match="exists already; choose another folder"), atomic_folder(target):
        pytest.fail("the block must not run")
    with atomic_folder(target, overwrite=True) as partial:
        (partial / "new").write_text("2")
    assert names(target) == ["new"]
    assert names(tmp_path) == ["folder"]


def test_a_folder_without_the_marker_is_never_replaced(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.txt").write_text("all of it")
    marker = Marker("space.json", "extract")
    foreign = [
        None,
        "{}",
        "[1]",
        "rubbish",
        '{"format": 1}',
        '{"format": 1, "verb": "tune"}',
        '{"format": true, "verb": "extract"}',
    ]
    for content in foreign:
        if content is not None:
            (thesis / "space.json").write_text(content)
        with pytest.raises(FileExistsError, match=r"does not contain a space\.json of the verb extract, so it is not replaced"):
            require_free_folder(thesis, overwrite=True, marker=marker)
        with pytest.raises(FileExistsError), atomic_folder(thesis, overwrite=True, marker=marker):
            pytest.fail("the block must not run")
    (thesis / "space.json").write_text(json.dumps({**marker.about, "more": 1}))
    assert require_free_folder(thesis, overwrite=True, marker=marker) == thesis


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_what_is_not_a_folder_is_never_replaced_by_one(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    path.write_text("1") if kind == "file" else path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="is not a folder, so it is not replaced"), atomic_folder(path, overwrite=True):
        pytest.fail("the block must not run")
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("new_is_in_place", [False, True])
def test_a_crash_during_a_replacement_is_undone(tmp_path: Path, new_is_in_place: bool) -> None:
    target = tmp_path / "folder"
    backup_path(target).mkdir()
    (backup_path(target) / "x").write_text("old")
    if new_is_in_place:
        target.mkdir()
        (target / "x").write_text("new")
    recover_interrupted_replace(target)
    assert names(tmp_path) == ["folder"]
    assert (target / "x").read_text() == ("new" if new_is_in_place else "old")
    recover_interrupted_replace(target)  # with nothing to undo
    assert names(tmp_path) == ["folder"]


def test_a_crash_between_the_two_renames_is_undone_by_the_next_reader_or_writer(tmp_path: Path) -> None:
    target, marker = tmp_path / "folder", Marker("x", "extract")
    with atomic_folder(target, marker=marker) as partial:
        (partial / "x").write_text(json.dumps(marker.about))
    target.rename(backup_path(target))
    recover_folder(target)
    assert names(tmp_path) == ["folder"]
    target.rename(backup_path(target))
    with pytest.raises(FileExistsError, match="exists already"):
        require_free_folder(target)
    target.rename(backup_path(target))
    hidden(target, "new").mkdir()  # what the killed process wrote
    with atomic_folder(target, marker=marker, overwrite=True) as partial:
        (partial / "y").write_text("new")
    assert names(tmp_path) == ["folder"] and names(target) == ["y"]


def test_what_is_deleted_by_half_is_never_restored(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    hidden(target, "rubbish").mkdir()
    recover_folder(target)
    assert not target.exists()
    with atomic_folder(target):
        pass
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_several_files_are_all_new_or_all_old(tmp_path: Path, moved: int) -> None:
    for name in ("a", "about", "mine"):
        (tmp_path / name).write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_files(tmp_path, "about") as partial:
        (partial / "a").write_text(f"new {1 / 0}")
    recover_files(tmp_path, "about")
    assert [(tmp_path / name).read_text() for name in ("a", "about", "mine")] == ["old"] * 3
    # A process completed two files, and was killed after it had moved some of them.
    complete = hidden(tmp_path / "about", "complete")
    complete.mkdir()
    for name in ("a", "about")[moved:]:
        (complete / name).write_text("new")
    for name in ("a", "about")[:moved]:
        (tmp_path / name).write_text("new")
    recover_files(tmp_path, "about")
    assert [(tmp_path / name).read_text() for name in ("a", "about", "mine")] == ["new", "new", "old"]
    assert names(tmp_path) == ["a", "about", "mine"]


def test_what_is_read_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    for source in (tmp_path / "run", tmp_path / "run" / "model"):
        with pytest.raises(ValueError, match=r"cannot be replaced, because .* in it is still needed"):
            require_outside(tmp_path / "run", source)
    for source in (tmp_path, tmp_path / "run" / "on-the-hub", "bert-base-uncased", None):
        require_outside(tmp_path / "run", source)


def test_the_old_folder_is_put_back_if_the_new_one_cannot_be_moved(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "missing", tmp_path / "folder")
    assert names(tmp_path) == ["folder"]


def test_a_second_writer_is_refused_and_told_who_holds_the_lock(tmp_path: Path) -> None:
    target = tmp_path / "space"
    with Lock(target) as lock:
        with pytest.raises(BusyError, match=f"process {os.getpid()} is writing to .*space; wait until it ends"):
            Lock(target)
        assert names(tmp_path) == [".space.lock"]
    assert names(tmp_path) == []
    lock.release()  # a second time
    with Lock(target):
        pass


def test_a_writer_waits_for_another_that_takes_moments(tmp_path: Path) -> None:
    first = Lock(tmp_path / "rows.json")
    threading.Timer(0.3, first.release).start()
    write_text(tmp_path / "rows.json", "second")
    assert not first.held
    assert names(tmp_path) == ["rows.json"]


@pytest.mark.parametrize("writer", [atomic_file, atomic_folder])
def test_a_writer_that_waits_in_vain_says_for_whom(tmp_path: Path, writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WAIT", 0.1)
    with Lock(tmp_path / "x"), pytest.raises(BusyError, match=f"process {os.getpid()} is writing to .*x"), writer(tmp_path / "x"):
        pytest.fail("the block must not run")


def test_a_file_is_written_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def unsupported(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    write_text(tmp_path / "a.txt", "whole all the same")
    assert names(tmp_path) == ["a.txt"]


def test_the_lock_of_a_process_that_died_is_free(tmp_path: Path) -> None:
    target = tmp_path / "space"
    code = (
        "import os, sys; from pathlib import Path; from theodolite.core.files import Lock; Lock(Path(sys.argv[1])); os._exit(7)"
    )
    process = subprocess.run([sys.executable, "-c", code, str(target)], check=False, timeout=600)
    assert process.returncode == 7
    assert names(tmp_path) == [".space.lock"]
    with Lock(target):
        pass
    assert names(tmp_path) == []


def test_a_forked_child_does_not_release_the_lock_of_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, warnings; from pathlib import Path; from theodolite.core.files import BusyError, Lock\n"
        "warnings.simplefilter('ignore')\n"
        "lock = Lock(Path(sys.argv[1]))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    lock.release()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "try:\n"
        "    Lock(Path(sys.argv[1]))\n"
        "except BusyError:\n"
        "    print('busy')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "space")]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert process.stdout.strip() == "busy", process.stderr


def test_a_folder_that_cannot_lock_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def unsupported(*_: Any) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(OSError, match=r"cannot lock files .*; write to a local disk"):
        Lock(tmp_path / "space")


@pytest.mark.parametrize("name", [".a.txt.partial", ".a.txt.lock", ".a.txt.PID.partial"])
@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_a_planted_link_is_not_written_through(tmp_path: Path, name: str, link: str) -> None:
    name = name.replace("PID", str(os.getpid()))  # in the name of a test it would differ from worker to worker
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim) if link == "symbolic" else (tmp_path / name).hardlink_to(victim)
    if name.endswith(".lock"):
        with pytest.raises(FileExistsError, match=r"\.a\.txt\.lock is not a lock file of this program"):
            write_text(tmp_path / "a.txt", "new")
    else:
        write_text(tmp_path / "a.txt", "new")
        assert (tmp_path / "a.txt").read_text() == "new"
    assert victim.read_text() == "precious"


def test_the_name_of_an_unfinished_file_cannot_be_guessed_and_what_a_kill_left_is_removed(tmp_path: Path) -> None:
    left = []
    for _ in range(2):
        with atomic_file(tmp_path / "a.txt") as partial:
            left.append(partial)
            assert partial.read_bytes() == b"" and names(tmp_path)[0] == ".a.txt.lock"
    assert left[0] != left[1]
    left[0].write_text("of a process that was killed")
    (tmp_path / ".a.txt.theodolite-mine.partial").write_text("not of that form")
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == [".a.txt.theodolite-mine.partial", "a.txt"]


def test_a_file_of_another_program_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    (tmp_path / ".a.txt.lock").write_text("settings of another program\n")
    with pytest.raises(FileExistsError, match="not a lock file of this program"):
        write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == [".a.txt.lock"] and (tmp_path / ".a.txt.lock").read_text() == "settings of another program\n"


def test_a_link_is_not_taken_for_completed_files(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("stays")
    (tmp_path / "here").mkdir()
    hidden(tmp_path / "here" / "about.json", "complete").symlink_to(tmp_path / "elsewhere")
    recover_files(tmp_path / "here", "about.json")
    assert names(tmp_path / "elsewhere") == ["precious"]
