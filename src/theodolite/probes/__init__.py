"""Probes: how labels are arranged in a space, by exact hull geometry and by classifiers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.probes.classifiers.code_length import description_length
    from theodolite.probes.classifiers.control_task import ControlTask, selectivity
    from theodolite.probes.classifiers.linear_probe import LinearProbe
    from theodolite.probes.classifiers.mlp_probe import ClassifierProbe
    from theodolite.probes.classifiers.scores import ProbeScore
    from theodolite.probes.direct.cost import estimate_cost
    from theodolite.probes.direct.direct_probe import DirectProbe, NoSpread
    from theodolite.probes.hulls.gap import HullGap, hull_gap
    from theodolite.probes.kernel_alignment import cka, cka_similarity
    from theodolite.probes.layer_probe import LayerProbe, probe_layer
    from theodolite.probes.movement import centroid_movement, centroid_paths, movement_directions
    from theodolite.probes.similarity import Similarity, spatial_similarity

__all__ = [
    "ClassifierProbe",
    "ControlTask",
    "DirectProbe",
    "HullGap",
    "LayerProbe",
    "LinearProbe",
    "NoSpread",
    "ProbeScore",
    "Similarity",
    "centroid_movement",
    "centroid_paths",
    "cka",
    "cka_similarity",
    "description_length",
    "estimate_cost",
    "hull_gap",
    "movement_directions",
    "probe_layer",
    "selectivity",
    "spatial_similarity",
]

# Modules are loaded when a name is first used: the hulls' kernels and scikit-learn take a second to load.
_NAMES = {
    "kernel_alignment": ("cka", "cka_similarity"),
    "classifiers.code_length": ("description_length",),
    "classifiers.control_task": ("ControlTask", "selectivity"),
    "classifiers.linear_probe": ("LinearProbe",),
    "classifiers.mlp_probe": ("ClassifierProbe",),
    "classifiers.scores": ("ProbeScore",),
    "direct.cost": ("estimate_cost",),
    "direct.direct_probe": ("DirectProbe", "NoSpread"),
    "hulls.gap": ("HullGap", "hull_gap"),
    "layer_probe": ("LayerProbe", "probe_layer"),
    "movement": ("centroid_movement", "centroid_paths", "movement_directions"),
    "similarity": ("Similarity", "spatial_similarity"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"theodolite.probes.{module}"), name)
    raise AttributeError(f"module 'theodolite.probes' has no attribute {name!r}")
