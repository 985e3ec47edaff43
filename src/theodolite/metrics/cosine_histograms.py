"""How similar rows are: histograms of the cosines of random pairs, of each row with its nearest neighbour, and of given pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.cosine import pair_cosines
from theodolite.metrics.nearest_rows import neighbours_of
from theodolite.metrics.registry import METRICS

# Edges of the bins: the same for all clouds, so that their histograms can be drawn over each other.
EDGES = np.round(np.linspace(-1.0, 1.0, 101), 2)
RANDOM, NEAREST, GIVEN = "random pairs", "nearest neighbours", "given pairs"


def similarity_records(
    cloud: Cloud, metrics: Sequence[str], about: Mapping[str, Any], *, given: Doubles | None = None
) -> Iterator[dict[str, Any]]:
    """Histograms of cosines, one record per bin that is not empty, for the kinds of pairs that these metrics look at anyway."""
    modules = {METRICS[name].function.__module__.rpartition(".")[2] for name in metrics if METRICS[name].needs == "sample"}
    kinds: dict[str, Callable[[], Doubles]] = {}
    if "cosine" in modules:
        kinds[RANDOM] = lambda: pair_cosines(cloud).cosines
    if "neighbours" in modules:
        kinds[NEAREST] = lambda: 1 - neighbours_of(cloud).distance[:, 0]
    if given is not None:
        kinds[GIVEN] = lambda: given
    for kind, cosines in kinds.items():
        try:
            yield from histogram_records(cosines(), {**about, "pairs": kind})
        except (Undefined, IndexError):  # fewer than two rows that have a direction
            continue


def histogram_records(cosines: Doubles, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A histogram of cosines, one record per bin that is not empty."""
    counts, _ = np.histogram(np.clip(cosines, -1.0, 1.0), EDGES)
    for i in np.flatnonzero(counts):
        ends = {"low": float(EDGES[i]), "high": float(EDGES[i + 1])}
        yield {**about, **ends, "count": int(counts[i]), "n": int(counts.sum())}
