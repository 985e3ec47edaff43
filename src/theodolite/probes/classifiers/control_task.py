"""How much of its accuracy a probe could have memorised: random labels for word types as a control (Hewitt & Liang 2019)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from theodolite.core.vectors import Vectors
from theodolite.probes.classifiers.estimators import BaseClassifierProbe, ProbeScore


class Words(NamedTuple):
    """Vectors of words in context, the label of each, and its word type."""

    X: Vectors
    y: Any
    types: Sequence[Any]


@dataclass(frozen=True, eq=False)
class ControlTask:
    """A random label for every word type, drawn from the distribution of real ones.

    The label depends on the type, the seed and the distribution alone: a type has the same one in every split and in any order.

    Parameters
    ----------
    classes, shares
        The labels, and how often each is drawn.
    seed
        Of the draws.
    """

    classes: NDArray[Any]
    shares: NDArray[np.float64]
    seed: int = 0

    @classmethod
    def like(cls, labels: Any, *, seed: int = 0) -> ControlTask:
        """The control of a task.

        Parameters
        ----------
        labels
            The task's labels, one per word.
        seed
            Of the draws.
        """
        classes, counts = np.unique(np.asarray(labels), return_counts=True)
        return cls(classes, counts / counts.sum(), seed)

    def labels(self, types: Sequence[Any]) -> NDArray[Any]:
        """The control label of each word.

        Parameters
        ----------
        types
            The word type of each word.
        """
        distinct, numbers = np.unique(np.asarray(types), return_inverse=True)
        draws = np.array([self._draw(word) for word in distinct.tolist()])
        codes = np.searchsorted(np.cumsum(self.shares), draws, side="right")
        return np.asarray(self.classes[np.minimum(codes, len(self.classes) - 1)][numbers.reshape(-1)])

    def _draw(self, word: Any) -> float:
        """A number in [0, 1) that is fixed by the seed and the type."""
        digest = hashlib.blake2b(f"{self.seed}\0{word}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


def control_score(probe: BaseClassifierProbe, train: Words, test: Words, *, seed: int = 0) -> ProbeScore:
    """The score of a copy of the probe on a control task of the same types; accuracy minus control accuracy is its selectivity.

    Selectivity is in [-1, 1]; near 0 the probe could have memorised what it finds (Hewitt & Liang 2019).
    """
    for name, words in (("train", train), ("test", test)):
        if len(words.types) != len(words.y):
            raise ValueError(
                f"the {name} words have {len(words.types):,} types and {len(words.y):,} labels; word i needs one of each"
            )
    control = ControlTask.like(train.y, seed=seed)
    labels = control.labels(train.types)
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"all {len(np.unique(np.asarray(train.types)))} word types drew the control label {labels[0]!s}; "
            "use another seed, or words of more types"
        )
    score: ProbeScore = clone(probe).fit(train.X, labels).evaluate(test.X, control.labels(test.types))
    return score
