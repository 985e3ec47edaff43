"""The cache: a second reading is free if the file is the same, and never wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from theodolite.core.moments import Moments
from theodolite.core.vectors import Source
from theodolite.spaces import cache, read

X = np.random.default_rng(4).normal(size=(400, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "v.npy", X)
    return tmp_path / "v.npy"


def counted(path: Path) -> tuple[Source, list[int]]:
    rows: list[int] = []
    return read(path).watched(rows.append), rows


def test_the_second_time_no_row_is_read_and_the_moments_are_the_same(file: Path) -> None:
    data, rows = counted(file)
    first = cache.cached_moments(file, data=data)
    assert sum(rows) == 400
    data, rows = counted(file)
    second = cache.cached_moments(file, data=data)
    assert rows == []
    np.testing.assert_array_equal(first.full_scatter(), second.full_scatter())
    np.testing.assert_array_equal(first.unit_sum, second.unit_sum)


def test_a_changed_file_is_read_again(file: Path) -> None:
    cache.cached_moments(file)
    np.save(file, X + 1)
    os.utime(file, ns=(1, 1))
    np.testing.assert_array_equal(cache.cached_moments(file).mean, Moments.of(X + 1).mean)


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
    np.testing.assert_array_equal(cache.cached_moments(file).mean, Moments.of(changed).mean)


@pytest.mark.parametrize("change", ["inode", "head", "tail"])
def test_the_inode_and_both_ends_of_a_file_are_part_of_its_key(file: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(inode: int = 7) -> str | None:
        # A file system may keep no inodes, or no time of change: each of the two must do alone.
        same = os.stat_result((0o100644, inode, 1, 1, 0, 0, file.stat().st_size, 5, 5, 5))
        with monkeypatch.context() as patch:
            patch.setattr(cache.os, "fstat", lambda _: same)
            return cache._fingerprint(file, ())

    before = key()
    assert key() == before
    content = bytearray(file.read_bytes())
    if change != "inode":
        content[0 if change == "head" else -1] ^= 1
        file.write_bytes(content)
    assert key(inode=8 if change == "inode" else 7) != before


def test_other_columns_are_another_entry(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "v.csv", X, delimiter=",", header="a,b,c,d,e,f,g,h", comments="")
    first = cache.cached_moments(tmp_path / "v.csv", columns=["a", "b"])
    second = cache.cached_moments(tmp_path / "v.csv", columns=["c", "d"])
    np.testing.assert_allclose(np.r_[first.mean, second.mean], X[:, :4].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("rubbish", [b"", b"rubbish", b"PK\x03\x04 cut"])
def test_a_broken_entry_is_ignored_and_written_again(file: Path, folder: Path, rubbish: bytes) -> None:
    right = cache.cached_moments(file)
    (entry,) = (folder / "moments").iterdir()
    entry.write_bytes(rubbish)
    np.testing.assert_array_equal(cache.cached_moments(file).mean, right.mean)
    np.testing.assert_array_equal(Moments.load(entry).mean, right.mean)


def test_no_flipped_bit_changes_a_number(file: Path, folder: Path) -> None:
    right = cache.cached_moments(file)
    (entry,) = (folder / "moments").iterdir()
    whole = entry.read_bytes()
    for at in range(0, len(whole), 7):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        entry.write_bytes(bytes(data))
        moments = cache.cached_moments(file)
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
    assert cache.cached_moments(tmp_path / "shards").n == 400
    np.save(tmp_path / "shards" / "b.npy", X)
    assert cache.cached_moments(tmp_path / "shards").n == 800


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
        for entry in (folder / "moments").iterdir():
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
    assert cache.cached_moments(file).n == 400


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
