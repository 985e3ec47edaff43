"""Probes: how labels lie in a space, by exact hull geometry and by classifiers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.probes.alignment import cka
    from theodolite.probes.classifier import ClassifierProbe
    from theodolite.probes.code_length import description_length
    from theodolite.probes.control import ControlTask, selectivity
    from theodolite.probes.direct import DirectProbe
    from theodolite.probes.hulls import HullGap, hull_gap
    from theodolite.probes.linear import LinearProbe
    from theodolite.probes.movement import centroid_movement, centroid_paths
    from theodolite.probes.score import ProbeScore
    from theodolite.probes.similarity import Similarity, spatial_similarity

_HOME = {
    "ClassifierProbe": "classifier",
    "ControlTask": "control",
    "DirectProbe": "direct",
    "HullGap": "hulls",
    "LinearProbe": "linear",
    "ProbeScore": "score",
    "Similarity": "similarity",
    "centroid_movement": "movement",
    "centroid_paths": "movement",
    "cka": "alignment",
    "description_length": "code_length",
    "hull_gap": "hulls",
    "selectivity": "control",
    "spatial_similarity": "similarity",
}

__all__ = [
    "ClassifierProbe",
    "ControlTask",
    "DirectProbe",
    "HullGap",
    "LinearProbe",
    "ProbeScore",
    "Similarity",
    "centroid_movement",
    "centroid_paths",
    "cka",
    "description_length",
    "hull_gap",
    "selectivity",
    "spatial_similarity",
]


def __getattr__(name: str) -> Any:
    # Names are fetched when first used: the hulls' kernels and scikit-learn take a second to load.
    if name not in _HOME:
        raise AttributeError(f"module 'theodolite.probes' has no attribute {name!r}")
    return getattr(import_module(f"theodolite.probes.{_HOME[name]}"), name)
