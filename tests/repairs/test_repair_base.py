"""What every repair shares: how it describes itself, what scikit-learn makes of it, and how a chain of them folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from theodolite.repairs import (
    REPAIRS,
    ClusterRemoveDirections,
    ClusterZeroMean,
    DropRogueDimensions,
    RemoveDirections,
    Standardize,
    WeightedRemoval,
    Whiten,
    ZeroMean,
    fold_affine,
    repair_settings,
)

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


def test_a_pipeline_folds_into_one_matrix() -> None:
    X = np.random.default_rng(0).standard_normal((300, 9)) * np.arange(1, 10) + 4
    chain = make_pipeline(
        WeightedRemoval(1), DropRogueDimensions(2), "passthrough", ZeroMean(), RemoveDirections(1), Standardize(), Whiten(4)
    ).fit(X)
    matrix, bias = fold_affine(chain)
    assert matrix.shape == (9, 4)
    np.testing.assert_allclose(X @ matrix + bias, chain.transform(X), atol=1e-9)
    listed = fold_affine([step for _, step in chain.steps if step != "passthrough"])
    np.testing.assert_array_equal(listed[0], matrix)


def test_one_repair_folds_into_itself() -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    repair = Whiten().fit(X)
    for folded in (fold_affine(repair), fold_affine([repair])):
        np.testing.assert_array_equal(folded[0], repair.affine()[0])
        np.testing.assert_array_equal(folded[1], repair.affine()[1])


def test_errors_say_why_a_chain_cannot_be_folded() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    with pytest.raises(TypeError, match="each cluster"):
        fold_affine([ZeroMean().fit(X), ClusterZeroMean(2).fit(X)])
    with pytest.raises(TypeError, match="step 1 is a PCA"):
        fold_affine(make_pipeline(ZeroMean(), PCA(2)).fit(X))
    with pytest.raises(ValueError, match="gives 2 columns but ZeroMean takes 4"):
        fold_affine([Whiten(2).fit(X), ZeroMean().fit(X)])
    with pytest.raises(ValueError, match="no repair"):
        fold_affine([])


def test_masked_entries_are_refused_and_not_unmasked() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    masked = np.ma.masked_greater(X, 1.0)
    for act in (ZeroMean().fit, ZeroMean().fit(X).transform):
        with pytest.raises(ValueError, match="masked entries"):
            act(masked)
    np.testing.assert_array_equal(ZeroMean().fit_transform(np.ma.masked_array(X)), ZeroMean().fit_transform(X))


def test_the_vectors_of_a_frame_are_found() -> None:
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((20, 3))
    expected = ZeroMean().fit_transform(X)
    frame = pandas.DataFrame(X, columns=["d0", "d1", "d2"]).assign(text="a")
    for form in (frame, pandas.Series(list(X)), pandas.DataFrame({"text": "a", "vector": list(X)})):
        np.testing.assert_allclose(ZeroMean().fit_transform(form), expected)
