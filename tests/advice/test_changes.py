"""Changes: what each compression keeps, that a repair is fitted once for all of them, and commands that run."""

from __future__ import annotations

import numpy as np
import pytest

import theodolite as th
from theodolite.advice.changes import Change, compression_grid, fit_all, repair_grid, source_of
from theodolite.core.moments import Moments
from theodolite.core.spelling import TypedInput
from theodolite.repairs import REPAIRS, make_repair

X = (np.random.default_rng(0).standard_normal((400, 16)) * np.linspace(0.3, 3, 16) + 1).astype(np.float32)
DATA = source_of(X, Moments.of(X.astype(np.float64)))


def test_the_grid_has_every_repair_that_can_change_a_score() -> None:
    names = {change.repair for change in repair_grid(1500, 384, pairs=True)}
    assert names == set(REPAIRS) - {"rotate", "pca", "truncate"}  # which serve compression
    assert "weighted" not in {change.repair for change in repair_grid(1500, 384, pairs=False)}
    for n, d in ((20, 2), (30, 1), (8, 300)):
        for change in repair_grid(n, d, pairs=True):
            make_repair(change.repair, **dict(change.settings)).fit(np.random.default_rng(0).standard_normal((n, d)))


@pytest.mark.parametrize("change", repair_grid(400, 16, pairs=False), ids=str)
def test_a_repair_fitted_on_known_moments_is_the_repair(change: Change) -> None:
    expected = make_repair(change.repair, **dict(change.settings)).fit_transform(X)
    np.testing.assert_allclose(change.fit(DATA)(X), expected, atol=2e-3)


def test_truncation_keeps_the_first_or_the_strongest_directions() -> None:
    np.testing.assert_array_equal(Change(code="first 4").fit(DATA)(X), X[:, :4])
    top = Change(code="top 4").fit(DATA)(X)
    singular = np.linalg.svd(X, compute_uv=False)
    assert np.linalg.norm(top) ** 2 == pytest.approx((singular[:4] ** 2).sum(), rel=1e-4)


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
    group = [Change("global", (("directions", 2),), code) for code in ("", "binary", "top 4")]
    fitted = fit_all(group, DATA)
    assert [fitted[each](X).shape[1] for each in group] == [16, 16, 4]


def test_sizes_and_names() -> None:
    grid = {str(change): change.size(16) for change in compression_grid(16, Change("whiten"))}
    assert grid["int8"] == 0.25 and grid["binary after whiten"] == 1 / 32 and grid["first 4 after rotate"] == 0.25
    assert len(grid) == 4 * 7 - 2
    assert len(compression_grid(16, Change("zero-mean"))) == 3 * 7 - 2  # no line twice, and no `top` after a rotation
    assert str(Change()) == "leave it alone"


def test_the_commands_name_what_repair_fit_takes() -> None:
    source = TypedInput("my x.npz", {"key": "a"})
    assert Change("global", (("directions", 3), ("which", "bottom"))).commands(source, pairs="b.npy", scores="s.txt") == (
        "theodolite repair fit global 'my x.npz' --to my-repair --directions 3 --key a --set which=bottom"
        " && theodolite repair apply my-repair 'my x.npz' --to repaired.npy --key a"
    )
    both = Change("whiten").commands(TypedInput("docs.npy"), "queries.npy")
    assert both == (
        "theodolite repair fit whiten docs.npy --to my-repair && theodolite repair apply my-repair docs.npy --to repaired-1.npy"
        " && theodolite repair apply my-repair queries.npy --to repaired-2.npy"
    )
    space = TypedInput("my-space", before="theodolite extract demo --to my-space", model="demo")
    assert Change("whiten").commands(space) == (
        "theodolite extract demo --to my-space && theodolite repair fit whiten my-space --to my-repair"
        " && theodolite repair export my-repair demo --to my-model-repaired"
    )
    assert "repair apply my-repair my-space" in Change("cluster-zero-mean").commands(space)  # which no model can carry
    assert "--set power=0.5" in Change("power-whiten", (("power", 0.5),)).commands(source)
    assert "--pairs b.npy --scores s.txt" in Change("weighted").commands(source, pairs="b.npy", scores="s.txt")


def test_the_call_in_python_repairs_vectors_in_memory() -> None:
    call = Change("power-whiten", (("power", 0.5),)).commands(TypedInput(""))
    assert call == "th.repair.fit('power-whiten', X, settings={'power': 0.5}).transform(X)"
    repaired = eval(call, {"th": th, "X": X})  # that it can be pasted is what is tested
    np.testing.assert_array_equal(repaired, make_repair("power-whiten", power=0.5).fit_transform(X))


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
