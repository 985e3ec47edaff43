"""Labelled clouds with a known truth about separability, and what `probe` concludes from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

import theodolite as th

Cloud = tuple[np.ndarray, np.ndarray]


class Truth(NamedTuple):
    """A cloud by seed, and the verdicts and the words about structure and accuracy that would be wrong."""

    make: Callable[[int], Cloud]
    wrong: tuple[str, ...]
    hold_out: float | None = None


def noise(n: int, d: int, sizes: tuple[int, ...], seed: int) -> Cloud:
    """Labels that mean nothing, in the given shares."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.repeat(np.arange(len(sizes)), n * np.array(sizes) // sum(sizes)))
    return random.standard_normal((len(y), d)), np.array(list("abcdefgh"))[y]


def planted(n: int, d: int, seed: int, *, apart: float = 12.0) -> Cloud:
    """Three labels in places of their own."""
    X, y = noise(n, d, (1, 1, 1), seed)
    return X + apart * np.eye(d)[np.unique(y, return_inverse=True)[1]], y


def duplicated(seed: int) -> Cloud:
    """Noise labels on few rows, one of which is there twice with different labels."""
    X, y = noise(60, 96, (1, 1, 1), seed)
    other = int(np.flatnonzero(y != y[0])[0])
    X[other] = X[0]
    return X, y


def normalised(n: int, d: int, seed: int) -> Cloud:
    """Outputs of a LayerNorm with weights and biases, in float32: they lie in a space of d - 1 dimensions."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    X = X * random.uniform(0.5, 1.5, d) + 0.1 * random.standard_normal(d)
    return X.astype(np.float32), np.array(list("ab"))[random.permutation(np.arange(n) % 2)]


ALONE, SEPARABLE, NOT = "separable by dimension alone", "separable", "not separable"
STRUCTURE, BETTER, NO_BETTER = "the labels have structure", "; always answering", "no better than"

TRUTHS = {
    "noise labels, 60 rows in 96 dimensions": Truth(lambda seed: noise(60, 96, (1, 1, 1), seed), (SEPARABLE, NOT, STRUCTURE)),
    "noise labels, 34 rows in 16 dimensions": Truth(lambda seed: noise(34, 16, (1, 1), seed), (SEPARABLE, STRUCTURE)),
    "noise labels, 40 rows in 16 dimensions, 5 of one label": Truth(
        lambda seed: noise(40, 16, (1, 7), seed), (SEPARABLE, STRUCTURE)
    ),
    "noise labels, 200 rows in 8 dimensions": Truth(lambda seed: noise(200, 8, (1, 1), seed), (SEPARABLE, ALONE)),
    "planted labels, 200 rows in 8 dimensions": Truth(lambda seed: planted(200, 8, seed), (ALONE, NOT)),
    "planted labels, 60 rows in 96 dimensions": Truth(lambda seed: planted(60, 96, seed), (SEPARABLE, NOT, "shows no structure")),
    "one row twice, with two labels": Truth(duplicated, (SEPARABLE, ALONE)),
    "LayerNorm, as many rows as dimensions": Truth(lambda seed: normalised(48, 48, seed), (SEPARABLE, NOT, STRUCTURE)),
    "LayerNorm, one row more": Truth(lambda seed: normalised(49, 48, seed), (SEPARABLE, "but would separate any", STRUCTURE)),
    "noise labels, held-out rows": Truth(lambda seed: noise(90, 32, (1, 1, 1), seed), (BETTER,), 0.3),
    "noise labels, held-out rows, 7 in 8 of one label": Truth(lambda seed: noise(96, 32, (1, 7), seed), (BETTER,), 0.3),
    "planted labels, held-out rows": Truth(lambda seed: planted(90, 8, seed), (NO_BETTER,), 0.3),
}


def conclusions(truth: Truth, seeds: Iterable[int]) -> Counter[str]:
    """How often each verdict came, and each of the wrong words."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        X, y = truth.make(seed)
        answer = th.probe(X, y, hold_out=truth.hold_out, seed=seed, progress=False).answer
        assert answer is not None
        seen[answer.verdict] += 1
        seen.update(words for words in truth.wrong if words in " ".join([answer.sentence, *answer.reasons]))
    return seen
