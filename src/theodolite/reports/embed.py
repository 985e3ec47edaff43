"""What makes a page safe to open: data that cannot end its element, and scripts and styles known by their hashes."""

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
    """JSON that is only ever data inside a page."""
    return escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def escaped(text: str) -> str:
    """JSON text, made safe to stand inside a `<script>` element; lone surrogates, which are no UTF-8, become question marks."""
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode("utf-8")


def joined(folder: str, ending: str) -> str:
    """The files of one kind, in the order of their names."""
    files = sorted((ASSETS / folder).glob(f"*.{ending}"))
    return "\n".join(file.read_text(encoding="utf-8").strip() for file in files) + "\n"


@functools.cache
def script() -> str:
    """All scripts of the page but Plotly, in one scope of their own."""
    return '"use strict";\n(() => {\n' + joined("script", "js") + "})();\n"


@functools.cache
def plotly() -> str:
    """Plotly's own JavaScript, as its package brings it."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    if "</script" in text.lower():
        raise ValueError("this version of Plotly cannot be written into a page: its JavaScript holds an end tag")
    return text


def source_of(text: str) -> str:
    """The hash by which a policy lets exactly this text run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def policy(scripts: list[str], styles: list[str], nonce: str) -> str:
    """A Content-Security-Policy: nothing is loaded, nothing is sent, and only these scripts and styles are used.

    The nonce is for the style elements that Plotly makes as it draws.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(source_of, scripts))}",
            f"style-src {' '.join(map(source_of, styles))} 'nonce-{nonce}'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
