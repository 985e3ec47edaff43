"""Vectors of texts, tokens or words for every layer of an encoder, in memory or in a folder, with what is known of each row."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.engines import configured_workers, in_parallel
from theodolite.core.parallel import Progress
from theodolite.core.rows import current_versions
from theodolite.core.spelling import option
from theodolite.models.batches import BatchSize, Blocks, TokenReading
from theodolite.models.encoder import INSTALL, Encoder, Recipe, load_once
from theodolite.models.location import EncoderError
from theodolite.models.tokens import Ints
from theodolite.spaces.cache import VectorCache
from theodolite.spaces.space import Origin, Space
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import TEXT_UNIT, Unit

# Vectors written between two syncs, and so the most that a killed extraction loses.
PART_BYTES = 64 * 2**20
STORED = ("float32", "float16")
_UNKNOWN = Origin()

Columns = dict[str, Sequence[Any]]


def extract_space(
    encoder: Encoder,
    texts: Sequence[str] | Examples,
    *,
    unit: Unit = TEXT_UNIT,
    layers: str | int | Sequence[int] = "all",
    specials: bool = False,
    batch_size: BatchSize = "auto",
    allow_unknown: bool = False,
    to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    frequencies: bool = False,
    store_dtype: str = "float32",
    origin: Origin = _UNKNOWN,
    ids: Sequence[str] | None = None,
    cache: VectorCache | None = None,
    progress: Progress | None = None,
) -> Space:
    """Encode texts once and keep a vector for every text, token or word in every requested layer.

    Parameters
    ----------
    encoder
        The encoder.
    texts
        Texts, or the examples of a task.
    unit
        What gets a vector: "text" (what a sentence model's own `encode` returns, one layer), "tokens", "cls", "mean", "max",
        "last", "words" or "pairs".
    layers
        "all", "last", a number or several; 0 is the embeddings, negative ones count from the last.
    specials
        Whether special tokens get vectors too; for unit "tokens".
    batch_size
        Texts per batch, or "auto" to fit the device. It does not change the order of the rows, which is that of the texts.
    allow_unknown
        Whether any share of tokens may be unknown to the tokenizer; a fifth is an error otherwise.
    to
        A folder for the space. Vectors are written there part by part and memory-mapped; the same call after a crash
        continues where it stopped. Without it, all vectors are kept in memory.
    overwrite
        Whether a space in that folder may be replaced.
    frequencies
        Whether to add a column of word frequencies (Zipf scale); for units "tokens" and "words".
    store_dtype
        What the vectors are kept as, whatever the encoder computes in: "float32", or "float16" for half the size.
    origin
        What the encoder cannot know, such as its state; fields that are empty are filled in.
    ids
        The name of each text, which becomes the column `id`.
    cache
        Where vectors in memory are looked for, and kept.
    progress
        Called with the number of texts that are done, and of all.

    Returns
    -------
    Space
        One (n, d) array per layer. Its columns are `text` (the number of the row's text); `id` if the texts have ids; `side`
        (0 or 1) if two texts are read apart; `sentence`, and `second` if two texts are read together, except for tokens; `token`
        and `position`, `word`, or `head` and `word`, with `example`; `label`, `score` and `frequency`.

    Warns
    -----
    DroppedWordsWarning
        Words beyond the encoder's `max_length` have no vector.
    TokenizerWarning
        Texts were cut, or tokens are unknown, or different texts have the same tokens.

    Raises
    ------
    EncoderError
        A fifth of the tokens is unknown to the tokenizer, or a layer gives values that are not finite numbers, or too large for
        `store_dtype`.
    """
    if store_dtype not in STORED:
        raise ValueError(f"{option('store_dtype', store_dtype)} must be {' or '.join(STORED)}")
    options: dict[str, Any] = {"unit": unit, "layers": layers, "specials": specials, "batch_size": batch_size}
    reading = TokenReading.of(encoder, texts, **options, allow_unknown=allow_unknown)
    columns = _columns(reading, frequencies)
    if ids is not None:
        columns["id"] = [ids[text] for text in columns["text"]]
    origin = _completed(origin, reading)
    if to is not None:
        return _to_folder(reading, to, columns, origin, dtype=store_dtype, overwrite=overwrite, progress=progress)
    return Space.of(_in_memory(reading, store_dtype, cache, progress), rows=columns, origin=origin)


def extract_units(
    encoder: Encoder,
    texts: Sequence[str] | Examples,
    *,
    units: Sequence[Unit],
    layers: str | int | Sequence[int] = "all",
    batch_size: BatchSize = "auto",
    allow_unknown: bool = False,
    origin: Origin = _UNKNOWN,
    cache: VectorCache | None = None,
    progress: Progress | None = None,
) -> dict[str, Space]:
    """A space in memory for each of several ways to pool a text ("cls", "mean", "max", "last"), from one pass over the texts."""
    first, *more = units
    options: dict[str, Any] = {"layers": layers, "batch_size": batch_size, "allow_unknown": allow_unknown}
    reading = TokenReading.of(encoder, texts, unit=first, more=tuple(more), **options)
    columns, origin, d = _columns(reading, False), _completed(origin, reading), encoder.d
    vectors = _in_memory(reading, "float32", cache, progress)
    return {
        unit: Space.of(
            {layer: block[:, slot * d : (slot + 1) * d] for layer, block in vectors.items()},
            rows=columns,
            origin=replace(origin, pooling=unit),
        )
        for slot, unit in enumerate(units)
    }


def _completed(origin: Origin, reading: TokenReading) -> Origin:
    """Where vectors come from: what the caller knows, and what the encoder and its texts say where it does not."""
    encoder, unit = reading.encoder, reading.unit
    known: dict[str, Any] = {"model": encoder.name, "revision": encoder.revision, "pooling": unit, "versions": model_versions()}
    known |= {"task": reading.inputs.task, "split": reading.inputs.split}
    known |= {"description": reading.description, "counts": reading.counts.to_dict(), "precision": encoder.dtype}
    known["max_length"] = encoder.max_length
    known["prompt"] = encoder.pipeline.prompt if unit == "text" and encoder.pipeline is not None else ""
    return replace(origin, **{name: getattr(origin, name) or value for name, value in known.items()})


def _in_memory(
    reading: TokenReading, store_dtype: str, cache: VectorCache | None, progress: Progress | None
) -> dict[int, NDArray[Any]]:
    """The vectors of every layer, from the cache if they are there."""
    key = "" if cache is None else f"{_fingerprint(reading)} {store_dtype}"
    stored = None if cache is None else cache.load(key)
    if stored is not None:
        return stored
    vectors = {layer: np.empty((reading.plan.n, reading.d), store_dtype) for layer in reading.layers}
    # Batch by batch if the work is done here: a group of batches would be in memory twice.
    by_group = ((rows, blocks) for _, rows, blocks in _encoded(reading, (), progress))
    for rows, blocks in by_group if _recipe(reading) else reading.blocks(progress):
        for layer, block in blocks.items():
            vectors[layer][rows] = _as_stored(block, store_dtype, layer)
    if cache is not None:
        cache.store(key, vectors)
    return vectors


def model_versions(*packages: str) -> str:
    """The versions of the libraries that vectors depend on, in one line."""
    return "; ".join([current_versions(), *(f"{name} {version(name)}" for name in ("torch", "transformers", *packages))])


def zipf_frequencies(words: Iterable[str]) -> NDArray[np.float64]:
    """How common English words are (Zipf): log10 of the occurrences per thousand million words, 0 (unknown) to about 8."""
    try:
        from wordfreq import zipf_frequency
    except ImportError:
        raise ImportError(f"word frequencies come from the package wordfreq; run: {INSTALL}") from None
    words = list(words)
    frequencies = {word: float(zipf_frequency(word, "en")) for word in set(words)}
    return np.array([frequencies[word] for word in words], dtype=np.float64)


def _as_stored(block: NDArray[Any], dtype: str, layer: int) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # said better below
        stored = block.astype(dtype, copy=False)
    if not np.isfinite(stored).all():
        largest = f"values up to {np.abs(block).max():.0f}, but {dtype} ends at {np.finfo(dtype).max:.0f}"
        raise EncoderError(f"layer {layer} has {largest}; store the vectors as {option('store_dtype', 'float32')}")
    return stored


def _to_folder(
    reading: TokenReading,
    to: str | os.PathLike[str],
    columns: Columns,
    origin: Origin,
    *,
    dtype: str,
    overwrite: bool,
    progress: Progress | None,
) -> Space:
    from theodolite.spaces.store import SpaceWriter

    shape: dict[str, Any] = {"layers": reading.layers, "n": reading.plan.n, "d": reading.d, "dtype": dtype}
    known: dict[str, Any] = {"rows": columns, "origin": origin, "fingerprint": _fingerprint(reading)}
    with SpaceWriter(to, **shape, **known, overwrite=overwrite) as writer:
        for number, rows, blocks in _encoded(reading, writer.done, progress):
            stored = {layer: _as_stored(block, dtype, layer) for layer, block in blocks.items()}
            writer.write(number, rows, stored)
        return writer.finish()


def _encoded(reading: TokenReading, done: Container[int], progress: Progress | None) -> Iterator[tuple[int, Ints, Blocks]]:
    """Number, rows and vectors of every group but those that are done, on the workers there are, each with its own model."""
    groups = dict(enumerate(_groups(reading)))
    sizes = {number: sum(map(len, group)) for number, group in groups.items()}
    todo = [number for number in groups if number not in done]  # the others are from an earlier call that was killed
    count = sum(size for number, size in sizes.items() if number not in todo)
    recipe = _recipe(reading)
    results: Iterator[tuple[int, Ints, Blocks]]
    if recipe is None:
        results = ((number, *reading.encode_all(groups[number])) for number in todo)
    else:
        tasks = [(number, *reading.without_encoder(groups[number])) for number in todo]
        results = in_parallel(partial(_encode_group, recipe), tasks, prefer="processes")
    for number, rows, blocks in results:
        yield number, rows, blocks
        count += sizes[number]
        if progress is not None:
            progress(count, sum(sizes.values()))


def _recipe(reading: TokenReading) -> Recipe | None:
    """How workers load the encoder; None if there are none, or if it is in memory: its weights would travel with every group."""
    return None if configured_workers("processes") == 1 else reading.encoder.recipe


def _encode_group(recipe: Recipe, task: tuple[int, TokenReading, Ints]) -> tuple[int, Ints, Blocks]:
    number, reading, row_numbers = task
    rows, blocks = replace(reading, encoder=load_once(recipe)).encode_all(reading.batches)
    return number, row_numbers[rows], blocks


def _groups(reading: TokenReading) -> Iterator[list[Ints]]:
    """Batches in groups of some megabytes of vectors, the same groups in every run."""
    row_bytes = reading.d * len(reading.layers) * 4
    group: list[Ints] = []
    size = 0
    for batch in reading.batches:
        group.append(batch)
        size += len(reading.plan.rows_of(batch)[0]) * row_bytes
        if size >= PART_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _fingerprint(reading: TokenReading) -> str:
    """Equal for equal weights, tokens, rows, batches and precision: what a continued extraction must share with the first."""
    weights, digest = reading.encoder.fingerprint(whole_texts=reading.unit == "text"), reading.plan.digest(*reading.batches)
    units = "+".join((reading.unit, *reading.more))
    fields = [weights, digest, units, reading.layers, reading.encoder.dtype, reading.unit == "max"]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def _columns(reading: TokenReading, frequencies: bool) -> Columns:
    """What is known of each row, under the names that `extract_space` lists."""
    inputs, plan, unit = reading.inputs, reading.plan, reading.unit
    number = inputs.number[plan.text]
    columns: Columns = {"text": number.tolist()}
    if inputs.side is not None:
        columns["side"] = inputs.side[plan.text].tolist()
    if unit == "tokens":
        columns["position"] = plan.runs[:, 0, 0].tolist()
        columns["token"] = _token_texts(reading)
    else:  # a text has many tokens, and would be repeated for each
        columns["sentence"] = [inputs.texts[text] for text in plan.text]
        if inputs.second is not None:
            columns["second"] = [inputs.second[text] for text in plan.text]
    if plan.example is not None:
        assert inputs.words is not None
        assert inputs.places is not None
        positions = inputs.places[plan.example]
        columns["example"] = plan.example.tolist()
        for slot, name in enumerate(("head", "word") if plan.slots == 2 else ("word",), start=1):
            columns[name] = [inputs.words[text][word] for text, word in positions[:, (0, slot)]]
    # An example is a word if rows are words, otherwise a text.
    example = number if plan.example is None else plan.example
    if inputs.labels is not None:
        columns["label"] = [inputs.labels[index] for index in example]
    if inputs.scores is not None:
        columns["score"] = [float(inputs.scores[index]) for index in example]
    if frequencies:
        columns["frequency"] = _frequencies(reading.encoder, columns, unit)
    return columns


def _token_texts(reading: TokenReading) -> list[str]:
    plan = reading.plan
    ids = plan.tokens.ids[plan.tokens.starts[plan.text] + plan.runs[:, 0, 0]]
    # Millions of tokens are a few thousand different ones.
    different, index = np.unique(ids, return_inverse=True)
    names = reading.encoder.tokenizer.convert_ids_to_tokens(different.tolist())
    return [str(names[i]) for i in index]


def _frequencies(encoder: Encoder, columns: Columns, unit: Unit) -> list[float]:
    if unit not in ("tokens", "words"):
        units = f"{option('unit', 'tokens')} or {option('unit', 'words')}"
        raise ValueError(f"{option('frequencies')} is for single tokens or words, not for {unit}; use {units}")
    if unit == "words":
        return list(map(float, zipf_frequencies(columns["word"])))
    plain = {token: _without_marks(encoder, token) for token in set(columns["token"])}
    return list(map(float, zipf_frequencies(plain[token] for token in columns["token"])))


def _without_marks(encoder: Encoder, token: str) -> str:
    """A token's own characters, without the marks that show where a word begins or continues; nothing for a special token."""
    if token in encoder.tokenizer.all_special_tokens:
        return ""
    text: str = encoder.tokenizer.convert_tokens_to_string([token])
    return text.strip().removeprefix("##").strip()
