"""The survey: few passes, the same numbers as the functions, reasons instead of guesses."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.metrics import METRICS, Cloud, iso_score, log_partition_isotropy, mean_cosine, survey

X = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32) * np.arange(1, 9) + 1


def test_rows_hold_what_the_functions_give() -> None:
    rows = {row.metric: row for row in survey(X)}
    assert list(rows) == [name for name, entry in METRICS.items() if entry.default]
    assert rows["iso_score"].value == iso_score(X)
    assert rows["mean_cosine"].value == mean_cosine(X)
    assert rows["log_partition_isotropy"].value == log_partition_isotropy(X)
    assert all((row.n, row.d, row.seed) == (300, 8, 0) and "numpy" in row.versions for row in rows.values())


def test_two_passes_are_enough_for_everything_that_reads_all_rows() -> None:
    seen: list[int] = []
    names = [name for name, entry in METRICS.items() if entry.needs in ("moments", "second pass")]
    survey(Cloud(Cloud(X).source.watched(seen.append)), names)
    assert sum(seen) == 2 * len(X)


def test_moments_alone_need_one_pass() -> None:
    seen: list[int] = []
    survey(Cloud(Cloud(X).source.watched(seen.append)), ["iso_score", "ev_1", "mean_cosine", "effective_rank"])
    assert sum(seen) == len(X)


def test_a_stream_is_read_once_and_says_what_that_leaves_out() -> None:
    rows = {row.metric: row for row in survey(Cloud(iter(np.array_split(X, 9)), sample=100))}
    whole = {row.metric: row for row in survey(Cloud(X, sample=100))}
    for name, row in rows.items():
        if METRICS[name].needs == "second pass":
            assert np.isnan(row.value)
            assert "second pass" in row.reason
        else:
            assert row.value == pytest.approx(whole[name].value, rel=1e-5, nan_ok=True)


def test_the_sample_is_stated_where_it_was_used() -> None:
    rows = {row.metric: row for row in survey(Cloud(X, sample=100, seed=3), ["hubness", "iso_score"])}
    assert rows["hubness"].setting == "sample=100"
    assert rows["iso_score"].setting == ""
    assert {row.setting for row in survey(X, ["hubness"])} == {""}


def test_seeds_fix_the_sample() -> None:
    def value(seed: int) -> float:
        return survey(Cloud(X, sample=50, seed=seed), ["hubness"])[0].value

    assert value(1) == value(1) != value(2)


def test_provenance_is_carried() -> None:
    row = survey(X, ["iso_score"], about={"model": "tiny", "layer": 3})[0]
    assert (row.model, row.layer) == ("tiny", 3)


@pytest.mark.parametrize(
    ("name", "said"),
    [("isoscore", "did you mean 'iso_score'"), ("zzz", "known: iso_score"), ("alignment", "second input")],
)
def test_unknown_metrics_get_a_hint(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        survey(X, [name])


def test_nothing_breaks_on_one_row() -> None:
    rows = survey(np.ones((1, 4)))
    assert all(np.isfinite(row.value) or row.reason for row in rows)
    assert {row.metric for row in rows if np.isfinite(row.value)} >= {"mean_norm", "zero_rows", "ev_1"}
