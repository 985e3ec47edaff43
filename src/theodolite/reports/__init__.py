"""The report: displays for a notebook, and any run as one page that needs no network."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.reports.display import Display
    from theodolite.reports.displays import displays_of
    from theodolite.reports.figure_files import write_figures
    from theodolite.reports.page import report_html, write_report
    from theodolite.reports.run_folder import RunData, read_run

_HOME = {
    "Display": "display",
    "RunData": "run_folder",
    "displays_of": "displays",
    "read_run": "run_folder",
    "report_html": "page",
    "write_figures": "figure_files",
    "write_report": "page",
}

__all__ = ["Display", "RunData", "displays_of", "read_run", "report_html", "write_figures", "write_report"]


def __getattr__(name: str) -> Any:
    # Names are fetched when first used: Plotly and Jinja take half a second to load.
    if name not in _HOME:
        raise AttributeError(f"module 'theodolite.reports' has no attribute {name!r}")
    return getattr(import_module(f"theodolite.reports.{_HOME[name]}"), name)
