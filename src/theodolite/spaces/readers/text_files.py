"""Plain text, one item per line: texts, and vectors as word2vec, fastText and GloVe write them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from theodolite.core.frames import SAMPLED_ROWS
from theodolite.core.vectors import Source
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
        rows = [entry for entry in top[skipped:] if len(entry) == d]
        names = tokens if skipped else [str(i) for i in range(d)]
        vector_columns(file, names, text_kinds(rows, mark), None, first_values=first_numbers(rows, mark), is_named=False)

    def vectors() -> Iterator[list[float]]:
        count = 0
        for line, tokens in islice(token_lines(file), skipped, None):
            count += 1
            yield _parse_vector(file, line, tokens, d=d, has_word=has_words, decimal=mark)
        if n is not None and count != n:
            raise DataError(f"the first line says {n:,} vectors, but the file holds {count:,}; copy it again", file)

    return parsed_source(file, vectors, d=d, n=n)


def _parse_vector(file: File, line: int, tokens: list[str], *, d: int, has_word: bool = False, decimal: str = ".") -> list[float]:
    """The numbers of one line; the word before them may hold blanks, so they are counted from the right."""
    if len(tokens) <= d if has_word else len(tokens) != d:
        problem = f"the line has {len(tokens) - has_word} numbers, but the first vector has {d}"
        raise DataError(f"{problem}; all must have the same length", file, line)
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
