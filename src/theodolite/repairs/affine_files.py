"""An affine map as a file that other programs read: FAISS's `LinearTransform`, one Gemm of ONNX, or two `.npy` files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from theodolite.core.files import require_free, require_free_folder, whole_file, whole_folder
from theodolite.core.moments import Doubles

MATRIX, BIAS = "matrix.npy", "bias.npy"
# Largest difference between a written map and the one in memory, as a share of the largest value.
AGREEMENT = 1e-5
# Old enough for every runtime in use: Gemm has not changed since.
_ONNX_VERSIONS = {"ir_version": 7, "opset": 13}


def require_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """The path, if a map could be written there; called before long work rather than after it.

    Parameters
    ----------
    path
        The file or folder that is going to be written.
    overwrite
        Whether what exists may be replaced; of folders only those that hold a map.
    """
    if Path(path).suffix.lower() in _FILES:
        return require_free(path, overwrite=overwrite)
    return require_free_folder(path, overwrite=overwrite, marker=MATRIX)


def write_affine(matrix: Doubles, bias: Doubles, path: str | os.PathLike[str], *, overwrite: bool = False) -> float:
    """Write x @ matrix + bias in single precision, read it back, and compare.

    Parameters
    ----------
    matrix
        (d, e).
    bias
        (e,).
    path
        `NAME.faiss` (needs `[faiss]`), `NAME.onnx` (needs `[onnx]`), or a folder, which gets `matrix.npy` and `bias.npy`.
    overwrite
        Whether a file or folder of that name may be replaced.

    Returns
    -------
    float
        The largest difference between the written map and x @ matrix + bias on random rows, as a share of the largest value.
    """
    target = require_target(path, overwrite=overwrite)
    M, b = np.ascontiguousarray(matrix, np.float32), np.ascontiguousarray(bias, np.float32)
    X = np.random.default_rng(0).standard_normal((16, len(M)), dtype=np.float32)
    if target.suffix.lower() in _FILES:
        with whole_file(target, overwrite=overwrite) as partial:
            written = _FILES[target.suffix.lower()](M, b, X, partial)
    else:
        with whole_folder(target, overwrite=overwrite, marker=MATRIX) as partial:
            np.save(partial / MATRIX, M)
            np.save(partial / BIAS, b)
            written = X @ np.load(partial / MATRIX) + np.load(partial / BIAS)
    expected = X @ matrix + bias
    return float(np.abs(written - expected).max() / np.abs(expected).max())


def _write_faiss(M: Doubles, b: Doubles, X: Doubles, path: Path) -> Doubles:
    try:
        import faiss
    except ImportError:
        raise ImportError('a .faiss file is written by the package faiss-cpu; run: pip install "theodolite[faiss]"') from None
    transform = faiss.LinearTransform(*M.shape, True)
    faiss.copy_array_to_vector(M.T.ravel(), transform.A)  # A x + b
    faiss.copy_array_to_vector(b, transform.b)
    transform.is_trained = True
    transform.set_is_orthonormal()
    faiss.write_VectorTransform(transform, str(path))
    return np.asarray(faiss.read_VectorTransform(str(path)).apply(X), np.float64)


def _write_onnx(M: Doubles, b: Doubles, X: Doubles, path: Path) -> Doubles:
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise ImportError('an .onnx file is written by the package onnx; run: pip install "theodolite[onnx]"') from None
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
    return np.asarray(ReferenceEvaluator(onnx.load_from_string(path.read_bytes())).run(None, {"vectors": X})[0], np.float64)


_FILES: dict[str, Callable[[Doubles, Doubles, Doubles, Path], Doubles]] = {".faiss": _write_faiss, ".onnx": _write_onnx}
