"""What makes a page safe to open: data that cannot end its element, and scripts and styles that are known by their hashes."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parent / "assets"
# All that could end a <script> element or a line of JavaScript is written as an escape, which JSON reads back as the same letter.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def json_for_page(value: Any) -> str:
    """A value as JSON that is safe inside a `<script>` element.

    Parameters
    ----------
    value
        Plain values without nan or infinity. Lone surrogates, which UTF-8 does not have, become question marks.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode("utf-8")


@functools.cache
def page_style() -> str:
    """The style sheets of the page, in the order of their names."""
    return _joined("style", "css")


@functools.cache
def page_script() -> str:
    """All scripts of the page but Plotly, in one scope of their own."""
    return '"use strict";\n(() => {\n' + _joined("script", "js") + "})();\n"


@functools.cache
def plotly_script() -> str:
    """Plotly's own JavaScript, as its package brings it."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    if "</script" in text.lower():
        raise ValueError("this version of Plotly cannot be written into a page: its JavaScript contains an end tag")
    return text


def content_policy(scripts: list[str], styles: list[str], nonce: str) -> str:
    """A Content-Security-Policy: nothing is loaded, nothing is sent, and only these scripts and styles are used.

    Parameters
    ----------
    scripts, styles
        The texts that may run and apply.
    nonce
        For the style elements that Plotly makes while it draws.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash_source, scripts))}",
            f"style-src {' '.join(map(_hash_source, styles))} 'nonce-{nonce}'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _joined(folder: str, ending: str) -> str:
    files = sorted((ASSETS / folder).glob(f"*.{ending}"))
    return "\n".join(file.read_text(encoding="utf-8").strip() for file in files) + "\n"


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
