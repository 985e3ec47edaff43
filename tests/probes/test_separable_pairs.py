"""What separability means: guaranteed pairs are those of affinely independent rows, and no noise is called separable."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hull_oracles import share_a_point
from label_truths import ALONE, NOT, SEPARABLE, TRUTHS, conclusions, noise, normalised, planted

import theodolite as th
from theodolite.probes import DirectProbe, separability
from theodolite.probes.separable_pairs import guaranteed_pairs

VERDICTS = (SEPARABLE, ALONE, NOT)
# Of 20 repetitions, more than 4 wrong ones would come once in 400 if 1 in 20 were wrong; where nothing is by chance, none may be.
BY_CHANCE = ("34 rows", "40 rows", "60 rows", "as many rows", "one row more", "held-out rows")


@pytest.mark.parametrize("name", TRUTHS)
def test_conclusions_are_right_where_the_truth_is_known(name: str) -> None:
    truth = TRUTHS[name]
    seen = conclusions(truth, range(20))
    limit = 4 if any(words in name for words in BY_CHANCE) and "planted" not in name else 0
    assert all(seen[words] <= limit for words in truth.wrong), seen
    exact = [words for words in truth.wrong if words in (*VERDICTS, "but would separate any") and "rows in 16" not in name]
    if "LayerNorm, one row more" not in name:
        assert not any(seen[words] for words in exact), seen


def test_every_labelling_of_affinely_independent_rows_is_separable() -> None:
    rows = np.random.default_rng(0).standard_normal((6, 5))
    rows -= rows.mean(axis=0)
    assert guaranteed_pairs(rows, np.arange(6) % 2, 1e-9)[0, 1]
    for size in (1, 2, 3):
        for part in combinations(range(6), size):
            assert not share_a_point(rows[list(part)], np.delete(rows, part, axis=0))
    # One row more than independent rows can be: Radon's theorem says that some labelling overlaps.
    more = np.random.default_rng(0).standard_normal((7, 5))
    assert not guaranteed_pairs(more - more.mean(axis=0), np.arange(7) % 2, 1e-9).any()
    parts = [part for size in (1, 2, 3) for part in combinations(range(7), size)]
    assert any(share_a_point(more[list(part)], np.delete(more, part, axis=0)) for part in parts)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (noise(51, 50, (1,), 0)[0], 1),
        (np.repeat(noise(25, 50, (1,), 0)[0], 2, axis=0), 0),  # duplicates
        (normalised(50, 50, 0)[0], 1),
        (normalised(51, 50, 0)[0], 0),  # LayerNorm's null direction
        (np.c_[noise(51, 49, (1,), 0)[0], np.ones(51)], 0),  # a constant column
    ],
)
def test_duplicates_and_null_directions_take_the_guarantee_away(X: np.ndarray, expected: int) -> None:
    y = np.arange(len(X)) // 2 % 2
    assert separability(DirectProbe().fit(X, y), X, y, shuffles=0).guaranteed == expected


def test_pairs_are_looked_at_one_by_one() -> None:
    """Rare labels are separable in any case, the two frequent ones are not."""
    X, y = noise(140, 20, (1, 1, 6, 6), 0)
    X[:, 0] += 100 * (y == "d")
    found = separability(DirectProbe().fit(X, y), X, y)
    assert (found.pairs, found.guaranteed) == (6, 1) and found.verdict in VERDICTS


def test_shuffles_keep_the_sizes_and_follow_the_seed() -> None:
    X, y = planted(60, 96, 0)
    probe = DirectProbe().fit(X, y)
    one, again, other = (separability(probe, X, y, shuffles=5, seed=seed) for seed in (0, 0, 1))
    assert one == again != other and len(one.shuffled) == 5
    assert one.beaten == 5 and one.gap_ratio == pytest.approx(one.gap / np.median(one.shuffled)) and one.gap_ratio > 1.5
    assert one.gap == pytest.approx(np.nanmin(probe.label_distances_))
    assert separability(probe, X, y, shuffles=0).shuffled == ()


def test_labels_that_take_long_to_shuffle_are_decided_and_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = noise(50, 30, (1, 1), 2)
    probe = DirectProbe().fit(X, y)
    assert probe.is_linear_ and separability(probe, X, y).separable_shuffles > 0
    clock = iter(range(10**6))
    monkeypatch.setattr("theodolite.probes.separable_pairs.time.process_time", lambda: 0 if next(clock) != 1 else 100)
    found = separability(probe, X, y)
    assert found.verdict == ALONE and np.isnan(found.gap_ratio) and {str(gap) for gap in found.shuffled} <= {"nan", "0.0"}


def test_rows_that_were_there_are_unchanged_and_new_ones_are_registered() -> None:
    from theodolite.core.measures import MEASURES
    from theodolite.probes.layer_probe import probe_layer

    X, y = planted(60, 8, 0)
    plain, ours = (
        {(row.metric, row.label, row.other_label): row.value for row in rows if row.metric != "probe_seconds"}
        for rows in (probe_layer(X, y).rows, th.probe(X, y).rows)
    )
    np.testing.assert_equal({key: ours[key] for key in plain}, plain)
    new = {key[0] for key in ours} - {key[0] for key in plain}
    names = {"overlapping_pairs", "guaranteed_pairs", "smallest_gap", "shuffled_gap", "gap_ratio", "shuffled_separable"}
    assert new == names <= set(MEASURES) and th.probe(X, y).value("shuffled_separable") == 0
    assert th.probe(X, y, hold_out=0.25).value("majority_accuracy") == pytest.approx(1 / 3)
