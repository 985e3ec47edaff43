"""Plain text: vectors one per line, as word2vec, fastText and GloVe write them, and files with one text per line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from theodolite.core.vectors import Source
from theodolite.spaces.readers.errors import DataError, EmptyFileError
from theodolite.spaces.readers.location import File, locate
from theodolite.spaces.readers.sources import parsed_source
from theodolite.spaces.readers.tables import is_number


def read_texts(path: str | os.PathLike[str], encoding: str = "utf-8") -> list[str]:
    """The texts of a file with one text per line; blank lines are left out.

    Lines end at a newline, with or without a carriage return; other separators such as U+2028 belong to the text. A byte-order
    mark is removed.

    Parameters
    ----------
    path
        The file, as a path or URL.
    encoding
        Its encoding.

    Raises
    ------
    DataError
        The file holds no text, or a byte that does not fit the encoding.
    """
    file = locate(path)
    try:
        return [line for _, line in file.numbered_lines(encoding) if line.strip()]
    except EmptyFileError:
        raise EmptyFileError("the file holds no text; write one text per line", file) from None


def read_text_vectors(file: File) -> Source:
    """The vectors of a `.txt` or `.vec` file, in file order: numbers between blanks, one vector per line.

    A first line with two whole numbers (how many vectors, how many dimensions), words before the numbers and lines of comment
    that begin with `#` are recognised.

    Parameters
    ----------
    file
        The file, in UTF-8.
    """
    top = list(islice(_token_lines(file), 2))
    if not top:
        raise EmptyFileError("the file has comments but no vector", file)
    shape = _count_line(top)
    if shape is not None and len(top) == 1:
        raise EmptyFileError("the file has a count line but no vector", file)
    n, width = shape or (None, None)
    tokens = top[0 if shape is None else 1][1]
    # A count line gives the width, so that even a number may be a word; without one, the first token decides.
    has_words = len(tokens) == width + 1 if width else len(tokens) > 1 and not is_number(tokens[0])
    d = width or len(tokens) - has_words

    def vectors() -> Iterator[list[float]]:
        count = 0
        for line, tokens in islice(_token_lines(file), int(shape is not None), None):
            count += 1
            yield parse_vector(file, line, tokens, d=d, has_word=has_words)
        if n is not None and count != n:
            raise DataError(f"the first line says {n:,} vectors, the file holds {count:,}; copy it again", file)

    return parsed_source(file, vectors, d=d, n=n)


def parse_vector(file: File, line: int, tokens: list[str], *, d: int, has_word: bool = False) -> list[float]:
    """The numbers of one line.

    Parameters
    ----------
    file, line
        Where the tokens come from, for messages.
    tokens
        What is on the line between blanks.
    d
        How many numbers there must be.
    has_word
        Whether a word comes before the numbers. It may hold blanks, so the numbers are counted from the right.

    Raises
    ------
    DataError
        There are more or fewer numbers, or a token is not a number; the message names line and column.
    """
    if len(tokens) <= d if has_word else len(tokens) != d:
        raise DataError(
            f"the line has {len(tokens) - has_word} numbers, the first vector has {d}; all must be of one length", file, line
        )
    try:
        return [float(token) for token in tokens[-d:]]
    except ValueError:
        bad = next(i for i in range(len(tokens) - d, len(tokens)) if not is_number(tokens[i]))
        raise DataError(f"column {bad + 1}: {tokens[bad][:40]!r} is not a number", file, line) from None


def _token_lines(file: File) -> Iterator[tuple[int, list[str]]]:
    """(line number, tokens), without blank lines and without the lines of comment that may come first."""
    has_begun = False
    for line, text in file.numbered_lines():
        tokens = text.split()
        # "#" may also be the word of a vector: a comment has something other than numbers behind it.
        is_comment = text.startswith("#") and not has_begun and not (len(tokens) > 2 and all(map(is_number, tokens[1:])))
        if tokens and not is_comment:
            has_begun = True
            yield line, tokens


def _count_line(top: list[tuple[int, list[str]]]) -> tuple[int, int] | None:
    """(n, d) if the first line says so. What follows tells it from a vector of two whole numbers."""
    first = top[0][1]
    if len(first) != 2 or not all(token.isdecimal() for token in first):
        return None
    n, d = int(first[0]), int(first[1])
    # A single line of two numbers is a vector, unless it counts none.
    if len(top) == 1:
        return None if n != 0 else (n, d)
    tokens = top[1][1]
    fits = len(tokens) == d + 1 or (len(tokens) == d and is_number(tokens[0]))
    # Two numbers below two numbers are simply two vectors.
    return (n, d) if fits and not (len(tokens) == 2 and is_number(tokens[0])) else None
