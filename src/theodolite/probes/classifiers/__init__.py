"""Classifier probes: how well labels can be predicted from vectors, and how much of that a probe could have memorised."""
