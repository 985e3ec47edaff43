"""The cache: a second reading is free if the file is the same, and never wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.core import vectors
from theodolite.core.moments import Moments
from theodolite.core.vectors import Source
from theodolite.spaces import cache, read

X = np.random.default_rng(4).normal(size=(400, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 1)  # blocks of 64 rows: the file is more than one
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "v.npy", X)
    return tmp_path / "v.npy"


def moments_of(path: Path, **options: Any) -> Moments:
    moments, _ = cache.cached_moments(path, **options)
    assert moments is not None
    return moments


def counted(path: Path) -> tuple[Source, list[int]]:
    rows: list[int] = []
    return read(path).watched(rows.append), rows


def test_the_second_time_no_row_is_read_and_the_moments_are_the_same(file: Path) -> None:
    data, rows = counted(file)
    first = moments_of(file, data=data)
    assert sum(rows) == 400
    data, rows = counted(file)
    second = moments_of(file, data=data)
    assert rows == []
    np.testing.assert_array_equal(first.full_scatter(), second.full_scatter())
    np.testing.assert_array_equal(first.unit_sum, second.unit_sum)


def test_a_changed_file_is_read_again(file: Path) -> None:
    cache.cached_moments(file)
    np.save(file, X + 1)
    os.utime(file, ns=(1, 1))
    np.testing.assert_array_equal(moments_of(file).mean, Moments.of(X + 1).mean)


def test_a_change_that_keeps_size_and_time_of_modification_is_noticed(file: Path) -> None:
    cache.cached_moments(file)
    before = file.stat()
    with file.open("r+b") as content:
        content.seek(before.st_size // 2)
        content.write(np.float32(1e6).tobytes())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    changed = np.load(file)
    assert np.abs(changed).max() > 1e5
    np.testing.assert_array_equal(moments_of(file).mean, Moments.of(changed).mean)


@pytest.mark.parametrize("change", ["inode", "head", "middle", "tail"])
def test_a_large_file_is_known_by_blocks_of_it_and_by_what_the_file_system_knows(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "HASHED", 2**12)
    monkeypatch.setattr(cache, "BLOCK", 2**10)
    file = tmp_path / "large.bin"
    content = bytearray(2**16)
    file.write_bytes(content)

    def digest(inode: int = 7) -> str:
        # A file system may keep no inodes, or no time of change: each of the two must do alone.
        same = os.stat_result((0o100644, inode, 1, 1, 0, 0, 2**16, 5, 5, 5))
        with monkeypatch.context() as patch:
            patch.setattr(cache.os, "fstat", lambda _: same)
            state = cache.FileState.of(file)
        assert state is not None and state.is_sampled and state.is_settled
        return state.digest

    before = digest()
    assert digest() == before
    if change != "inode":
        content[{"head": 0, "middle": 21504, "tail": -1}[change]] ^= 1
        file.write_bytes(content)
    assert digest(inode=8 if change == "inode" else 7) != before


def test_a_page_that_changes_without_a_time_of_change_is_noticed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = np.load(file, mmap_mode="r+")
    mapped[0] += 1
    known = file.stat()

    def state() -> cache.FileState | None:
        with monkeypatch.context() as patch:  # a kernel reports no change of pages that were dirty already
            patch.setattr(cache.os, "fstat", lambda _: known)
            return cache.FileState.of(file)

    before = state()
    assert state() == before
    mapped[200] += 5
    assert state() != before


def test_a_large_file_that_changed_in_the_last_minute_is_not_trusted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "HASHED", 2**10)
    assert [cache.cached_moments(file)[1] for _ in range(2)] == [False, False]
    monkeypatch.setattr(cache, "SETTLED", -1.0)
    assert [cache.cached_moments(file)[1] for _ in range(2)] == [False, True]


def test_numbers_of_a_large_file_say_that_they_are_from_the_cache(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SETTLED", -1.0)

    def notes() -> str:
        return " ".join(th.survey(file, metrics=["iso_score"], findings=False).notes)

    assert [notes() for _ in range(2)] == ["", ""]  # its whole content was compared
    monkeypatch.setattr(cache, "HASHED", 2**10)
    assert [("from cache; cache=False reads" in notes()) for _ in range(2)] == [False, True]


@pytest.mark.parametrize("verb", ["survey", "fit", "apply"])
def test_a_file_that_changes_between_two_passes_is_an_error(
    file: Path, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Moments.of
    zero_mean = th.repair.fit("zero-mean", X)

    def changed_after(data: Any, **options: Any) -> Moments:
        moments = whole(data, **options)
        np.save(file, X + 1)
        return moments

    monkeypatch.setattr(Moments, "of", changed_after)
    verbs: dict[str, Callable[[], Any]] = {
        "survey": lambda: th.survey(file, metrics=["mean_cosine", "hubness"], findings=False),
        "fit": lambda: th.repair.fit("whiten", file, to=tmp_path / "repair"),
        "apply": lambda: th.repair.apply(zero_mean, file, to=tmp_path / "repaired.npy"),
    }
    with pytest.raises(ValueError, match=r"v\.npy changed while it was being read, so its numbers would mix two states"):
        verbs[verb]()
    assert not (tmp_path / "repair").exists() and not (tmp_path / "repaired.npy").exists()


def test_a_file_of_one_block_is_read_once_and_leaves_nothing_behind(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks = th.survey(file, findings=False)
    cache.clean()
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 2**20)
    compute = Moments.of

    def changed_before(data: Any, **options: Any) -> Moments:
        np.save(file, X + 1)
        return compute(data, **options)

    monkeypatch.setattr(Moments, "of", changed_before)
    at_once = th.survey(file, findings=False)
    assert list(folder.glob("moments/*.npz")) == []
    assert [row.value for row in at_once] == pytest.approx([row.value for row in in_blocks], rel=1e-3)


def test_nothing_of_the_users_is_deleted_from_a_folder_of_that_name(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "moments").mkdir(parents=True)
    mine = [folder / "moments" / name for name in ("precious.npz", "work.lock", "0" * 32 + ".npz")]
    for path in mine:
        path.write_bytes(bytes(1000))
    monkeypatch.setattr(cache, "LIMIT", 10)
    assert moments_of(file).n == 400
    assert cache.clean() == 0 and all(path.exists() for path in mine)


def test_only_names_of_the_caches_own_form_are_deleted(file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.cached_moments(file)
    mine = [folder / "moments" / name for name in ("precious.npz", "work.lock", ".x.npz.partial")]
    for path in mine:
        path.write_bytes(bytes(1000))
    monkeypatch.setattr(cache, "LIMIT", 10)
    np.save(file, X + 1)
    cache.cached_moments(file)
    assert not list((folder / "moments").glob("[0-9a-f]*.npz")) and all(path.exists() for path in mine)
    cache.clean()
    assert all(path.exists() for path in mine)


def test_the_cache_of_an_earlier_release_is_adopted(file: Path, folder: Path) -> None:
    (folder / "moments").mkdir(parents=True)
    (folder / "moments" / ("a" * 32 + ".npz")).write_bytes(b"of an earlier release")
    cache.cached_moments(file)
    cache.clean()
    assert not (folder / "moments").exists()


def test_other_columns_are_another_entry(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "v.csv", X, delimiter=",", header="a,b,c,d,e,f,g,h", comments="")
    first = moments_of(tmp_path / "v.csv", columns=["a", "b"])
    second = moments_of(tmp_path / "v.csv", columns=["c", "d"])
    np.testing.assert_allclose(np.r_[first.mean, second.mean], X[:, :4].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("rubbish", [b"", b"rubbish", b"PK\x03\x04 cut"])
def test_a_broken_entry_is_ignored_and_written_again(file: Path, folder: Path, rubbish: bytes) -> None:
    right = moments_of(file)
    (entry,) = (folder / "moments").glob("*.npz")
    entry.write_bytes(rubbish)
    np.testing.assert_array_equal(moments_of(file).mean, right.mean)
    np.testing.assert_array_equal(Moments.load(entry).mean, right.mean)


@pytest.mark.slow
def test_no_flipped_bit_changes_a_number(file: Path, folder: Path) -> None:
    right = moments_of(file)
    (entry,) = (folder / "moments").glob("*.npz")
    whole = entry.read_bytes()
    for at in range(0, len(whole), 7):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        entry.write_bytes(bytes(data))
        moments = moments_of(file)
        assert moments.n == right.n
        for name in ("mean", "unit_sum"):
            np.testing.assert_array_equal(getattr(moments, name), getattr(right, name))
        np.testing.assert_array_equal(moments.full_scatter(), right.full_scatter())


def test_moments_larger_than_their_file_are_not_cached(tmp_path: Path, folder: Path) -> None:
    np.save(tmp_path / "few.npy", X[:5])
    cache.cached_moments(tmp_path / "few.npy")
    assert not folder.exists()


def test_a_folder_is_cached_with_all_its_shards(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    np.save(tmp_path / "shards" / "a.npy", X)
    assert moments_of(tmp_path / "shards").n == 400
    np.save(tmp_path / "shards" / "b.npy", X)
    assert moments_of(tmp_path / "shards").n == 800


def test_clean_removes_its_own_and_nothing_else(file: Path, folder: Path) -> None:
    assert cache.size() == 0
    cache.cached_moments(file)
    (folder / "mine.txt").write_text("keep")
    size = cache.size()
    assert size > 8 * 8 * 8
    assert cache.clean() == size
    assert cache.size() == 0
    assert (folder / "mine.txt").exists()


def test_the_oldest_entries_are_deleted_if_it_is_full(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", X + i)
        cache.cached_moments(tmp_path / f"{i}.npy")
        for entry in (folder / "moments").glob("*.npz"):
            os.utime(entry, (entry.stat().st_atime, entry.stat().st_mtime - 10))
    one = cache.size() // 3
    monkeypatch.setattr(cache, "LIMIT", 2 * one)
    np.save(tmp_path / "3.npy", X + 3)
    cache.cached_moments(tmp_path / "3.npy")
    assert cache.size() <= 2 * one
    data, rows = counted(tmp_path / "3.npy")
    cache.cached_moments(tmp_path / "3.npy", data=data)
    assert rows == []


def test_a_cache_that_cannot_be_written_costs_only_time(file: Path, folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    assert moments_of(file).n == 400


def test_where_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    assert cache.where() == folder
    monkeypatch.delenv("THEODOLITE_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.where() == tmp_path / "xdg" / "theodolite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.where() == tmp_path / ".cache" / "theodolite"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.where() == tmp_path / "Library" / "Caches" / "theodolite"


def test_importing_does_not_make_the_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "THEODOLITE_CACHE": str(tmp_path / "never")}
    subprocess.run([sys.executable, "-c", "import theodolite.spaces.cache"], check=True, env=environment)
    assert not (tmp_path / "never").exists()
