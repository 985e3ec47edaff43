"""Halves of a cloud have the numbers that a cloud of their rows has, although pairs are measured once for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.core.intervals import half_samples
from theodolite.metrics import METRICS, Cloud, default_metrics
from theodolite.metrics import cosine as cosine_module
from theodolite.metrics.resampling import half_clouds

NAMES = [name for name in default_metrics() if METRICS[name].resample]


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 6)) * np.arange(1, 7) + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_half_has_the_values_of_its_rows(dtype: type) -> None:
    X = rows(200).astype(dtype)
    X[[3, 50]] = 0  # rows without a direction
    halves = half_samples(len(X), 3, seed=5)
    for half, part in zip(halves, half_clouds(Cloud(X), NAMES, 3, seed=5), strict=True):
        alone = Cloud(X[half])
        for name in NAMES:
            expected = METRICS[name].value(alone)[0]
            assert METRICS[name].value(part)[0] == pytest.approx(expected, rel=1e-4 if dtype is np.float32 else 1e-9), name


def test_pairs_of_a_large_cloud_are_drawn_once_and_as_many_as_a_half_would_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.metrics.resampling.PAIRS", 500)
    drawn: list[int] = []
    measure = cosine_module.draw_pairs
    monkeypatch.setattr(
        "theodolite.metrics.resampling.draw_pairs", lambda cloud, pairs: drawn.append(pairs) or measure(cloud, pairs)
    )
    sizes = [
        cosine_module.pair_cosines(part, pairs=500).pairs
        for part in half_clouds(Cloud(rows(300)), ["pair_cosine_median"], 10, seed=0)
    ]
    assert drawn == [2000]
    assert 400 < np.mean(sizes) < 600


def test_a_half_without_two_directions_has_no_value_instead_of_another_ones() -> None:
    X = np.zeros((12, 3))
    X[:2] = np.eye(3)[:2]
    values = [METRICS["uniformity"].value(part)[0] for part in half_clouds(Cloud(X), ["uniformity"], 20, seed=0)]
    assert np.isnan(values).any()
    assert all(np.isnan(value) or value == pytest.approx(-4) for value in values)  # |u - v|^2 = 2
