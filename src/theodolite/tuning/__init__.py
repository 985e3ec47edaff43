"""Fine-tuning that is tracked: Siamese, sequence, tagging and word-pair training on the libraries' own trainers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.tuning.alarm import Alarm, CollapseWarning
    from theodolite.tuning.classifier import TunedClassifier
    from theodolite.tuning.layer_settings import LayerSettings
    from theodolite.tuning.run import Tuned
    from theodolite.tuning.settings import PRESETS, TuneSettings, preset
    from theodolite.tuning.tracking import GeometryCallback, GeometryTracker
    from theodolite.tuning.training import tune

_HOME = {
    "PRESETS": "settings",
    "Alarm": "alarm",
    "CollapseWarning": "alarm",
    "GeometryCallback": "tracking",
    "GeometryTracker": "tracking",
    "LayerSettings": "layer_settings",
    "TuneSettings": "settings",
    "Tuned": "run",
    "TunedClassifier": "classifier",
    "preset": "settings",
    "tune": "training",
}
_EXTRA = {"torch", "transformers", "sentence_transformers", "accelerate", "datasets"}

__all__ = [
    "PRESETS",
    "Alarm",
    "CollapseWarning",
    "GeometryCallback",
    "GeometryTracker",
    "LayerSettings",
    "TuneSettings",
    "Tuned",
    "TunedClassifier",
    "preset",
    "tune",
]


def __getattr__(name: str) -> Any:
    # Settings are read by the command line's help, which must not wait for torch.
    if name not in _HOME:
        raise AttributeError(f"module 'theodolite.tuning' has no attribute {name!r}")
    try:
        return getattr(import_module(f"theodolite.tuning.{_HOME[name]}"), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise ImportError(f"fine-tuning needs {missing.name}, which is not there: pip install 'theodolite[models]'") from missing
