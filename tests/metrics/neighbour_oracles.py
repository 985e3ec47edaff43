"""Clouds and plain loops that the tests of neighbours and of retrieval compare with."""

from __future__ import annotations

import numpy as np


def cloud(n: int = 150, d: int = 8, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * np.linspace(2, 0.5, d) + 0.5


def rotation(d: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(9).standard_normal((d, d)))[0]


def slow_table(X: np.ndarray, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Lists and cosine distances by loops over all rows."""
    index, distance = [], []
    for i, x in enumerate(X):
        neighbours = sorted((1 - x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), j) for j, y in enumerate(X) if j != i)[:k]
        index.append([j for _, j in neighbours])
        distance.append([gap for gap, _ in neighbours])
    return np.array(index), np.array(distance)
