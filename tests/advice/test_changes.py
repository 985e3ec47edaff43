"""Changes: what each compression keeps, that a repair is fitted once for all of them, and commands that run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.advice.changes import (
    CODES,
    Change,
    compression_grid,
    dimensions_to_try,
    fit_all,
    repair_grid,
    source_of,
)
from theodolite.core.moments import Moments
from theodolite.core.spelling import TypedInput
from theodolite.repairs import REPAIRS, make_repair

X = (np.random.default_rng(0).standard_normal((400, 16)) * np.linspace(0.3, 3, 16) + 1).astype(np.float32)
DATA = source_of(X, Moments.of(X.astype(np.float64)))


def test_the_grid_has_every_repair_that_can_change_a_score() -> None:
    names = {change.repair for change in repair_grid(1500, 384, pairs=True, dimensions=(64,))}
    # A rotation changes no cosine, and serves compression; a bridge needs a second model.
    assert names == set(REPAIRS) - {"rotate", "bridge"}
    assert "weighted" not in {change.repair for change in repair_grid(1500, 384, pairs=False)}
    for n, d in ((20, 2), (30, 1), (8, 300)):
        for change in repair_grid(n, d, pairs=True, dimensions=dimensions_to_try(None, d)):
            make_repair(change.repair, **dict(change.settings)).fit(np.random.default_rng(0).standard_normal((n, d)))


def test_numbers_of_dimensions_are_the_usual_ones_or_those_asked_for() -> None:
    assert [dimensions_to_try(None, d) for d in (768, 128, 20, 2, 1)] == [(64, 128, 256), (64,), (10, 5), (1,), ()]
    assert dimensions_to_try("8,32", 64) == dimensions_to_try([8, 32], 64) == (8, 32)
    with pytest.raises(ValueError, match="dimensions=64 must be at least 1 and below d=64"):
        dimensions_to_try("32,64", 64)
    with pytest.raises(ValueError, match="dimensions='a few' must be whole numbers, such as 64,128,256"):
        dimensions_to_try("a few", 64)
    assert Change("pca", (("components", 64),)) not in repair_grid(50, 384, pairs=False, dimensions=(64,))  # of 50 rows


@pytest.mark.parametrize("change", repair_grid(400, 16, pairs=False, dimensions=(4,)), ids=str)
def test_a_repair_fitted_on_known_moments_is_the_repair(change: Change) -> None:
    expected = make_repair(change.repair, **dict(change.settings)).fit_transform(X)
    np.testing.assert_allclose(change.fit(DATA)(X), expected, atol=2e-3)


def test_quantisation_keeps_as_many_levels_as_it_says() -> None:
    codes = Change(code="int8").fit(DATA)(X)
    assert np.abs(codes).max() == 127 and (codes == np.round(codes)).all()
    np.testing.assert_allclose(codes / 127 * np.abs(X).max(), X, atol=np.abs(X).max() / 254 * 1.01)
    assert np.abs(Change(code="int8").fit(DATA)(10 * X)).max() == 127  # what is beyond the range of the fit is clipped
    np.testing.assert_array_equal(Change(code="binary").fit(DATA)(X), np.where(X > 0, 1, -1))
    np.testing.assert_array_equal(Change(code="float16").fit(DATA)(X), X.astype(np.float16))


def test_a_code_after_a_repair_is_fitted_on_repaired_rows() -> None:
    change = Change("zero-mean", code="int8")
    centred = X - X.mean(axis=0)
    expected = np.round(centred * (127 / np.abs(centred).max()))
    np.testing.assert_allclose(change.fit(DATA)(X), expected, atol=1)
    group = [Change("pca", (("components", 4),), code) for code in ("", "binary", "int8")]
    fitted = fit_all(group, DATA)
    assert [fitted[each](X).shape[1] for each in group] == [4, 4, 4]


def test_sizes_and_names() -> None:
    grid = {str(change): change.size(16) for change in compression_grid(100, 16, dimensions=(4,), repairs=[Change("whiten")])}
    assert grid["int8"] == 0.25 and grid["binary after whiten"] == 1 / 32 and grid["truncate components=4"] == 0.25
    assert grid["int8 after pca components=4"] == 1 / 16
    assert len(grid) == 2 + 3 * (1 + 1 + 2) + 2 * 2  # shorter; codes of nothing, whiten, shorter; int8 and binary of milder ones
    assert len(compression_grid(100, 16, dimensions=(4,), repairs=[Change("zero-mean")])) == len(grid) - 2  # no line twice
    assert list(grid)[:3] == list(CODES)  # the simplest first
    assert str(Change()) == "leave it alone"


def lines(change: Change, *arguments: Any, **options: Any) -> str:
    return " && ".join(change.commands(*arguments, **options))


def test_the_commands_name_what_repair_fit_takes() -> None:
    source = TypedInput("my x.npz", {"key": "a"})
    assert lines(Change("global", (("directions", 3), ("which", "bottom"))), source, pairs="b.npy", scores="s.txt") == (
        "theodolite repair fit global 'my x.npz' --to my-repair --directions 3 --key a --set which=bottom"
        " && theodolite repair apply my-repair 'my x.npz' --to repaired.npy --key a"
    )
    both = lines(Change("whiten"), TypedInput("docs.npy"), "queries.npy")
    assert both == (
        "theodolite repair fit whiten docs.npy --to my-repair && theodolite repair apply my-repair docs.npy --to repaired-1.npy"
        " && theodolite repair apply my-repair queries.npy --to repaired-2.npy"
    )
    space = TypedInput("my-space", before="theodolite extract demo --to my-space", model="demo")
    assert lines(Change("whiten"), space) == (
        "theodolite extract demo --to my-space && theodolite repair fit whiten my-space --to my-repair"
        " && theodolite repair export my-repair demo --to my-model-repaired"
    )
    assert "repair apply my-repair my-space" in lines(Change("cluster-zero-mean"), space)  # which no model can carry
    assert "--set power=0.5" in lines(Change("power-whiten", (("power", 0.5),)), source)
    assert "--pairs b.npy --scores s.txt" in lines(Change("weighted"), source, pairs="b.npy", scores="s.txt")
    assert lines(Change(code="int8"), source) == "theodolite repair quantize 'my x.npz' --to int8.npy --code int8 --key a"
    assert lines(Change("pca", (("components", 4),), "int8"), TypedInput("docs.npy"), "queries.npy", name="shorten") == (
        "theodolite repair fit pca docs.npy --to my-shorten --components 4"
        " && theodolite repair apply my-shorten docs.npy --to shortened-1.npy"
        " && theodolite repair apply my-shorten queries.npy --to shortened-2.npy"
        " && theodolite repair quantize shortened-1.npy --to int8-1.npy --code int8"
        " && theodolite repair quantize shortened-2.npy --to int8-2.npy --code int8"
    )


def test_the_call_in_python_repairs_vectors_in_memory() -> None:
    call = lines(Change("power-whiten", (("power", 0.5),)), TypedInput(""))
    assert call == "th.repair.fit('power-whiten', X, settings={'power': 0.5}).transform(X)"
    repaired = eval(call, {"th": th, "X": X})  # that it can be pasted is what is tested
    np.testing.assert_array_equal(repaired, make_repair("power-whiten", power=0.5).fit_transform(X))
    smaller = eval(lines(Change("truncate", (("components", 4),), "int8"), TypedInput("")), {"th": th, "X": X})
    np.testing.assert_array_equal(smaller, Change(code="int8").fit(source_of(X[:, :4]))(X[:, :4]))


@pytest.mark.parametrize("name", ["zero-mean", "power-whiten", "cluster-based", "cluster-zero-mean", "global", "weighted"])
def test_repairs_of_rows_with_moments_share_them_and_learn_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(3).normal(1, 1, (400, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    alone = make_repair(name).fit(X)
    assert not make_repair(name).fit(source_of(2 * X, Moments.of(2 * X))).fitted_on_.normalized
    shared = source_of(X, Moments.of(X))
    make_repair("cluster-zero-mean").fit(shared)
    for module, function in (("theodolite.core.moments.BlockMoments", "of"), ("theodolite.core.kmeans", "_k_means")):
        if name != "cluster-based" or function == "_k_means":  # which needs the moments of each cluster
            monkeypatch.setattr(f"{module}.{function}", lambda *_, **__: pytest.fail("computed a second time"))
    repair = make_repair(name).fit(shared)
    np.testing.assert_allclose(repair.transform(X), alone.transform(X), atol=1e-9)
    assert repair.fitted_on_ == alone.fitted_on_ and repair.fitted_on_.normalized
    np.testing.assert_array_equal(repair.examples_, X[:4])
