"""Theodolite surveys embedding spaces: it measures how a space is shaped, shows what fine-tuning did to it, and repairs it.

>>> import numpy as np
>>> import theodolite as th
>>> result = th.survey(np.random.default_rng(0).standard_normal((500, 8)), metrics=["iso_score"])
>>> round(result.value("iso_score"), 1)
1.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.advice.diagnosis import findings
    from theodolite.core.result import Result
    from theodolite.core.rows import Row
    from theodolite.metrics import METRICS, Cloud
    from theodolite.probes import DirectProbe
    from theodolite.repairs import REPAIRS, load_repair
    from theodolite.reports.drawing import report
    from theodolite.spaces import Space, read
    from theodolite.studies import study
    from theodolite.tuning import GeometryCallback
    from theodolite.verbs import repairing as repair
    from theodolite.verbs.advising import advise
    from theodolite.verbs.calibrating import calibrate
    from theodolite.verbs.comparing import compare
    from theodolite.verbs.extracting import extract
    from theodolite.verbs.fine_tuning import tune
    from theodolite.verbs.gating import gate
    from theodolite.verbs.migrating import migrate
    from theodolite.verbs.probing import probe
    from theodolite.verbs.surveying import survey
    from theodolite.verbs.verifying import verify

_HOME = {
    "METRICS": "metrics",
    "REPAIRS": "repairs",
    "Cloud": "metrics",
    "DirectProbe": "probes",
    "GeometryCallback": "tuning",
    "Result": "core.result",
    "Row": "core.rows",
    "Space": "spaces",
    "advise": "verbs.advising",
    "calibrate": "verbs.calibrating",
    "compare": "verbs.comparing",
    "extract": "verbs.extracting",
    "findings": "advice.diagnosis",
    "gate": "verbs.gating",
    "load_repair": "repairs",
    "migrate": "verbs.migrating",
    "probe": "verbs.probing",
    "read": "spaces",
    "report": "reports.drawing",
    "study": "studies",
    "survey": "verbs.surveying",
    "tune": "verbs.fine_tuning",
    "verify": "verbs.verifying",
}
_MODULES = {
    name: name
    for name in (
        "advice",
        "cli",
        "core",
        "metrics",
        "models",
        "probes",
        "repairs",
        "reports",
        "spaces",
        "studies",
        "tasks",
        "tuning",
        "verbs",
    )
} | {"repair": "verbs.repairing"}

__version__ = "0.3.0"
__all__ = [
    "METRICS",
    "REPAIRS",
    "Cloud",
    "DirectProbe",
    "GeometryCallback",
    "Result",
    "Row",
    "Space",
    "advise",
    "calibrate",
    "compare",
    "extract",
    "findings",
    "gate",
    "load_repair",
    "migrate",
    "probe",
    "read",
    "repair",
    "report",
    "study",
    "survey",
    "tune",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Names are fetched when first used, so that importing the package costs nothing.
    if name in _HOME:
        value = getattr(import_module(f"theodolite.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"theodolite.{_MODULES[name]}")
    else:
        raise AttributeError(f"module 'theodolite' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, *_MODULES})
