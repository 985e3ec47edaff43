"""Stored vectors are the same labelled rows at every step, and every label is among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")

from theodolite.tuning.tracking.sample import read_steps, save_step  # noqa: E402


def test_steps_come_back_in_order_with_the_same_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = ["rare", *(["a", "b"] * 50)]
    first = {0: rng.standard_normal((101, 3)), 2: rng.standard_normal((101, 3))}
    for step in (20, 0, 100):
        save_step(tmp_path, step, {layer: X + step for layer, X in first.items()}, labels, seed=0, most=30)
    steps = read_steps(tmp_path)
    assert [stored.step for stored in steps] == [0, 20, 100]
    assert set(steps[0].labels) == {"rare", "a", "b"}
    assert all((stored.labels == steps[0].labels).all() and len(stored.labels) == 30 for stored in steps)
    for layer in (0, 2):
        assert np.allclose(steps[2].layers[layer] - steps[0].layers[layer], 100, atol=1e-5)


def test_rows_without_labels_are_cut(tmp_path: Path) -> None:
    save_step(tmp_path, 0, {1: np.arange(20.0).reshape(10, 2)}, [], seed=0, most=4)
    (stored,) = read_steps(tmp_path)
    assert stored.layers[1].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(stored.labels) == 0


def test_a_step_measured_again_replaces_the_first(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        save_step(tmp_path, 5, {0: np.full((3, 2), value)}, ["a", "b", "a"], seed=0)
    assert [stored.layers[0].max() for stored in read_steps(tmp_path)] == [2.0]
    assert not list(tmp_path.glob(".*"))
