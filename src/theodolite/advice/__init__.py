"""Decisions from measurements: what a survey shows, which repair helps on the user's own data, and which threshold holds."""

from theodolite.advice.changes import Change
from theodolite.advice.diagnosis import findings
from theodolite.advice.repair_scores import repaired_scores, row_cosines
from theodolite.advice.nested_validation import Advice, search
from theodolite.advice.signals import JudgedQueries, LabelledRows, ScoredPairs

# fmt: off
__all__ = [
    "Advice", "Change", "JudgedQueries", "LabelledRows", "ScoredPairs", "findings", "repaired_scores", "row_cosines", "search",
]
# fmt: on
