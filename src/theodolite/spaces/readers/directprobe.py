"""The text files of DirectProbe's published program: its vectors and labels, its clusters, and what it writes about them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.files import whole_file
from theodolite.core.vectors import Floats, Source, array
from theodolite.spaces.readers.errors import DataError
from theodolite.spaces.readers.location import locate
from theodolite.spaces.readers.sources import parsed_source
from theodolite.spaces.readers.text import parse_vector


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """Vectors (n, d), and the label and example of each."""

    X: Floats
    labels: tuple[str, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ClusterDistance:
    """The distance between clusters `i` and `j`, with their labels."""

    i: int
    label_i: str
    j: int
    label_j: str
    distance: float


def read_directprobe(
    embeddings: str | os.PathLike[str], entities: str | os.PathLike[str], label_set: str | os.PathLike[str] | None = None
) -> LabelledVectors:
    """Vectors with their labels.

    Parameters
    ----------
    embeddings
        File with one vector per line.
    entities
        File with `example<TAB>label` per line, in the same order.
    label_set
        File with all labels, one per line; every label must be in it. None skips this check.

    Raises
    ------
    DataError
        The files differ in length, or a line is not as described; the message names it.
    """
    examples, labels = _read_entities(entities)
    if label_set is not None:
        allowed = set(_read_label_set(label_set))
        bad = next((i for i, label in enumerate(labels) if label not in allowed), None)
        if bad is not None:
            raise DataError(f"label {labels[bad]!r} is not in {label_set}; add or correct it", entities, bad + 1)
    X = array(_read_embeddings(embeddings))
    if len(X) != len(labels):
        shorter, line = (embeddings, len(X)) if len(X) < len(labels) else (entities, len(labels))
        raise DataError(
            f"{embeddings} has {len(X):,} vectors, {entities} {len(labels):,} examples; line i of one belongs to line i of the "
            f"other: {shorter} ends at line {line}"
        )
    return LabelledVectors(X, labels, examples)


def read_clusters(path: str | os.PathLike[str], *, n: int | None = None) -> NDArray[np.intp]:
    """The cluster number of each training example.

    Parameters
    ----------
    path
        File with one number per line; -1 is an example in no cluster.
    n
        How many numbers there must be.
    """
    file = locate(path)
    numbers = []
    for line, text in file.gapless_lines():
        if not re.fullmatch(r"-1|\d+", text.strip()):
            message = f"{text.strip()[:40]!r} is not a cluster number; each line is one, from 0 up"
            raise DataError(message, file, line)
        numbers.append(int(text))
    if n is not None and len(numbers) != n:
        raise DataError(f"there are {len(numbers):,} cluster numbers for {n:,} rows; give one for each, in their order", file)
    return np.array(numbers, dtype=np.intp)


def write_clusters(clusters: ArrayLike, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write one cluster number per line.

    Parameters
    ----------
    clusters
        The cluster of each training example, in their order; -1 is none.
    path
        The file to write.
    overwrite
        Whether a file of that name may be replaced.
    """
    _write_lines((str(int(number)) for number in np.asarray(clusters)), path, overwrite=overwrite)


def write_distances(pairs: Iterable[ClusterDistance], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write one `(i-A, j-B): d` per line.

    The published program keeps four decimals, which would make thin margins 0; ten significant digits are written here.

    Parameters
    ----------
    pairs
        The distances.
    path
        The file to write.
    overwrite
        Whether a file of that name may be replaced.
    """
    lines = (f"({p.i}-{_plain(p.label_i)}, {p.j}-{_plain(p.label_j)}): {p.distance:.10g}" for p in pairs)
    _write_lines(lines, path, overwrite=overwrite)


def write_predictions(
    gold: Sequence[Any],
    distances: ArrayLike,
    cluster_labels: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write one test example per line: its gold label, then every cluster, nearest first, ties by number.

    Parameters
    ----------
    gold
        The true label of each of the m examples.
    distances
        Distance of each example to each cluster, (m, K).
    cluster_labels
        The label of each of the K clusters.
    path
        The file to write.
    overwrite
        Whether a file of that name may be replaced.
    """
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.shape != (len(gold), len(cluster_labels)):
        raise ValueError(
            f"distances have shape {matrix.shape}; {len(gold)} examples and {len(cluster_labels)} clusters need "
            f"({len(gold)}, {len(cluster_labels)})"
        )
    names = [f"{i}-{_plain(label)}" for i, label in enumerate(cluster_labels)]

    def lines() -> Iterator[str]:
        for label, row in zip(gold, matrix, strict=True):
            ranked = (f"{names[i]},{row[i]:.10g}" for i in np.argsort(row, kind="stable"))
            yield "\t".join([_plain(label), *ranked])

    _write_lines(lines(), path, overwrite=overwrite)


def _read_embeddings(path: str | os.PathLike[str]) -> Source:
    """The vectors of a file with one vector per line, numbers between blanks, and nothing else."""
    file = locate(path)
    d = len(next(file.gapless_lines())[1].split())

    def vectors() -> Iterator[list[float]]:
        for line, text in file.gapless_lines():
            tokens = text.split()
            vector = parse_vector(file, line, tokens, d=d)
            # Here and not when the rows are checked, because only here the line is known.
            bad = next((i for i, value in enumerate(vector) if not math.isfinite(value)), None)
            if bad is not None:
                message = f"column {bad + 1}: {tokens[bad]!r} is not finite; drop that line and its example"
                raise DataError(message, file, line)
            yield vector

    return parsed_source(file, vectors, d=d)


def _read_entities(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(examples, labels) of a file with `example<TAB>label` lines."""
    file = locate(path)
    pairs = []
    for line, text in file.gapless_lines():
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) != 2 or not cells[1]:
            fault = "no label behind its tab" if len(cells) == 2 else f"{len(cells) - 1} tabs"
            raise DataError(f"the line has {fault}; write example<TAB>label on each line", file, line)
        pairs.append(cells)
    examples, labels = zip(*pairs, strict=True)
    return examples, labels


def _read_label_set(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The labels of a file with one label per line, each once, in file order."""
    return tuple(dict.fromkeys(text.strip() for _, text in locate(path).gapless_lines()))


def _plain(label: Any) -> str:
    """A label as text that a line can hold."""
    text = str(label)
    if not text.strip() or text != text.strip() or any(mark in text for mark in "\t\r\n"):
        raise ValueError(f"label {text!r} cannot be written: it must not be empty, hold a tab or line end, or begin or end blank")
    return text


def _write_lines(lines: Iterable[str], path: str | os.PathLike[str], *, overwrite: bool) -> None:
    with whole_file(path, overwrite=overwrite) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(chain.from_iterable((line, "\n") for line in lines))
