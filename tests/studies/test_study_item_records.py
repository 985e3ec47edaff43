"""Item-level records: draws agree with plain loops, and with refits of what they hold fixed."""

import numpy as np
import pytest

from theodolite.core.rows import Row
from theodolite.metrics import iso_score, log_partition_isotropy, log_partition_isotropy_unit_norm
from theodolite.studies.item_records import (
    Draws,
    Recorder,
    group_draws,
    jackknife_draws,
    partition_draws,
    resample_counts,
    resampled_items,
)


@pytest.fixture
def cloud():
    """60 units of 4 to 8 rows each, which share a part, in 6 dimensions."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(60), rng.integers(4, 9, 60))
    scales = np.array([3.0, 2, 1, 1, 0.5, 0.5])
    return (rng.standard_normal((60, 6))[unit] + rng.standard_normal((len(unit), 6)) + 0.3) * scales, unit


def test_counts_and_items_are_the_same_draws():
    counts, items = resample_counts(7, 5), resampled_items(7, 5)
    assert [np.bincount(drawn, minlength=7).tolist() for drawn in items] == counts.tolist()
    assert (counts == resample_counts(7, 5)).all() and (counts.sum(axis=1) == 7).all()


@pytest.mark.parametrize("unit_norm", [False, True])
def test_log_isotropy_is_the_metric_and_its_draws_agree_with_refits(cloud, unit_norm):
    X, unit = cloud
    metric = log_partition_isotropy_unit_norm if unit_norm else log_partition_isotropy
    value, draws = partition_draws(X, unit, resample_counts(60, 400), unit_norm=unit_norm)
    assert value == pytest.approx(metric(X))
    rows = [np.concatenate([np.flatnonzero(unit == u) for u in drawn]) for drawn in resampled_items(60, 150)]
    refits = np.array([metric(X[at]) for at in rows])
    assert draws.std() == pytest.approx(refits.std(), rel=0.25)


def test_the_jackknife_of_moments_is_that_of_a_plain_loop(cloud):
    X, unit = cloud
    by_moments = jackknife_draws(X, unit, {"iso_score": iso_score})["iso_score"]
    assert by_moments == pytest.approx(group_draws(unit, lambda rows: iso_score(X[rows])))
    left = np.array([iso_score(X[unit != u]) for u in range(60)])
    assert by_moments.std() == pytest.approx(np.sqrt(59 / 60 * np.square(left - left.mean()).sum()), rel=0.4)


def test_a_record_keeps_the_draws_and_the_row_gets_their_interval():
    recorder, row = Recorder(), Row(metric="m", value=1.0, model="a", seed=3)
    items = np.array([0.9, 1.1, 1.0, 1.0])
    starts = [0.8, 1.2]
    low_high = recorder.add(row, Draws(1.0, items, 4, "pairs", starts, "k-means starts"))
    error = np.sqrt(items.var() + np.var(starts, ddof=1) / 2)
    assert (low_high.low, low_high.high) == pytest.approx((1 - 1.96 * error, 1 + 1.96 * error), abs=1e-3)
    assert recorder.records[0]["units"] == "pairs" and recorder.records[0]["repeats"] == starts
    assert recorder.add(row, Draws(1.0, np.array([np.nan, 1.0]), 4, "pairs")).low is None
