"""The full HTML page of every study, built from its committed records into `reports/` of the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write(app: Any, error: Exception | None) -> None:
    """Write the pages when the rest of the site is built."""
    if error is not None or app.builder.format != "html":
        return
    from study_pages import html_pages  # in benchmarks/

    folder = Path(app.outdir) / "reports"
    folder.mkdir(exist_ok=True)
    for name, text in html_pages():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
