"""Repairs of embedding spaces, as scikit-learn transformers: learned on one set of vectors, applied to any other."""

from theodolite.repairs.affine import fold_affine
from theodolite.repairs.base import Repair
from theodolite.repairs.center import Standardize, ZeroMean
from theodolite.repairs.clusterwise import ClusterRemoveDirections, ClusterZeroMean
from theodolite.repairs.directions import RemoveDirections, scaled_count
from theodolite.repairs.registry import REPAIRS
from theodolite.repairs.rogue import DropRogueDimensions
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
    "save_repair",
    "scaled_count",
]
