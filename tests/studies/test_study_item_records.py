"""Item-level records: what is kept of a number, and draws that are those of a plain loop."""

import numpy as np
import pytest

from theodolite.core.intervals import half_samples
from theodolite.core.rows import Row
from theodolite.metrics import iso_score, log_partition_isotropy
from theodolite.metrics.evaluation import REPLICATES
from theodolite.studies.item_records import DRAW_SEED, Draws, Recorder, half_draws


@pytest.fixture
def cloud():
    """60 units of 4 to 8 rows each, which share a part, in 6 dimensions."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(60), rng.integers(4, 9, 60))
    scales = np.array([3.0, 2, 1, 1, 0.5, 0.5])
    return (rng.standard_normal((60, 6))[unit] + rng.standard_normal((len(unit), 6)) + 0.3) * scales, unit


def test_draws_of_metrics_are_refits_on_halves_of_the_units(cloud):
    X, unit = cloud
    recorder, metrics = Recorder(), {"log_partition_isotropy": log_partition_isotropy, "iso_score": iso_score}
    rows = recorder.shape(X, list(metrics), unit, "units", {"layer": 3, "seed": 7})
    halves = half_samples(len(X), REPLICATES, seed=DRAW_SEED, groups=unit)
    assert all(len(np.unique(unit[half])) == 30 and np.isin(unit, unit[half]).sum() == len(half) for half in halves)
    for row, record, (name, metric) in zip(rows, recorder.records, metrics.items(), strict=True):
        values = np.array([metric(X[half]) for half in halves])
        assert row.value == pytest.approx(metric(X)) and (row.metric, row.layer, row.seed) == (name, 3, 7)
        assert np.array(record["items"]) == pytest.approx(row.value + values - values.mean(), abs=1e-5)
        assert (record["n"], record["units"]) == (60, "units") and row.low < row.value < row.high
    by_hand = half_draws(unit, lambda rows: {"iso_score": iso_score(X[rows])})["iso_score"]
    assert by_hand - by_hand.mean() == pytest.approx(np.array(recorder.records[1]["items"]) - rows[1].value, abs=1e-5)


def test_clouds_of_the_same_units_have_the_same_halves(cloud):
    _, unit = cloud
    once = half_samples(60, 5, seed=3, groups=np.arange(60))
    assert [np.unique(unit[half]).tolist() for half in half_samples(len(unit), 5, seed=3, groups=unit)] == [
        half.tolist() for half in once
    ]


def test_a_record_keeps_the_draws_and_the_row_gets_their_interval():
    recorder, row = Recorder(), Row(metric="m", value=1.0, model="a", seed=3)
    items = np.array([0.9, 1.1, 1.0, 1.0])
    starts = [0.8, 1.2]
    low_high = recorder.add(row, Draws(1.0, items, 4, "pairs", starts, "k-means starts"))
    error = np.sqrt(items.var(ddof=1) + np.var(starts, ddof=1) / 2)
    assert (low_high.low, low_high.high) == pytest.approx((1 - 3.182 * error, 1 + 3.182 * error), abs=1e-3)  # t with 3 degrees
    assert recorder.records[0]["units"] == "pairs" and recorder.records[0]["repeats"] == starts
    assert recorder.add(row, Draws(1.0, np.array([np.nan, 1.0]), 4, "pairs")).low is None


def test_an_interval_stays_inside_what_the_number_can_be():
    items = -0.3 + 0.4 * np.random.default_rng(0).standard_normal(40)
    row = Draws(-0.3, items, 40, "pairs").row(Row(metric="log_partition_isotropy", value=-0.3))
    assert row.low < -0.3 < row.high < 0
