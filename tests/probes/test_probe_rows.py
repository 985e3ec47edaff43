"""A fitted probe as rows: every number is the probe's own, and what is not defined says why."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from theodolite.core.rows import read_rows, write_rows
from theodolite.probes.rows import HeldOut, closest_pair, mean_minimum_distance, probe_rows, summaries
from theodolite.probes.score import ProbeScore

Y = np.array(["A", "A", "A", "B", "B", "C", "A"])


def fitted(**changed: Any) -> Any:
    """Three labels: A in two clusters, one of them a single point; B and C in one each."""
    nan = math.nan
    distances = np.array([[nan, 3.0, 1.0], [3.0, nan, 2.0], [1.0, 2.0, nan]])
    found = {
        "classes_": np.array(["A", "B", "C"]),
        "clusters_": np.array([0, 0, 0, 1, 1, 2, 3]),
        "cluster_labels_": np.array(["A", "B", "C", "A"]),
        "n_clusters_": 4,
        "is_linear_": False,
        "label_distances_": distances,
        "label_lower_": distances - 1e-9,
        "label_upper_": distances + 1e-9,
        "minimum_distances_": np.array([1.0, 2.0, 1.0]),
        "inside_mean_": np.array([0.5, 0.7, nan, nan]),
        "inside_max_": np.array([0.9, 0.7, nan, nan]),
    }
    return SimpleNamespace(**found | changed)


def test_labels_are_summed_up_over_their_clusters() -> None:
    first, second, third = summaries(fitted(), Y)
    assert (first.label, first.rows, first.clusters, first.nearest, first.minimum_distance) == ("A", 4, 2, "C", 1.0)
    assert (first.inside_mean, first.inside_max) == (0.5, 0.9)  # the single point has no distance inside
    assert (second.nearest, second.inside_mean) == ("C", 0.7)
    assert (third.rows, third.clusters) == (1, 1) and math.isnan(third.inside_mean)
    assert mean_minimum_distance([first, second, third]) == pytest.approx(4 / 3)
    closest = closest_pair(fitted())
    assert closest is not None and (closest.first, closest.second, closest.distance) == ("A", "C", 1.0)


def test_rows_carry_values_bounds_counts_and_reasons(tmp_path: Any) -> None:
    score = ProbeScore(
        mean=0.8, sd=0.01, scores=(0.79, 0.81), hidden=(32, 32), alpha=0.1, cv_score=0.8, epochs=(9, 9), seconds=2.0, n=5
    )
    about = {"model": "m", "layer": 3, "task": "pos", "split": "train", "seed": 7, "d": 16, "setting": "words"}
    rows = probe_rows(fitted(), Y, about=about, held_out=HeldOut(0.6, 5, "test"), score=score, seconds=1.5)
    assert all((row.model, row.layer, row.task, row.seed, row.d) == ("m", 3, "pos", 7, 16) and row.versions for row in rows)
    single = {row.metric: row for row in rows if not row.label and row.metric != "label_distance"}
    values = {"clusters": 4, "is_linear": 0, "mean_minimum_distance": 4 / 3, "hull_accuracy": 0.6, "probe_accuracy": 0.8}
    values |= {"probe_accuracy_sd": 0.01, "classifier_seconds": 2.0, "probe_seconds": 1.5}
    assert {name: row.value for name, row in single.items()} == pytest.approx(values)
    assert (single["clusters"].n, single["clusters"].split, single["clusters"].setting) == (7, "train", "words")
    assert (single["hull_accuracy"].n, single["hull_accuracy"].split) == (5, "test")
    assert single["probe_accuracy"].split == "test"
    pairs = {row.setting: row for row in rows if row.metric == "label_distance"}
    assert list(pairs) == ["A|B", "A|C", "B|C"]
    one = pairs["A|C"]
    assert one.low is not None and one.high is not None and one.low < one.value == 1.0 < one.high and one.n == 5
    labelled = {(row.metric, row.label): row for row in rows if row.label}
    assert labelled["label_clusters", "A"].value == 2 and labelled["minimum_distance", "B"].value == 2
    assert labelled["inside_max", "A"].value == 0.9 and labelled["inside_mean", "A"].n == 4
    assert "single point" in labelled["inside_mean", "C"].reason and math.isnan(labelled["inside_mean", "C"].value)
    write_rows(rows, tmp_path / "rows.parquet")
    assert [row.to_dict() for row in read_rows(tmp_path / "rows.parquet")] == [row.to_dict() for row in rows]


def test_labels_without_a_cluster_have_no_neighbour() -> None:
    alone = fitted(
        label_distances_=np.full((3, 3), math.nan),
        minimum_distances_=np.full(3, math.nan),
        clusters_=np.array([0, 0, 0, -1, -1, -1, -1]),
        cluster_labels_=np.array(["A"]),
        n_clusters_=1,
    )
    assert closest_pair(alone) is None
    rows = probe_rows(alone, Y, about={})
    assert not [row for row in rows if row.metric == "label_distance"]
    mean = next(row for row in rows if row.metric == "mean_minimum_distance")
    assert math.isnan(mean.value) and "no other label" in mean.reason
    found = summaries(alone, Y)
    assert [(one.clusters, one.nearest) for one in found] == [(1, ""), (0, ""), (0, "")]
