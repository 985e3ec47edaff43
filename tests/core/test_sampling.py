"""Seeded samples: the same however the rows are chunked, uniform, and by label with every label's share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.sampling import RowSample, hold_out, sample_by_label, sample_rows

COUNTS = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@given(n=st.integers(1, 500), size=st.integers(2, 60), seed=st.integers(0, 50), step=st.integers(1, 97))
def test_streamed_and_direct_samples_are_the_same(n: int, size: int, seed: int, step: int) -> None:
    X = np.arange(n * 2, dtype=np.float64).reshape(n, 2)
    streamed = RowSample(size, 2, X.dtype, seed=seed)
    for start in range(0, n, step):
        streamed.add(start, X[start : start + step])
    rows = sample_rows(n, size, seed=seed)
    np.testing.assert_array_equal(streamed.index, rows)
    np.testing.assert_array_equal(streamed.rows, X[rows])
    assert len(rows) == min(n, size)
    assert np.all(np.diff(rows) > 0)


def test_every_row_is_equally_likely() -> None:
    counts = np.zeros(40)
    for seed in range(4000):
        counts[sample_rows(40, 10, seed=seed)] += 1
    # Binomial(4000, 1/4): sd 27; five of them is far out for forty draws.
    assert np.abs(counts - 1000).max() < 5 * 27.4


def test_samples_beyond_one_window_are_spread_over_all_rows() -> None:
    rows = sample_rows(3_000_000, 3000, seed=1)
    assert len(rows) == 3000
    thirds = np.histogram(rows, bins=3, range=(0, 3_000_000))[0]
    assert np.abs(thirds - 1000).max() < 150


def labels(counts: list[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


@given(counts=COUNTS, seed=st.integers(0, 20), size=st.integers(1, 300))
def test_a_sample_has_its_size_every_label_and_their_shares(counts: list[int], seed: int, size: int) -> None:
    y = labels(counts, seed)
    size = max(size, len(counts))
    rows = sample_by_label(y, size, seed=seed)
    assert len(rows) == min(size, len(y)) == len(set(rows.tolist()))
    assert np.all(np.diff(rows) > 0)
    counts_taken = np.bincount(y[rows], minlength=len(counts))
    assert counts_taken.min() >= 1
    quota = len(rows) * np.array(counts) / len(y)
    # What the rarest labels get beyond their share, the others lose.
    assert np.all(counts_taken <= np.maximum(1, np.ceil(quota)))
    np.testing.assert_array_equal(rows, sample_by_label(y, size, seed=seed))


@given(counts=COUNTS, seed=st.integers(0, 20), share=st.floats(0.05, 0.9))
def test_hold_out_leaves_a_row_of_every_label(counts: list[int], seed: int, share: float) -> None:
    y = labels(counts, seed)
    if max(counts) == 1:
        with pytest.raises(ValueError, match="only one row"):
            hold_out(y, share, seed=seed)
        return
    rows = hold_out(y, share, seed=seed)
    rest = np.delete(y, rows)
    assert set(rest.tolist()) == set(range(len(counts)))
    assert len(rows) == min(max(1, round(share * len(y))), len(y) - len(counts))


def test_every_row_of_a_label_is_equally_likely() -> None:
    y = np.array([0] * 30 + [1] * 10)
    frequency = np.zeros(40)
    for seed in range(2000):
        frequency[sample_by_label(y, 20, seed=seed)] += 1
    # Binomial(2000, 1/2): sd 22
    assert np.abs(frequency - 1000).max() < 5 * 22.4


def test_a_sample_that_cannot_hold_all_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="all 5 labels; take at least 5"):
        sample_by_label([0, 1, 2, 3, 4, 4], 4)
    with pytest.raises(ValueError, match="share=1"):
        hold_out([0, 0, 1], 1.0)
    with pytest.raises(ValueError, match="shape"):
        sample_by_label(np.ones((2, 2)), 1)
