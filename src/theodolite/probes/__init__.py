"""Probes: how labels are arranged in a space, by exact hull geometry and by classifiers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.probes.classifiers.control_task import ControlTask
    from theodolite.probes.classifiers.estimators import ClassifierProbe, LinearProbe, ProbeScore
    from theodolite.probes.corresponding_rows import Correspondence, KeptStructure, correspondence, kept_structure
    from theodolite.probes.direct_probe import DirectProbe, NoSpread
    from theodolite.probes.hulls.gap import HullGap, hull_gap
    from theodolite.probes.layer_probe import LayerProbe, probe_layer
    from theodolite.probes.movement import centroid_movement, centroid_paths, movement_directions
    from theodolite.probes.separable_pairs import Separability, separability
    from theodolite.probes.similarity import CkaNull, Similarity, cka, cka_similarity, spatial_similarity
    from theodolite.probes.two_samples import Shift, two_sample_shift

# fmt: off
__all__ = [
    "CkaNull", "ClassifierProbe", "ControlTask", "Correspondence", "DirectProbe", "HullGap", "KeptStructure", "LayerProbe",
    "LinearProbe", "NoSpread", "ProbeScore", "Separability", "Shift", "Similarity", "centroid_movement", "centroid_paths", "cka",
    "cka_similarity", "correspondence", "hull_gap", "kept_structure", "movement_directions",
    "probe_layer", "separability", "spatial_similarity", "two_sample_shift",
]
# fmt: on

# Modules are loaded when a name is first used: the hulls' kernels and scikit-learn take a second to load.
_NAMES = {
    "classifiers.estimators": ("ClassifierProbe", "LinearProbe", "ProbeScore"),
    "classifiers.control_task": ("ControlTask",),
    "corresponding_rows": ("Correspondence", "KeptStructure", "correspondence", "kept_structure"),
    "direct_probe": ("DirectProbe", "NoSpread"),
    "hulls.gap": ("HullGap", "hull_gap"),
    "layer_probe": ("LayerProbe", "probe_layer"),
    "movement": ("centroid_movement", "centroid_paths", "movement_directions"),
    "separable_pairs": ("Separability", "separability"),
    "similarity": ("CkaNull", "Similarity", "cka", "cka_similarity", "spatial_similarity"),
    "two_samples": ("Shift", "two_sample_shift"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"theodolite.probes.{module}"), name)
    raise AttributeError(f"module 'theodolite.probes' has no attribute {name!r}")
