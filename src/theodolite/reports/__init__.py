"""Reports: figures for a notebook, and any results as one page that needs no network."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.reports.displays.base import Display
    from theodolite.reports.displays.figures import displays_of
    from theodolite.reports.markdown import markdown_of
    from theodolite.reports.page import check_target, report_html, write_report
    from theodolite.reports.static import write_figures
    from theodolite.reports.tables import TableSpec

_MODULES = {
    "Display": "displays.base",
    "TableSpec": "tables",
    "check_target": "page",
    "displays_of": "displays.figures",
    "markdown_of": "markdown",
    "report_html": "page",
    "write_figures": "static",
    "write_report": "page",
}

__all__ = [
    "Display",
    "TableSpec",
    "check_target",
    "displays_of",
    "markdown_of",
    "report_html",
    "write_figures",
    "write_report",
]


def __getattr__(name: str) -> Any:
    # Names are imported when they are first used: Plotly and Jinja take half a second to load.
    if name not in _MODULES:
        raise AttributeError(f"module 'theodolite.reports' has no attribute {name!r}")
    return getattr(import_module(f"theodolite.reports.{_MODULES[name]}"), name)
