"""A survey of every layer that stores no vectors: one pass for the moments of all layers, a second one if I(W) is requested."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Moments
from theodolite.core.parallel import Progress
from theodolite.core.rows import Row
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Floats, Source
from theodolite.metrics import partition
from theodolite.metrics.cloud import SAMPLE, Cloud, Undefined
from theodolite.metrics.evaluation import metric_rows
from theodolite.metrics.partition import LogPartition, PartitionSums, Variant
from theodolite.metrics.registry import METRICS, check_metrics
from theodolite.models.batches import TokenReading
from theodolite.models.extraction import model_versions
from theodolite.models.tokens import Ints

# Rows of a layer that are gathered before they are added up: an encoder's batches are too small for fast matrix products.
BLOCK_ROWS = 1024

# Takes the number of a layer, row numbers and their vectors.
Consumer: TypeAlias = Callable[[int, Ints, Floats], None]


def survey_reading(
    reading: TokenReading,
    metrics: Sequence[str] | None = None,
    *,
    sample: int = SAMPLE,
    seed: int = 0,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure every layer of a reading without storing its vectors: the rows that a survey of each stored layer would give.

    The texts are encoded once for the moments of all layers, and once more if a metric needs a second pass, as I(W) does. Memory
    does not grow with the corpus: each layer needs a few (d, d) matrices, and `sample` rows if a metric compares rows.
    """
    names, encoder = check_metrics(metrics), reading.encoder
    needs = {METRICS[name].needs for name in names}
    passes = 2 if "second pass" in needs else 1
    index = sample_rows(reading.plan.n, sample, seed=seed) if "sample" in needs else np.empty(0, np.intp)
    clouds = _first_pass(reading, index, sample=sample, seed=seed, progress=_share(progress, 0, passes))
    if passes == 2:
        _second_pass(reading, clouds, names, progress=_share(progress, 1, passes))
    fields = {"setting": reading.unit, "versions": model_versions(), "model": encoder.name, "revision": encoder.revision}
    fields |= {"task": reading.inputs.task, "split": reading.inputs.split, **(about or {})}
    return [row for layer, cloud in clouds.items() for row in metric_rows(cloud, names, about={**fields, "layer": layer})]


class _StreamedCloud(Cloud):
    """A cloud whose rows are gone: its moments and its sample are known, but its rows cannot be read again."""

    def __init__(self, moments: Moments, index: Ints, rows: Floats, *, sample: int, seed: int) -> None:
        def chunks() -> Iterator[NDArray[Any]]:
            raise AssertionError("the rows of a streamed layer were asked for again")

        shape: dict[str, Any] = {"n": moments.n, "d": moments.d, "dtype": np.dtype(np.float32)}
        super().__init__(Source(chunks, **shape, replayable=False), sample=sample, seed=seed)
        self.moments = moments
        self._sampled = index, rows

    def replay(self) -> Source:
        raise Undefined("it needs a second pass over the rows, but they were not stored")


def _first_pass(
    reading: TokenReading, sampled: Ints, *, sample: int, seed: int, progress: Progress | None
) -> dict[int, _StreamedCloud]:
    """The moments of each layer, and its vectors of the sampled rows (ascending)."""
    moments: dict[int, Moments] = {}
    samples = {layer: np.empty((len(sampled), reading.d), np.float32) for layer in reading.layers}

    def add(layer: int, rows: Ints, block: Floats) -> None:
        added = Moments.of(block)
        moments[layer] = moments[layer] | added if layer in moments else added
        # Batches come in the order of their lengths, so sampled rows arrive in any order.
        _, inside, positions = np.intersect1d(rows, sampled, assume_unique=True, return_indices=True)
        samples[layer][positions] = block[inside]

    _feed(reading, add, progress)
    return {layer: _StreamedCloud(moments[layer], sampled, samples[layer], sample=sample, seed=seed) for layer in reading.layers}


def _second_pass(reading: TokenReading, clouds: Mapping[int, Cloud], names: Sequence[str], *, progress: Progress | None) -> None:
    """Store log F of all requested variants in each cloud, under the key by which its metrics find them."""
    variants = {partition.VARIANTS[name] for name in names if name in partition.VARIANTS}
    sums = {layer: _partition_sums(cloud, variants) for layer, cloud in clouds.items()}

    def add(layer: int, _rows: Ints, block: Floats) -> None:
        for variant_sums in sums[layer]:
            variant_sums.add(variant_sums.part(block))

    _feed(reading, add, progress)
    for layer, cloud in clouds.items():
        logs: dict[Variant, LogPartition] = cloud.cached("log partitions", dict)
        for variant_sums in sums[layer]:
            logs.update(variant_sums.logs())


def _partition_sums(cloud: Cloud, variants: set[Variant]) -> list[PartitionSums]:
    """Sums of all variants together, which is faster, or one by one if some of them are undefined."""
    with contextlib.suppress(Undefined):
        return [PartitionSums(cloud, variants)]
    sums = []
    for variant in variants:
        with contextlib.suppress(Undefined):  # the metric meets the same exception later, and gives its reason
            sums.append(PartitionSums(cloud, {variant}))
    return sums


def _feed(reading: TokenReading, consume: Consumer, progress: Progress | None) -> None:
    """Encode all texts once and pass on each layer's rows in blocks of `BLOCK_ROWS`."""
    vectors = {layer: np.empty((BLOCK_ROWS, reading.d), np.float32) for layer in reading.layers}
    numbers = np.empty(BLOCK_ROWS, np.intp)
    filled = 0

    def flush() -> None:
        for layer, block in vectors.items():
            consume(layer, numbers[:filled], block[:filled])

    for rows, blocks in reading.blocks(progress):
        start = 0
        while start < len(rows):
            count = min(BLOCK_ROWS - filled, len(rows) - start)
            numbers[filled : filled + count] = rows[start : start + count]
            for layer, block in blocks.items():
                vectors[layer][filled : filled + count] = block[start : start + count]
            start, filled = start + count, filled + count
            if filled == BLOCK_ROWS:
                flush()
                filled = 0
    if filled:
        flush()


def _share(progress: Progress | None, number: int, passes: int) -> Progress | None:
    """The progress of one pass as a part of all passes."""
    if progress is None:
        return None
    return lambda count, total: progress(number * total + count, passes * total)
