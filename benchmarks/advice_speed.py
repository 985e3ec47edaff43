"""`advise` on 10,000 vectors with pairs: processor seconds of the whole search, against a minute of two cores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import theodolite as th
from scale import QUICK, Scale
from table import Result
from timing import cpu_seconds

SECONDS = 120.0


def measure(scale: Scale, folder: Path) -> Iterator[Result]:  # noqa: ARG001  # the vectors are made here
    pairs, d = (200, 16) if scale == QUICK else (5000, 768)
    generator = np.random.default_rng(0)
    latent = generator.standard_normal((pairs, d)) * np.arange(1, d + 1) ** -0.5
    noise = generator.uniform(0.1, 2, (pairs, 1))
    X, Y = ((latent + 0.1 * noise * generator.standard_normal(latent.shape)).astype(np.float32) for _ in range(2))
    seconds = cpu_seconds(lambda: th.advise(X, pairs=Y, scores=-noise[:, 0]))
    yield Result(
        table="advice",
        case=f"advise on {2 * pairs:,} × {d} with {pairs:,} scored pairs",
        value=SECONDS / seconds,
        sense="at least",
        goal=1,
        ours=f"{seconds:.1f} s of processor time",
        theirs=f"a limit of {SECONDS:g} s",
        note="a minute of two cores",
    )
