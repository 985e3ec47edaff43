"""Exact geometry of convex hulls: whether two are disjoint, how far apart they are, and how far points are from them."""

from theodolite.probes.hulls.gap import TOUCHING, HullGap, hull_gap

__all__ = ["TOUCHING", "HullGap", "hull_gap"]
