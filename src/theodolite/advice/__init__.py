"""Decisions from measurements: what a survey found, whether it is healthy, and the smallest thing to try."""
