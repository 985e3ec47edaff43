"""Minimum description length of labels given vectors, by the online code (Voita & Titov 2020)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Vectors
from theodolite.probes.classifier import Backend, trainer
from theodolite.probes.labels import Labelled, labelled
from theodolite.probes.network import Job, Progress
from theodolite.probes.search import ALPHAS, Train

TIMESTEPS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Shares of the rows after which the probe is trained anew."""


@dataclass(frozen=True, eq=False)
class CodeLength:
    """Bits that send the labels to somebody who has the vectors; fewer means easier to read off (Voita & Titov 2020)."""

    bits: float
    uniform_bits: float
    """Length without the vectors: n log2(classes)."""
    alpha: float
    """L2 weight of the shortest code; nan where the uniform code is the shortest."""
    ends: tuple[int, ...]
    """Rows sent after each timestep."""
    block_bits: tuple[float, ...]
    """Bits of each timestep, with the chosen L2 weight; naming that weight costs the rest of `bits`."""
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
    """
    settings = CodeSettings() if settings is None else settings
    data = labelled(X, y)
    order = np.random.default_rng(seed).permutation(len(data.codes))
    data = Labelled(data.X[order], data.codes[order], data.classes)
    ends = cuts(len(order), settings.timesteps)
    train = trainer(data, backend=settings.backend, max_iter=settings.max_iter, device=settings.device)
    bits = _block_bits(data, ends, settings, train, seed, progress)
    each = math.log2(len(data.classes))
    codes = np.vstack([bits, each * np.diff([0, *ends])])  # the last is the uniform code
    best = int(codes.sum(axis=1).argmin())
    choice = math.log2(len(codes))
    return CodeLength(
        bits=float(codes[best].sum()) + choice,
        uniform_bits=each * len(order),
        alpha=settings.alphas[best] if best < len(settings.alphas) else math.nan,
        ends=tuple(ends),
        block_bits=tuple(codes[best].tolist()),
        choice_bits=choice,
        hidden=settings.hidden,
    )


def cuts(n: int, timesteps: Sequence[float]) -> list[int]:
    """Rows sent after each timestep: rising, at least one, the last all."""
    shares = np.asarray(timesteps, dtype=np.float64)
    if len(shares) < 2 or shares[0] <= 0 or (np.diff(shares) <= 0).any() or shares[-1] != 1:
        raise ValueError(f"timesteps {tuple(timesteps)} must be at least two shares that rise from above 0 to 1")
    return sorted({max(1, round(n * share)) for share in shares.tolist()})


def _block_bits(
    data: Labelled, ends: Sequence[int], settings: CodeSettings, train: Train, seed: int, progress: Progress | None
) -> NDArray[np.float64]:
    """(L2 weights, timesteps) bits; the first block has no network yet."""
    bits = np.empty((len(settings.alphas), len(ends)))
    bits[:, 0] = ends[0] * math.log2(len(data.classes))
    for step, (known, end) in enumerate(itertools.pairwise(ends), start=1):
        rows = np.arange(known)
        networks = train([Job(settings.hidden, alpha, seed, rows) for alpha in settings.alphas])
        for i, network in enumerate(networks):
            logs = network.log_probabilities(data.X[known:end])
            bits[i, step] = -logs[np.arange(end - known), data.codes[known:end]].sum() / math.log(2)
        if progress is not None:
            progress(step, len(ends) - 1)
    return bits
