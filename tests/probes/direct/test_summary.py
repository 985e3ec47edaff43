"""A fitted probe as summaries and rows: every number is the probe's own, and an undefined one has its reason."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from theodolite.core.rows import read_rows, write_rows
from theodolite.probes.classifiers.scores import ProbeScore
from theodolite.probes.direct import DirectProbe
from theodolite.probes.direct.summary import HeldOut, label_summaries, mean_minimum_distance, probe_rows
from theodolite.probes.similarity import Similarity

Y = np.array(["A", "A", "A", "B", "B", "C", "A"])


def fitted(**changes: Any) -> DirectProbe:
    """Three labels: A in two clusters, one of them a single point; B and C in one each."""
    nan = math.nan
    distances = np.array([[nan, 3.0, 1.0], [3.0, nan, 2.0], [1.0, 2.0, nan]])
    attributes = {
        "classes_": np.array(["A", "B", "C"]),
        "clusters_": np.array([0, 0, 0, 1, 1, 2, 3]),
        "cluster_labels_": np.array(["A", "B", "C", "A"]),
        "n_clusters_": 4,
        "is_linear_": False,
        "label_distances_": distances,
        "label_lower_": distances - 1e-9,
        "label_upper_": distances + 1e-9,
        "_inside": np.array([[0.5, 0.7, nan, nan], [0.9, 0.7, nan, nan]]),
    }
    probe = DirectProbe()
    vars(probe).update(attributes | changes)
    return probe


def test_labels_are_summarised_over_their_clusters() -> None:
    first, second, third = label_summaries(fitted(), Y)
    assert (first.label, first.rows, first.clusters, first.nearest, first.minimum_distance) == ("A", 4, 2, "C", 1.0)
    assert (first.inside_mean, first.inside_max) == (0.5, 0.9)  # the single point has no distance inside
    assert (second.nearest, second.inside_mean) == ("C", 0.7)
    assert (third.rows, third.clusters) == (1, 1) and math.isnan(third.inside_mean)
    assert mean_minimum_distance([first, second, third]) == pytest.approx(4 / 3)
    closest = fitted().closest_pair()
    assert closest is not None and (closest.first, closest.second, closest.distance) == ("A", "C", 1.0)


def test_rows_carry_values_bounds_counts_and_reasons(tmp_path: Any) -> None:
    score = ProbeScore(
        mean=0.8, sd=0.01, scores=(0.79, 0.81), hidden=(32, 32), alpha=0.1, cv_score=0.8, epochs=(9, 9), seconds=2.0, n=5
    )
    about = {"model": "m", "layer": 3, "task": "pos", "split": "train", "seed": 7, "d": 16, "setting": "words"}
    probe = fitted()
    rows = probe_rows(
        probe,
        label_summaries(probe, Y),
        about=about,
        held_out=HeldOut(0.6, 5, "test"),
        score=score,
        train_test=Similarity(0.9, 0.7, 0.95, 3),
        seconds=1.5,
    )
    assert all((row.model, row.layer, row.task, row.seed, row.d) == ("m", 3, "pos", 7, 16) and row.versions for row in rows)
    single = {row.metric: row for row in rows if not row.label and row.metric != "label_distance"}
    values = {"labels": 3, "clusters": 4, "is_linear": 0, "mean_minimum_distance": 4 / 3, "hull_accuracy": 0.6}
    values |= {"probe_accuracy": 0.8, "probe_accuracy_sd": 0.01, "classifier_seconds": 2.0}
    values |= {"train_test_similarity": 0.9, "probe_seconds": 1.5}
    assert {name: row.value for name, row in single.items()} == pytest.approx(values)
    assert (single["clusters"].n, single["clusters"].split, single["clusters"].setting) == (7, "train", "words")
    assert (single["hull_accuracy"].n, single["hull_accuracy"].split) == (5, "test")
    assert single["probe_accuracy"].split == "test"
    similarity = single["train_test_similarity"]
    assert (similarity.low, similarity.high, similarity.n, similarity.split) == (0.7, 0.95, 3, "train")
    pairs = {row.setting: row for row in rows if row.metric == "label_distance"}
    assert list(pairs) == ["A|B", "A|C", "B|C"]
    pair = pairs["A|C"]
    assert pair.low is not None and pair.high is not None and pair.low < pair.value == 1.0 < pair.high and pair.n == 5
    labelled = {(row.metric, row.label): row for row in rows if row.label}
    assert labelled["label_clusters", "A"].value == 2 and labelled["minimum_distance", "B"].value == 2
    assert labelled["inside_max", "A"].value == 0.9 and labelled["inside_mean", "A"].n == 4
    assert "single point" in labelled["inside_mean", "C"].reason and math.isnan(labelled["inside_mean", "C"].value)
    write_rows(rows, tmp_path / "rows.parquet")
    assert [row.to_dict() for row in read_rows(tmp_path / "rows.parquet")] == [row.to_dict() for row in rows]


def test_labels_without_a_cluster_have_no_neighbour() -> None:
    alone = fitted(
        label_distances_=np.full((3, 3), math.nan),
        clusters_=np.array([0, 0, 0, -1, -1, -1, -1]),
        cluster_labels_=np.array(["A"]),
        n_clusters_=1,
    )
    assert alone.closest_pair() is None
    labels = label_summaries(alone, Y)
    rows = probe_rows(alone, labels, about={})
    assert not [row for row in rows if row.metric == "label_distance"]
    mean = next(row for row in rows if row.metric == "mean_minimum_distance")
    assert math.isnan(mean.value) and "no other label" in mean.reason
    assert [(label.clusters, label.nearest) for label in labels] == [(1, ""), (0, ""), (0, "")]


def test_an_undefined_similarity_keeps_its_reason_and_a_defined_one_has_none() -> None:
    probe = fitted()
    labels = label_summaries(probe, Y)
    for similarity, reason in (
        (Similarity(math.nan, n=2, reason="2 labels are in both"), "2 labels are in both"),
        (Similarity(0.5, n=3, reason="an interval needs at least 4 labels"), ""),
    ):
        row = next(row for row in probe_rows(probe, labels, about={}, train_test=similarity) if "similarity" in row.metric)
        assert row.reason == reason and math.isnan(row.value) == bool(reason)
