"""Intervals by random half-samples: the same spread as a bootstrap, without the repeated rows that would bend a spectrum."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.registry import METRICS
from theodolite.metrics.values import measure

Progress = Callable[[int, int], None]
"""Called with (done, total) as replicates finish."""

FEWEST_REPLICATES = 20
FEWEST_ROWS = 8


def deviations(
    cloud: Cloud, names: Sequence[str], *, count: int, seed: int, progress: Progress | None = None
) -> dict[str, Doubles]:
    """How far each metric strays around its mean, in `count` replicates, were the cloud drawn anew.

    Half-samples drawn without replacement have the variance of the sample they are drawn from (McCarthy 1969). They are
    drawn from the cloud's sampled rows; sqrt(sampled / all) carries the spread to a metric that was computed on all rows.
    Metrics that cannot be resampled, or are not defined on every half, are left out.
    """
    if count < FEWEST_REPLICATES:
        raise ValueError(f"{count} replicates are too few for an interval; take at least {FEWEST_REPLICATES}, 200 is usual")
    rows = len(cloud.sample)
    if rows < FEWEST_ROWS:
        return {}
    names = [name for name in names if METRICS[name].resample]
    values = np.empty((count, len(names)))
    for number, half in enumerate(_halves(rows, count, seed=seed)):
        part = Cloud(cloud.sample[half], sample=cloud.sample_size, seed=cloud.seed)
        values[number] = [value for value, _ in measure(part, names).values()]
        if progress is not None:
            progress(number + 1, count)
    strayed = values - values.mean(axis=0)
    return {
        name: strayed[:, i] * np.sqrt(rows / (rows if METRICS[name].needs == "sample" else cloud.n))
        for i, name in enumerate(names)
        if np.isfinite(strayed[:, i]).all()
    }


def interval(estimate: float, strayed: Doubles | None, *, level: float) -> tuple[float, float] | tuple[None, None]:
    """Bounds around an estimate, or (None, None) where there are none.

    The deviations are laid around the estimate itself, because a metric of fewer rows may sit at another level.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1")
    if strayed is None or not np.isfinite(estimate):
        return None, None
    low, high = np.quantile(strayed, [(1 - level) / 2, (1 + level) / 2])
    return float(estimate + low), float(estimate + high)


def _halves(rows: int, count: int, *, seed: int) -> list[NDArray[np.intp]]:
    generator = np.random.default_rng(seed)
    return [np.sort(generator.permutation(rows)[: rows // 2]) for _ in range(count)]
