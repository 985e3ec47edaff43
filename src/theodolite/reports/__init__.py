"""Reports: a result as text, in a notebook, as figures, and as one page that needs no network."""

from theodolite.reports.figures import displays_of

__all__ = ["displays_of"]
