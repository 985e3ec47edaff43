"""A chain of affine repairs is one matrix and one bias."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from theodolite.repairs import (
    ClusterZeroMean,
    DropRogueDimensions,
    RemoveDirections,
    Standardize,
    WeightedRemoval,
    Whiten,
    ZeroMean,
    fold_affine,
)


def test_a_pipeline_folds_into_one_matrix() -> None:
    X = np.random.default_rng(0).standard_normal((300, 9)) * np.arange(1, 10) + 4
    chain = make_pipeline(
        WeightedRemoval(1), DropRogueDimensions(2), "passthrough", ZeroMean(), RemoveDirections(1), Standardize(), Whiten(4)
    ).fit(X)
    matrix, bias = fold_affine(chain)
    assert matrix.shape == (9, 4)
    np.testing.assert_allclose(X @ matrix + bias, chain.transform(X), atol=1e-9)
    listed = fold_affine([step for _, step in chain.steps if step != "passthrough"])
    np.testing.assert_array_equal(listed[0], matrix)


def test_one_repair_folds_into_itself() -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    repair = Whiten().fit(X)
    for folded in (fold_affine(repair), fold_affine([repair])):
        np.testing.assert_array_equal(folded[0], repair.affine()[0])
        np.testing.assert_array_equal(folded[1], repair.affine()[1])


def test_errors_say_why_a_chain_cannot_be_folded() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    with pytest.raises(TypeError, match="each cluster"):
        fold_affine([ZeroMean().fit(X), ClusterZeroMean(2).fit(X)])
    with pytest.raises(TypeError, match="step 1 is a PCA"):
        fold_affine(make_pipeline(ZeroMean(), PCA(2)).fit(X))
    with pytest.raises(ValueError, match="gives 2 columns and ZeroMean takes 4"):
        fold_affine([Whiten(2).fit(X), ZeroMean().fit(X)])
    with pytest.raises(ValueError, match="no repair"):
        fold_affine([])
