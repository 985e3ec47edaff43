"""`.txt` and `.vec`: one vector a line, with or without the count line and leading words of word2vec, fastText and GloVe."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import Source
from theodolite.spaces.delimited import is_number
from theodolite.spaces.files import EmptyFileError, File, file_source
from theodolite.spaces.spool import Spool, parsed_rows


class Text:
    """What the first two lines say: a count line or not, a word before the numbers or not, how many numbers."""

    def __init__(self, file: File) -> None:
        self.file = file
        top = list(islice(self.lines(), 2))
        if not top:
            raise EmptyFileError(f"{file} is empty; there must be at least one vector")
        self.promised = _promised(top)
        if self.promised is not None and len(top) == 1:
            raise EmptyFileError(f"{file} has a count line but no vector")
        tokens = top[1 if self.promised is not None else 0][1]
        width = self.promised[1] if self.promised else None
        self.has_words = len(tokens) == width + 1 if width else len(tokens) > 1 and not is_number(tokens[0])
        self.d = width or len(tokens) - self.has_words

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, tokens), without blank lines and without the `#` lines of prose that may come first."""
        begun = False
        for number, line in enumerate(self.file.lines(), start=1):
            tokens = line.split()
            # "#" may also be the word of a vector: prose has something else than numbers behind it.
            prose = line.startswith("#") and not begun and not (len(tokens) > 2 and all(map(is_number, tokens[1:])))
            if tokens and not prose:
                begun = True
                yield number, tokens

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """The vectors in file order."""
        lines = islice(self.lines(), int(self.promised is not None), None)
        rows = 0
        while part := list(islice(lines, parsed_rows(self.d))):
            rows += len(part)
            yield np.array([self.vector(number, tokens) for number, tokens in part], dtype=np.float64)
        if self.promised is not None and rows != self.promised[0]:
            raise ValueError(
                f"{self.file} promises {self.promised[0]:,} vectors in its first line but holds {rows:,}; copy it again"
            )

    def vector(self, number: int, tokens: list[str]) -> list[float]:
        """The numbers of one line, or an error that names line and column."""
        # A word may hold spaces, so the numbers are counted from the right.
        enough = len(tokens) > self.d if self.has_words else len(tokens) == self.d
        if not enough:
            found = f"{len(tokens) - self.has_words} numbers" if self.has_words else f"{len(tokens)} tokens"
            raise ValueError(f"{self.file}, line {number} has {found}, the first vector has {self.d}; all must be of one length")
        try:
            return [float(token) for token in tokens[-self.d :]]
        except ValueError:
            first = len(tokens) - self.d
            bad = next(i for i in range(first, len(tokens)) if not is_number(tokens[i]))
            raise ValueError(f"{self.file}, line {number}, column {bad + 1}: {tokens[bad][:40]!r} is not a number") from None


def read_text(file: File) -> Source:
    """The vectors of a whitespace-separated text, in file order."""
    text = Text(file)
    kept = Spool(text.chunks, text.d, np.float64)
    next(iter(text.chunks()))
    n = text.promised[0] if text.promised is not None else None
    return file_source(file, kept.chunks, n=n, d=text.d, dtype=np.float64, take=kept.take)


def _promised(top: list[tuple[int, list[str]]]) -> tuple[int, int] | None:
    """(n, d) of a count line, told from a vector of two whole numbers by the line that follows it."""
    first = top[0][1]
    if len(first) != 2 or not all(token.isdigit() for token in first):
        return None
    n, d = int(first[0]), int(first[1])
    if len(top) == 1:
        return None if n != 0 else (n, d)
    tokens = top[1][1]
    fits = len(tokens) == d + 1 or (len(tokens) == d and is_number(tokens[0]))
    # Two numbers below two numbers are simply two vectors.
    return (n, d) if fits and not (len(tokens) == 2 and is_number(tokens[0])) else None
