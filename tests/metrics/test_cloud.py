"""Clouds: what is computed is shared, streams are read once, and a cloud describes itself without reading its rows."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.metrics.cloud import Cloud, Undefined, moments_of

X = (np.random.default_rng(0).standard_normal((1500, 12)) + 1).astype(np.float32)


def test_a_cloud_describes_itself_in_one_line() -> None:
    assert repr(Cloud(X)) == "Cloud(1,500 × 12, float32)"


def test_the_description_of_a_stream_does_not_read_it() -> None:
    stream = Cloud(iter([X]))
    assert repr(stream) == "Cloud(? × 12, float32)"
    assert stream.n == 1500
    assert repr(stream) == "Cloud(1,500 × 12, float32)"


def test_a_value_is_computed_once() -> None:
    cloud, calls = Cloud(X), []
    for _ in range(2):
        assert cloud.cached("key", lambda: calls.append(1) or 7) == 7  # type: ignore[func-returns-value]
    assert calls == [1]
    assert cloud.moments is cloud.moments is moments_of(cloud)


def test_the_sample_of_a_stream_is_that_of_the_array() -> None:
    stream, array = Cloud(iter(np.array_split(X, 7)), sample=100, seed=3), Cloud(X, sample=100, seed=3)
    np.testing.assert_array_equal(stream.sample, array.sample)
    np.testing.assert_array_equal(stream.sample_index, array.sample_index)
    assert stream.is_sampled and array.is_sampled


def test_a_second_pass_over_a_stream_needs_a_sample_of_all_rows() -> None:
    with pytest.raises(Undefined, match="second pass"):
        Cloud(iter([X]), sample=100).replay()
    np.testing.assert_array_equal(next(Cloud(iter([X])).replay().blocks()), X)


def test_unit_rows_have_length_one_about_their_mean_and_leave_out_zeros() -> None:
    rows = X.astype(np.float64).copy()
    rows[[3, 8]] = 0
    units = Cloud(rows).units
    directions = rows[units.rows] / np.linalg.norm(rows[units.rows], axis=1, keepdims=True)
    np.testing.assert_allclose(units.shifted, directions - directions.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(units.norms, np.linalg.norm(rows[units.rows], axis=1))
    assert (units.m, units.zero_rows) == (1498, 2)
    assert units.rows[:4].tolist() == [0, 1, 2, 4]
    with pytest.raises(Undefined, match=r"there are 1 \(4 rows of zeros have no direction\)"):
        Cloud(np.eye(5, 3)[[0, 3, 4, 3, 4]]).units  # noqa: B018


def test_a_sample_of_one_row_is_refused() -> None:
    with pytest.raises(ValueError, match="sample=1 must be at least 2 rows"):
        Cloud(X, sample=1)
