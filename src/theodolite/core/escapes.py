"""Text from outside, as it may be shown: no control character reaches a terminal, a log or a line of JSON."""

from __future__ import annotations

import re


def visible(text: str) -> str:
    r"""The text on one line, with everything that could steer a terminal replaced by a visible sign.

    Examples
    --------
    >>> visible("a\x1b[31mb [tag]")
    'a�[31mb [tag]'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def plain_json(document: str) -> str:
    """A JSON document with control characters, and halves of surrogates, written as escapes."""
    return re.sub("[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", document)
