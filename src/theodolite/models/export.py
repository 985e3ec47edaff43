"""Ship an affine map with its encoder: as sentence-transformers' own `Dense` at the end of the pipeline, in a copy of the folder.

Such a folder loads anywhere without this package, in old and new releases: its files have the form that old ones read.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.files import Marker, atomic_folder, natural_key, read_json, reading, require_outside, write_json
from theodolite.core.spelling import option
from theodolite.models.encoder import quiet_loading
from theodolite.models.location import EncoderError, foreign_class
from theodolite.repairs.base import FittingPath

Doubles: TypeAlias = NDArray[np.float64]
Examples: TypeAlias = tuple[Sequence[str], Doubles]

SELF_TEST = "self_test.json"
MARKER = Marker("theodolite.json", "export")
# The texts that a written model is tested on.
TEXTS = ("A theodolite measures angles.", "The surveyor set it up on the hill before sunrise, and waited.", "No.")
# Largest difference in the self-test, as a share of the largest value: rounding in single precision, and no more.
AGREEMENT = 1e-4
# The same for vectors of the fit, which may have been stored in half precision or made on another device. Another pooling,
# another prompt or a missing Normalize are ten times as far away, or more.
SAME_PATH = 2e-2
_TYPES = "sentence_transformers.models."
# Units that are a way of pooling, with the names that new releases have for it; then the names of old ones.
_POOLING = {"cls": "cls", "mean": "mean", "max": "max", "last": "lasttoken"}
_OLD_MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_UNKNOWN = FittingPath()


def write_dense(
    model_folder: str | os.PathLike[str],
    matrix: ArrayLike,
    bias: ArrayLike,
    to: str | os.PathLike[str],
    *,
    path: FittingPath = _UNKNOWN,
    examples: Examples | None = None,
    texts: Sequence[str] = TEXTS,
    name: str = "",
    overwrite: bool = False,
) -> Path:
    """Copy a model's folder with x @ matrix + bias at the place of its pipeline where the map was fitted.

    A map fitted on vectors of length 1 goes after the model's Normalize and is followed by another one; a model without one
    gets a Normalize before the map. Any other map goes before a final Normalize, or to the end. The copy is read back and
    tested on `texts` against the original's vectors put through the map. It is complete or absent. `examples` are texts with
    the vectors that the map was fitted on: the model must give the same ones. Only a folder that this function wrote is ever
    replaced.
    """
    source, target = Path(model_folder), Path(to)
    if not source.is_dir():
        raise EncoderError(f"there is no folder {source}; name the folder of a model (download one from the Hub first)")
    if target.resolve() == source.resolve() or source.resolve() in target.resolve().parents:
        raise ValueError(f"{target} is inside the model's own folder; write the copy somewhere else")
    require_outside(target, source)
    with atomic_folder(target, overwrite=overwrite, marker=MARKER) as partial:
        shutil.copytree(source, partial, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", ".cache"))
        add_dense(partial, matrix, bias, path=path, examples=examples, texts=texts, name=name or source.name)
        write_json(partial / MARKER.file, MARKER.about)
    return target


def add_dense(
    folder: Path,
    matrix: ArrayLike,
    bias: ArrayLike,
    *,
    path: FittingPath = _UNKNOWN,
    examples: Examples | None = None,
    texts: Sequence[str] = TEXTS,
    name: str = "",
) -> None:
    """Add the map to a model's folder in place and test it; for a folder that nobody reads yet."""
    M, b = np.asarray(matrix, dtype=np.float64), np.asarray(bias, dtype=np.float64)
    if M.ndim != 2 or b.shape != (M.shape[1],):
        raise ValueError(f"matrix of shape {M.shape} and bias of shape {b.shape} must be (d, e) and (e,) of x @ matrix + bias")
    if not (np.isfinite(M).all() and np.isfinite(b).all()):
        raise ValueError("matrix and bias have values that are not finite numbers; such a map cannot be exported")
    name = name or folder.name
    modules = _modules(folder, path, name)
    if path.max_length is not None:
        _limit_length(folder, modules, path.max_length)
    ends_normalized = modules[-1]["type"] == f"{_TYPES}Normalize"
    reading: dict[str, Any] = {"without_last": ends_normalized and not path.normalized, "normalize": path.normalized}
    # None is the model's own default prompt, which its `encode` puts before a text; pooled hidden states have none.
    reading["prompt"] = path.prompt or ("" if path.unit in _POOLING else None)
    _require_same_path(folder, path, examples, reading, name)
    X = _vectors(folder, texts, **reading)
    if X.shape[1] != len(M):
        raise ValueError(f"the map takes {len(M)} dimensions but {name} gives {X.shape[1]}; fit it on this model's vectors")
    expected = X @ M + b
    if ends_normalized:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    # A pipeline that returned vectors of length 1 still does, so a Normalize comes last if one did.
    count = len(modules)
    before, after = [], [modules.pop()] if reading["without_last"] else []
    if path.normalized and ends_normalized:
        after = [{"path": f"{count + 1}_Normalize", "type": f"{_TYPES}Normalize"}]
    elif path.normalized:
        before = [{"path": f"{count}_Normalize", "type": f"{_TYPES}Normalize"}]
    dense = f"{count + len(before)}_Dense"
    _write_module(folder / dense, M, b)
    modules += [*before, {"path": dense, "type": f"{_TYPES}Dense"}, *after]
    for module in modules:
        (folder / module["path"]).mkdir(exist_ok=True)
    _write_modules(folder, modules)
    write_json(folder / dense / SELF_TEST, {"texts": list(texts), "prompt": reading["prompt"], "vectors": expected.tolist()})
    difference = check_dense(folder)
    if difference > AGREEMENT:
        raise EncoderError(f"the written model's vectors differ from the map's (by {difference:.2g} of the largest value)")


