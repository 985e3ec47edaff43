"""Control tasks: random labels of types, and selectivity at both extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from theodolite.probes.classifiers.control_task import ControlTask, Words, control_score
from theodolite.probes.classifiers.estimators import ClassifierProbe, LinearProbe

QUICK: dict[str, Any] = {"hidden": ((64, 32),), "alphas": (1e-3,), "folds": 2, "initialisations": 2, "max_iter": 150}


def test_a_type_has_one_label_whatever_the_other_words_are() -> None:
    task = ControlTask.like(["NOUN", "VERB", "VERB", "ADJ"], seed=5)
    words = [f"w{i % 40}" for i in range(200)]
    labels = task.labels(words)
    for word in set(words):
        assert len({label for label, other in zip(labels, words, strict=True) if other == word}) == 1
    assert np.array_equal(task.labels(words[::-1]), labels[::-1])
    assert np.array_equal(task.labels(words[7:9]), labels[7:9])


def test_labels_have_the_shares_of_the_real_ones() -> None:
    task = ControlTask.like(["common"] * 70 + ["rare"] * 5 + ["some"] * 25)
    labels = task.labels(range(20_000))
    shares = {label: float(np.mean(labels == label)) for label in ("common", "rare", "some")}
    # Three standard deviations of a share from 20,000 draws are below 0.01.
    assert shares == pytest.approx({"common": 0.7, "rare": 0.05, "some": 0.25}, abs=0.01)


def test_seeds_draw_independently() -> None:
    one, other = (ControlTask.like(list("ab"), seed=seed).labels(range(4000)) for seed in (0, 1))
    assert np.array_equal(one, ControlTask.like(list("ab"), seed=0).labels(range(4000)))
    assert np.mean(one == other) == pytest.approx(0.5, abs=0.03)


def typed_words(n: int, seed: int, *, n_types: int = 60, d: int = 40) -> tuple[NDArray[Any], NDArray[Any]]:
    """A random vector for each type, with a little context; and the types."""
    types = np.random.default_rng(seed).integers(0, n_types, n)
    centres = np.random.default_rng(99).standard_normal((n_types, d))
    return centres[types] + 0.05 * np.random.default_rng(seed + 1).standard_normal((n, d)), types


def accuracies(probe: Any, train: Words, test: Words) -> tuple[float, float]:
    """On the task, and on its control."""
    return clone(probe).fit(train.X, train.y).evaluate(test.X, test.y).mean, control_score(probe, train, test).mean


def test_random_vectors_of_types_are_not_selective() -> None:
    """Random labels of types are a control task themselves: both are memorised alike."""
    (X, types), (T, test_types) = typed_words(600, 0), typed_words(400, 10)
    random_task = ControlTask.like(list("abc"), seed=123)
    task, control = accuracies(
        ClassifierProbe(**QUICK),
        Words(X, random_task.labels(types), types),
        Words(T, random_task.labels(test_types), test_types),
    )
    assert task > 0.97
    assert abs(task - control) < 0.03


@pytest.mark.parametrize("probe", [ClassifierProbe(**QUICK), LinearProbe(alphas=(1e-1, 1.0), folds=2)])
def test_labels_that_the_context_carries_are_selective(probe: Any) -> None:
    """The label has a direction of its own, independent of the type, and most types of the test are new."""
    (X, _), (T, _) = typed_words(300, 0), typed_words(300, 10)
    rng = np.random.default_rng(2)
    y, t = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    X[:, 0], T[:, 0] = 6.0 * y - 3, 6.0 * t - 3
    task, control = accuracies(probe, Words(X, y, rng.integers(0, 250, 300)), Words(T, t, rng.integers(0, 1000, 300)))
    assert task > 0.97
    assert task - control > 0.3


def test_bad_words_are_named() -> None:
    X, types = typed_words(30, 0)
    good = Words(X, types % 2, types)
    with pytest.raises(ValueError, match="the test words have 29 types and 30 labels"):
        control_score(LinearProbe(), good, Words(X, types % 2, types[:-1]))
    with pytest.raises(ValueError, match="all 1 word types drew the control label"):
        control_score(LinearProbe(), Words(X, types % 2, ["the"] * 30), good)
