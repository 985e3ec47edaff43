"""The registry of repairs: what the command line, the contract tests and the store read."""

from __future__ import annotations

from theodolite.repairs.base import Repair
from theodolite.repairs.center import Standardize, ZeroMean
from theodolite.repairs.clusterwise import ClusterRemoveDirections, ClusterZeroMean
from theodolite.repairs.directions import RemoveDirections
from theodolite.repairs.rogue import DropRogueDimensions
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