def check_dense(folder: str | os.PathLike[str]) -> float:
    """Repeat the self-test of a written model: the largest difference, as a share of the largest value; 1e-7 is rounding."""
    tests = sorted(Path(folder).glob(f"*_Dense/{SELF_TEST}"), key=lambda path: natural_key(path.parent.name))
    if not tests:
        raise FileNotFoundError(f"{folder} has no *_Dense/{SELF_TEST}: no repair was exported into it")
    # The whole pipeline was tested with the last map that was added.
    with reading(tests[-1], "the self-test of a repair", again="export the repair again"):
        test = read_json(tests[-1])
        texts, prompt, expected = list(test["texts"]), test.get("prompt"), np.asarray(test["vectors"], dtype=np.float64)
        if expected.ndim != 2 or len(texts) != len(expected):
            raise ValueError("it does not have one vector per text")
    vectors = _vectors(Path(folder), texts, prompt=prompt)
    return _difference(vectors, expected) if vectors.shape == expected.shape else math.inf


def _require_same_path(folder: Path, path: FittingPath, examples: Examples | None, reading: Mapping[str, Any], name: str) -> None:
    """Refuse a map that was fitted on other vectors than the model gives at its place."""
    if path.layer is not None and path.unit in _POOLING:
        from theodolite.models.location import find_encoder, last_layer

        last = last_layer(find_encoder(folder))
        if path.layer != last:
            raise ValueError(
                f"the repair was fitted on layer {path.layer}, but {name} returns its last one, {last}; "
                f"fit it on {option('layers', 'last')}"
            )
    if examples is None or not len(examples[0]):
        return
    vectors = _vectors(folder, examples[0], **reading)
    difference = _difference(vectors, examples[1]) if vectors.shape == examples[1].shape else np.inf
    if difference > SAME_PATH:
        length = "of length 1" if path.normalized else "before a Normalize"
        limit = "its own length limit" if path.max_length is None else f"the length limit of the fit, {path.max_length} tokens"
        way = "" if path.max_length else f"; if the fit used another one, name it with {option('max_length', 'N')}"
        raise ValueError(
            f"{name} gives other vectors for the texts of the fit ({length}, at {limit}{way}) than the repair was fitted on "
            f"(they differ by {difference:.2g} of the largest value); export it into the model, pooling and prompt it was fitted "
            "on, or fit it again"
        )


def _difference(vectors: Doubles, expected: Doubles) -> float:
    return float(np.abs(vectors - expected).max() / np.abs(expected).max())


def _modules(folder: Path, path: FittingPath, name: str) -> list[dict[str, Any]]:
    """The modules of the pipeline, in the form that old releases read; a plain encoder is given one."""
    if path.unit and path.unit not in ("text", *_POOLING):
        raise ValueError(
            f"the repair was fitted on vectors of {path.unit}, but a sentence-transformers model returns vectors of texts; "
            f"fit it on {option('unit', 'text')}"
        )
    file = folder / "modules.json"
    if not file.is_file():
        return _pipeline(folder, path, name)
    modules: list[dict[str, Any]] = read_json(file)
    with reading(file, "a list of modules"):
        modules = sorted(modules, key=lambda module: int(module["idx"]))
    for module in modules:
        kind = str(module["type"]).rpartition(".")[2]
        if str(module["type"]).startswith("sentence_transformers."):
            module["type"] = _TYPES + kind
        _rewrite_settings(folder / str(module["path"]), kind)
        if path.unit in _POOLING and kind == "Pooling":
            settings = read_json(folder / str(module["path"]) / "config.json")
            modes = [mode for mode, old in _OLD_MODES.items() if settings.get(old)]
            if modes != [_POOLING[path.unit]]:
                own = " and ".join(modes)
                raise ValueError(
                    f"the repair was fitted on {path.unit} vectors, but {name} pools by {own}; fit it on the model's own vectors"
                )
        elif path.unit in _POOLING and kind not in ("Transformer", "Normalize"):
            raise ValueError(
                f"{name} has a {kind} after its pooling; fit the repair on what it returns, {option('unit', 'text')}"
            )
    _write_modules(folder, modules)
    return modules


