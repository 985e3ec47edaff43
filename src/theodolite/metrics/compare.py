"""Two clouds side by side: the change of each metric, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.core.moments import Doubles
from theodolite.core.rows import Row
from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.resample import Progress, deviations, interval
from theodolite.metrics.survey import survey


@dataclass(frozen=True)
class Comparison:
    """One metric of two clouds, the change from the first to the second, and an interval around the change."""

    metric: str
    before: Row
    after: Row
    difference: float
    low: float | None
    high: float | None
    paired: bool

    @property
    def is_clear(self) -> bool:
        """True where the interval leaves out zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def compare(
    A: Vectors | Cloud,
    B: Vectors | Cloud,
    metrics: Sequence[str] | None = None,
    *,
    paired: bool | None = None,
    bootstrap: int = 200,
    level: float = 0.95,
    progress: Progress | None = None,
) -> list[Comparison]:
    """The change of each metric from A to B, with an interval from half-samples (`bootstrap=0` leaves it out).

    `paired` says that row i of both is the same text: the same rows are then drawn from both, which narrows the interval.
    By default it is so when both have equally many rows.
    """
    first, second = Cloud.of(A), Cloud.of(B)
    before, after = survey(first, metrics), survey(second, metrics)
    if paired is None:
        paired = first.n == second.n
    if paired and first.n != second.n:
        raise ValueError(f"paired rows need as many in both: there are {first.n} and {second.n}; compare them as independent")
    if paired and (first.sample_size, first.seed) != (second.sample_size, second.seed):
        raise ValueError("paired clouds must share sample size and seed, so that the same rows are drawn")
    strayed = _strayed(first, second, [row.metric for row in before], paired, bootstrap, progress)
    rows = []
    for old, new in zip(before, after, strict=True):
        difference = new.value - old.value
        low, high = interval(difference, strayed.get(old.metric), level=level)
        rows.append(Comparison(old.metric, old, new, difference, low, high, paired))
    return rows


def _strayed(
    first: Cloud, second: Cloud, names: Sequence[str], paired: bool, count: int, progress: Progress | None
) -> dict[str, Doubles]:
    """How far each difference strays: of the same halves of both clouds where rows are paired, of unrelated ones elsewhere."""
    if count == 0:
        return {}

    def part(number: int) -> Progress | None:
        return None if progress is None else lambda done, total: progress(number * total + done, 2 * total)

    old = deviations(first, names, count=count, seed=first.seed, progress=part(0))
    new = deviations(second, names, count=count, seed=second.seed + (0 if paired else 1), progress=part(1))
    return {name: new[name] - old[name] for name in old if name in new}
