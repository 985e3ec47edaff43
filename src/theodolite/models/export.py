"""Ship an affine map with its encoder: as sentence-transformers' own `Dense` at the end of the pipeline, in a copy of the folder.

Such a folder loads anywhere without this package. The module has the type path that older releases and serving engines know.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.files import whole_folder, write_json
from theodolite.core.options import option
from theodolite.models.encoder import quiet_loading
from theodolite.models.location import EncoderError

Doubles: TypeAlias = NDArray[np.float64]
Pooling: TypeAlias = Literal["cls", "mean"]

SELF_TEST = "self_test.json"
# The texts that a written model is tested on.
TEXTS = ("A theodolite measures angles.", "The surveyor set it up on the hill before sunrise, and waited.", "No.")
# Largest difference in the self-test, as a share of the largest value: rounding in single precision, and no more.
AGREEMENT = 1e-4
_TYPES = "sentence_transformers.models."


def write_dense(
    model_folder: str | os.PathLike[str],
    matrix: ArrayLike,
    bias: ArrayLike,
    to: str | os.PathLike[str],
    *,
    pooling: Pooling | None = None,
    after_normalize: bool = False,
    texts: Sequence[str] = TEXTS,
    overwrite: bool = False,
) -> Path:
    """Copy a model's folder with x @ matrix + bias as its last module, or as the last one before a final Normalize.

    The copy is read back and tested on `texts` against the original's vectors put through the map. It is complete or absent.

    Parameters
    ----------
    model_folder
        The folder of a sentence-transformers model, or of a plain encoder.
    matrix
        (d, e), as `fold_affine` makes it of repairs. `IsotropyLayer.affine` returns the transposed matrix.
    bias
        (e,).
    to
        The folder to write.
    pooling
        How a plain encoder's tokens are pooled; None for a sentence-transformers model, which has its own.
    after_normalize
        Whether the map was fitted on vectors that a final Normalize has scaled to length 1. It then goes after that module, and
        another Normalize follows.
    texts
        What the self-test encodes.
    overwrite
        Whether a folder of that name may be replaced.

    Returns
    -------
    Path
        The written folder.

    Raises
    ------
    EncoderError
        There is no such folder, or the written model gives other vectors than the map.
    ValueError
        The map does not fit the model.
    """
    source, target = Path(model_folder), Path(to)
    if not source.is_dir():
        raise EncoderError(f"there is no folder {source}; name the folder of a model (download one from the Hub first)")
    if target.resolve() == source.resolve() or source.resolve() in target.resolve().parents:
        raise ValueError(f"{target} is inside the model's own folder; write the copy somewhere else")
    with whole_folder(target, overwrite=overwrite) as partial:
        shutil.copytree(source, partial, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", ".cache"))
        add_dense(partial, matrix, bias, pooling=pooling, after_normalize=after_normalize, texts=texts)
    return target


def add_dense(
    folder: Path,
    matrix: ArrayLike,
    bias: ArrayLike,
    *,
    pooling: Pooling | None = None,
    after_normalize: bool = False,
    texts: Sequence[str] = TEXTS,
) -> None:
    """Add the map to a model's folder in place and test it; for a folder that nobody reads yet.

    Parameters
    ----------
    folder
        The folder to change.
    matrix, bias, pooling, after_normalize, texts
        As in `write_dense`.
    """
    M, b = np.asarray(matrix, dtype=np.float64), np.asarray(bias, dtype=np.float64)
    if M.ndim != 2 or b.shape != (M.shape[1],):
        raise ValueError(f"matrix of shape {M.shape} and bias of shape {b.shape} must be (d, e) and (e,) of x @ matrix + bias")
    if not (np.isfinite(M).all() and np.isfinite(b).all()):
        raise ValueError("matrix and bias have values that are not finite numbers; such a map cannot be exported")
    modules = _modules(folder, pooling)
    ends_normalized = str(modules[-1]["type"]).rpartition(".")[2] == "Normalize"
    if after_normalize and not ends_normalized:
        raise ValueError("the model does not end with a Normalize, so the map cannot come after one")
    X = _vectors(folder, texts, without_last=ends_normalized and not after_normalize)
    if X.shape[1] != len(M):
        raise ValueError(f"the map takes {len(M)} dimensions and the model gives {X.shape[1]}; fit it on this model's vectors")
    expected = X @ M + b
    if ends_normalized:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    name = f"{len(modules)}_Dense"
    _write_module(folder / name, M, b)
    # A Normalize comes last in any case, so that the pipeline still returns vectors of length 1.
    last = [modules.pop()] if ends_normalized and not after_normalize else []
    if after_normalize:
        last = [{"path": f"{len(modules) + 1}_Normalize", "type": f"{_TYPES}Normalize"}]
        (folder / last[0]["path"]).mkdir()
    modules += [{"path": name, "type": f"{_TYPES}Dense"}, *last]
    write_json(folder / "modules.json", [{**module, "idx": i, "name": str(i)} for i, module in enumerate(modules)])
    write_json(folder / name / SELF_TEST, {"texts": list(texts), "vectors": expected.tolist()})
    difference = check_dense(folder)
    if difference > AGREEMENT:
        raise EncoderError(f"the written model gives other vectors than the map (by {difference:.2g} of the largest value)")


def check_dense(folder: str | os.PathLike[str]) -> float:
    """Repeat the self-test of a written model.

    Parameters
    ----------
    folder
        A folder that `write_dense` wrote.

    Returns
    -------
    float
        The largest difference from the stored vectors, as a share of the largest value; about 1e-7 is rounding.
    """
    tests = sorted(Path(folder).glob(f"*_Dense/{SELF_TEST}"), key=lambda path: int(path.parent.name.partition("_")[0]))
    if not tests:
        raise FileNotFoundError(f"{folder} has no *_Dense/{SELF_TEST}: no map was written into it")
    # The whole pipeline was tested with the last map that was added.
    test = json.loads(tests[-1].read_text(encoding="utf-8"))
    expected = np.asarray(test["vectors"])
    return float(np.abs(_vectors(Path(folder), test["texts"]) - expected).max() / np.abs(expected).max())


def _modules(folder: Path, pooling: Pooling | None) -> list[dict[str, Any]]:
    """The modules of the pipeline; a plain encoder is given one."""
    path = folder / "modules.json"
    if path.is_file():
        if pooling is not None:
            raise ValueError(f"the model has a pooling of its own; leave {option('pooling', pooling)} out")
        modules: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return sorted(modules, key=lambda module: int(module["idx"]))
    if pooling not in ("cls", "mean"):
        raise ValueError(f"{folder.name} is a plain encoder without pooling: choose pooling='cls' or 'mean' (not {pooling!r})")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": name.startswith(pooling) for name in ("cls_token", "mean_tokens", "max_tokens")}
    d = config.get("hidden_size", config.get("dim", config.get("d_model")))
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": d, **modes})
    modules = [{"path": "", "type": f"{_TYPES}Transformer"}, {"path": "1_Pooling", "type": f"{_TYPES}Pooling"}]
    # It has to load as a pipeline for the vectors that the map is tested on.
    write_json(path, [{"idx": i, "name": str(i), **module} for i, module in enumerate(modules)])
    return modules


def _vectors(folder: Path, texts: Sequence[str], *, without_last: bool = False) -> Doubles:
    from sentence_transformers import SentenceTransformer

    with quiet_loading():
        model: Any = SentenceTransformer(str(folder), device="cpu")
        if without_last:
            model = SentenceTransformer(modules=list(model)[:-1], device="cpu")
        vectors = model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)
    return np.asarray(vectors, dtype=np.float64)


def _write_module(folder: Path, M: Doubles, b: Doubles) -> None:
    from safetensors.numpy import save_file

    folder.mkdir()
    shape = {"in_features": M.shape[0], "out_features": M.shape[1], "bias": True}
    write_json(folder / "config.json", {**shape, "activation_function": "torch.nn.modules.linear.Identity"})
    # torch's Linear computes x @ weight.T + bias.
    weights = {"linear.weight": np.ascontiguousarray(M.T, dtype=np.float32), "linear.bias": b.astype(np.float32)}
    save_file(weights, folder / "model.safetensors")
