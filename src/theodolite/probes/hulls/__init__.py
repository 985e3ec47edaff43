"""Exact geometry of convex hulls: whether two are disjoint, how far apart they are, and how far points are from them."""
