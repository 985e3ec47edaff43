"""The classifier probe: what it can tell apart, what it chooses, and what it says of bad input."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from theodolite.probes.classifier import ClassifierProbe
from theodolite.probes.labels import labelled, stratified
from theodolite.probes.linear import LinearProbe
from theodolite.probes.network import Network
from theodolite.probes.race import race, rounds
from theodolite.probes.search import ALPHAS, HIDDEN, Search, all_cells, grid

SMALL: dict[str, Any] = {"hidden": ((16, 8), (32, 8)), "alphas": (1e-4, 1e-1), "folds": 3}


@pytest.fixture(scope="module")
def digits() -> tuple[NDArray[np.float32], NDArray[Any], NDArray[np.float32], NDArray[Any]]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = (X[order] / 16).astype(np.float32), np.array([f"digit {label}" for label in y[order]])
    return X[:300], y[:300], X[1000:], y[1000:]


def xor(n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Four clouds at the corners of a square; opposite corners share a label."""
    rng = np.random.default_rng(seed)
    corners = rng.integers(0, 2, (n, 2))
    return corners * 2 - 1 + 0.2 * rng.standard_normal((n, 2)), corners[:, 0] ^ corners[:, 1]


def test_the_published_grid_has_128_cells() -> None:
    cells = grid(HIDDEN, ALPHAS)
    assert len(set(cells)) == 128
    assert {cell.hidden for cell in cells} == {(a, b) for a in (32, 64, 128, 256) for b in (32, 64, 128, 256)}
    assert sorted({cell.alpha for cell in cells}) == pytest.approx([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1])


def test_xor_needs_a_hidden_layer() -> None:
    X, y = xor(200, 0)
    T, t = xor(200, 1)
    assert ClassifierProbe(**SMALL, max_iter=150).fit(X, y).evaluate(T, t).mean == 1
    assert LinearProbe(folds=3).fit(X, y).evaluate(T, t).mean < 0.8


def test_what_a_plane_tells_apart_both_tell_apart() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    X = X[np.abs(X[:, 0]) > 0.3]
    y = X[:, 0] > 0
    for probe in (LinearProbe(folds=3), ClassifierProbe(**SMALL, max_iter=100)):
        assert probe.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.95


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 50.0), (1e-3, 5.0)])
def test_planes_do_not_care_where_a_space_lies_or_how_large_it_is(digits: Any, scale: float, shift: float) -> None:
    X, y, T, t = (part.astype(np.float64) if part.dtype.kind == "f" else part for part in digits)
    as_it_is = LinearProbe(folds=3).fit(X, y)
    moved = LinearProbe(folds=3).fit(X * scale + shift, y)
    assert as_it_is.score(T, t) > 0.85
    assert moved.alpha_ == as_it_is.alpha_
    assert np.mean(moved.predict(T * scale + shift) == as_it_is.predict(T)) > 0.995


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("backend", ["torch", "sklearn"])
def test_accuracy_is_that_of_scikit_learns_networks(backend: Any, digits: Any) -> None:
    """Five initialisations of the chosen cell, trained once more by scikit-learn from the same seeds."""
    X, y, T, t = digits
    if backend == "torch":
        pytest.importorskip("torch")
    found = ClassifierProbe(**{**SMALL, "hidden": ((32, 32), (64, 32))}, backend=backend, max_iter=60).fit(X, y).evaluate(T, t)
    peers = [MLPClassifier(found.hidden, alpha=found.alpha, random_state=seed, max_iter=60).fit(X, y) for seed in range(5)]
    scores = [peer.score(T, t) for peer in peers]
    assert found.scores == pytest.approx(scores, abs=1.5 / len(t))  # a row may lie on the border of two classes
    assert found.mean > 0.8
    assert found.mean == pytest.approx(np.mean(found.scores))
    assert found.sd == pytest.approx(np.std(found.scores, ddof=1))
    assert found.epochs == tuple(peer.n_iter_ for peer in peers)
    assert found.n == len(t)


def test_the_full_grid_is_grid_search_cv(digits: Any) -> None:
    """The batched grid and scikit-learn's GridSearchCV: the same table of scores, up to a row on the border of two classes."""
    pytest.importorskip("torch")
    X, y, _, _ = digits
    ours, theirs = (ClassifierProbe(**SMALL, race=False, max_iter=40, backend=b).fit(X, y) for b in ("torch", "sklearn"))
    assert ours.search_.scores.shape == theirs.search_.scores.shape == (4, 3)
    assert ours.search_.scores == pytest.approx(theirs.search_.scores, abs=0.011)
    assert (ours.hidden_, ours.alpha_) == (theirs.hidden_, theirs.alpha_)


