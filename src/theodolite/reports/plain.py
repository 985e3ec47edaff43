"""Anybody's string as plain text inside a plot: nothing in it is markup, none of it is endless, and it stays on its own side.

Plotly renders a small part of HTML in whatever it writes: titles, ticks, legends, hover texts. So every token, sentence, label
or name that somebody else wrote goes through `plain` before it gets there; fixed words of ours do not need to.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

LIMIT = 300
"""Characters that are kept of a string by default."""
CUT = "…"
ISOLATE, END = "\u2068", "\u2069"
"""FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE: what runs from right to left between them moves nothing around it."""

# Marks, embeddings, overrides and isolates: a text's own could end the isolate around it. The byte order mark shows nothing.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Halves of surrogate pairs cannot be written as UTF-8, and these are promised never to be characters.
_NO_CHARACTERS = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
# A dollar sign opens mathematics where MathJax is on the page.
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})


def clean(text: object, limit: int = LIMIT) -> str:
    """The text without control characters and direction marks, in one line of at most `limit` characters; not escaped."""
    if limit < 1:
        raise ValueError(f"limit={limit} must be at least 1: no string is cut to less than its mark {CUT!r}")
    whole = "" if text is None else str(text)
    # A string of many megabytes is not searched to its end for the few characters that are shown.
    kept = whole[: 8 * limit + 64]
    kept = _NO_CHARACTERS.sub("\ufffd", _DIRECTIONS.sub("", _CONTROLS.sub(" ", kept))).strip()
    if len(kept) > limit or len(whole) > 8 * limit + 64:
        kept = kept[: limit - 1].rstrip() + CUT
    return kept


def plain(text: object, limit: int = LIMIT) -> str:
    """The text as Plotly shows it letter for letter: cleaned, cut at `limit`, isolated where it runs right to left, escaped.

    `limit` counts characters that are shown: neither what an escaped one takes nor the isolate around the text.
    """
    return _shown(clean(text, limit))


def wrapped(text: object, *, width: int = 60, limit: int = LIMIT) -> str:
    """As `plain`, in lines of at most `width` characters with `<br>` between, for hover texts."""
    return "<br>".join(_shown(line) for line in textwrap.wrap(clean(text, limit), width)) or ""


def _shown(text: str) -> str:
    escaped = text.translate(_MARKUP)
    return f"{ISOLATE}{escaped}{END}" if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in text) else escaped
