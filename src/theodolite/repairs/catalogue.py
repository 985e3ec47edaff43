"""Repairs by name: making, saving and loading them; arrays as safetensors, the rest as JSON with a hash, without pickle."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from sklearn.utils.validation import check_is_fitted

from theodolite.core.declared import as_declared
from theodolite.core.files import Marker, atomic_folder, parse_json, recover_folder, require_free_folder
from theodolite.core.rows import installed_version
from theodolite.core.spelling import suggestion
from theodolite.repairs.base import FittingPath, Repair, learned, repair_settings
from theodolite.repairs.bridge import Bridge
from theodolite.repairs.clusterwise import ClusterRemoveDirections, ClusterZeroMean
from theodolite.repairs.directions import DropRogueDimensions, KeepDirections, RemoveDirections, Truncate
from theodolite.repairs.scaling import PowerWhiten, Rotate, Standardize, UnitLength, Whiten, ZeroMean
from theodolite.repairs.weighted import WeightedRemoval

FORMAT = 1
ARRAYS = "repair.safetensors"
ABOUT = "repair.json"
MARKER = Marker(ABOUT, "repair", FORMAT)
_AGAIN = "fit and save the repair again"
# All repairs by name. Least-dominant removal is `which="bottom"` of "global" and "cluster-based".
REPAIRS: dict[str, type[Repair]] = {
    "zero-mean": ZeroMean,
    "standardize": Standardize,
    "global": RemoveDirections,
    "cluster-zero-mean": ClusterZeroMean,
    "cluster-based": ClusterRemoveDirections,
    "whiten": Whiten,
    "power-whiten": PowerWhiten,
    "unit-length": UnitLength,
    "rotate": Rotate,
    "pca": KeepDirections,
    "truncate": Truncate,
    "drop-rogue": DropRogueDimensions,
    "weighted": WeightedRemoval,
    "bridge": Bridge,
}


class _StoredAbout(TypedDict):
    """The content of `repair.json`; a later version may write more."""

    repair: str
    params: dict[str, Any]
    d: int
    sha256: str
    fitted_on: NotRequired[dict[str, Any]]
    feature_names: NotRequired[list[str] | None]


class StoredRepairError(ValueError):
    """A folder does not hold a repair as it was saved; the message says what is wrong."""


def repair_named(name: str) -> type[Repair]:
    """The class of a repair.

    Parameters
    ----------
    name
        A name in REPAIRS; case, and the difference of `-` and `_`, do not matter.

    Raises
    ------
    ValueError
        There is no such repair; the message suggests one.
    """
    for registered, kind in REPAIRS.items():
        if registered.replace("-", "_") == name.replace("-", "_").lower():
            return kind
    raise ValueError(f"there is no repair {name!r}; {suggestion(name, REPAIRS)}")


def make_repair(name: str, *, seed: int = 0, **settings: Any) -> Repair:
    """A repair that is not fitted yet, from its name and its settings.

    Parameters
    ----------
    name
        A name in REPAIRS.
    seed
        Seed of k-means, if the repair has one.
    settings
        Settings of the repair, with or without the prefix `n_`: `directions` to remove, `clusters` to repair one by one,
        `components` of the result, and others. None leaves a setting to the repair.

    Raises
    ------
    ValueError
        There is no such repair, or it does not have one of the settings.

    Examples
    --------
    >>> make_repair("global", directions=3)
    RemoveDirections(n_directions=3)
    """
    kind = repair_named(name)
    defaults = repair_settings(kind)
    values: dict[str, Any] = {"seed": seed} if "seed" in defaults else {}
    for key, value in settings.items():
        parameter = key if key in defaults else f"n_{key}"
        if parameter in defaults:
            values[parameter] = defaults[parameter] if value is None else value
        elif value is not None:
            raise ValueError(f"{kind.__name__} has no setting {key!r}; it has {', '.join(defaults) or 'none'}")
    return kind(**values)


def save_repair(repair: Repair, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted repair to a folder: `repair.safetensors` and `repair.json`, both or neither.

    Parameters
    ----------
    repair
        A fitted repair of one of the classes in REPAIRS.
    folder
        The folder to write.
    overwrite
        Whether a folder that exists may be replaced; only one that holds a repair ever is.

    Raises
    ------
    FileExistsError
        The folder exists, and may not be replaced.
    TypeError
        The repair is not one of those in REPAIRS.
    """
    check_is_fitted(repair)
    names = {kind: name for name, kind in REPAIRS.items()}
    if type(repair) not in names:
        raise TypeError(f"{type(repair).__name__} is not one of the repairs that can be saved: {', '.join(REPAIRS)}")
    require_free_folder(folder, overwrite=overwrite, marker=MARKER)  # before the arrays are copied
    from safetensors.numpy import save

    content = save({name: np.asarray(value) for name, value in learned(repair).items() if name != "feature_names_in_"})
    description = {
        **MARKER.about,
        "repair": names[type(repair)],
        "params": repair.get_params(),
        "d": repair.n_features_in_,
        "feature_names": list(getattr(repair, "feature_names_in_", [])) or None,
        "fitted_on": asdict(repair.fitted_on_),
        "sha256": hashlib.sha256(content).hexdigest(),
        "theodolite": installed_version("theodolite"),
    }
    text = json.dumps(description, indent=1, default=_plain) + "\n"
    with atomic_folder(folder, overwrite=overwrite, marker=MARKER) as partial:
        (partial / ARRAYS).write_bytes(content)
        (partial / ABOUT).write_text(text, encoding="utf-8")


