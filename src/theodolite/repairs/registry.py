"""The registry of repairs: their names, the settings each of them takes, and how to make one from its name."""

from __future__ import annotations

import difflib
from typing import Any

from theodolite.repairs.base import Repair, repair_settings
from theodolite.repairs.center import Standardize, ZeroMean
from theodolite.repairs.clusterwise import ClusterRemoveDirections, ClusterZeroMean
from theodolite.repairs.directions import DropRogueDimensions, RemoveDirections
from theodolite.repairs.weighted import WeightedRemoval
from theodolite.repairs.whiten import Whiten

REPAIRS: dict[str, type[Repair]] = {
    "zero-mean": ZeroMean,
    "standardize": Standardize,
    "global": RemoveDirections,
    "cluster-zero-mean": ClusterZeroMean,
    "cluster-based": ClusterRemoveDirections,
    "whiten": Whiten,
    "drop-rogue": DropRogueDimensions,
    "weighted": WeightedRemoval,
}
"""All repairs by name. Least-dominant removal is `which="bottom"` of "global" and "cluster-based"."""


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
    close = difflib.get_close_matches(name, REPAIRS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(REPAIRS)}"
    raise ValueError(f"there is no repair {name!r}; {hint}")


def make_repair(
    name: str,
    *,
    directions: int | None = None,
    clusters: int | None = None,
    components: int | None = None,
    seed: int = 0,
    **settings: Any,
) -> Repair:
    """A repair that is not fitted yet, from its name and its settings.

    Parameters
    ----------
    name
        A name in REPAIRS.
    directions
        Number of principal directions to remove; None leaves it to the repair.
    clusters
        Number of clusters to repair one by one; None leaves it to the repair.
    components
        Number of dimensions of the result; None leaves it to the repair.
    seed
        Seed of k-means, if the repair has one.
    settings
        Any other setting of the repair, with or without the prefix `n_`.

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
    counts = {"directions": directions, "clusters": clusters, "components": components}
    values = {}
    for key, value in {**{key: count for key, count in counts.items() if count is not None}, **settings}.items():
        parameter = next((parameter for parameter in (key, f"n_{key}") if parameter in defaults), None)
        if parameter is None:
            raise ValueError(f"{kind.__name__} has no setting {key!r}; it has {', '.join(defaults) or 'none'}")
        values[parameter] = value
    return kind(**({"seed": seed} if "seed" in defaults else {}) | values)
