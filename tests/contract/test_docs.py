"""The reference pages are what the registries say.

`THEODOLITE_WRITE_DOCS=1 pytest tests/contract/test_docs.py` writes them anew.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

from theodolite.metrics import METRICS
from theodolite.repairs import REPAIRS

DOCS = Path(__file__).parents[2] / "docs"

NEEDS = {
    "sums": "one pass",
    "moments": "one pass",
    "second pass": "two or three passes",
    "sample": "a seeded sample of 10,000 rows, or all",
    "pairs": "two inputs",
    "reference": "a reference covariance",
}


def metrics_page() -> str:
    lines = [
        "# Metrics",
        "",
        "Every metric is a function in `theodolite.metrics` and a name for `theodolite survey --metrics`. `theodolite survey`",
        "measures all that need no second input. What a metric reads is in the last column. Where a metric has no meaning it is",
        "`nan`, with a reason.",
        "",
        "| metric | what it is | range | source | reads |",
        "|---|---|---|---|---|",
    ]
    for name, entry in METRICS.items():
        lines.append(f"| `{name}` | {entry.summary} | {entry.range} | {entry.paper or '—'} | {NEEDS[entry.needs]} |")
    return "\n".join(lines) + "\n"


def repairs_page() -> str:
    lines = [
        "# Repairs",
        "",
        "Every repair is a scikit-learn transformer in `theodolite.repairs` and a name for `theodolite repair fit`. It is",
        "fitted on one set of vectors and applied to any other: documents and queries must go through the same one. Repairs lift",
        "pre-trained spaces and often hurt fine-tuned ones (RP21): measure the task score before keeping one.",
        "",
        "| name | class | what it does | parameters |",
        "|---|---|---|---|",
    ]
    for name, kind in REPAIRS.items():
        summary = (inspect.getdoc(kind) or "").partition("\n")[0]
        parameters = ", ".join(f"`{key}={value!r}`" for key, value in kind().get_params().items()) or "—"
        lines.append(f"| `{name}` | `{kind.__name__}` | {summary} | {parameters} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("name", "page"), [("metrics.md", metrics_page), ("repairs.md", repairs_page)])
def test_the_page_is_what_the_registry_says(name: str, page: object) -> None:
    text = page()  # type: ignore[operator]
    if os.environ.get("THEODOLITE_WRITE_DOCS"):
        (DOCS / name).write_text(text, encoding="utf-8")
    assert (DOCS / name).read_text(encoding="utf-8") == text
