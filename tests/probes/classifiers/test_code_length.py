"""Online code length: bounds, both extremes, and that it orders tasks by how hard they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from theodolite.probes.classifiers.code_length import TIMESTEPS, CodeSettings, _rows_sent, description_length

SMALL = CodeSettings(hidden=(16,), alphas=(1e-3, 1e-1, 1.0), max_iter=100)


def clouds(spread: float, *, n: int = 400, k: int = 4, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """k clouds in 8 dimensions; the smaller the spread, the easier their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    return 3 * np.eye(8)[y] + spread * rng.standard_normal((n, 8)), y


def test_the_published_timesteps() -> None:
    assert [100 * share for share in TIMESTEPS] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.125, 6.25, 12.5, 25, 50, 100])
    assert _rows_sent(100_000, TIMESTEPS) == [100, 200, 400, 800, 1600, 3125, 6250, 12500, 25000, 50000, 100000]
    few = _rows_sent(50, TIMESTEPS)
    assert few[0] == 1 and few[-1] == 50 and few == sorted(set(few))


def test_easier_labels_are_shorter() -> None:
    lengths = [description_length(*clouds(spread), settings=SMALL).bits for spread in (0.3, 1.2, 3.0)]
    assert lengths == sorted(lengths)
    assert lengths[0] < 0.5 * lengths[2]


def test_random_labels_cost_what_they_cost_without_vectors() -> None:
    X, _ = clouds(1.0)
    y = np.random.default_rng(7).integers(0, 4, len(X))
    code = description_length(X, y, settings=SMALL)
    assert code.uniform_bits == pytest.approx(400 * 2)
    assert code.uniform_bits < code.bits <= code.uniform_bits + math.log2(4) + 1e-9
    assert math.isnan(code.alpha)
    assert code.compression == pytest.approx(1, abs=0.01)


def test_the_parts_sum_to_the_length() -> None:
    code = description_length(*clouds(0.5), settings=SMALL)
    assert sum(code.block_bits) + code.choice_bits == pytest.approx(code.bits)
    assert code.choice_bits == pytest.approx(2)  # three weights and the uniform code
    assert code.block_bits[0] == pytest.approx(code.ends[0] * 2)
    assert code.ends[-1] == 400 and len(code.ends) == len(code.block_bits)
    assert code.alpha in SMALL.alphas
    assert code.compression == pytest.approx(code.uniform_bits / code.bits)
    assert code.compression > 2


def test_scikit_learn_gives_nearly_the_same_code() -> None:
    """In early timesteps some classes have no rows: the two backends shuffle differently there, but both give all a share."""
    pytest.importorskip("torch")
    X, y = clouds(0.8, n=200)
    ours, theirs = (
        description_length(X, y, settings=CodeSettings(hidden=(16,), alphas=(1e-1,), max_iter=60, backend=backend))
        for backend in ("torch", "sklearn")
    )
    assert ours.bits == pytest.approx(theirs.bits, rel=0.05)


def test_determined_by_the_seed() -> None:
    X, y = clouds(1.0, n=150)
    one, again, other = (description_length(X, y, settings=SMALL, seed=seed) for seed in (0, 0, 1))
    assert one.block_bits == again.block_bits
    assert one.block_bits != other.block_bits


def test_progress_and_bad_timesteps() -> None:
    X, y = clouds(1.0, n=60)
    calls: list[tuple[int, int]] = []
    description_length(X, y, settings=SMALL, progress=lambda *at: calls.append(at))
    assert calls == [(i + 1, len(calls)) for i in range(len(calls))]
    for timesteps in ((1.0,), (0.0, 1.0), (0.5, 0.2, 1.0), (0.1, 0.9)):
        with pytest.raises(ValueError, match="must be at least two shares that rise"):
            description_length(X, y, settings=CodeSettings(timesteps=timesteps))
