"""A survey of every layer that keeps no vectors: one pass for the moments of all layers, one more for the partition functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Moments
from theodolite.core.rows import Row
from theodolite.core.sample import sample_rows
from theodolite.core.vectors import Floats, Source, require_finite
from theodolite.metrics import partition
from theodolite.metrics.cloud import SAMPLE, Cloud, Undefined
from theodolite.metrics.partition import LogPartition, PartitionSums, Variant
from theodolite.metrics.registry import METRICS
from theodolite.metrics.survey import survey
from theodolite.metrics.values import metric_names
from theodolite.models.batches import BatchSize
from theodolite.models.encoder import Encoder
from theodolite.models.extract import model_versions
from theodolite.models.inputs import Ints, Unit
from theodolite.models.reading import Progress, Reading
from theodolite.tasks.examples import Examples

BLOCK_ROWS = 1024
"""Rows of a layer gathered before they are worked on: the batches of an encoder are too small for fast products."""


def survey_layers(
    encoder: Encoder,
    texts: Sequence[str] | Examples,
    metrics: Sequence[str] | None = None,
    *,
    unit: Unit = "mean",
    layers: str | int | Sequence[int] = "all",
    specials: bool = False,
    batch_size: BatchSize = "auto",
    sample: int = SAMPLE,
    seed: int = 0,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure every asked layer without keeping its vectors: the rows that `survey` of each stored layer would give.

    The texts are encoded once for the moments of all layers, and once more where a metric needs a second pass, as I(W) does.
    Memory does not grow with the corpus: for each layer a few (d, d) matrices, and `sample` rows where a metric compares rows.
    """
    names = metric_names(metrics)
    needs = {METRICS[name].needs for name in names}
    reading = Reading.of(encoder, texts, unit=unit, layers=layers, specials=specials, batch_size=batch_size)
    passes = 2 if "second pass" in needs else 1
    kept = sample_rows(reading.n, sample, seed=seed) if "sample" in needs else np.empty(0, np.intp)
    clouds = _first_pass(reading, kept, sample=sample, seed=seed, progress=_share(progress, 0, passes))
    if passes == 2:
        _second_pass(reading, clouds, names, progress=_share(progress, 1, passes))
    known = {
        "setting": unit,
        "versions": model_versions(),
        "model": encoder.name,
        "revision": encoder.revision,
        "task": reading.given.task,
        "split": reading.given.split,
    }
    fields = {**known, **(about or {})}
    return [row for layer, cloud in clouds.items() for row in survey(cloud, names, about={**fields, "layer": layer})]


class _StreamedCloud(Cloud):
    """A cloud whose rows have gone by: its moments and its sample are known, a second pass is not to be had."""

    def __init__(self, moments: Moments, index: Ints, rows: Floats, *, sample: int, seed: int) -> None:
        super().__init__(_gone(moments), sample=sample, seed=seed)
        self.moments = moments
        self._sampled = index, rows

    def replay(self) -> Source:
        raise Undefined("it needs a second pass over the rows, which were not kept")


def _gone(moments: Moments) -> Source:
    def chunks() -> Iterator[NDArray[Any]]:
        raise AssertionError("the rows of a streamed layer were asked for again")

    return Source(chunks, n=moments.n, d=moments.d, dtype=np.dtype(np.float32), replayable=False)


def _first_pass(reading: Reading, kept: Ints, *, sample: int, seed: int, progress: Progress | None) -> dict[int, _StreamedCloud]:
    moments: dict[int, Moments] = {}
    samples = {layer: np.empty((len(kept), reading.d), np.float32) for layer in reading.layers}

    def take(layer: int, rows: Ints, block: Floats) -> None:
        require_finite(block)
        added = Moments.of(block)
        moments[layer] = moments[layer] | added if layer in moments else added
        place = np.searchsorted(kept, rows)
        inside = np.flatnonzero(place < len(kept))
        inside = inside[kept[place[inside]] == rows[inside]]
        samples[layer][place[inside]] = block[inside]

    _feed(reading, take, progress)
    return {layer: _StreamedCloud(moments[layer], kept, samples[layer], sample=sample, seed=seed) for layer in reading.layers}


def _second_pass(reading: Reading, clouds: Mapping[int, Cloud], names: Sequence[str], *, progress: Progress | None) -> None:
    """Leave log F of all asked variants with each cloud, where its metrics find them."""
    asked = {partition.VARIANTS[name] for name in names if name in partition.VARIANTS}
    sums = {layer: _partition_sums(cloud, asked) for layer, cloud in clouds.items()}

    def take(layer: int, _rows: Ints, block: Floats) -> None:
        for each in sums[layer]:
            each.add(each.part(block))

    _feed(reading, take, progress)
    for layer, cloud in clouds.items():
        known: dict[Variant, LogPartition] = cloud.cached("log partitions", dict)
        for each in sums[layer]:
            known.update(each.logs())


def _partition_sums(cloud: Cloud, asked: set[Variant]) -> list[PartitionSums]:
    """Sums for all variants together, or one by one where some of them have no value."""
    with contextlib.suppress(Undefined):
        return [PartitionSums(cloud, asked)]
    alone = []
    for variant in asked:
        with contextlib.suppress(Undefined):  # the metric meets it again, and gives its reason
            alone.append(PartitionSums(cloud, {variant}))
    return alone


def _feed(reading: Reading, take: Callable[[int, Ints, Floats], None], progress: Progress | None) -> None:
    """Encode all texts once, handing on each layer's rows in blocks of `BLOCK_ROWS`."""
    vectors = {layer: np.empty((BLOCK_ROWS, reading.d), np.float32) for layer in reading.layers}
    numbers = np.empty(BLOCK_ROWS, np.intp)
    held = 0
    for at, blocks in reading.blocks(progress):
        start = 0
        while start < len(at):
            count = min(BLOCK_ROWS - held, len(at) - start)
            numbers[held : held + count] = at[start : start + count]
            for layer, block in blocks.items():
                vectors[layer][held : held + count] = block[start : start + count]
            start, held = start + count, held + count
            if held == BLOCK_ROWS:
                _hand_on(vectors, numbers, held, take)
                held = 0
    if held:
        _hand_on(vectors, numbers, held, take)


def _hand_on(vectors: Mapping[int, Floats], numbers: Ints, held: int, take: Callable[[int, Ints, Floats], None]) -> None:
    for layer, block in vectors.items():
        take(layer, numbers[:held], block[:held])


def _share(progress: Progress | None, number: int, passes: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, passes * total)
