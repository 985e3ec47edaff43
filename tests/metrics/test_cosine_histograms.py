"""Histograms of cosines: they count every pair once, and agree with a plain computation."""

from __future__ import annotations

import numpy as np

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.cosine_histograms import EDGES, GIVEN, NEAREST, RANDOM, similarity_records

ABOUT = {"model": "m", "state": "", "layer": 2}
METRICS = ("pair_cosine_median", "hubness")


def test_all_pairs_and_nearest_rows_are_counted_as_by_hand() -> None:
    X = np.random.default_rng(0).standard_normal((40, 5))
    records = list(similarity_records(Cloud(X), METRICS, ABOUT, given=np.array([0.5, 0.51, -1.0])))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    expected = {RANDOM: cosines[np.triu_indices(40, 1)], NEAREST: cosines.max(axis=1), GIVEN: np.array([0.5, 0.51, -1.0])}
    for kind, values in expected.items():
        counts = {record["low"]: record["count"] for record in records if record["pairs"] == kind}
        plain = {float(EDGES[i]): int(n) for i, n in enumerate(np.histogram(values, EDGES)[0]) if n}
        assert counts == plain
        assert {record["n"] for record in records if record["pairs"] == kind} == {len(values)}
    assert all(record["model"] == "m" and record["layer"] == 2 for record in records)


def test_only_what_a_metric_looks_at_is_counted() -> None:
    cloud = Cloud(np.random.default_rng(0).standard_normal((40, 5)))
    assert list(similarity_records(cloud, ["iso_score", "mean_cosine"], ABOUT)) == []
    assert {record["pairs"] for record in similarity_records(cloud, ["similar_pairs"], ABOUT)} == {RANDOM}


def test_rows_without_a_direction_have_no_histogram() -> None:
    assert list(similarity_records(Cloud(np.zeros((4, 3))), METRICS, ABOUT)) == []
    assert list(similarity_records(Cloud(np.eye(3)[:1]), METRICS, ABOUT)) == []
