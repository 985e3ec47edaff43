"""What a DirectProbe will take, told before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.vectors import array
from theodolite.probes.direct import DirectProbe
from theodolite.probes.labels import label_codes
from theodolite.probes.sample import sample_by_label

SMALL, LARGE = 300, 600
"""Rows of the two trial runs an estimate is drawn from."""


@dataclass(frozen=True)
class Cost:
    """About how long a run takes, how much memory, and whether the labels of the trial rows had to be split."""

    seconds: float
    megabytes: float
    is_linear: bool

    def __str__(self) -> str:
        split = "" if self.is_linear else "; not separable, which takes long"
        return f"about {self.seconds:.0f} s and {self.megabytes:.0f} MB{split}"


def estimate_cost(X: ArrayLike, y: ArrayLike, *, seed: int = 0) -> Cost:
    """About what `DirectProbe().fit(X, y)` will take, from two small runs on stratified samples, grown by a power of n.

    Separable labels cost about as n; a cloud whose labels must be split as up to the cube. More rows can turn the first into the
    second, so this is a guide, not a promise.
    """
    rows = array(X)
    codes, classes = label_codes(rows, y)
    n, d = rows.shape
    sizes = [size for size in (max(SMALL, 2 * len(classes)), max(LARGE, 4 * len(classes))) if size < n] or [n]  # small: run it
    DirectProbe().fit(np.eye(4, d), [0, 0, 1, 1])  # what is loaded or compiled on first use is no measure
    spent, linear = [], True
    for size in sizes:
        chosen = sample_by_label(codes, size, seed=seed)
        begun = time.perf_counter()
        linear = DirectProbe().fit(rows[chosen], codes[chosen]).is_linear_
        spent.append(time.perf_counter() - begun)
    power = 1.0 if len(spent) < 2 else float(np.clip(np.log(spent[1] / spent[0]) / np.log(sizes[1] / sizes[0]), 1.0, 3.0))
    if not linear:
        power = max(power, 2.0)
    seconds = spent[-1] * (n / sizes[-1]) ** power
    return Cost(seconds, 8 * n * d * (3 if linear else 5) / 2**20, linear)
