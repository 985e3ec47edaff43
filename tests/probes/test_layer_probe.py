"""One layer: the numbers are those of the probes themselves, and every option reaches the probe it belongs to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hull_oracles import cloud

from theodolite.core.sampling import sample_by_label
from theodolite.probes import ClassifierProbe, DirectProbe, LinearProbe, NoSpread, probe_layer, spatial_similarity

X, CODES = cloud(160, 5, 4, apart=6.0, seed=0)
Y = np.array(["adp", "det", "noun", "verb"])[CODES]
T, U = X[100:] + 0.1, Y[100:]
X, Y = X[:100], Y[:100]


def values(rows: Any, metric: str) -> list[float]:
    return [row.value for row in rows if row.metric == metric]


def test_the_numbers_are_those_of_the_probes() -> None:
    layer = probe_layer(X, Y, test=(T, U), test_split="test", classifier="linear", about={"layer": 3, "split": "train"})
    probe, linear = DirectProbe().fit(X, Y), LinearProbe().fit(X, Y).evaluate(T, U)
    np.testing.assert_array_equal(layer.probe.clusters_, probe.clusters_)
    np.testing.assert_array_equal(layer.probe.label_distances_, probe.label_distances_)
    assert layer.sentence == probe.verdict() and layer.closest == probe.closest_pair()
    assert layer.mean_minimum_distance == pytest.approx(probe.minimum_distances_.mean())
    assert [label.label for label in layer.labels] == ["adp", "det", "noun", "verb"]
    assert layer.held_out is not None and layer.score is not None and layer.train_test is None
    assert (layer.held_out.accuracy, layer.held_out.n) == (np.mean(probe.predict(T) == U), len(U))
    assert layer.score.scores == linear.scores
    assert values(layer.rows, "clusters") == [probe.n_clusters_] and values(layer.rows, "labels") == [4]
    assert values(layer.rows, "hull_accuracy") == [layer.held_out.accuracy]
    assert values(layer.rows, "probe_accuracy") == [linear.mean] and values(layer.rows, "probe_seconds") == [layer.seconds]
    assert {(row.layer, row.d, row.seed) for row in layer.rows} == {(3, 5, 0)}
    assert {row.split for row in layer.rows if "accuracy" in row.metric} == {"test"}


def test_without_held_out_rows_there_is_no_accuracy() -> None:
    layer = probe_layer(X, Y)
    assert layer.held_out is None and layer.score is None
    assert not [row for row in layer.rows if "accuracy" in row.metric]


def test_a_network_is_trained_on_the_grid_and_the_sample_that_are_given() -> None:
    grid = {"hidden": ((8,),), "alphas": (1e-2,), "folds": 2, "max_iter": 15, "initialisations": 2}
    layer = probe_layer(X, Y, test=(T, U), classifier="mlp", grid=grid, max_classifier_rows=60, seed=3)
    sample = sample_by_label(Y, 60, seed=3)
    score = ClassifierProbe(**grid, seed=3).fit(X[sample], Y[sample]).evaluate(T, U)
    assert layer.score is not None and layer.score.scores == score.scores and layer.score.hidden == (8,)
    assert layer.labels[0].rows == np.count_nonzero(Y == "adp")  # the hulls are fitted on all rows


def test_hulls_are_fitted_on_a_stratified_sample() -> None:
    layer = probe_layer(X, Y, max_rows=40, seed=5)
    sample = sample_by_label(Y, 40, seed=5)
    np.testing.assert_array_equal(layer.probe.label_distances_, DirectProbe().fit(X[sample], Y[sample]).label_distances_)
    assert sum(label.rows for label in layer.labels) == 40 and {row.n for row in layer.rows if row.metric == "clusters"} == {40}
    followed = probe_layer(X, Y, clusters=Y, max_rows=40, seed=5)
    np.testing.assert_array_equal(followed.probe.clusters_, layer.probe.clusters_)
    assert len(probe_layer(X, Y, max_rows=0).probe.clusters_) == 100


def test_clusters_that_are_given_are_followed() -> None:
    close, codes = cloud(60, 3, 2, apart=0.1, seed=1)
    layer = probe_layer(close, codes, clusters=codes, about={"step": 10, "state": "fine-tuning"})
    assert layer.probe.n_clusters_ == 2 and layer.probe.n_overlaps_ == 1
    assert layer.mean_minimum_distance == pytest.approx(0, abs=1e-6)
    assert {(row.step, row.state) for row in layer.rows} == {(10, "fine-tuning")}


def test_options_reach_the_probe() -> None:
    layer = probe_layer(X, Y, label_distance="minimum", min_cluster_size=2, n_jobs=1)
    assert (layer.probe.label_distance, layer.probe.min_cluster_size, layer.probe.n_jobs) == ("minimum", 2, 1)


def test_train_test_similarity_is_that_of_two_probes() -> None:
    layer = probe_layer(X, Y, test=(T, U), train_test=True)
    assert layer.train_test == spatial_similarity(DirectProbe().fit(X, Y), DirectProbe().fit(T, U))
    assert values(layer.rows, "train_test_similarity") == [layer.train_test.value]
    single = probe_layer(X, Y, test=(T[U == "det"], U[U == "det"]), train_test=True)
    assert single.train_test is not None and math.isnan(single.train_test.value)
    assert [row.reason for row in single.rows if row.metric == "train_test_similarity"] == ["the test rows have one label"]
    point = probe_layer(X, Y, test=(np.ones_like(T), U), train_test=True)
    assert point.train_test is not None and point.train_test.reason.startswith("test rows: all 60 rows are the same point")


def test_fields_that_are_given_win_over_computed_ones() -> None:
    assert {(row.seed, row.d) for row in probe_layer(X, Y, seed=1, about={"seed": 7, "d": 9}).rows} == {(7, 9)}


def test_progress_names_every_stage() -> None:
    stages = []
    probe_layer(X, Y, test=(T, U), classifier="linear", progress=lambda stage, done, total: stages.append(stage))
    assert set(stages) == {"pairs of labels", "classifier"}


def test_one_point_is_an_error_of_its_own() -> None:
    with pytest.raises(NoSpread, match="all 100 rows are the same point"):
        probe_layer(np.ones_like(X), Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classifier": "svm"}, "classifier='svm' must be one of none, linear, mlp"),
        (
            {"classifier": "linear"},
            "a classifier is scored on held-out rows, and there are none; give test=PATH or hold_out=0.2",
        ),
        ({"train_test": True}, "train-test similarity compares with held-out rows, and there are none"),
        ({"test": (T, U[:-1])}, "59 labels for 60 rows"),
        ({"label_distance": "most"}, "label_distance='most'"),
        ({"clusters": Y[:5]}, "shape (5,) for 100 rows"),
        ({"clusters": Y[:5], "max_rows": 40}, "shape (5,) for 100 rows"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        probe_layer(X, Y, **options)
    assert message in str(caught.value)
