"""Theodolite surveys embedding spaces: it measures how a space is shaped, shows what fine-tuning did to it, and repairs it.

>>> import numpy as np
>>> import theodolite
>>> rows = theodolite.survey(np.random.default_rng(0).standard_normal((500, 8)), ["iso_score"])
>>> round(rows[0].value, 1)
1.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.advice.findings import findings
    from theodolite.core.moments import Moments
    from theodolite.core.rows import Row, read_rows, write_rows
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.compare import compare
    from theodolite.metrics.isoscore import iso_score
    from theodolite.metrics.partition import partition_isotropy
    from theodolite.metrics.registry import METRICS
    from theodolite.metrics.survey import survey
    from theodolite.repairs import REPAIRS, load_repair, save_repair
    from theodolite.spaces import read

_HOME = {
    "METRICS": "theodolite.metrics",
    "REPAIRS": "theodolite.repairs",
    "Cloud": "theodolite.metrics",
    "Moments": "theodolite.core.moments",
    "Row": "theodolite.core.rows",
    "compare": "theodolite.metrics.compare",
    "findings": "theodolite.advice.findings",
    "iso_score": "theodolite.metrics",
    "load_repair": "theodolite.repairs",
    "partition_isotropy": "theodolite.metrics",
    "read": "theodolite.spaces",
    "read_rows": "theodolite.core.rows",
    "save_repair": "theodolite.repairs",
    "survey": "theodolite.metrics.survey",
    "write_rows": "theodolite.core.rows",
}

__version__ = "0.1.0"
__all__ = [
    "METRICS",
    "REPAIRS",
    "Cloud",
    "Moments",
    "Row",
    "compare",
    "findings",
    "iso_score",
    "load_repair",
    "partition_isotropy",
    "read",
    "read_rows",
    "save_repair",
    "survey",
    "write_rows",
]


def __getattr__(name: str) -> Any:
    # Names are fetched when first used, so that importing the package costs nothing.
    if name not in _HOME:
        raise AttributeError(f"module 'theodolite' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
