"""The shape of a layer: shares of variance and explained shares at both of their ends."""

import numpy as np
import pytest

from theodolite.studies.measures.layers import _between_share, _explained_share, shape_rows


def test_the_share_between_clusters_is_1_if_they_are_points_and_0_if_their_means_agree():
    X = np.repeat(np.eye(3), 10, axis=0)
    assert _between_share(X, np.repeat([0, 1, 2], 10)) == pytest.approx(1.0)
    assert _between_share(X, np.tile([0, 1], 15)) == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(_between_share(np.ones((4, 2)), np.array([0, 0, 1, 1])))


def test_r2_is_1_for_a_linear_relation_and_near_0_for_none():
    components = np.random.default_rng(4).standard_normal((200, 2))
    assert _explained_share(components, 3 * components[:, 0] - components[:, 1] + 2) == pytest.approx(1.0)
    assert _explained_share(components, np.random.default_rng(5).standard_normal(200)) < 0.06


def test_rows_of_metrics_have_the_setting_of_the_step():
    X = np.random.default_rng(6).standard_normal((100, 4))
    rows = shape_rows(X, ["iso_score", "hubness"], {"layer": 3}, "tokens", seed=1, bootstrap=20, sample=50)
    assert {(row.metric, row.setting, row.layer, row.seed) for row in rows} == {
        ("iso_score", "tokens", 3, 1),
        ("hubness", "tokens", 3, 1),
    }
    assert rows[0].low < rows[0].value < rows[0].high
    assert shape_rows(X, [], {}, "tokens", seed=1) == []
