"""Plain text, one item per line: texts, vectors as word2vec, fastText and GloVe write them, and the files of DirectProbe.

DirectProbe's published program reads vectors and labels from text, and writes its clusters, distances and predictions to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.columns import SAMPLED_ROWS
from theodolite.core.files import atomic_file
from theodolite.core.vectors import Floats, Source, array
from theodolite.spaces.readers.data_files import AnyPath, DataError, EmptyFileError, File, locate, parsed_source
from theodolite.spaces.readers.delimited import (
    checked_decimal,
    decimal_hint,
    first_numbers,
    has_decimal_comma,
    is_header,
    is_number,
    parse_number,
    text_kinds,
    token_lines,
    vector_columns,
)


def read_texts(path: AnyPath, encoding: str = "utf-8") -> list[str]:
    """The texts of a file with one text per line; blank lines are left out.

    Lines end at a newline, with or without a carriage return; other separators such as U+2028 belong to the text. A byte-order
    mark is removed.
    """
    file = locate(path)
    try:
        return [line for _, line in file.numbered_lines(encoding) if line.strip()]
    except EmptyFileError:
        raise EmptyFileError("the file holds no text; write one text per line", file) from None


# Vectors with or without words


def read_text_vectors(file: File, *, decimal: str | None = None) -> Source:
    """The vectors of a `.txt` or `.vec` file, in file order: numbers between blanks, one vector per line.

    A first line with two whole numbers (how many vectors, how many dimensions), words before the numbers, numbers that name the
    columns and lines of comment that begin with `#` are recognised.
    """
    mark = checked_decimal(decimal)
    top = [tokens for _, tokens in islice(token_lines(file), SAMPLED_ROWS)]
    if not top:
        raise EmptyFileError("the file has comments but no vector", file)
    shape = _count_line(top, mark)
    if shape is not None and len(top) == 1:
        raise EmptyFileError("the file has a count line but no vector", file)
    n, width = shape or (None, None)
    tokens = top[0 if shape is None else 1]
    # A count line gives the width, so that even a number may be a word; without one, the first token decides.
    has_words = len(tokens) == width + 1 if width else len(tokens) > 1 and not is_number(tokens[0], mark)
    has_words = has_words and not has_decimal_comma(tokens[0])
    d = width or len(tokens) - has_words
    skipped = int(shape is not None)
    if not has_words and shape is None and file.ending == ".txt":
        skipped = int(is_header(file, tokens, top[1:], mark, needs_fractions=True))
        rows = [each for each in top[skipped:] if len(each) == d]
        names = tokens if skipped else [str(i) for i in range(d)]
        vector_columns(file, names, text_kinds(rows, mark), None, first_values=first_numbers(rows, mark), is_named=False)

    def vectors() -> Iterator[list[float]]:
        count = 0
        for line, tokens in islice(token_lines(file), skipped, None):
            count += 1
            yield _parse_vector(file, line, tokens, d=d, has_word=has_words, decimal=mark)
        if n is not None and count != n:
            raise DataError(f"the first line says {n:,} vectors, the file holds {count:,}; copy it again", file)

    return parsed_source(file, vectors, d=d, n=n)


def _parse_vector(file: File, line: int, tokens: list[str], *, d: int, has_word: bool = False, decimal: str = ".") -> list[float]:
    """The numbers of one line; the word before them may hold blanks, so they are counted from the right."""
    if len(tokens) <= d if has_word else len(tokens) != d:
        fault = f"the line has {len(tokens) - has_word} numbers, the first vector has {d}"
        raise DataError(f"{fault}; all must be of one length", file, line)
    try:
        if decimal == ".":
            return [float(token) for token in tokens[-d:]]
        return [parse_number(token, decimal) for token in tokens[-d:]]
    except ValueError:
        bad = next(i for i in range(len(tokens) - d, len(tokens)) if not is_number(tokens[i], decimal))
        hint = f"; {decimal_hint()}" if has_decimal_comma(tokens[bad]) else ""
        raise DataError(f"column {bad + 1}: {tokens[bad][:40]!r} is not a number{hint}", file, line) from None


def _count_line(top: list[list[str]], decimal: str) -> tuple[int, int] | None:
    """(n, d) if the first line says so. What follows tells it from a vector of two whole numbers."""
    first = top[0]
    if len(first) != 2 or not all(token.isdecimal() and len(token) < 16 for token in first):
        return None
    n, d = int(first[0]), int(first[1])
    # A single line of two numbers is a vector, unless it counts none.
    if len(top) == 1:
        return None if n != 0 else (n, d)
    tokens = top[1]
    fits = len(tokens) == d + 1 or (len(tokens) == d and is_number(tokens[0], decimal))
    # Two numbers below two numbers are simply two vectors.
    return (n, d) if fits and not (len(tokens) == 2 and is_number(tokens[0], decimal)) else None


# The files of DirectProbe


class LabelledVectors(NamedTuple):
    """Vectors (n, d), and the label of each."""

    X: Floats
    labels: tuple[str, ...]


class ClusterDistance(NamedTuple):
    """The distance between clusters `i` and `j`, with their labels."""

    i: int
    label_i: str
    j: int
    label_j: str
    distance: float


def read_directprobe(embeddings: AnyPath, entities: AnyPath, label_set: AnyPath | None = None) -> LabelledVectors:
    """Vectors with their labels."""
    labels = []
    allowed = None if label_set is None else {text.strip() for _, text in locate(label_set).gapless_lines()}
    for line, text in locate(entities).gapless_lines():
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) != 2 or not cells[1]:
            fault = "no label behind its tab" if len(cells) == 2 else f"{len(cells) - 1} tabs"
            raise DataError(f"the line has {fault}; write example<TAB>label on each line", entities, line)
        if allowed is not None and cells[1] not in allowed:
            raise DataError(f"label {cells[1]!r} is not in {label_set}; add or correct it", entities, line)
        labels.append(cells[1])
    X = array(_read_embeddings(embeddings))
    if len(X) != len(labels):
        shorter, line = (embeddings, len(X)) if len(X) < len(labels) else (entities, len(labels))
        fault = f"{embeddings} has {len(X):,} vectors, {entities} {len(labels):,} examples"
        raise DataError(f"{fault}; line i of one belongs to line i of the other: {shorter} ends at line {line}")
    return LabelledVectors(X, tuple(labels))


def read_clusters(path: AnyPath, *, n: int | None = None) -> NDArray[np.intp]:
    """The cluster number of each training example."""
    file = locate(path)
    numbers = []
    for line, text in file.gapless_lines():
        if not re.fullmatch(r"-1|\d{1,15}", text.strip()):
            raise DataError(f"{text.strip()[:40]!r} is not a cluster number; each line is one, from 0 up", file, line)
        numbers.append(int(text))
    if n is not None and len(numbers) != n:
        raise DataError(f"there are {len(numbers):,} cluster numbers for {n:,} rows; give one for each, in their order", file)
    return np.array(numbers, dtype=np.intp)


def write_clusters(clusters: ArrayLike, path: AnyPath, *, overwrite: bool = False) -> None:
    """Write one cluster number per line."""
    _write_lines((str(int(number)) for number in np.asarray(clusters)), path, overwrite=overwrite)


def write_distances(pairs: Iterable[ClusterDistance], path: AnyPath, *, overwrite: bool = False) -> None:
    """Write one `(i-A, j-B): d` per line.

    The published program keeps four decimals, which would make thin margins 0; ten significant digits are written here.
    """
    lines = (f"({p.i}-{_plain(p.label_i)}, {p.j}-{_plain(p.label_j)}): {p.distance:.10g}" for p in pairs)
    _write_lines(lines, path, overwrite=overwrite)


def write_predictions(
    gold: Sequence[Any], distances: ArrayLike, cluster_labels: Sequence[Any], path: AnyPath, *, overwrite: bool = False
) -> None:
    """Write one test example per line: its gold label, then every cluster, nearest first, ties by number."""
    matrix, shape = np.asarray(distances, dtype=np.float64), (len(gold), len(cluster_labels))
    if matrix.shape != shape:
        raise ValueError(f"distances have shape {matrix.shape}; these examples and clusters need {shape}")
    names = [f"{i}-{_plain(label)}" for i, label in enumerate(cluster_labels)]

    def lines() -> Iterator[str]:
        for label, row in zip(gold, matrix, strict=True):
            ranked = (f"{names[i]},{row[i]:.10g}" for i in np.argsort(row, kind="stable"))
            yield "\t".join([_plain(label), *ranked])

    _write_lines(lines(), path, overwrite=overwrite)


def _read_embeddings(path: AnyPath) -> Source:
    """The vectors of a file with one vector per line, numbers between blanks, and nothing else."""
    file = locate(path)
    d = len(next(file.gapless_lines())[1].split())

    def vectors() -> Iterator[list[float]]:
        for line, text in file.gapless_lines():
            tokens = text.split()
            vector = _parse_vector(file, line, tokens, d=d)
            # Here and not when the rows are checked, because only here the line is known.
            bad = next((i for i, value in enumerate(vector) if not math.isfinite(value)), None)
            if bad is not None:
                fault = f"column {bad + 1}: {tokens[bad]!r} is not finite; drop that line and its example"
                raise DataError(fault, file, line)
            yield vector

    return parsed_source(file, vectors, d=d)


def _plain(label: Any) -> str:
    """A label as text that a line can hold."""
    text = str(label)
    if not text.strip() or text != text.strip() or any(mark in text for mark in "\t\r\n"):
        raise ValueError(f"label {text!r} cannot be written: it must not be empty, hold a tab or line end, or begin or end blank")
    return text


def _write_lines(lines: Iterable[str], path: AnyPath, *, overwrite: bool) -> None:
    with atomic_file(path, overwrite=overwrite) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
