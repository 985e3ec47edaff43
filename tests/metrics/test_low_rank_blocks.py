"""Low-rank blocks: the same product as the plain matrix, from fewer numbers where one outer product changed eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.metrics.partition import LowRankBlocks


def changed_eigenvectors(d: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    values, mean = 1 / np.arange(1.0, d + 1), rng.standard_normal(d)
    return np.linalg.eigh(np.diag(values) + np.outer(mean, mean))[1][:, ::-1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [61, 256])
def test_the_product_is_that_of_the_plain_matrix(d: int, dtype: type) -> None:
    matrix = changed_eigenvectors(d)
    rows = np.random.default_rng(1).standard_normal((40, d)).astype(dtype)
    exact = rows.astype(np.float64) @ matrix
    error = np.abs(LowRankBlocks.of(matrix, np.dtype(dtype)).after(rows) - exact).max()
    assert error <= 8 * np.finfo(dtype).eps * np.linalg.norm(rows, axis=1).max()


def test_it_saves_where_one_outer_product_was_added_and_not_with_any_matrix() -> None:
    assert LowRankBlocks.of(changed_eigenvectors(384), np.dtype(np.float32)).saves
    any_basis = np.linalg.qr(np.random.default_rng(0).standard_normal((256, 256)))[0]
    assert not LowRankBlocks.of(any_basis, np.dtype(np.float32)).saves
