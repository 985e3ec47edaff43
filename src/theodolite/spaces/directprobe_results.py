"""What DirectProbe's published program writes, as text: the cluster of each example, distances, and ranked predictions."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.spaces.directprobe_text import filled_lines, plain_label, write_lines
from theodolite.spaces.files import EmptyFileError, locate

NONE = -1
"""The number of a row that belongs to no cluster."""

_PAIR = re.compile(r"\((\d+)-(.+?), ?(\d+)-(.+)\): ?(\S+)\s*")
_RANKED = re.compile(r"(\d+)-(.+),([^,]+)")


@dataclass(frozen=True)
class ClusterDistance:
    """The distance between clusters `i` and `j`, with their labels."""

    i: int
    label_i: str
    j: int
    label_j: str
    distance: float


@dataclass(frozen=True)
class Ranked:
    """One test example: its gold label, and (cluster, label, distance) of every cluster, nearest first."""

    gold: str
    clusters: tuple[tuple[int, str, float], ...]

    @property
    def label(self) -> str:
        """The label of the nearest cluster."""
        return self.clusters[0][1]


def read_clusters(path: str | os.PathLike[str], *, n: int | None = None) -> NDArray[np.intp]:
    """The cluster number of each training example, one a line; -1 for an example in none. `n` is how many there must be."""
    file = locate(path)
    found = []
    for number, line in filled_lines(file):
        if not re.fullmatch(r"-1|\d+", line.strip()):
            raise ValueError(f"{file}, line {number}: {line.strip()[:40]!r} is no cluster number; each line is one, from 0 up")
        found.append(int(line))
    if not found:
        raise EmptyFileError(f"{file} is empty; there must be a cluster number for each example")
    if n is not None and len(found) != n:
        raise ValueError(f"{file} has {len(found):,} cluster numbers for {n:,} rows; there must be one for each, in their order")
    return np.array(found, dtype=np.intp)


def write_clusters(clusters: ArrayLike, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """One cluster number a line, in the order of the training examples."""
    write_lines((str(int(number)) for number in np.asarray(clusters)), path, overwrite=overwrite)


def read_distances(path: str | os.PathLike[str]) -> list[ClusterDistance]:
    """The lines `(i-A, j-B): d` of a `dis.txt`."""
    file = locate(path)
    found = []
    for number, line in filled_lines(file):
        match = _PAIR.fullmatch(line)
        if match is None:
            raise ValueError(f"{file}, line {number}: {line[:40]!r} does not read (i-A, j-B): distance")
        distance = _distance(match[5], f"{file}, line {number}")
        found.append(ClusterDistance(int(match[1]), match[2], int(match[3]), match[4], distance))
    return found


def write_distances(pairs: Iterable[ClusterDistance], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """One `(i-A, j-B): d` a line. The published program keeps four decimals, which a thin margin may not reach."""

    def lines() -> Iterator[str]:
        for pair in pairs:
            names = plain_label(pair.label_i), plain_label(pair.label_j)
            yield f"({pair.i}-{names[0]}, {pair.j}-{names[1]}): {_written(pair.distance)}"

    write_lines(lines(), path, overwrite=overwrite)


def read_predictions(path: str | os.PathLike[str]) -> list[Ranked]:
    """The lines `gold<TAB>i-A,d<TAB>j-B,d…` of a `prediction.txt`."""
    file = locate(path)
    found = []
    for number, line in filled_lines(file):
        gold, *cells = line.split("\t")
        ranked = []
        for cell in filter(None, map(str.strip, cells)):
            match = _RANKED.fullmatch(cell)
            if match is None:
                raise ValueError(f"{file}, line {number}: {cell[:40]!r} does not read cluster-label,distance")
            ranked.append((int(match[1]), match[2], _distance(match[3], f"{file}, line {number}")))
        if not ranked:
            raise ValueError(f"{file}, line {number} has no cluster behind its gold label; there must be at least one")
        found.append(Ranked(gold.strip(), tuple(ranked)))
    return found


def write_predictions(
    gold: Sequence[Any],
    distances: ArrayLike,
    cluster_labels: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """One test example a line: its gold label, then every cluster with its distance (m, K), nearest first, ties by number."""
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.shape != (len(gold), len(cluster_labels)):
        raise ValueError(
            f"distances have shape {matrix.shape}; {len(gold)} examples and {len(cluster_labels)} clusters need "
            f"({len(gold)}, {len(cluster_labels)})"
        )
    names = [plain_label(label) for label in cluster_labels]

    def lines() -> Iterator[str]:
        for label, row in zip(gold, matrix, strict=True):
            ranked = (f"{i}-{names[i]},{_written(row[i])}" for i in np.argsort(row, kind="stable"))
            yield "\t".join([plain_label(label), *ranked])

    write_lines(lines(), path, overwrite=overwrite)


def _written(distance: float) -> str:
    return f"{float(distance):.10g}"


def _distance(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: {text[:40]!r} is not a distance; it must be a finite number")
    return value
