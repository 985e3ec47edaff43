"""Strings that somebody else wrote, made safe to show: no markup, no control characters, a limited length, a harmless file name.

Plotly renders a small part of HTML in whatever it writes: titles, ticks, legends, hover texts. So every token, sentence, label
or name that comes from the data goes through `plain` before it gets there; fixed words of the package do not need to.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
import zlib
from collections.abc import Iterable
from itertools import chain, count

LIMIT = 300
"""Characters of a string that are shown by default."""
CUT = "…"
ISOLATE, END = "\u2068", "\u2069"
"""FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE: right-to-left text between them does not move what is around it."""

# Marks, embeddings, overrides and isolates: a text's own could end the isolate around it. The byte order mark shows nothing.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Halves of surrogate pairs cannot be written as UTF-8; the others are guaranteed never to be characters.
_NONCHARACTERS = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
# A dollar sign starts a formula if MathJax is on the page.
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})


def clean(text: object, limit: int = LIMIT) -> str:
    """The text on one line, without control characters and direction marks; not escaped.

    Parameters
    ----------
    text
        Any value; None is the empty string.
    limit
        Characters to keep, at least 1; a longer text ends in an ellipsis.
    """
    if limit < 1:
        raise ValueError(f"limit={limit} must be at least 1, to leave room for the mark {CUT!r}")
    whole = "" if text is None else str(text)
    # Only the start of a string of many megabytes is searched: no more of it is shown.
    start = whole[: 8 * limit + 64]
    line = _NONCHARACTERS.sub("\ufffd", _DIRECTIONS.sub("", _CONTROLS.sub(" ", start))).strip()
    if len(line) > limit or len(whole) > len(start):
        line = line[: limit - 1].rstrip() + CUT
    return line


def plain(text: object, limit: int = LIMIT) -> str:
    """The text as Plotly shows it letter for letter: cleaned, escaped, and isolated if it runs from right to left.

    Parameters
    ----------
    text
        Any value; None is the empty string.
    limit
        Visible characters to keep, at least 1; the length of escapes and isolates is not counted.
    """
    return _escape(clean(text, limit))


def plain_lines(text: object, *, width: int = 60, limit: int = LIMIT) -> str:
    """As `plain`, in lines of at most `width` characters with `<br>` between them, for hover texts.

    Parameters
    ----------
    text
        Any value; None is the empty string.
    width
        Characters of a line.
    limit
        Visible characters to keep in all.
    """
    return "<br>".join(map(_escape, textwrap.wrap(clean(text, limit), width)))


def file_name(*parts: str) -> str:
    """A file name without ending, made of any strings: lower-case letters, digits, `-`, `_` and `.`; never a path.

    A part that had to be changed gets a checksum, so that two different strings do not share a name.

    Parameters
    ----------
    parts
        Strings to join with `-`; empty ones are left out.

    Examples
    --------
    >>> file_name("cloud", "minilm", "6")
    'cloud-minilm-6'
    >>> file_name("../../etc/passwd")
    'etc-passwd-df406b03'
    """
    return "-".join(filter(None, map(_file_part, parts)))


def unique_names(names: Iterable[str], pattern: str = "{}-{}") -> list[str]:
    """The names in order, numbered from 2 on if one was there before.

    Parameters
    ----------
    names
        The names.
    pattern
        How a name and its number are written.

    Examples
    --------
    >>> unique_names(["a", "b", "a"], "{} ({})")
    ['a', 'b', 'a (2)']
    """
    unique: list[str] = []
    for name in names:
        candidates = chain([name], (pattern.format(name, number) for number in count(2)))
        unique.append(next(candidate for candidate in candidates if candidate not in unique))
    return unique


def _escape(text: str) -> str:
    escaped = text.translate(_MARKUP)
    return f"{ISOLATE}{escaped}{END}" if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in text) else escaped


def _file_part(part: str) -> str:
    safe = re.sub(r"[^a-z0-9_.]+", "-", part[:200].lower()).strip("-.")[:40]
    return safe if safe == part else f"{safe}-{zlib.crc32(part.encode('utf-8', 'backslashreplace')):08x}".strip("-")
