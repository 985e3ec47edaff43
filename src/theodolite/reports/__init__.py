"""Reports: a result as text, in a notebook, as figures, and as one page that needs no network."""

from typing import Any

__all__ = ["displays_of"]


def __getattr__(name: str) -> Any:
    # Fetched when first used: printing a table in a terminal needs none of the figures.
    if name != "displays_of":
        raise AttributeError(f"module 'theodolite.reports' has no attribute {name!r}")
    from theodolite.reports.figures import displays_of

    return displays_of
