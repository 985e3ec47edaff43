"""A seeded sample is the same whatever the chunks, and every row is as likely as any other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.sample import RowSample, sample_rows


@given(n=st.integers(1, 500), size=st.integers(2, 60), seed=st.integers(0, 50), step=st.integers(1, 97))
def test_streamed_and_direct_samples_are_the_same(n: int, size: int, seed: int, step: int) -> None:
    X = np.arange(n * 2, dtype=np.float64).reshape(n, 2)
    streamed = RowSample(size, 2, X.dtype, seed=seed)
    for start in range(0, n, step):
        streamed.add(start, X[start : start + step])
    chosen = sample_rows(n, size, seed=seed)
    np.testing.assert_array_equal(streamed.index, chosen)
    np.testing.assert_array_equal(streamed.rows, X[chosen])
    assert len(chosen) == min(n, size)
    assert np.all(np.diff(chosen) > 0)


def test_every_row_is_as_likely_as_any_other() -> None:
    counts = np.zeros(40)
    for seed in range(4000):
        counts[sample_rows(40, 10, seed=seed)] += 1
    # Binomial(4000, 1/4): sd 27; five of them is far out for forty draws.
    assert np.abs(counts - 1000).max() < 5 * 27.4


def test_samples_beyond_one_window_are_spread_over_all_rows() -> None:
    chosen = sample_rows(3_000_000, 3000, seed=1)
    assert len(chosen) == 3000
    thirds = np.histogram(chosen, bins=3, range=(0, 3_000_000))[0]
    assert np.abs(thirds - 1000).max() < 150
