"""How wide a cluster is: the distances of its points to one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK = 1024
"""Rows of a block of pairwise distances held at a time."""


def inside_distances(points: Floats) -> tuple[float, float]:
    """Mean and largest Euclidean distance of two different rows; both 0 for a single one."""
    n = len(points)
    if n == 1:
        return 0.0, 0.0
    points = points - points.mean(axis=0)  # a far-off cluster loses no digits
    norms = np.einsum("ij,ij->i", points, points)
    total = largest = 0.0
    for start in range(0, n, BLOCK):
        block = points[start : start + BLOCK]
        squares = norms[start : start + BLOCK, None] + norms[start:] - 2.0 * (block @ points[start:].T)
        squares[np.tril_indices(len(block), m=squares.shape[1])] = 0.0
        distances = np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
        total += float(distances.sum())
        largest = max(largest, float(distances.max()))
    return 2.0 * total / (n * (n - 1)), largest
