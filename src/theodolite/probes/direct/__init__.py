"""DirectProbe: the labels of a space as clusters with disjoint convex hulls."""

from theodolite.probes.direct.direct_probe import DirectProbe, NoSpread

__all__ = ["DirectProbe", "NoSpread"]
