"""Where vectors lie: folders of shards, URLs, and paths that lead nowhere."""

from __future__ import annotations

from pathlib import Path

import fsspec
import numpy as np
import pytest

from theodolite.core.moments import Moments
from theodolite.core.vectors import array
from theodolite.spaces import read, write_vectors

X = np.random.default_rng(2).normal(size=(230, 5)).astype(np.float32)


@pytest.mark.parametrize("ending", [".npy", ".safetensors", ".parquet", ".txt"])
def test_shards_are_one_cloud_in_natural_order(tmp_path: Path, ending: str) -> None:
    for i in range(12):  # shard-10 comes after shard-9, not after shard-1
        part = X[20 * i : 20 * (i + 1)]
        if ending == ".txt":
            np.savetxt(tmp_path / f"shard-{i}{ending}", part)
        else:
            write_vectors([part], tmp_path / f"shard-{i}{ending}", n=len(part), d=5)
    opened = read(tmp_path)
    np.testing.assert_array_equal(array(opened), X)
    rows = np.array([0, 19, 20, 199, 229])
    np.testing.assert_array_equal(opened.take(rows), X[rows])
    assert opened.n == (None if ending == ".txt" else 230)


def test_empty_shards_and_prose_are_skipped(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:0])
    (tmp_path / "LICENSE.txt").write_text("free")
    (tmp_path / "README.md").write_text("vectors")
    (tmp_path / ".hidden.npy").write_text("nothing")
    np.testing.assert_array_equal(array(read(tmp_path)), X)


def test_shards_of_two_widths_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :3])
    with pytest.raises(ValueError, match=r"b\.npy has 3 columns, .*a\.npy has 5"):
        read(tmp_path)


def test_a_folder_of_two_formats_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no file of vectors"):
        read(tmp_path)
    np.save(tmp_path / "a.npy", X)
    write_vectors([X], tmp_path / "b.parquet", n=230, d=5)
    with pytest.raises(ValueError, match=r"\.npy and \.parquet files"):
        read(tmp_path)


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", X)
    with pytest.raises(FileNotFoundError, match=r"did you mean .*vectors\.npy"):
        read(tmp_path / "vectros.npy")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        read(tmp_path / "nowhere" / "v.npy")


def test_an_unknown_ending_lists_the_known(tmp_path: Path) -> None:
    (tmp_path / "v.pkl").touch()
    with pytest.raises(ValueError, match=r"unknown ending '\.pkl'; known are \.npy"):
        read(tmp_path / "v.pkl")


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X)
    with pytest.raises(ValueError, match=r"key='a' names an array"):
        read(tmp_path / "v.npy", key="a")
    with pytest.raises(ValueError, match="columns= chooses columns"):
        read(tmp_path / "v.npy", columns=["a"])


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".parquet", ".txt"])
def test_urls_give_what_the_file_gives(tmp_path: Path, ending: str) -> None:
    local = tmp_path / f"v{ending}"
    if ending == ".npz":
        np.savez(local, X)
    elif ending == ".txt":
        np.savetxt(local, X)
    else:
        write_vectors([X], local, n=230, d=5)
    url = f"memory://theodolite/{ending[1:]}/v{ending}"
    with fsspec.open(url, "wb") as file:
        file.write(local.read_bytes())
    for address in (url, f"memory://theodolite/{ending[1:]}", f"file://{local}"):
        opened = read(address)
        np.testing.assert_array_equal(array(opened), X)
        np.testing.assert_array_equal(opened.take(np.array([3, 200])), X[[3, 200]])


def test_a_missing_url_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"memory://theodolite/none\.npy"):
        read("memory://theodolite/none.npy")


def test_moments_do_not_depend_on_the_format(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X)
    np.savetxt(tmp_path / "v.csv", X, delimiter=",")
    first, second = Moments.of(read(tmp_path / "v.npy")), Moments.of(read(tmp_path / "v.csv"))
    np.testing.assert_allclose(first.full_scatter(), second.full_scatter(), rtol=1e-5, atol=1e-4)
    assert first.n == second.n
