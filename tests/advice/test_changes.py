"""Changes: what each compression keeps, that a repair is fitted once for all of them, and commands that run."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.advice.changes import Change, compression_grid, fit_all, repair_grid, source_of
from theodolite.core.moments import Moments
from theodolite.repairs import REPAIRS, make_repair

X = (np.random.default_rng(0).standard_normal((400, 16)) * np.linspace(0.3, 3, 16) + 1).astype(np.float32)
DATA = source_of(X, Moments.of(X.astype(np.float64)))


def test_the_grid_has_every_repair_that_can_change_a_score() -> None:
    names = {change.repair for change in repair_grid(1500, 384, pairs=True)}
    assert names == set(REPAIRS) - {"rotate"}  # which changes no cosine, and serves compression
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
    assert grid["int8"] == 0.25 and grid["binary after whiten"] == 1 / 32 and grid["top 4 after rotate"] == 0.25
    assert len(grid) == 4 * 7
    assert len(compression_grid(16, Change("zero-mean"))) == 3 * 7  # no line twice
    assert str(Change()) == "leave it alone"


def test_the_commands_name_what_repair_fit_takes() -> None:
    fit, apply = Change("global", (("directions", 3), ("which", "bottom"))).commands("x.npy")
    assert fit == "theodolite repair fit global x.npy --to my-repair --directions 3 --set which=bottom"
    assert apply == "theodolite repair apply my-repair x.npy --to repaired.npy"
    assert "--set power=0.5" in Change("power-whiten", (("power", 0.5),)).commands("x.npy")[0]
    assert "--pairs b.npy --scores s.txt" in Change("weighted").commands("a.npy", pairs="b.npy", scores="s.txt")[0]
