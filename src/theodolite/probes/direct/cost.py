"""How much time and memory a DirectProbe will take, estimated before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.sampling import sample_by_label
from theodolite.core.vectors import array
from theodolite.probes.direct.direct_probe import DirectProbe
from theodolite.probes.labels import label_codes

# Rows of the two trial runs that an estimate is made from.
SMALL, LARGE = 300, 600


@dataclass(frozen=True)
class Cost:
    """About what a run takes.

    Parameters
    ----------
    seconds, megabytes
        Time and memory of the run.
    is_linear
        Whether the labels of the trial rows were linearly separable; if not, more rows take disproportionately longer.
    """

    seconds: float
    megabytes: float
    is_linear: bool

    def __str__(self) -> str:
        return f"about {self.seconds:.0f} s and {self.megabytes:.0f} MB" + (
            "" if self.is_linear else "; not separable, which takes long"
        )


def estimate_cost(X: ArrayLike, y: ArrayLike, *, seed: int = 0) -> Cost:
    """About what `DirectProbe().fit(X, y)` will take, from two small runs on stratified samples, extrapolated by a power of n.

    Separable labels take time in proportion to n; labels that must be split, up to the cube. More rows can turn the first into
    the second, so this is a guide and not a promise.

    Parameters
    ----------
    X, y
        (n, d) vectors and the label of each.
    seed
        Of the samples.
    """
    rows = array(X)
    codes, classes = label_codes(rows, y)
    n, d = rows.shape
    sizes = [size for size in (max(SMALL, 2 * len(classes)), max(LARGE, 4 * len(classes))) if size < n] or [n]  # small: run it
    DirectProbe().fit(np.eye(4, d), [0, 0, 1, 1])  # what is loaded or compiled on first use must not be timed
    seconds, is_linear = [], True
    for size in sizes:
        sample = sample_by_label(codes, size, seed=seed)
        start = time.perf_counter()
        is_linear = DirectProbe().fit(rows[sample], codes[sample]).is_linear_
        seconds.append(time.perf_counter() - start)
    power = 1.0 if len(seconds) < 2 else float(np.clip(np.log(seconds[1] / seconds[0]) / np.log(sizes[1] / sizes[0]), 1.0, 3.0))
    if not is_linear:
        power = max(power, 2.0)
    return Cost(seconds[-1] * (n / sizes[-1]) ** power, 8 * n * d * (3 if is_linear else 5) / 2**20, is_linear)
