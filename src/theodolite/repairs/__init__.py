"""Repairs of embedding spaces, as scikit-learn transformers: learned from one set of vectors, applied to any other."""

from theodolite.repairs.base import Repair, fold_affine, repair_settings
from theodolite.repairs.bridge import Bridge
from theodolite.repairs.catalogue import REPAIRS, StoredRepairError, load_repair, make_repair, repair_named, save_repair
from theodolite.repairs.clusterwise import ClusterRemoveDirections, ClusterZeroMean
from theodolite.repairs.directions import DropRogueDimensions, KeepDirections, RemoveDirections, Truncate, scaled_count
from theodolite.repairs.scaling import PowerWhiten, Rotate, Standardize, UnitLength, Whiten, ZeroMean
from theodolite.repairs.weighted import WeightedRemoval

# fmt: off
__all__ = [
    "REPAIRS", "Bridge", "ClusterRemoveDirections", "ClusterZeroMean", "DropRogueDimensions", "KeepDirections",
    "PowerWhiten", "RemoveDirections", "Repair", "Rotate", "Standardize", "StoredRepairError", "Truncate", "UnitLength",
    "WeightedRemoval", "Whiten", "ZeroMean", "fold_affine", "load_repair", "make_repair", "repair_named", "repair_settings",
    "save_repair", "scaled_count",
]
# fmt: on
