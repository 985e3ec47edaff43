"""Spectra: both algorithms agree, signs are fixed, and directions that are not determined are reported."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.core.moments import Moments
from theodolite.core.spectrum import Spectrum, eigenpairs, eigenvalues, fixed_signs


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("shape", [(30, 8), (8, 8), (5, 20), (1, 4)])
def test_pairs_rebuild_the_scatter_matrix(shape: tuple[int, int], centered: bool) -> None:
    X = np.random.default_rng(0).standard_normal(shape) + 2
    centred = X - X.mean(0) if centered else X
    moments = Moments.of(X)
    pairs = eigenpairs(moments, centered=centered)
    np.testing.assert_allclose((pairs.vectors * pairs.values) @ pairs.vectors.T, centred.T @ centred, atol=1e-10)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(len(pairs.values)), atol=1e-12)
    assert np.all(np.diff(pairs.values) <= 0)
    np.testing.assert_allclose(eigenvalues(moments, centered=centered)[: len(pairs.values)], pairs.values, atol=1e-10)
    assert len(eigenvalues(moments, centered=centered)) == shape[1]
    assert pairs.rank == np.linalg.matrix_rank(centred)


def test_signs_do_not_depend_on_the_solver() -> None:
    vectors = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    flipped = vectors * np.array([1, -1, 1, -1, -1, 1])
    np.testing.assert_array_equal(fixed_signs(vectors), fixed_signs(flipped))
    assert np.all(fixed_signs(vectors)[np.abs(vectors).argmax(0), range(6)] > 0)


@pytest.mark.parametrize(
    ("values", "d", "gap"),
    [([4.0, 2.0, 1.0], 3, 0.25), ([4.0, 4.0, 1.0], 3, 0.0), ([4.0, 2.0], 9, 0.5), ([4.0, 3.9, 0.0, 0.0], 4, 0.025)],
)
def test_the_smallest_gap_counts_empty_directions_once(values: list[float], d: int, gap: float) -> None:
    assert Spectrum(np.array(values), np.eye(d)[:, : len(values)], d).smallest_relative_gap == pytest.approx(gap)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_direction_that_a_layer_norm_empties_does_not_count(dtype: type) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4000, 40)) * np.arange(1, 41.0) ** -0.5
    X = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)
    X = (X * rng.uniform(0.5, 1.5, 40) + rng.standard_normal(40)).astype(dtype)
    assert eigenpairs(Moments.of(X)).rank == 39


def test_a_single_or_empty_spectrum_has_no_gap() -> None:
    assert np.isnan(Spectrum(np.array([1.0]), np.eye(1), 1).smallest_relative_gap)
    assert np.isnan(Spectrum(np.zeros(3), np.eye(3), 3).smallest_relative_gap)
