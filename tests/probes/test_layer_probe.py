"""One layer: the numbers are those of the probes themselves, and every option reaches the probe it belongs to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hull_oracles import cloud

from theodolite.core.rows import Row, read_rows, write_rows
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
    assert layer.sentence == probe.verdict()
    assert layer.score is not None and layer.train_test is None
    assert layer.score.scores == linear.scores
    assert values(layer.rows, "clusters") == [probe.n_clusters_] and values(layer.rows, "labels") == [4]
    assert values(layer.rows, "mean_minimum_distance") == pytest.approx([probe.minimum_distances_.mean()])
    assert values(layer.rows, "hull_accuracy") == [np.mean(probe.predict(T) == U)]
    assert values(layer.rows, "probe_accuracy") == [linear.mean] and values(layer.rows, "probe_accuracy_sd") == [0]
    assert values(layer.rows, "classifier_seconds") == [layer.score.seconds] and values(layer.rows, "probe_seconds")[0] > 0
    assert {(row.layer, row.d, row.seed) for row in layer.rows} == {(3, 5, 0)}
    assert {(row.split, row.n) for row in layer.rows if "accuracy" in row.metric} == {("test", len(U))}


def line(**options: Any) -> tuple[Row, ...]:
    """The rows of three labels on a line: A in two clusters, one of them a single point; B in one; C is a single point."""
    points, names = [0.0, 0.5, 0.9, 4.0, 4.7, 6.7, 10.0], ["A", "A", "A", "B", "B", "C", "A"]
    return probe_layer(np.array(points)[:, None], names, **options).rows


def test_rows_carry_values_bounds_counts_and_reasons(tmp_path: Any) -> None:
    about = {"model": "m", "layer": 3, "task": "pos", "split": "train", "seed": 7, "setting": "words"}
    rows = line(test=([[4.2], [11.0], [6.0]], ["B", "A", "B"]), test_split="test", train_test=True, about=about)
    assert all((row.model, row.layer, row.task, row.seed, row.d) == ("m", 3, "pos", 7, 1) and row.versions for row in rows)
    single = {row.metric: row for row in rows if not row.label}
    known = {name: row.value for name, row in single.items() if name not in ("train_test_similarity", "probe_seconds")}
    minimum = {"A": 4.2, "B": 2.0, "C": 2.0}
    mean = sum(minimum.values()) / 3
    layout = {"labels": 3, "clusters": 4, "overlaps": 0, "is_linear": 0, "mean_minimum_distance": mean, "hull_accuracy": 2 / 3}
    assert known == pytest.approx(layout)
    assert (single["clusters"].n, single["clusters"].split, single["clusters"].setting) == (7, "train", "words")
    assert (single["hull_accuracy"].n, single["hull_accuracy"].split) == (3, "test")
    pairs = {row.label + row.other_label: row for row in rows if row.other_label}
    assert {names: row.value for names, row in pairs.items()} == pytest.approx({"AB": 4.2, "AC": 4.55, "BC": 2.0})
    pair = pairs["AC"]
    assert pair.low is not None and pair.high is not None and pair.low <= pair.value <= pair.high and pair.n == 5
    labelled = {(row.metric, row.label): row for row in rows if row.label}
    assert {label: labelled["minimum_distance", label].value for label in "ABC"} == pytest.approx(minimum)
    assert [labelled["label_clusters", label].value for label in "ABC"] == [2, 1, 1]
    # The single points, the second cluster of A and C, have no distance inside.
    assert (labelled["inside_mean", "A"].value, labelled["inside_max", "A"].value) == pytest.approx((0.6, 0.9))
    assert (labelled["inside_mean", "A"].n, labelled["inside_mean", "A"].reason) == (4, "")
    assert math.isnan(labelled["inside_mean", "C"].value) and "single point" in labelled["inside_mean", "C"].reason
    write_rows(rows, tmp_path / "rows.parquet")
    assert [row.to_dict() for row in read_rows(tmp_path / "rows.parquet")] == [row.to_dict() for row in rows]


def test_labels_without_a_large_cluster_have_no_neighbour() -> None:
    rows = line(min_cluster_size=3)
    assert not [row for row in rows if row.metric == "label_distance"]
    undefined = [row for row in rows if "minimum_distance" in row.metric]
    assert len(undefined) == 4 and all(math.isnan(row.value) and "no other label" in row.reason for row in undefined)


def test_an_undefined_similarity_keeps_its_reason_and_a_defined_one_has_none() -> None:
    three = {"test": (T[U != "det"], U[U != "det"]), "train_test": True}
    similarity = probe_layer(X, Y, **three).train_test
    assert similarity is not None and math.isfinite(similarity.value) and "at least 4 labels" in similarity.reason
    (row,) = (row for row in probe_layer(X, Y, **three).rows if row.metric == "train_test_similarity")
    assert (row.value, row.n, row.reason) == (similarity.value, 3, "")
    (row,) = (row for row in line(test=([[0.0], [4.0]], ["A", "B"]), train_test=True) if row.metric == "train_test_similarity")
    assert math.isnan(row.value) and "the first has 4 clusters of 3 labels" in row.reason


def test_without_held_out_rows_there_is_no_accuracy() -> None:
    layer = probe_layer(X, Y)
    assert layer.score is None
    assert not [row for row in layer.rows if "accuracy" in row.metric]


def test_a_network_is_trained_on_the_grid_and_the_sample_that_are_given() -> None:
    grid = {"hidden": ((8,),), "alphas": (1e-2,), "folds": 2, "max_iter": 15, "initialisations": 2}
    layer = probe_layer(X, Y, test=(T, U), classifier="mlp", grid=grid, max_classifier_rows=60, seed=3)
    sample = sample_by_label(Y, 60, seed=3)
    score = ClassifierProbe(**grid, seed=3).fit(X[sample], Y[sample]).evaluate(T, U)
    assert layer.score is not None and layer.score.scores == score.scores and layer.score.hidden == (8,)
    assert {row.n for row in layer.rows if row.label == "adp" and not row.other_label} == {
        np.count_nonzero(Y == "adp")
    }  # hulls are fitted on all rows


def test_hulls_are_fitted_on_a_stratified_sample() -> None:
    layer = probe_layer(X, Y, max_rows=40, seed=5)
    sample = sample_by_label(Y, 40, seed=5)
    np.testing.assert_array_equal(layer.probe.label_distances_, DirectProbe().fit(X[sample], Y[sample]).label_distances_)
    assert {row.n for row in layer.rows if row.metric == "clusters"} == {40}
    assert sum(row.n for row in layer.rows if row.metric == "label_clusters") == 40
    followed = probe_layer(X, Y, clusters=Y, max_rows=40, seed=5)
    np.testing.assert_array_equal(followed.probe.clusters_, layer.probe.clusters_)
    assert len(probe_layer(X, Y, max_rows=0).probe.clusters_) == 100


def test_clusters_that_are_given_are_followed() -> None:
    close, codes = cloud(60, 3, 2, apart=0.1, seed=1)
    layer = probe_layer(close, codes, clusters=codes, about={"step": 10, "state": "fine-tuning"})
    assert layer.probe.n_clusters_ == 2 and layer.probe.n_overlaps_ == 1
    assert values(layer.rows, "mean_minimum_distance") == pytest.approx([0], abs=1e-6)
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
            "a classifier is scored on held-out rows, but there are none; give test=PATH or hold_out=0.2",
        ),
        ({"train_test": True}, "train-test similarity compares with held-out rows, but there are none"),
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
