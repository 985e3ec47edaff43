"""What every display is: numbers as a frame, and a plot of them, for a notebook and for the page alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure


@runtime_checkable
class Display(Protocol):
    """One thing to look at. `name` is a file name without ending, `title` a heading, `note` tells how to read it."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def note(self) -> str: ...

    def frame(self) -> pd.DataFrame:
        """The plotted numbers, one line each."""

    def plot(self) -> Figure:
        """The plot, for a notebook (`.show()`) or a file (`.write_image`)."""
