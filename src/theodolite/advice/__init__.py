"""Decisions from measurements: what a survey shows, whether it is healthy, and the smallest thing to try."""

from theodolite.advice.diagnosis import findings
from theodolite.advice.repair_scores import repaired_scores, row_cosines

__all__ = ["findings", "repaired_scores", "row_cosines"]
