"""Fine-tuning with the geometry of the space tracked: Siamese, sequence, tagging and word-pair training, and isotropy methods."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.tuning.evaluator import GeometryEvaluator as GeometryEvaluator
    from theodolite.tuning.isotropy_layer import IsotropyLayer as IsotropyLayer
    from theodolite.tuning.run_plans import PRESETS as PRESETS
    from theodolite.tuning.run_plans import plan_runs as plan_runs
    from theodolite.tuning.run_plans import preset as preset
    from theodolite.tuning.runs import Tuned as Tuned
    from theodolite.tuning.settings import LayerSettings as LayerSettings
    from theodolite.tuning.settings import TuneSettings as TuneSettings
    from theodolite.tuning.tracker import Alarm as Alarm
    from theodolite.tuning.tracker import CollapseWarning as CollapseWarning
    from theodolite.tuning.tracker import GeometryCallback as GeometryCallback
    from theodolite.tuning.tracker import GeometryTracker as GeometryTracker
    from theodolite.tuning.training import fine_tune as fine_tune
    from theodolite.tuning.training import tune_runs as tune_runs
    from theodolite.tuning.tuned_classifier import TunedClassifier as TunedClassifier

_NAMES = {
    "evaluator": ("GeometryEvaluator",),
    "isotropy_layer": ("IsotropyLayer",),
    "run_plans": ("PRESETS", "plan_runs", "preset"),
    "runs": ("Tuned",),
    "settings": ("LayerSettings", "TuneSettings"),
    "tracker": ("Alarm", "CollapseWarning", "GeometryCallback", "GeometryTracker"),
    "training": ("fine_tune", "tune_runs"),
    "tuned_classifier": ("TunedClassifier",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
_EXTRA = {"torch", "transformers", "sentence_transformers", "accelerate", "datasets"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    # Settings are read by the command line's help, which must not wait for torch.
    if name not in _HOME:
        raise AttributeError(f"module 'theodolite.tuning' has no attribute {name!r}")
    try:
        return getattr(import_module(f"theodolite.tuning.{_HOME[name]}"), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        from theodolite.models.encoder import INSTALL

        raise ImportError(f"fine-tuning needs {missing.name}, which is not installed; run: {INSTALL}") from missing
