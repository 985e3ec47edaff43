"""The classifier probes: what each can predict, what it chooses, and its errors; both if they must behave alike."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier

from theodolite.probes.classifiers.estimators import ClassifierProbe, LinearProbe
from theodolite.probes.classifiers.grid_search import stratified_folds
from theodolite.probes.label_codes import labelled

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


def test_xor_needs_a_hidden_layer() -> None:
    X, y = xor(200, 0)
    T, t = xor(200, 1)
    assert ClassifierProbe(**SMALL, max_iter=150).fit(X, y).evaluate(T, t).mean == 1
    assert LinearProbe(folds=3).fit(X, y).evaluate(T, t).mean < 0.8


def test_labels_that_a_plane_separates() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    X = X[np.abs(X[:, 0]) > 0.3]
    y = X[:, 0] > 0
    for probe in (ClassifierProbe(**SMALL, max_iter=100), LinearProbe(folds=3)):
        assert probe.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.95


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("backend", ["torch", pytest.param("sklearn", marks=pytest.mark.slow)])
def test_accuracy_is_that_of_scikit_learns_networks(backend: Any, digits: Any) -> None:
    """Five initialisations of the chosen cell, trained again by scikit-learn from the same seeds."""
    X, y, T, t = digits
    if backend == "torch":
        pytest.importorskip("torch")
    score = ClassifierProbe(**{**SMALL, "hidden": ((32, 32), (64, 32))}, backend=backend, max_iter=60).fit(X, y).evaluate(T, t)
    peers = [MLPClassifier(score.hidden, alpha=score.alpha, random_state=seed, max_iter=60).fit(X, y) for seed in range(5)]
    scores = [peer.score(T, t) for peer in peers]
    assert score.scores == pytest.approx(scores, abs=1.5 / len(t))  # a row may be on the border of two classes
    assert score.mean > 0.8
    assert score.mean == pytest.approx(np.mean(score.scores))
    assert score.sd == pytest.approx(np.std(score.scores, ddof=1))
    assert score.epochs == tuple(peer.n_iter_ for peer in peers)
    assert score.n == len(t)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("backend", ["torch", "sklearn"])
def test_the_full_grid_is_that_of_scikit_learns_grid_search(backend: Any, digits: Any) -> None:
    """The table of scores and the choice of GridSearchCV on the same folds, up to a row on the border of two classes in torch."""
    X, y, _, _ = digits
    if backend == "torch":
        pytest.importorskip("torch")
    ours = ClassifierProbe(**SMALL, search="full", max_iter=40, backend=backend).fit(X, y)
    values = {"alpha": SMALL["alphas"], "hidden_layer_sizes": SMALL["hidden"]}
    folds = stratified_folds(labelled(X, y), SMALL["folds"]).splits
    theirs = GridSearchCV(MLPClassifier(random_state=0, max_iter=40), values, cv=folds, refit=False).fit(X, y)
    scores = np.stack([theirs.cv_results_[f"split{fold}_test_score"] for fold in range(3)], axis=1)
    assert ours.search_.scores.shape == scores.shape == (4, 3)
    assert ours.search_.scores == pytest.approx(scores, abs=0.011 if backend == "torch" else 0)
    assert (ours.hidden_, ours.alpha_) == (theirs.best_params_["hidden_layer_sizes"], theirs.best_params_["alpha"])


def test_only_a_race_notes_what_it_loses(digits: Any) -> None:
    """The default is the full grid: every cell on every fold, and nothing to note."""
    X, y, _, _ = digits
    wide = {"hidden": ((4,),), "alphas": tuple(10.0**power for power in range(-7, 9)), "folds": 5, "initialisations": 1}
    full = ClassifierProbe(**wide, max_iter=2).fit(X, y)
    raced = ClassifierProbe(**wide, search="race", max_iter=2).fit(X, y)
    assert np.isfinite(full.search_.scores).all() and np.isnan(raced.search_.scores).any()
    assert "race, which lost 0.3 points of accuracy on average" in raced.note_
    assert "race" not in full.note_ and "race" not in ClassifierProbe(**SMALL, search="race", max_iter=2).fit(X, y).note_


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
    trained = y != "digit 3"
    for probe in (
        LinearProbe(alphas=(1e-1,), folds=2),
        ClassifierProbe(hidden=((32, 16),), alphas=(1e-2,), folds=2, max_iter=40),
    ):
        score = probe.fit(X[trained], y[trained]).evaluate(T, t)
        without = probe.evaluate(T[t != "digit 3"], t[t != "digit 3"])
        assert score.unknown == ("digit 3",)
        assert without.unknown == ()
        assert score.mean == pytest.approx(without.mean * without.n / score.n)


def test_a_class_with_fewer_rows_than_folds_is_noted() -> None:
    X, y = xor(60, 0)
    y = np.array(["even", "odd"])[y]
    y[:2] = "rare"
    score = ClassifierProbe(**{**SMALL, "folds": 5}, max_iter=20).fit(X, y).evaluate(X, y)
    assert "absent from some of the 5 folds: rare" in score.note
    assert "5 of 5 networks did not converge within 20 epochs" in score.note
    assert (
        LinearProbe(alphas=(1.0,)).fit(X, y).evaluate(X, y).note == "fewer than 5 rows, so absent from some of the 5 folds: rare"
    )


def test_every_row_a_class_of_its_own_still_runs() -> None:
    X = np.eye(4)
    probe = ClassifierProbe(**SMALL, max_iter=100).fit(X, list("abcd"))
    assert "absent from some of the 3 folds: a, b, c, d" in probe.note_
    assert probe.score(X, list("abcd")) == 1


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
    with pytest.raises(TypeError, match="cannot be sorted"):
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
        ({"backend": "jax"}, "backend='jax' must be one of"),
        ({"search": "quick"}, "search='quick' must be one of 'full' and 'race'"),
    ):
        with pytest.raises(ValueError, match=message):
            ClassifierProbe(**{**SMALL, **settings}).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 columns; the probe was trained on 2"):
        ClassifierProbe(**SMALL, max_iter=3).fit(X, y).predict(np.ones((1, 3)))


def test_without_torch_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_torch(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    X, y = xor(40, 0)
    with pytest.raises(ImportError, match=r'pip install "theodolite\[models\]"'):
        ClassifierProbe(**SMALL, backend="torch").fit(X, y)
    assert ClassifierProbe(**SMALL, backend="sklearn", max_iter=5).fit(X, y).backend_ == "sklearn"


def test_progress_rises_to_the_whole() -> None:
    X, y = xor(60, 0)
    for search in ("race", "full"):
        calls: list[tuple[int, int]] = []

        def report(done: int, total: int, calls: list[tuple[int, int]] = calls) -> None:
            calls.append((done, total))

        ClassifierProbe(**SMALL, search=search, max_iter=3, progress=report).fit(X, y)
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)
        assert calls[-1][0] == calls[-1][1] == {total for _, total in calls}.pop()


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 50.0), (1e-3, 5.0)])
def test_a_shift_or_a_scale_of_the_space_changes_nothing_for_the_linear_probe(digits: Any, scale: float, shift: float) -> None:
    X, y, T, t = (part.astype(np.float64) if part.dtype.kind == "f" else part for part in digits)
    plain = LinearProbe(folds=3).fit(X, y)
    moved = LinearProbe(folds=3).fit(X * scale + shift, y)
    assert plain.score(T, t) > 0.85
    assert moved.alpha_ == plain.alpha_
    assert np.mean(moved.predict(T * scale + shift) == plain.predict(T)) > 0.995


@pytest.mark.slow
def test_networks_on_vectors_that_differ_by_little_learn_nothing_and_say_so(digits: Any) -> None:
    """As scikit-learn's do: the loss falls too slowly for its stopping rule."""
    X, y, T, t = digits
    one = {"hidden": ((32, 16),), "alphas": (1e-3,), "folds": 2, "initialisations": 1}
    plain, small = (ClassifierProbe(**one).fit(X * scale, y).evaluate(T * scale, t) for scale in (1, 1e-3))
    assert plain.mean > 0.85 and "differ" not in plain.note
    assert small.mean < 0.3 and "the vectors differ by only 0.000" in small.note


def test_the_strongest_of_equally_good_weights_is_chosen_and_reported() -> None:
    X, y = np.repeat([[-5.0, 0.0], [5.0, 1.0]], 20, axis=0), np.repeat(["low", "high"], 20)
    probe = LinearProbe(alphas=(1e-3, 1.0, 1e-1), folds=2).fit(X, y)
    score = probe.evaluate(X, y)
    assert (probe.alpha_, score.alpha, score.hidden, score.scores, score.sd) == (1.0, 1.0, (), (1.0,), 0.0)


def test_wrong_weights_and_widths_of_the_linear_probe_are_named() -> None:
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 2
    for alphas in ((), (0.0, 1.0), (math.inf,)):
        with pytest.raises(ValueError, match="must be one or more finite numbers above 0"):
            LinearProbe(alphas=alphas).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 columns; the probe was trained on 2"):
        LinearProbe(alphas=(1.0,)).fit(X, y).predict(np.ones((1, 3)))
