"""Vectors of texts, tokens or words for every layer of an encoder, in memory or in a folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from theodolite.core.rows import current_versions
from theodolite.models.batches import BatchSize, Blocks
from theodolite.models.describe import describe
from theodolite.models.encoder import Encoder
from theodolite.models.inputs import Ints, Unit
from theodolite.models.reading import Progress, Reading
from theodolite.spaces.space import Origin, Space
from theodolite.tasks.examples import Examples

UNKNOWN = Origin()
PART_BYTES = 64 * 2**20
"""Vectors written between two syncs, and so the most that a killed extraction loses."""


def extract(
    encoder: Encoder,
    texts: Sequence[str] | Examples,
    *,
    unit: Unit = "mean",
    layers: str | int | Sequence[int] = "all",
    specials: bool = False,
    batch_size: BatchSize = "auto",
    to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    frequencies: bool = False,
    origin: Origin = UNKNOWN,
    progress: Progress | None = None,
) -> Space:
    """A space with a vector for every text, token or word (`unit`) in every asked layer, from one pass over the texts.

    Rows are in the order of the texts, whatever the batches. With `to` the vectors go to a folder part by part and are
    memory-mapped; the same call after a crash continues where it stopped. `origin` adds what the encoder cannot
    know (state, step). Words beyond the encoder's `max_length` are left out with a warning that counts them.
    """
    reading = Reading.of(encoder, texts, unit=unit, layers=layers, specials=specials, batch_size=batch_size)
    rows = describe(encoder, reading.given, reading.plan, unit, frequencies=frequencies)
    filled = _origin(reading, origin)
    if to is not None:
        return _to_folder(reading, to, rows, filled, overwrite=overwrite, progress=progress)
    vectors = {layer: np.empty((reading.n, reading.d), np.float32) for layer in reading.layers}
    for at, blocks in reading.blocks(progress):
        for layer, block in blocks.items():
            vectors[layer][at] = block
    return Space.of(vectors, rows=rows, origin=filled)


def _to_folder(
    reading: Reading,
    to: str | os.PathLike[str],
    rows: dict[str, Sequence[object]],
    origin: Origin,
    *,
    overwrite: bool,
    progress: Progress | None,
) -> Space:
    from theodolite.spaces.store import SpaceWriter

    total, done = sum(map(len, reading.batches)), 0
    with SpaceWriter(
        to,
        layers=reading.layers,
        n=reading.n,
        d=reading.d,
        dtype=np.float32,
        rows=rows,
        origin=origin,
        fingerprint=_fingerprint(reading),
        overwrite=overwrite,
    ) as writer:
        for number, part in enumerate(_parts(reading)):
            if number not in writer.done:
                writer.write(number, *_encoded(reading, part))
            done += sum(map(len, part))
            if progress is not None:
                progress(done, total)
        return writer.finish()


def _parts(reading: Reading) -> Iterator[list[Ints]]:
    """Batches in groups of some megabytes of vectors; the same groups in every run."""
    width = reading.d * len(reading.layers) * 4
    group: list[Ints] = []
    held = 0
    for batch in reading.batches:
        group.append(batch)
        held += len(reading.plan.rows_of(batch)[0]) * width
        if held >= PART_BYTES:
            yield group
            group, held = [], 0
    if group:
        yield group


def _encoded(reading: Reading, part: list[Ints]) -> tuple[Ints, Blocks]:
    made = [reading.encode(batch) for batch in part]
    at = np.concatenate([rows for rows, _ in made])
    return at, {layer: np.concatenate([blocks[layer] for _, blocks in made]) for layer in reading.layers}


def _origin(reading: Reading, origin: Origin) -> Origin:
    encoder, found = reading.encoder, reading.given
    return replace(
        origin,
        model=origin.model or encoder.name,
        revision=origin.revision or encoder.revision,
        task=origin.task or found.task,
        split=origin.split or found.split,
        pooling=origin.pooling or reading.unit,
        versions=origin.versions or model_versions(),
    )


def model_versions() -> str:
    """The versions that vectors depend on."""
    return "; ".join([current_versions(), *(f"{name} {version(name)}" for name in ("torch", "transformers"))])


def _fingerprint(reading: Reading) -> str:
    """The same for the same weights, tokens, rows, batches and precision: what a continued extraction must share."""
    digest = hashlib.sha256()
    plan = reading.plan
    for part in (plan.tokens.ids, plan.tokens.starts, plan.tokens.types, plan.text, plan.runs, *reading.batches):
        if part is not None:
            digest.update(np.ascontiguousarray(part).data)
            digest.update(b"|")
    encoder = reading.encoder
    about = [encoder.fingerprint(), digest.hexdigest(), reading.unit, reading.layers, encoder.dtype, plan.maximum]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()