def _pipeline(folder: Path, path: FittingPath, name: str) -> list[dict[str, Any]]:
    """A pipeline for a plain encoder: itself and the pooling that the map was fitted on."""
    if path.unit not in _POOLING:
        raise ValueError(
            f"{name} is a plain encoder without pooling; fit the repair on a space that extract wrote with "
            f"{option('unit', 'mean')}, or another of {', '.join(_POOLING)}"
        )
    config = read_json(folder / "config.json")
    d = config.get("hidden_size", config.get("dim", config.get("d_model")))
    modes = {old: mode == _POOLING[path.unit] for mode, old in _OLD_MODES.items()}
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": d, **modes})
    if not (folder / "sentence_bert_config.json").is_file():  # old releases insist on it
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": None, "do_lower_case": False})
    modules = [{"path": "", "type": f"{_TYPES}Transformer"}, {"path": "1_Pooling", "type": f"{_TYPES}Pooling"}]
    # It has to load as a pipeline for the vectors that the map is tested on.
    _write_modules(folder, modules)
    return modules


def _rewrite_settings(folder: Path, kind: str) -> None:
    """Give a module's settings the names that old releases know; new ones read both. Settings without such a name stay."""
    file = folder / ("sentence_bert_config.json" if kind == "Transformer" else "config.json")
    if kind not in ("Transformer", "Pooling", "Dense") or not file.is_file():
        return
    settings = read_json(file)
    if kind == "Pooling" and "pooling_mode" in settings:
        modes = settings.pop("pooling_mode")
        settings |= {old: mode == modes or (isinstance(modes, list) and mode in modes) for mode, old in _OLD_MODES.items()}
        settings["word_embedding_dimension"] = settings.pop("embedding_dimension")
    elif kind == "Dense":
        for name in ("module_input_name", "module_output_name"):
            if settings.get(name) == "sentence_embedding":
                del settings[name]
    elif kind == "Transformer" and settings.get("transformer_task") == "feature-extraction":
        settings = {"max_seq_length": settings.get("max_seq_length"), "do_lower_case": settings.get("do_lower_case", False)}
    write_json(file, settings)


def _limit_length(folder: Path, modules: Sequence[Mapping[str, Any]], max_length: int) -> None:
    """Let the model cut texts after as many tokens as those of the fit."""
    for module in modules:
        if module["type"] == f"{_TYPES}Transformer":
            file = folder / str(module["path"]) / "sentence_bert_config.json"
            settings = read_json(file) if file.is_file() else {"do_lower_case": False}
            write_json(file, {**settings, "max_seq_length": max_length})


def _write_modules(folder: Path, modules: Sequence[Mapping[str, Any]]) -> None:
    write_json(folder / "modules.json", [{**module, "idx": i, "name": str(i)} for i, module in enumerate(modules)])


def _vectors(
    folder: Path, texts: Sequence[str], *, without_last: bool = False, normalize: bool = False, prompt: str | None = None
) -> Doubles:
    from sentence_transformers import SentenceTransformer

    with reading(folder / "modules.json", "a list of modules"):
        foreign = foreign_class(read_json(folder / "modules.json"), folder)
    if foreign:
        raise EncoderError(f"{folder} runs code of its own ({foreign}); use a model without such code")
    with quiet_loading(), reading(folder, "a sentence-transformers model"):
        model: Any = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
        if without_last:
            # The last module is left out in place: another pipeline of the others would lose the model's prompts.
            del model[-1]
        vectors = model.encode(
            list(texts), prompt=prompt, normalize_embeddings=normalize, show_progress_bar=False, convert_to_numpy=True
        )
    return np.asarray(vectors, dtype=np.float64)


def _write_module(folder: Path, M: Doubles, b: Doubles) -> None:
    from safetensors.numpy import save_file

    folder.mkdir()
    shape = {"in_features": M.shape[0], "out_features": M.shape[1], "bias": True}
    write_json(folder / "config.json", {**shape, "activation_function": "torch.nn.modules.linear.Identity"})
    # torch's Linear computes x @ weight.T + bias.
    weights = {"linear.weight": np.ascontiguousarray(M.T, dtype=np.float32), "linear.bias": b.astype(np.float32)}
    save_file(weights, folder / "model.safetensors")
