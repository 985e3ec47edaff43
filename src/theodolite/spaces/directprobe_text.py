"""What DirectProbe's published program reads, as text: a file of vectors, one of (example, label) pairs, one of all labels."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.core.files import whole_file
from theodolite.core.vectors import Floats, Source, Vectors, array, source
from theodolite.spaces.files import EmptyFileError, File, file_source, locate
from theodolite.spaces.spool import Spool
from theodolite.spaces.text import Text


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """Vectors (n, d), and the example and label of each."""

    X: Floats
    labels: tuple[str, ...]
    examples: tuple[str, ...]


class Embeddings(Text):
    """One vector a line, numbers between blanks; nothing else, so that line i is example i."""

    def __init__(self, file: File) -> None:
        self.file = file
        first = next(self.lines(), None)
        if first is None:
            raise EmptyFileError(f"{file} is empty; there must be at least one vector")
        self.promised = None
        self.has_words = False
        self.d = len(first[1])

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, numbers as text); a blank line is an error, unless only blank ones follow."""
        for number, line in filled_lines(self.file):
            yield number, line.split()

    def vector(self, number: int, tokens: list[str]) -> list[float]:
        """The numbers of one line, or an error that names line and column."""
        values = super().vector(number, tokens)
        bad = next((i for i, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None:
            raise ValueError(
                f"{self.file}, line {number}, column {bad + 1}: {tokens[bad]!r} is not finite; drop that line and its example"
            )
        return values


def read_embeddings(path: str | os.PathLike[str]) -> Source:
    """The vectors of a DirectProbe embeddings file, in file order; errors name the line."""
    file = locate(path)
    text = Embeddings(file)
    kept = Spool(text.chunks, text.d, np.float64)
    return file_source(file, kept.chunks, n=None, d=text.d, dtype=np.float64, take=kept.take)


def read_entities(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(examples, labels) of a file with `example<TAB>label` lines."""
    file = locate(path)
    examples, labels = [], []
    for number, line in filled_lines(file):
        cells = line.split("\t")
        if len(cells) != 2:
            raise ValueError(
                f"{file}, line {number} has {len(cells) - 1} tabs; an entities file has example<TAB>label on each line"
            )
        if not cells[1].strip():
            raise ValueError(f"{file}, line {number} has no label behind its tab; every example needs one")
        examples.append(cells[0].strip())
        labels.append(cells[1].strip())
    if not labels:
        raise EmptyFileError(f"{file} is empty; there must be at least one example")
    return tuple(examples), tuple(labels)


def read_label_set(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The labels of a file with one a line, each once, in file order."""
    file = locate(path)
    labels = tuple(dict.fromkeys(line.strip() for _, line in filled_lines(file)))
    if not labels:
        raise EmptyFileError(f"{file} is empty; there must be at least one label")
    return labels


def read_directprobe(
    embeddings: str | os.PathLike[str], entities: str | os.PathLike[str], label_set: str | os.PathLike[str] | None = None
) -> LabelledVectors:
    """Vectors with their labels; where a label set is given, every label must be in it."""
    examples, labels = read_entities(entities)
    if label_set is not None:
        known = set(read_label_set(label_set))
        wrong = next((i for i, label in enumerate(labels) if label not in known), None)
        if wrong is not None:
            raise ValueError(f"{entities}, line {wrong + 1}: label {labels[wrong]!r} is not in {label_set}; add or correct it")
    X = array(read_embeddings(embeddings))
    if len(X) != len(labels):
        short, line = (embeddings, len(X)) if len(X) < len(labels) else (entities, len(labels))
        raise ValueError(
            f"{embeddings} has {len(X):,} vectors, {entities} {len(labels):,} examples; line i of one belongs to line i of the "
            f"other: {short} ends at line {line}"
        )
    return LabelledVectors(X, labels, examples)


def write_embeddings(X: Vectors, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """One vector a line, in as few digits as give the same numbers back."""

    def lines() -> Iterator[str]:
        for block in source(X).blocks():
            for row in block:
                yield " ".join(map(str, row))

    write_lines(lines(), path, overwrite=overwrite)


def write_entities(
    examples: Sequence[str], labels: Sequence[Any], path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """One `example<TAB>label` a line; blanks of other kinds inside an example become single spaces."""
    if len(examples) != len(labels):
        raise ValueError(f"there are {len(examples)} examples and {len(labels)} labels; give one label for each")
    pairs = zip(examples, labels, strict=True)
    lines = (f"{' '.join(example.split())}\t{plain_label(label)}" for example, label in pairs)
    write_lines(lines, path, overwrite=overwrite)


def write_label_set(labels: Sequence[Any], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Each label once, sorted, one a line."""
    write_lines(sorted({plain_label(label) for label in labels}), path, overwrite=overwrite)


def filled_lines(file: File) -> Iterator[tuple[int, str]]:
    """(line number, line without its end); a blank line inside is an error, because it would shift all that follow."""
    blank = 0
    for number, line in enumerate(file.lines(), start=1):
        if not line.strip():
            blank = blank or number
            continue
        if blank:
            raise ValueError(f"{file}, line {blank} is blank; every line stands for one example: fill it, or drop it everywhere")
        yield number, line.rstrip("\r\n")


def plain_label(label: Any) -> str:
    """A label as text that a line can hold."""
    text = str(label)
    if not text.strip() or text != text.strip() or any(mark in text for mark in "\t\r\n"):
        raise ValueError(
            f"label {text!r} cannot be written: a label is not empty, has no tab or line end, and no blank around it"
        )
    return text


def write_lines(lines: Iterable[str], path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """A text file, whole or not at all."""
    with whole_file(Path(path), overwrite=overwrite) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(chain.from_iterable((line, "\n") for line in lines))
