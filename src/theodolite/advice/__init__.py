"""Decisions from measurements: what a survey shows, whether it is healthy, and the smallest thing to try."""

# Neither signals nor searches for a repair: they need scikit-learn, for whose import a survey must not wait.
from theodolite.advice.diagnosis import findings

__all__ = ["findings"]
