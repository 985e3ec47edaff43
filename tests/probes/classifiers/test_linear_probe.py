"""The linear probe: it does not depend on where a space is or how large it is, and it separates what a plane separates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from theodolite.probes.classifiers.linear_probe import LinearProbe


@pytest.fixture(scope="module")
def digits() -> tuple[NDArray[np.float32], NDArray[Any], NDArray[np.float32], NDArray[Any]]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = (X[order] / 16).astype(np.float32), np.array([f"digit {label}" for label in y[order]])
    return X[:300], y[:300], X[1000:], y[1000:]


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 50.0), (1e-3, 5.0)])
def test_a_shift_or_a_scale_of_the_space_changes_nothing(digits: Any, scale: float, shift: float) -> None:
    X, y, T, t = (part.astype(np.float64) if part.dtype.kind == "f" else part for part in digits)
    plain = LinearProbe(folds=3).fit(X, y)
    moved = LinearProbe(folds=3).fit(X * scale + shift, y)
    assert plain.score(T, t) > 0.85
    assert moved.alpha_ == plain.alpha_
    assert np.mean(moved.predict(T * scale + shift) == plain.predict(T)) > 0.995


def test_labels_that_a_plane_separates() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    X = X[np.abs(X[:, 0]) > 0.3]
    y = X[:, 0] > 0
    assert LinearProbe(folds=3).fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.95


def test_the_strongest_of_equally_good_weights_is_chosen_and_reported() -> None:
    X, y = np.repeat([[-5.0, 0.0], [5.0, 1.0]], 20, axis=0), np.repeat(["low", "high"], 20)
    probe = LinearProbe(alphas=(1e-3, 1.0, 1e-1), folds=2).fit(X, y)
    score = probe.evaluate(X, y)
    assert (probe.alpha_, score.alpha, score.hidden, score.scores, score.sd) == (1.0, 1.0, (), (1.0,), 0.0)


def test_wrong_weights_and_widths_are_named() -> None:
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 2
    for alphas in ((), (0.0, 1.0), (math.inf,)):
        with pytest.raises(ValueError, match="must be one or more finite numbers above 0"):
            LinearProbe(alphas=alphas).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 columns; the probe was trained on 2"):
        LinearProbe(alphas=(1.0,)).fit(X, y).predict(np.ones((1, 3)))