class Pretend:
    """A trainer whose networks are right on a known share of rows: what a race must find without training."""

    def __init__(self, quality: dict[tuple[tuple[int, ...], float], float]) -> None:
        self.quality = quality
        self.trained = 0

    def __call__(self, jobs: Any) -> list[Network]:
        self.trained += len(jobs)
        return [self.network(self.quality[job.hidden, job.alpha]) for job in jobs]

    def network(self, quality: float) -> Network:
        # Row i holds i / n and its label is 1: predicted 1 where i / n < quality.
        return Network((np.array([[-1.0]]),), (np.array([quality]),), 1, True)


@pytest.fixture(scope="module")
def ladder() -> tuple[Any, Any]:
    """Rows 0, 1/1000, ..., all but five of label 1, so that a quality is an accuracy; and their folds."""
    data = labelled(np.arange(1000)[:, None] / 1000, np.arange(1000) >= 5)
    return data, stratified(data, 5)


def test_the_race_finds_the_grids_choice_with_a_fifth_of_the_networks(ladder: tuple[Any, Any]) -> None:
    cells = grid(HIDDEN, ALPHAS)
    quality = np.random.default_rng(3).uniform(0.3, 0.9, len(cells))
    known = {(cell.hidden, cell.alpha): q for cell, q in zip(cells, quality, strict=True)}
    full, short = Pretend(known), Pretend(known)
    whole, raced = all_cells(*ladder, cells, full, seed=0), race(*ladder, cells, short, seed=0)
    assert whole.best == raced.best == int(quality.argmax())
    assert full.trained == 128 * 5
    assert short.trained <= sum(rounds(128, 5)) < 128 * 5 / 4
    ran = ~np.isnan(raced.scores)
    assert raced.scores[ran] == pytest.approx(whole.scores[ran])


def test_equals_run_once_in_a_race_and_the_first_wins(ladder: tuple[Any, Any]) -> None:
    """The five first tries of eight weights, all alike: the first alone goes on to the other four folds."""
    train = Pretend(dict.fromkeys([((8,), alpha) for alpha in ALPHAS], 0.7))
    found = race(*ladder, grid(((8,),), ALPHAS), train, seed=0)
    assert found.best == 0
    assert train.trained == 5 + 4


def test_the_race_bisects_to_where_the_weight_matters(ladder: tuple[Any, Any]) -> None:
    """Alike from 1e-7 to 1e-3, best at 1e-1: the three between 1e-7 and 1e-4, and 1e-4 and 1e-2, are never tried."""
    quality = dict(zip([((8,), alpha) for alpha in ALPHAS], [0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.9, 0.4], strict=True))
    found = race(*ladder, grid(((8,),), ALPHAS), Pretend(quality), seed=0)
    assert np.flatnonzero(~np.isnan(found.scores[:, 0])).tolist() == [0, 3, 5, 6, 7]
    assert found.cells[found.best].alpha == pytest.approx(1e-1)


def test_the_race_looks_closer_where_light_weights_differ(ladder: tuple[Any, Any]) -> None:
    quality = dict(zip([((8,), alpha) for alpha in ALPHAS], [0.5, 0.5, 0.9, 0.7, 0.7, 0.7, 0.7, 0.7], strict=True))
    found = race(*ladder, grid(((8,),), ALPHAS), Pretend(quality), seed=0)
    assert np.flatnonzero(~np.isnan(found.scores[:, 0])).tolist() == [0, 1, 2, 3, 5, 6, 7]
    assert found.cells[found.best].alpha == pytest.approx(1e-5)


def test_only_cells_that_ran_on_all_folds_can_win() -> None:
    cells = grid(((8,),), (1e-3, 1e-2))
    scores = np.array([[1.0, math.nan], [0.5, 0.5]])
    assert Search(cells, scores, scores, scores).best == 1


def test_determined_by_the_seed(digits: Any) -> None:
    X, y, T, t = digits
    probe = ClassifierProbe(**{**SMALL, "alphas": (1e-2,)}, initialisations=2, max_iter=30)
    first, again = (clone(probe).fit(X, y) for _ in range(2))
    assert first.evaluate(T, t).scores == again.evaluate(T, t).scores
    assert np.array_equal(first.predict_proba(T), again.predict_proba(T))
    other = clone(probe).set_params(seed=7).fit(X, y)
    assert not np.array_equal(first.predict_proba(T), other.predict_proba(T))
    assert first.predict_proba(T).sum(axis=1) == pytest.approx(np.ones(len(T)))
    assert np.array_equal(first.classes_[first.predict_proba(T).argmax(axis=1)], first.predict(T))


