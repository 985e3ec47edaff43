"""What every repair shares: how it describes itself, and what scikit-learn makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from theodolite.repairs import REPAIRS, ClusterRemoveDirections, RemoveDirections, Whiten, ZeroMean, repair_settings

X = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("repair", "description"),
    [
        (ZeroMean(), "ZeroMean()"),
        (ZeroMean().fit(X), "ZeroMean(), fitted on 8 dimensions"),
        (RemoveDirections(3).fit(X), "RemoveDirections(n_directions=3), fitted on 8 dimensions"),
        (RemoveDirections(which="bottom"), "RemoveDirections(which='bottom')"),
        (Whiten(shrinkage=0.1, n_components=4), "Whiten(n_components=4, shrinkage=0.1)"),
        (
            ClusterRemoveDirections(5, 2, which="bottom", seed=123456).fit(X),
            "ClusterRemoveDirections(n_clusters=5, n_directions=2, seed=123456, which='bottom'), fitted on 8 dimensions",
        ),
    ],
)
def test_a_repair_describes_itself_in_one_line(repair: object, description: str) -> None:
    assert repr(repair) == str(repair) == description


@pytest.mark.parametrize("name", REPAIRS)
def test_a_clone_is_not_fitted_and_a_pipeline_shows_its_steps(name: str) -> None:
    repair = REPAIRS[name]().fit(X)
    assert "fitted" not in repr(clone(repair))
    assert type(repair).__name__ in repr(make_pipeline(repair))
    assert type(repair).__name__ in repair._repr_html_()


def test_settings_are_those_of_the_constructor() -> None:
    assert repair_settings(ZeroMean) == {}
    assert repair_settings(RemoveDirections) == {"n_directions": None, "which": "top"}
    for kind in REPAIRS.values():
        assert repair_settings(kind) == {**repair_settings(kind), **kind().get_params()}
