"""Folds keep groups whole and strata spread; the influence of an item on Spearman is what resampling shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from theodolite.advice.folds import grouped_folds, linked_groups, resample_counts, spearman_influence


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=30))
def test_pairs_are_linked_exactly_if_a_path_of_shared_sentences_connects_them(pairs: list[tuple[int, int]]) -> None:
    groups = linked_groups(*zip(*pairs, strict=True))
    reached = np.array([[bool(set(a) & set(b)) for b in pairs] for a in pairs])
    for _ in pairs:
        reached = reached @ reached
    np.testing.assert_array_equal(reached, groups[:, None] == groups[None, :])


@given(seed=st.integers(0, 99), k=st.integers(2, 6))
def test_groups_stay_whole_and_folds_are_of_similar_size(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    groups = random.integers(0, 80, 300)
    fold = grouped_folds(groups, k, seed=seed)
    assert all(len(set(fold[groups == group])) == 1 for group in set(groups))
    sizes = np.bincount(fold, minlength=k)
    assert sizes.max() - sizes.min() <= np.bincount(groups).max()


def test_strata_are_spread() -> None:
    strata = np.repeat([0, 1, 2], [70, 20, 10])
    fold = grouped_folds(np.arange(100), 5, strata=strata)
    for kind, count in ((0, 14), (1, 4), (2, 2)):
        assert np.bincount(fold[strata == kind]).tolist() == [count] * 5


def test_too_few_or_too_large_groups_are_refused() -> None:
    with pytest.raises(ValueError, match=r"3 items are too few for folds=5"):
        grouped_folds(np.arange(3), 5)
    with pytest.raises(ValueError, match=r"90 of 100 items are linked by sentences they share"):
        grouped_folds(np.r_[np.zeros(90, int), np.arange(1, 11)], 5)


def test_a_resample_draws_whole_groups() -> None:
    groups = np.array([0, 0, 1, 2, 2, 2])
    counts = resample_counts(groups, 500, seed=0)
    assert (counts[:, 0] == counts[:, 1]).all() and (counts[:, 3] == counts[:, 5]).all()
    assert (counts[:, [0, 2, 3]].sum(axis=1) == 3).all()
    assert counts.mean(axis=0) == pytest.approx(1, abs=0.15)


@settings(max_examples=20)
@given(seed=st.integers(0, 99), digits=st.integers(0, 3), noise=st.floats(0.2, 3))
def test_influences_give_spearman_and_its_resamples(seed: int, digits: int, noise: float) -> None:
    random = np.random.default_rng(seed)
    x = random.standard_normal(200)
    y = x + noise * random.standard_normal(200)
    x = np.round(x, digits)  # with ties, as scores have
    value, influence = spearman_influence(x, y)
    assert value == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    assert influence.sum() == pytest.approx(0, abs=1e-9)
    counts = resample_counts(np.arange(200), 60, seed=seed)
    exact = [spearmanr(np.repeat(x, c.astype(int)), np.repeat(y, c.astype(int))).statistic for c in counts]
    linear = value + counts @ influence / 200
    assert np.corrcoef(exact, linear)[0, 1] > 0.9
    assert np.std(linear) == pytest.approx(np.std(exact), rel=0.25)


def test_a_constant_side_has_no_correlation() -> None:
    value, influence = spearman_influence(np.arange(5.0), np.ones(5))
    assert np.isnan(value) and np.isnan(influence).all()
