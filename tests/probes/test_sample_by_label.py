"""Samples keep every label and its share, and are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.probes.sample import hold_out, sample_by_label

COUNTS = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def labels(counts: list[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


@given(counts=COUNTS, seed=st.integers(0, 20), size=st.integers(1, 300))
def test_a_sample_has_its_size_every_label_and_their_shares(counts: list[int], seed: int, size: int) -> None:
    y = labels(counts, seed)
    size = max(size, len(counts))
    chosen = sample_by_label(y, size, seed=seed)
    assert len(chosen) == min(size, len(y)) == len(set(chosen.tolist()))
    assert np.all(np.diff(chosen) > 0)
    taken = np.bincount(y[chosen], minlength=len(counts))
    assert taken.min() >= 1
    quota = len(chosen) * np.array(counts) / len(y)
    # What the rarest labels get beyond their share is taken from the others.
    assert np.all(taken <= np.maximum(1, np.ceil(quota)))
    np.testing.assert_array_equal(chosen, sample_by_label(y, size, seed=seed))


@given(counts=COUNTS, seed=st.integers(0, 20), share=st.floats(0.05, 0.9))
def test_what_is_held_out_leaves_every_label_behind(counts: list[int], seed: int, share: float) -> None:
    y = labels(counts, seed)
    if max(counts) == 1:
        with pytest.raises(ValueError, match="single row"):
            hold_out(y, share, seed=seed)
        return
    held = hold_out(y, share, seed=seed)
    left = np.delete(y, held)
    assert set(left.tolist()) == set(range(len(counts)))
    assert len(held) == min(max(1, round(share * len(y))), len(y) - len(counts))


def test_every_row_of_a_label_is_as_likely_as_any_other_and_seeds_differ() -> None:
    y = np.array([0] * 30 + [1] * 10)
    drawn = np.zeros(40)
    for seed in range(2000):
        drawn[sample_by_label(y, 20, seed=seed)] += 1
    # Binomial(2000, 1/2): sd 22
    assert np.abs(drawn - 1000).max() < 5 * 22.4


def test_a_sample_that_cannot_hold_all_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="all 5 labels; take at least 5"):
        sample_by_label([0, 1, 2, 3, 4, 4], 4)
    with pytest.raises(ValueError, match="share=1"):
        hold_out([0, 0, 1], 1.0)
    with pytest.raises(ValueError, match="shape"):
        sample_by_label(np.ones((2, 2)), 1)
