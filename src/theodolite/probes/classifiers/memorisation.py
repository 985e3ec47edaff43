"""What accuracy alone does not tell: how much a probe could have memorised, and how easily the labels can be read.

Control tasks (Hewitt & Liang 2019) are random labels for word types; the online code (Voita & Titov 2020) is the minimum
description length of the labels given the vectors.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from theodolite.core.vectors import Vectors
from theodolite.probes.classifiers.estimators import BaseClassifierProbe, ProbeScore, Progress
from theodolite.probes.classifiers.grid_search import ALPHAS
from theodolite.probes.classifiers.networks import Backend, Job, trainer
from theodolite.probes.label_codes import Labelled, labelled

# The published shares of the rows after which the probe is trained again.
TIMESTEPS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0)


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
        distinct, places = np.unique(np.asarray(types), return_inverse=True)
        draws = np.array([self._draw(word) for word in distinct.tolist()])
        codes = np.searchsorted(np.cumsum(self.shares), draws, side="right")
        return np.asarray(self.classes[np.minimum(codes, len(self.classes) - 1)][places.reshape(-1)])

    def _draw(self, word: Any) -> float:
        """A number in [0, 1) that is fixed by the seed and the type."""
        digest = hashlib.blake2b(f"{self.seed}\0{word}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class Selectivity:
    """Accuracy minus control accuracy in [-1, 1]; near 0 the probe could have memorised what it finds (Hewitt & Liang 2019)."""

    value: float
    task: ProbeScore
    control: ProbeScore
    seen_share: float


def selectivity(probe: BaseClassifierProbe, train: Words, test: Words, *, seed: int = 0) -> Selectivity:
    """Fit copies of the probe to the labels and to a control task of the same types, and compare them on the test words.

    Parameters
    ----------
    probe
        A `ClassifierProbe` or `LinearProbe`; it is not changed.
    train, test
        Words to fit and words to score.
    seed
        Of the control labels; the probe has its own.

    Raises
    ------
    ValueError
        A word lacks its type, or all types drew the same control label.
    """
    for name, words in (("train", train), ("test", test)):
        if len(words.types) != len(words.y):
            raise ValueError(
                f"the {name} words have {len(words.types):,} types and {len(words.y):,} labels; word i needs one of each"
            )
    control = ControlTask.like(train.y, seed=seed)
    task_score: ProbeScore = clone(probe).fit(train.X, train.y).evaluate(test.X, test.y)
    labels = control.labels(train.types)
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"all {len(np.unique(np.asarray(train.types)))} word types drew the control label {labels[0]!s}; "
            "use another seed, or words of more types"
        )
    control_score: ProbeScore = clone(probe).fit(train.X, labels).evaluate(test.X, control.labels(test.types))
    seen_share = float(np.isin(np.asarray(test.types), np.asarray(train.types)).mean())
    return Selectivity(task_score.mean - control_score.mean, task_score, control_score, seen_share)


@dataclass(frozen=True, eq=False)
class CodeLength:
    """Bits that send the labels to somebody who has the vectors; fewer means easier to predict (Voita & Titov 2020)."""

    bits: float
    uniform_bits: float
    alpha: float
    ends: tuple[int, ...]
    block_bits: tuple[float, ...]
    choice_bits: float
    hidden: tuple[int, ...]

    @property
    def compression(self) -> float:
        """Uniform length over length: 1 is none, higher is better."""
        return self.uniform_bits / self.bits


@dataclass(frozen=True, kw_only=True)
class CodeSettings:
    """How the labels are coded."""

    hidden: tuple[int, ...] = (128, 128)
    alphas: tuple[float, ...] = ALPHAS
    timesteps: tuple[float, ...] = TIMESTEPS
    max_iter: int = 1000
    backend: Backend = "auto"
    device: str = "cpu"


def description_length(
    X: Vectors, y: Any, *, settings: CodeSettings | None = None, seed: int = 0, progress: Progress | None = None
) -> CodeLength:
    """Online code length of the labels in bits, at least 0 and at most the uniform length plus log2(L2 weights + 1).

    The rows are shuffled; the first 0.1 % are sent with log2(classes) bits each; then, at every timestep, a network is trained
    on what was sent and codes the next rows with -log2 of the probability it gives them. Codes of all L2 weights and the
    uniform code compete, and the sender names the shortest: log2 of their number is paid for that, so the result is a code
    that could be sent, and an overconfident network cannot make random labels look worse than random.

    Parameters
    ----------
    X, y
        (n, d) vectors and the label of each.
    settings
        How the labels are coded; the published code by default.
    seed
        Of the shuffle and of the networks.
    progress
        Called with (done, total) timesteps; may raise to cancel.
    """
    settings = CodeSettings() if settings is None else settings
    data = labelled(X, y)
    # The rows of a file are often sorted; each block must be like the whole.
    order = np.random.default_rng(seed).permutation(len(data.codes))
    data = Labelled(data.X[order], data.codes[order], data.classes)
    ends = _rows_sent(len(order), settings.timesteps)
    train = trainer(data, backend=settings.backend, max_iter=settings.max_iter, device=settings.device)
    label_bits = math.log2(len(data.classes))
    # One line per L2 weight, and a last one for the uniform code; the first block has no network yet.
    codes = np.tile(label_bits * np.diff([0, *ends]), (len(settings.alphas) + 1, 1))
    for step, (sent, end) in enumerate(itertools.pairwise(ends), start=1):
        networks = train([Job(settings.hidden, alpha, seed, np.arange(sent)) for alpha in settings.alphas])
        for i, network in enumerate(networks):
            logs = network.log_probabilities(data.X[sent:end])
            codes[i, step] = -logs[np.arange(end - sent), data.codes[sent:end]].sum() / math.log(2)
        if progress is not None:
            progress(step, len(ends) - 1)
    best = int(codes.sum(axis=1).argmin())
    choice = math.log2(len(codes))
    return CodeLength(
        bits=float(codes[best].sum()) + choice,
        uniform_bits=label_bits * len(order),
        alpha=settings.alphas[best] if best < len(settings.alphas) else math.nan,
        ends=tuple(ends),
        block_bits=tuple(codes[best].tolist()),
        choice_bits=choice,
        hidden=settings.hidden,
    )


def _rows_sent(n: int, timesteps: Sequence[float]) -> list[int]:
    """Rows sent after each timestep: rising, at least one, the last all."""
    shares = np.asarray(timesteps, dtype=np.float64)
    if len(shares) < 2 or shares[0] <= 0 or (np.diff(shares) <= 0).any() or shares[-1] != 1:
        raise ValueError(f"timesteps {tuple(timesteps)} must be at least two shares that rise from above 0 to 1")
    return sorted({max(1, round(n * share)) for share in shares.tolist()})
