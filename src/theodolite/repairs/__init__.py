"""Repairs of embedding spaces, as scikit-learn transformers: learned from one set of vectors, applied to any other."""

from theodolite.repairs.affine import fold_affine
from theodolite.repairs.base import Repair, repair_settings
from theodolite.repairs.center import Standardize, ZeroMean
from theodolite.repairs.clusterwise import ClusterRemoveDirections, ClusterZeroMean
from theodolite.repairs.directions import DropRogueDimensions, RemoveDirections, scaled_count
from theodolite.repairs.registry import REPAIRS, make_repair, repair_named
from theodolite.repairs.store import StoredRepairError, load_repair, save_repair
from theodolite.repairs.weighted import WeightedRemoval
from theodolite.repairs.whiten import Whiten

__all__ = [
    "REPAIRS",
    "ClusterRemoveDirections",
    "ClusterZeroMean",
    "DropRogueDimensions",
    "RemoveDirections",
    "Repair",
    "Standardize",
    "StoredRepairError",
    "WeightedRemoval",
    "Whiten",
    "ZeroMean",
    "fold_affine",
    "load_repair",
    "make_repair",
    "repair_named",
    "repair_settings",
    "save_repair",
    "scaled_count",
]