def load_repair(folder: str | os.PathLike[str]) -> Repair:
    """Read what `save_repair` wrote, after comparing its hash; `transform` gives the same bits as before.

    Parameters
    ----------
    folder
        A folder that a repair was saved to.

    Raises
    ------
    FileNotFoundError
        There is no repair.
    StoredRepairError
        The folder does not hold a repair as it was saved.
    """
    folder = Path(folder)
    recover_folder(folder)
    stored = _read_about(folder)
    kind = REPAIRS[stored["repair"]]
    try:
        content = (folder / ARRAYS).read_bytes()
    except FileNotFoundError:
        raise StoredRepairError(f"{folder} has no {ARRAYS}; copy the whole folder, or fit and save the repair again") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != stored["sha256"]:
        raise StoredRepairError(
            f"{folder / ARRAYS} has SHA-256 {digest[:12]}…, not {stored['sha256'][:12]}… as when it was saved; "
            "copy it again, or fit and save the repair again"
        )
    from safetensors.numpy import load

    try:
        repair = kind(**stored["params"])
    except TypeError as error:
        raise StoredRepairError(f"{folder / ABOUT} has options that {kind.__name__} does not have: {error}") from None
    try:
        arrays = load(content)
        d = arrays["n_features_in_"].item()
    except Exception as error:  # safetensors has errors of its own
        raise StoredRepairError(f"{folder / ARRAYS} does not hold a repair ({error}); fit and save it again") from error
    for name, value in arrays.items():
        setattr(repair, name, value if value.ndim else value.item())  # numbers were saved as arrays without axes
    if names := stored.get("feature_names"):
        repair.feature_names_in_ = np.array(names, dtype=object)
    known = {name: value for name, value in stored.get("fitted_on", {}).items() if name in FittingPath.__dataclass_fields__}
    try:
        repair.fitted_on_ = as_declared(FittingPath, known)
    except ValueError as error:
        raise StoredRepairError(f"{folder / ABOUT} does not state what the repair was fitted on ({error}); {_AGAIN}") from None
    if stored["d"] != d:
        raise StoredRepairError(f"{folder / ABOUT} says d={stored['d']}, but the arrays have d={d}")
    return repair


def _read_about(folder: Path) -> _StoredAbout:
    path = folder / ABOUT
    try:
        content = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} does not hold a saved repair: there is no {ABOUT} in it") from None
    except ValueError as error:
        raise StoredRepairError(f"{path} is not JSON: {error}") from None
    form = content.get("format") if isinstance(content, dict) else None
    if form != FORMAT:
        raise StoredRepairError(f"{path} has format {form!r}; this version of theodolite reads format {FORMAT}")
    try:
        described: _StoredAbout = as_declared(_StoredAbout, content)
    except ValueError as error:
        raise StoredRepairError(f"{path} is damaged or was changed: {error}; {_AGAIN}") from None
    if described["repair"] not in REPAIRS:
        raise StoredRepairError(f"{path} names the repair {described['repair']!r:.60}; known: {', '.join(REPAIRS)}")
    return described


def _plain(value: Any) -> Any:
    """Options that are NumPy numbers, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"an option of type {type(value).__name__} cannot be saved; use a plain number, string or None")
