"""An affine map as a file that other programs read: FAISS's `LinearTransform`, one Gemm of ONNX, or two `.npy` files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.core.files import Marker, atomic_file, atomic_folder, require_free, require_free_folder, write_json
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats

MATRIX, BIAS = "matrix.npy", "bias.npy"
MARKER = Marker("map.json", "export")
# Largest difference between a written map and the one in memory, as a share of the largest value.
AGREEMENT = 1e-5
# Old enough for every runtime in use: Gemm has not changed since.
_ONNX_VERSIONS = {"ir_version": 7, "opset": 13}


def require_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """The path, if a map could be written there; called before long work rather than after it."""
    if Path(path).suffix.lower() in _FILES:
        return require_free(path, overwrite=overwrite)
    return require_free_folder(path, overwrite=overwrite, marker=MARKER)


@np.errstate(over="ignore", invalid="ignore")  # the self-test says it better than a warning
def write_affine(matrix: Doubles, bias: Doubles, path: str | os.PathLike[str], *, overwrite: bool = False) -> float:
    """Write x @ matrix + bias in single precision, read it back, and compare."""
    target = require_target(path, overwrite=overwrite)
    M, b = np.ascontiguousarray(matrix, np.float32), np.ascontiguousarray(bias, np.float32)
    X = np.random.default_rng(0).standard_normal((16, len(M)), dtype=np.float32)
    if target.suffix.lower() in _FILES:
        with atomic_file(target, overwrite=overwrite) as partial:
            return _agreement(_FILES[target.suffix.lower()](M, b, X, partial), X @ matrix + bias, target)
    with atomic_folder(target, overwrite=overwrite, marker=MARKER) as partial:
        write_json(partial / MARKER.file, MARKER.about)
        np.save(partial / MATRIX, M)
        np.save(partial / BIAS, b)
        return _agreement(X @ np.load(partial / MATRIX) + np.load(partial / BIAS), X @ matrix + bias, target)


def _agreement(written: Floats, expected: Doubles, target: Path) -> float:
    difference = float(np.abs(written - expected).max() / np.abs(expected).max())
    if not difference <= AGREEMENT:
        problem = f"gives vectors that differ from the map's by {difference:.2g} of the largest value"
        raise ValueError(f"{target} {problem}: single precision is not enough; fit a repair with fewer components")
    return difference


def _write_faiss(M: Floats, b: Floats, X: Floats, path: Path) -> Floats:
    try:
        import faiss
    except ImportError:
        raise ImportError('writing a .faiss file needs the package faiss-cpu; run: pip install "theodolite[faiss]"') from None
    transform: Any = faiss.LinearTransform(M.shape[0], M.shape[1], True)
    faiss.copy_array_to_vector(M.T.ravel(), transform.A)  # A x + b
    faiss.copy_array_to_vector(b, transform.b)
    transform.is_trained = True
    transform.set_is_orthonormal()
    faiss.write_VectorTransform(transform, str(path))
    written: Any = faiss.read_VectorTransform(str(path))
    return np.asarray(written.apply(X))


def _write_onnx(M: Floats, b: Floats, X: Floats, path: Path) -> Floats:
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise ImportError('writing an .onnx file needs the package onnx; run: pip install "theodolite[onnx]"') from None
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
        for name, width in zip(("vectors", "repaired"), M.shape, strict=True)
    ]
    constants = [numpy_helper.from_array(M, "matrix"), numpy_helper.from_array(b, "bias")]
    node = helper.make_node("Gemm", ["vectors", "matrix", "bias"], ["repaired"])
    graph = helper.make_graph([node], "repair", ends[:1], ends[1:], constants)
    opset = helper.make_opsetid("", _ONNX_VERSIONS["opset"])
    model = helper.make_model(graph, opset_imports=[opset], ir_version=_ONNX_VERSIONS["ir_version"], producer_name="theodolite")
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    written: Any = ReferenceEvaluator(onnx.load_from_string(path.read_bytes())).run(None, {"vectors": X})
    return np.asarray(written[0])


_FILES: dict[str, Callable[[Floats, Floats, Floats, Path], Floats]] = {".faiss": _write_faiss, ".onnx": _write_onnx}
