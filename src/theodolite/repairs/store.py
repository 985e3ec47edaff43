"""Saving and loading repairs: arrays as safetensors, the rest as JSON with a hash; no pickle, whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from theodolite.core.files import replace_folder, sync
from theodolite.repairs.base import Repair, learned
from theodolite.repairs.registry import REPAIRS

FORMAT = 1
ARRAYS = "repair.safetensors"
ABOUT = "repair.json"


class StoredRepairError(ValueError):
    """A folder does not hold a repair as it was saved; the message says what is wrong."""


def save_repair(repair: Repair, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted repair to a folder: `repair.safetensors` and `repair.json`, both or neither.

    A folder that exists is an error unless `overwrite`, and then it must hold a repair.
    """
    check_is_fitted(repair)
    names = {kind: name for name, kind in REPAIRS.items()}
    if type(repair) not in names:
        raise TypeError(f"{type(repair).__name__} is not one of the repairs that can be saved: {sorted(REPAIRS)}")
    target = Path(folder)
    _require_free(target, overwrite=overwrite)
    from safetensors.numpy import save

    content = save({name: np.asarray(value) for name, value in learned(repair).items() if name != "feature_names_in_"})
    about = {
        "format": FORMAT,
        "repair": names[type(repair)],
        "params": repair.get_params(),
        "d": repair.n_features_in_,
        "feature_names": list(getattr(repair, "feature_names_in_", [])) or None,
        "sha256": hashlib.sha256(content).hexdigest(),
        "theodolite": _version(),
    }
    text = json.dumps(about, indent=1, default=_plain) + "\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        partial.chmod(0o777 & ~_umask())  # mkdtemp makes folders that only their owner can read
        _write(partial / ARRAYS, content)
        _write(partial / ABOUT, text.encode())
        sync(partial)
        replace_folder(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def load_repair(folder: str | os.PathLike[str]) -> Repair:
    """Read what `save_repair` wrote, after checking its hash; `transform` gives the same bits as before."""
    folder = Path(folder)
    about = _read_about(folder)
    kind = REPAIRS[about["repair"]]
    try:
        content = (folder / ARRAYS).read_bytes()
    except FileNotFoundError:
        raise StoredRepairError(f"{folder} has no {ARRAYS}; copy the whole folder, or fit and save the repair again") from None
    found = hashlib.sha256(content).hexdigest()
    if found != about["sha256"]:
        raise StoredRepairError(
            f"{folder / ARRAYS} has SHA-256 {found[:12]}…, saved was {str(about['sha256'])[:12]}…: it was changed or cut short; "
            "fetch it again, or fit and save the repair again"
        )
    from safetensors.numpy import load

    try:
        repair = kind(**about["params"])
    except TypeError as error:
        raise StoredRepairError(f"{folder / ABOUT} holds options that {kind.__name__} does not have: {error}") from None
    for name, value in load(content).items():
        setattr(repair, name, _restored(value))
    if about.get("feature_names"):
        repair.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    if about["d"] != repair.n_features_in_:
        raise StoredRepairError(f"{folder / ABOUT} says d={about['d']}, the arrays are of d={repair.n_features_in_}")
    return repair


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} holds no saved repair: there is no {ABOUT} in it") from None
    except ValueError as error:
        raise StoredRepairError(f"{path} is not JSON: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        stored = about.get("format") if isinstance(about, dict) else None
        raise StoredRepairError(f"{path} has format {stored!r}; this version of theodolite reads format {FORMAT}")
    missing = {"repair", "params", "d", "sha256"} - about.keys()
    if missing:
        raise StoredRepairError(f"{path} lacks {min(missing)!r}; fit and save the repair again")
    if about["repair"] not in REPAIRS:
        raise StoredRepairError(f"{path} names the repair {about['repair']!r}; known are {sorted(REPAIRS)}")
    return about


def _require_free(target: Path, *, overwrite: bool) -> None:
    if not target.exists() and not target.is_symlink():
        return
    if not overwrite:
        raise FileExistsError(f"{target} exists; pass overwrite=True to replace it, or choose another folder")
    if not (target / ABOUT).is_file():
        raise FileExistsError(f"{target} exists and holds no repair, so it is not replaced; choose another folder")


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _restored(value: NDArray[Any]) -> Any:
    return value if value.ndim else value.item()


def _plain(value: Any) -> Any:
    """Options given as NumPy numbers, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"an option of type {type(value).__name__} cannot be saved; set it to a plain number, string or None")


def _version() -> str:
    try:
        return version("theodolite")
    except PackageNotFoundError:
        return "not installed"
