"""Clouds shaped like real embeddings, of any size: made in chunks on disk, so that making them needs no memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]

CHUNK = 50_000
GROUPS = 40


def cloud_file(folder: Path, n: int, d: int, *, seed: int = 0) -> Path:
    """A float32 .npy of n rows, made once for all tables that ask for it.

    A mixture of 40 unequal groups around a common mean, with variances that fall as 1/j along random directions and three
    dimensions that stand out: what encoders give.
    """
    path = folder / f"cloud-{n}x{d}-{seed}.npy"
    if path.exists():
        return path
    random = np.random.default_rng(seed)
    deviations = np.arange(1, d + 1, dtype=np.float32) ** np.float32(-0.5)
    rotation = np.linalg.qr(random.standard_normal((d, d)))[0].astype(np.float32)
    shape = deviations[:, None] * rotation
    mean = 0.1 * random.standard_normal(d, dtype=np.float32)
    mean[:3] += 2
    centres = mean + 0.7 * random.standard_normal((GROUPS, d), dtype=np.float32) @ shape
    weights = random.dirichlet(np.full(GROUPS, 2.0))
    unfinished = path.with_suffix(".part")
    rows = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float32, shape=(n, d))
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        groups = random.choice(GROUPS, size, p=weights)
        rows[start : start + size] = random.standard_normal((size, d), dtype=np.float32) @ shape + centres[groups]
    rows.flush()
    unfinished.rename(path)
    return path


def load(path: Path) -> Singles:
    """The rows in memory, as a plain array."""
    rows: NDArray[Any] = np.load(path)
    return rows
