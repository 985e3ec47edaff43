"""Rogue dimensions: found by what they add to the mean cosine, and gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.repairs import DropRogueDimensions

Array = np.ndarray[Any, Any]


def pair_products(X: Array) -> Array:
    """(d,) mean over i != j of the products of unit vectors, the slow obvious way."""
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    pairs = [units[i] * units[j] for i in range(len(X)) for j in range(len(X)) if i != j]
    return np.mean(pairs, axis=0)


@given(seed=st.integers(0, 1000), n=st.integers(2, 15), d=st.integers(2, 8))
def test_contributions_are_those_of_all_pairs(seed: int, n: int, d: int) -> None:
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) + random.standard_normal(d)
    np.testing.assert_allclose(DropRogueDimensions(1).fit(X).contributions_, pair_products(X), atol=1e-10)


def test_planted_dimensions_go() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 20))
    X[:, 7] += 30
    X[:, 3] -= 20
    repair = DropRogueDimensions(2).fit(X)
    assert repair.dropped_.tolist() == [7, 3]
    np.testing.assert_array_equal(repair.transform(X), np.delete(X, [3, 7], axis=1))
    assert pair_products(X[:60]).sum() > 0.9
    assert abs(pair_products(repair.transform(X)[:60]).sum()) < 0.05
    assert list(repair.get_feature_names_out()) == [f"x{i}" for i in range(20) if i not in (3, 7)]


def test_zero_rows_do_not_count() -> None:
    X = np.random.default_rng(0).standard_normal((30, 5)) + 1
    padded = np.concatenate([X, np.zeros((10, 5))])
    np.testing.assert_allclose(
        DropRogueDimensions().fit(padded).contributions_, DropRogueDimensions().fit(X).contributions_, atol=1e-12
    )


def test_how_many_may_go() -> None:
    X = np.random.default_rng(0).standard_normal((30, 5))
    assert DropRogueDimensions().fit_transform(X).shape == (30, 2)
    assert DropRogueDimensions().fit_transform(X[:, :2]).shape == (30, 1)
    np.testing.assert_array_equal(DropRogueDimensions(0).fit_transform(X), X)
    with pytest.raises(ValueError, match=r"n_dimensions=5 must be .* at most d - 1 = 4"):
        DropRogueDimensions(5).fit(X)
    with pytest.raises(ValueError, match="two rows that are not zero"):
        DropRogueDimensions().fit(np.zeros((4, 5)))
