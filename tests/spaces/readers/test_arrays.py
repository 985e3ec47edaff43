"""Array files: every format gives back the numbers that were written, and every fault is named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from theodolite.core import vectors
from theodolite.core.vectors import array
from theodolite.spaces import read

X = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)


def save_safetensors(path: Path, **tensors: tuple[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, (kind, values) in tensors.items():
        header[name] = {"dtype": kind, "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps({"__metadata__": {"made": "here"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_gives_back_what_was_saved(tmp_path: Path, dtype: str, order: str) -> None:
    saved = np.asarray(3 * X, dtype=dtype, order=order)
    np.save(tmp_path / "v.npy", saved)
    source = read(tmp_path / "v.npy")
    assert (source.n, source.d) == (300, 7)
    np.testing.assert_array_equal(array(source), saved)
    np.testing.assert_array_equal(source.take(np.array([0, 5, 299])), saved[[0, 5, 299]])


def test_npy_is_memory_mapped_unless_it_is_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "v.npy", X)
    assert read(tmp_path / "v.npy").is_one_block
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 1)
    _, block = next(read(tmp_path / "v.npy").raw_blocks())
    assert isinstance(block, np.memmap)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_gives_its_only_matrix_on_every_pass(tmp_path: Path, save, order: str) -> None:
    save(tmp_path / "v.npz", ids=np.arange(300), vectors=np.asarray(X, order=order))
    source = read(tmp_path / "v.npz")
    np.testing.assert_array_equal(array(source), X)
    np.testing.assert_array_equal(array(source), X)
    np.testing.assert_array_equal(source.take(np.array([2, 8])), X[[2, 8]])


def test_several_matrices_in_npz_need_a_choice(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", train=X, test=X[:5])
    with pytest.raises(ValueError, match=r"several arrays \(train \(300, 7\), test \(5, 7\)\); choose one with key=NAME"):
        read(tmp_path / "v.npz")
    np.testing.assert_array_equal(array(read(tmp_path / "v.npz", key="test")), X[:5])
    with pytest.raises(ValueError, match="no array 'dev'; the file holds train"):
        read(tmp_path / "v.npz", key="dev")


@pytest.mark.parametrize(("kind", "dtype"), [("F16", "<f2"), ("F32", "<f4"), ("F64", "<f8"), ("I8", "i1")])
def test_safetensors_gives_back_what_was_saved(tmp_path: Path, kind: str, dtype: str) -> None:
    saved = (3 * X).astype(dtype)
    save_safetensors(tmp_path / "v.safetensors", bias=("F32", X[0]), weight=(kind, saved))
    source = read(tmp_path / "v.safetensors")
    np.testing.assert_array_equal(array(source), saved)
    np.testing.assert_array_equal(source.take(np.array([1, 299])), saved[[1, 299]])


def test_bfloat16_becomes_the_float32_with_the_same_upper_half(tmp_path: Path) -> None:
    upper = (X.view(np.uint32) >> 16).astype("<u2")
    save_safetensors(tmp_path / "v.safetensors", weight=("BF16", upper))
    source = read(tmp_path / "v.safetensors")
    np.testing.assert_allclose(array(source), X, rtol=2**-7)
    np.testing.assert_array_equal(source.take(np.array([4, 9])), array(source)[[4, 9]])


def test_safetensors_agrees_with_the_package(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": X, "b": X[:4] + 1}, tmp_path / "v.safetensors")
    np.testing.assert_array_equal(array(read(tmp_path / "v.safetensors", key="b")), X[:4] + 1)
    with pytest.raises(ValueError, match="several arrays"):
        read(tmp_path / "v.safetensors")


@pytest.mark.parametrize("shape", [(7,), (2, 3, 4), ()])
@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors"])
def test_an_array_without_exactly_two_axes_is_refused(tmp_path: Path, shape: tuple[int, ...], ending: str) -> None:
    path = tmp_path / f"v{ending}"
    values = np.zeros(shape, np.float32)
    if ending == ".npy":
        np.save(path, values)
    elif ending == ".npz":
        np.savez(path, only=values)
    else:
        save_safetensors(path, only=("F32", values))
    with pytest.raises(ValueError, match=r"\(n, d\) array"):
        read(path)


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.array([[1, "a"]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickled Python objects"):
        read(tmp_path / "v.npy")
    (tmp_path / "p.npy").write_bytes(pickle.dumps(X))
    with pytest.raises(ValueError, match=r"not a \.npy array"):
        read(tmp_path / "p.npy")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".parquet"])
def test_a_truncated_file_is_an_error(tmp_path: Path, ending: str) -> None:
    from theodolite.spaces import write_vectors

    path = tmp_path / f"v{ending}"
    if ending == ".npz":
        np.savez(path, X)
    else:
        write_vectors([X], path, n=300, d=7)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"cut short|not a complete"):
        array(read(path))


def test_empty_arrays_and_files_are_errors(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X[:0])
    with pytest.raises(ValueError, match="the array is empty"):
        read(tmp_path / "v.npy")
    for name in ("a.npy", "a.safetensors", "a.csv", "a.tsv", "a.jsonl", "a.txt", "a.vec"):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=f"{name}: the file is empty"):
            read(tmp_path / name)


def test_complex_and_text_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X.astype(complex))
    with pytest.raises(ValueError, match=r"v\.npy: it holds complex128"):
        read(tmp_path / "v.npy")