def test_a_label_never_trained_on_is_wrong_and_listed(digits: Any) -> None:
    X, y, T, t = digits
    known = y != "digit 3"
    for probe in (
        LinearProbe(alphas=(1e-1,), folds=2),
        ClassifierProbe(hidden=((32, 16),), alphas=(1e-2,), folds=2, max_iter=40),
    ):
        found = probe.fit(X[known], y[known]).evaluate(T, t)
        kept = probe.evaluate(T[t != "digit 3"], t[t != "digit 3"])
        assert found.unknown == ("digit 3",)
        assert kept.unknown == ()
        assert found.mean == pytest.approx(kept.mean * kept.n / found.n)


def test_a_class_with_fewer_rows_than_folds_is_noted() -> None:
    X, y = xor(60, 0)
    y = np.array(["even", "odd"])[y]
    y[:2] = "rare"
    found = ClassifierProbe(**{**SMALL, "folds": 5}, max_iter=20).fit(X, y).evaluate(X, y)
    assert "absent from some of the 5 folds: rare" in found.note
    assert "5 of 5 networks had not converged after 20 epochs" in found.note
    assert (
        LinearProbe(alphas=(1.0,)).fit(X, y).evaluate(X, y).note == "fewer than 5 rows, so absent from some of the 5 folds: rare"
    )


def test_every_row_a_class_of_its_own_still_runs() -> None:
    X = np.eye(4)
    found = ClassifierProbe(**SMALL, max_iter=100).fit(X, list("abcd"))
    assert "absent from some of the 3 folds: a, b, c, d" in found.note_
    assert found.score(X, list("abcd")) == 1


@pytest.mark.parametrize("probe", [ClassifierProbe(**SMALL), LinearProbe()])
def test_bad_input_is_named(probe: Any) -> None:
    X, y = xor(40, 0)
    with pytest.raises(ValueError, match="39 labels for 40 rows"):
        probe.fit(X, y[:-1])
    with pytest.raises(ValueError, match="all 40 rows have the label 1"):
        probe.fit(X, np.ones(40, int))
    with pytest.raises(ValueError, match="NaN at row 3, column 1"):
        probe.fit(np.where((np.arange(40) == 3)[:, None] & [False, True], np.nan, X), y)
    with pytest.raises(ValueError, match="label 2 is nan"):
        probe.fit(X, np.where(np.arange(40) == 2, np.nan, y))
    with pytest.raises(TypeError, match="cannot be put in order"):
        probe.fit(X, [None, *map(str, y[1:])])
    with pytest.raises(ValueError, match="inf at row 0, column 0"):
        probe.fit(X * 1e300, y)
    with pytest.raises(ValueError, match="folds=1 must be at least 2"):
        clone(probe).set_params(folds=1).fit(X, y)


def test_bad_settings_are_named() -> None:
    X, y = xor(40, 0)
    for settings, message in (
        ({"hidden": ((0, 4),)}, "hidden layers"),
        ({"alphas": (-1.0,)}, "alpha=-1.0 must be at least 0"),
        ({"alphas": ()}, "the grid is empty"),
        ({"initialisations": 0}, "initialisations=0"),
        ({"max_iter": 0}, "max_iter=0 must be at least 1"),
        ({"backend": "jax"}, "backend='jax' is none of"),
    ):
        with pytest.raises(ValueError, match=message):
            ClassifierProbe(**{**SMALL, **settings}).fit(X, y)
    for alphas in ((), (0.0, 1.0), (math.inf,)):
        with pytest.raises(ValueError, match="must be one or more finite numbers above 0"):
            LinearProbe(alphas=alphas).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 columns; the probe was trained on 2"):
        ClassifierProbe(**SMALL, max_iter=3).fit(X, y).predict(np.ones((1, 3)))


def test_without_torch_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def none(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", none)
    X, y = xor(40, 0)
    with pytest.raises(ImportError, match=r'pip install "theodolite\[models\]"'):
        ClassifierProbe(**SMALL, backend="torch").fit(X, y)
    assert ClassifierProbe(**SMALL, backend="sklearn", max_iter=5).fit(X, y).backend_ == "sklearn"


def test_progress_rises_to_the_whole() -> None:
    X, y = xor(60, 0)
    for raced in (True, False):
        seen: list[tuple[int, int]] = []

        def told(done: int, total: int, seen: list[tuple[int, int]] = seen) -> None:
            seen.append((done, total))

        ClassifierProbe(**SMALL, race=raced, max_iter=3, progress=told).fit(X, y)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1][0] == seen[-1][1] == {total for _, total in seen}.pop()
