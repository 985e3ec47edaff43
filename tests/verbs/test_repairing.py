"""`repair`: fitted on one input, applied to another, in files of any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import theodolite as th
from theodolite.metrics import mean_cosine
from theodolite.spaces import Space

X = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32) + 1


def test_fit_gives_a_transformer_and_apply_writes_what_it_gives(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    repair = th.repair.fit("global", tmp_path / "x.npy", directions=2, to=tmp_path / "repair")
    result = th.repair.apply(tmp_path / "repair", X + 1, to=tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), repair.transform(X + 1))
    np.testing.assert_array_equal(th.load_repair(tmp_path / "repair").transform(X), repair.transform(X))
    assert result.value("mean_cosine", state="before") == mean_cosine(X + 1)
    assert "mean cosine 0.8113 →" in " ".join(repr(result).split()) and "300 vectors written" in repr(result)


def test_one_layer_of_a_space_is_repaired(tmp_path: Path) -> None:
    space = Space.of({0: X, 1: X + 3})
    repair = th.repair.fit("zero-mean", space)
    np.testing.assert_allclose(repair.transform(X + 3).mean(axis=0), 0, atol=1e-5)
    th.repair.apply(repair, space, to=tmp_path / "out.npy", layers=0)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), repair.transform(X))
    with pytest.raises(ValueError, match="a repair belongs to one layer"):
        th.repair.fit("zero-mean", space, layers="all")


def test_weighted_removal_learns_from_pairs(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    Y = X + random.standard_normal(X.shape).astype(np.float32)
    scores = random.random(len(X))
    np.save(tmp_path / "scores.npy", scores)
    repair = th.repair.fit("weighted", X, pairs=Y, scores=tmp_path / "scores.npy", settings={"n_directions": 2})
    assert repair.pearson_ >= repair.pearson_before_ - 1e-9  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="go together, and only with the repair 'weighted'"):
        th.repair.fit("global", X, pairs=Y, scores=scores)


def test_mistakes_are_named_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "repair").mkdir()
    with pytest.raises(FileExistsError):
        th.repair.fit("global", X, to=tmp_path / "repair")
    with pytest.raises(ValueError, match="did you mean 'global'"):
        th.repair.fit("globl", X)
    with pytest.raises(ValueError, match="has no setting 'clusters'"):
        th.repair.fit("global", X, clusters=3)
    with pytest.raises(ValueError, match="no known ending"):
        th.repair.apply(th.repair.fit("zero-mean", X), X, to=tmp_path / "out.xlsx")
