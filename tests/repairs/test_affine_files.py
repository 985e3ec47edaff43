"""A map in another program's format gives x @ matrix + bias there too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theodolite.repairs import Whiten
from theodolite.repairs.affine_files import write_affine

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(400, 24)) * np.linspace(0.05, 3, 24) + 2).astype(np.float32)


def by_faiss(path: Path, rows: Any) -> Any:
    faiss = pytest.importorskip("faiss", reason="the extra faiss is not installed")
    return faiss.read_VectorTransform(str(path)).apply(rows)


def by_onnx(path: Path, rows: Any) -> Any:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"vectors": rows})[0]


def by_numpy(path: Path, rows: Any) -> Any:
    return rows @ np.load(path / "matrix.npy") + np.load(path / "bias.npy")


@pytest.mark.parametrize(("name", "read"), [("map.faiss", by_faiss), ("map.onnx", by_onnx), ("map", by_numpy)])
@pytest.mark.parametrize("components", [None, 7])
def test_the_file_gives_the_repaired_rows(tmp_path: Path, name: str, read: Any, components: int | None) -> None:
    pytest.importorskip(name.partition(".")[2] or "numpy", reason="the extra is not installed")
    repair = Whiten(components).fit(X)
    assert write_affine(*repair.affine(), tmp_path / name) < 1e-5
    expected = repair.transform(X.astype(np.float64))
    np.testing.assert_allclose(read(tmp_path / name, X), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["map.faiss", "map.onnx", "map"])
def test_nothing_is_replaced_unasked_or_half_written(tmp_path: Path, name: str) -> None:
    pytest.importorskip(name.partition(".")[2] or "numpy", reason="the extra is not installed")
    M, b = np.eye(3), np.zeros(3)
    write_affine(M, b, tmp_path / name)
    with pytest.raises(FileExistsError, match="exists already"):
        write_affine(M, b, tmp_path / name)
    with pytest.raises(ValueError, match="single precision is not enough"):
        write_affine(np.full((3, 3), 1e39), b, tmp_path / f"2{name}")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    write_affine(2 * M, b, tmp_path / name, overwrite=True)


def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(FileExistsError, match=r"does not contain a map\.json"):
        write_affine(np.eye(2), np.zeros(2), tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"


@pytest.mark.parametrize(("name", "extra"), [("map.faiss", "faiss"), ("map.onnx", "onnx")])
def test_a_missing_extra_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, extra: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, extra, None)
    with pytest.raises(ImportError, match=rf'pip install "theodolite\[{extra}\]"'):
        write_affine(np.eye(2), np.zeros(2), tmp_path / name)
    assert not (tmp_path / name).exists()
