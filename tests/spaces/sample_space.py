"""A small space that several tests write, open and compare."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.spaces import Origin, Space

N, D, LAYERS = 50, 3, (0, 1, 7)
rng = np.random.default_rng(11)
X = {layer: rng.normal(size=(N, D)).astype(np.float32) for layer in LAYERS}
ROWS: dict[str, Any] = {
    "text": [f"sentence {i // 10}" for i in range(N)],
    "label": [None if i % 7 == 0 else "ñ" for i in range(N)],
    "word": list(range(N)),
    "gap": [None if i % 3 == 0 else i for i in range(N)],
    "frequency": [0.1 * i for i in range(N)],
}
ORIGIN = Origin(model="m", state="pre-trained", step=2, pooling="mean")


def the_space() -> Space:
    return Space.of(X, rows=ROWS, origin=ORIGIN)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_same(space: Space, expected: Space) -> None:
    assert (space.layers, space.n, space.d, space.dtype) == (expected.layers, expected.n, expected.d, expected.dtype)
    assert space.origin == expected.origin
    for layer in expected.layers:
        np.testing.assert_array_equal(space[layer], expected[layer], strict=True)
    assert list(space.rows) == list(expected.rows)
    for name in expected.rows:
        assert list(space.rows[name]) == list(expected.rows[name])
