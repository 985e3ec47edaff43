"""Rules over rows, one family a file. Importing this package registers them all."""

from theodolite.studies.rules import audits, change, drift, families, gains, labels, layers, repairing, sweep, transfer
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.registry import RULES, Rule

__all__ = [
    "RULES",
    "Evidence",
    "Rule",
    "audits",
    "change",
    "drift",
    "families",
    "gains",
    "labels",
    "layers",
    "repairing",
    "sweep",
    "transfer",
]
