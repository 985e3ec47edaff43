"""Ship an affine map with its encoder: sentence-transformers' own `Dense` at the end of the pipeline, in a copy of the folder.

Such a folder loads anywhere without code of ours. Its module has the type path that older releases and serving engines know, too.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.files import replace_folder, sync, undo_half_replacement
from theodolite.models.extra import quietly
from theodolite.models.locate import EncoderError

TYPES = "sentence_transformers.models."
SELF_TEST = "self_test.json"
TEXTS = (
    "A theodolite measures angles.",
    "The surveyor set it up on the hill before sunrise, and waited.",
    "No.",
)
"""What the self-test reads."""
AGREEMENT = 1e-4
"""Largest difference in the self-test, as a share of the largest value: rounding in single precision, and no more."""
Doubles = NDArray[np.float64]
Pool = Literal["cls", "mean"]


def write_dense(
    model_folder: str | os.PathLike[str],
    matrix: ArrayLike,
    bias: ArrayLike,
    to: str | os.PathLike[str],
    *,
    pooling: Pool | None = None,
    texts: Sequence[str] = TEXTS,
    overwrite: bool = False,
) -> Path:
    """Copy a model's folder to `to` with x @ matrix + bias (d, e) as its last module, before a final Normalize.

    The folder is sentence-transformers', or a plain encoder's with the `pooling` to give it. The copy is read back and tested on
    `texts` against the original's vectors put through the map; the result is whole or absent. `fold_affine` makes matrix and bias
    of repairs; `IsotropyLayer.affine` gives the transposed matrix.
    """
    source, target = Path(model_folder), Path(to)
    if not source.is_dir():
        raise EncoderError(f"there is no folder {source}; give the folder of a model (download one from the hub first)")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already; choose another folder, or overwrite it (overwrite=True, --overwrite)")
    if target.resolve() == source.resolve() or source.resolve() in target.resolve().parents:
        raise ValueError(f"{target} is inside the model's own folder; write the copy somewhere else")
    target.parent.mkdir(parents=True, exist_ok=True)
    undo_half_replacement(target)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        shutil.copytree(source, partial, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", ".cache"))
        partial.chmod(source.stat().st_mode & 0o777)
        add_dense(partial, matrix, bias, pooling=pooling, texts=texts)
        replace_folder(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def add_dense(
    folder: Path, matrix: ArrayLike, bias: ArrayLike, *, pooling: Pool | None = None, texts: Sequence[str] = TEXTS
) -> None:
    """Put the map into a folder in place, and test it; for a folder that nobody reads yet."""
    M, b = np.asarray(matrix, dtype=np.float64), np.asarray(bias, dtype=np.float64)
    if M.ndim != 2 or b.shape != (M.shape[1],):
        raise ValueError(
            f"matrix of shape {M.shape} and bias of shape {b.shape} must be (d, e) and (e,), as in x @ matrix + bias"
        )
    if not (np.isfinite(M).all() and np.isfinite(b).all()):
        raise ValueError("matrix and bias hold values that are not finite numbers; they cannot be shipped")
    modules = _modules(folder, pooling)
    last = _is_normalize(modules[-1])
    X = _encoded(folder, texts, leave_out=1 if last else 0)
    if X.shape[1] != len(M):
        raise ValueError(f"the map takes {len(M)} dimensions and the model gives {X.shape[1]}; fit it on this model's vectors")
    expected = X @ M + b
    if last:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    name = f"{len(modules)}_Dense"
    _write_module(folder / name, M, b)
    modules.insert(len(modules) - 1 if last else len(modules), {"path": name, "type": f"{TYPES}Dense"})
    _write_json(folder / "modules.json", [{"idx": i, "name": str(i)} | _kept(module) for i, module in enumerate(modules)])
    _write_json(folder / name / SELF_TEST, {"texts": list(texts), "vectors": expected.tolist()})
    difference = check_dense(folder)
    if difference > AGREEMENT:
        raise EncoderError(f"the written model gives other vectors than the map (by {difference:.2g} of the largest value)")


def check_dense(folder: str | os.PathLike[str]) -> float:
    """How far a written model's vectors are from its self-test now, as a share of the largest value; about 1e-7 is rounding."""
    tests = sorted(Path(folder).glob(f"*_Dense/{SELF_TEST}"), key=lambda path: int(path.parent.name.partition("_")[0]))
    if not tests:
        raise FileNotFoundError(f"{folder} has no *_Dense/{SELF_TEST}: no map was written into it")
    told = json.loads(tests[-1].read_text(encoding="utf-8"))  # the last map written is what the whole pipeline was tested with
    expected = np.asarray(told["vectors"])
    found = _encoded(Path(folder), told["texts"])
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _modules(folder: Path, pooling: Pool | None) -> list[dict[str, Any]]:
    """The modules of the pipeline; a plain encoder is given one."""
    path = folder / "modules.json"
    if path.is_file():
        if pooling is not None:
            raise ValueError("the model has a pipeline with a pooling of its own; leave the pooling out")
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return sorted(found, key=lambda module: int(module["idx"]))
    if pooling not in ("cls", "mean"):
        raise ValueError(
            f"{folder.name} is a plain encoder: say how its vectors are pooled, pooling='cls' or 'mean' (not {pooling!r})"
        )
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": name.startswith(pooling) for name in ("cls_token", "mean_tokens", "max_tokens")}
    d = config.get("hidden_size", config.get("dim", config.get("d_model")))
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": d, **modes})
    modules = [{"path": "", "type": f"{TYPES}Transformer"}, {"path": "1_Pooling", "type": f"{TYPES}Pooling"}]
    _write_json(path, [{"idx": i, "name": str(i), **module} for i, module in enumerate(modules)])
    return modules


def _encoded(folder: Path, texts: Sequence[str], *, leave_out: int = 0) -> Doubles:
    """The pipeline's vectors, without its last modules."""
    from sentence_transformers import SentenceTransformer

    with quietly():
        model: Any = SentenceTransformer(str(folder), device="cpu")
        if leave_out:
            model = SentenceTransformer(modules=list(model)[:-leave_out], device="cpu")
        vectors = model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)
    return np.asarray(vectors, dtype=np.float64)


def _write_module(folder: Path, M: Doubles, b: Doubles) -> None:
    from safetensors.numpy import save_file

    folder.mkdir()
    told = {"in_features": M.shape[0], "out_features": M.shape[1], "bias": True}
    _write_json(folder / "config.json", {**told, "activation_function": "torch.nn.modules.linear.Identity"})
    single = {"linear.weight": np.ascontiguousarray(M.T, dtype=np.float32), "linear.bias": b.astype(np.float32)}
    save_file(single, folder / "model.safetensors")
    sync(folder / "model.safetensors")


def _is_normalize(module: dict[str, Any]) -> bool:
    return str(module["type"]).rpartition(".")[2] == "Normalize"


def _kept(module: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in module.items() if key not in ("idx", "name")}


def _write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
