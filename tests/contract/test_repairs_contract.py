"""Every registered repair keeps scikit-learn's contract and the package's own: one list of checks for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from theodolite.repairs import REPAIRS, RemoveDirections, Repair, ZeroMean, load_repair, save_repair
from theodolite.spaces import read

SMALL: dict[str, dict[str, Any]] = {
    "global": {"n_directions": 2},
    "cluster-zero-mean": {"n_clusters": 3},
    "cluster-based": {"n_clusters": 3, "n_directions": 2},
    "pca": {"n_components": 5},
    "truncate": {"n_components": 5},
    "drop-rogue": {"n_dimensions": 2},
    "weighted": {"n_directions": 2},
}
"""Options that suit a cloud of 300 x 12."""


def cloud(dtype: type = np.float32, *, n: int = 300, d: int = 12, seed: int = 0) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    return (random.standard_normal((n, d)) * np.arange(1, d + 1) + random.standard_normal(d) * 5).astype(dtype)


def small(name: str) -> Repair:
    return REPAIRS[name](**SMALL.get(name, {}))


every = pytest.mark.parametrize("name", sorted(REPAIRS))
affine = pytest.mark.parametrize("name", sorted(name for name, kind in REPAIRS.items() if kind.is_affine))


@parametrize_with_checks(
    [kind() for kind in REPAIRS.values()] + [RemoveDirections(which="bottom"), REPAIRS["whiten"](shrinkage=0.1)]
)
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@every
def test_every_way_in_gives_the_same_repair(name: str, tmp_path: Path) -> None:
    X = cloud()
    np.save(tmp_path / "all.npy", X)
    shards = tmp_path / "shards"
    shards.mkdir()
    for i in range(3):
        np.save(shards / f"{i}.npy", X[i * 100 : (i + 1) * 100])
    cuts = [X[:7], X[7:150], X[150:]]
    ways = [np.load(tmp_path / "all.npy", mmap_mode="r"), read(shards), cuts, lambda: iter(cuts), np.asfortranarray(X)]
    expected = small(name).fit_transform(X)
    for way in ways:
        repair = small(name).fit(way)
        np.testing.assert_array_equal(repair.transform(X), expected)
        np.testing.assert_array_equal(np.concatenate(list(repair.transform_blocks(way))), expected)


@every
def test_a_stream_that_can_be_read_once_serves_or_says_why_not(name: str) -> None:
    X = cloud()
    repair = small(name)
    if repair.is_affine or name == "unit-length":
        np.testing.assert_array_equal(repair.fit(iter([X[:90], X[90:]])).transform(X), small(name).fit_transform(X))
    else:
        with pytest.raises(ValueError, match="can be read only once"):
            repair.fit(iter([X[:90], X[90:]]))


@every
def test_precision_is_kept(name: str) -> None:
    repair = small(name).fit(cloud(np.float32))
    assert repair.transform(cloud(np.float32)).dtype == np.float32
    assert repair.transform(cloud(np.float16)).dtype == np.float32
    assert repair.transform(cloud(np.float64)).dtype == np.float64
    assert np.allclose(repair.transform(cloud(np.float32)), repair.transform(cloud(np.float32).astype(np.float64)), atol=1e-4)


@every
def test_input_is_not_changed(name: str) -> None:
    X = cloud()
    before = X.copy()
    small(name).fit_transform(X)
    np.testing.assert_array_equal(X, before)


@every
def test_new_rows_are_repaired_by_what_was_learned(name: str) -> None:
    X, new = cloud(np.float64), cloud(np.float64, seed=1) + 3
    repair = small(name).fit(X)
    alone = np.concatenate([repair.transform(row[None]) for row in new[:20]])
    np.testing.assert_allclose(alone, repair.transform(new)[:20], atol=1e-9)


@affine
def test_matrix_and_bias_are_the_transform(name: str) -> None:
    X, new = cloud(np.float64), cloud(np.float64, seed=1)
    repair = small(name).fit(X)
    matrix, bias = repair.affine()
    assert matrix.dtype == bias.dtype == np.float64
    np.testing.assert_allclose(new @ matrix + bias, repair.transform(new), atol=1e-9)


@every
def test_repairs_that_are_not_affine_have_no_matrix_and_say_why(name: str) -> None:
    repair = small(name).fit(cloud())
    if not repair.is_affine:
        with pytest.raises(TypeError, match=r"each cluster|its own length"):
            repair.affine()


@every
def test_works_in_a_pipeline_and_names_its_columns(name: str) -> None:
    import pandas

    frame = pandas.DataFrame(cloud(np.float64), columns=[f"dim{i}" for i in range(12)])
    chain = make_pipeline(ZeroMean(), small(name)).set_output(transform="pandas")
    out = chain.fit_transform(frame)
    assert list(out.columns) == list(chain.get_feature_names_out())
    plain = make_pipeline(ZeroMean(), small(name)).fit_transform(frame.to_numpy())
    np.testing.assert_allclose(out.to_numpy(), plain, atol=1e-12)


@every
@pytest.mark.parametrize("shape", [(5, 12), (12, 12), (2, 30)])
def test_fewer_rows_than_dimensions(name: str, shape: tuple[int, int]) -> None:
    X = cloud(np.float64, n=shape[0], d=shape[1])
    repaired = small(name).fit_transform(X)
    assert len(repaired) == shape[0]
    assert np.isfinite(repaired).all()


@every
def test_saved_and_loaded_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    X, new = cloud(), cloud(seed=1)
    repair = small(name).fit(X)
    save_repair(repair, tmp_path / "repair")
    loaded = load_repair(tmp_path / "repair")
    assert type(loaded) is type(repair)
    assert loaded.get_params() == repair.get_params()
    np.testing.assert_array_equal(loaded.transform(new), repair.transform(new))
    np.testing.assert_array_equal(clone(loaded).fit_transform(X), repair.transform(X))


@every
def test_wrong_width_is_an_error(name: str, tmp_path: Path) -> None:
    repair = small(name).fit(cloud())
    for wrong in (cloud(d=11), [cloud(d=11)], lambda: iter([cloud(d=11)])):
        with pytest.raises(ValueError, match=r"X has 11 features, but .* is expecting 12"):
            repair.transform(wrong)


@every
def test_an_entry_that_is_not_finite_is_named(name: str) -> None:
    X = cloud()
    X[17, 3] = np.nan
    for way in (X, [X[:100], X[100:]]):
        with pytest.raises(ValueError, match="row 17, column 3"):
            small(name).fit(way)
    with pytest.raises(ValueError, match="row 17, column 3"):
        small(name).fit(cloud()).transform(X)
