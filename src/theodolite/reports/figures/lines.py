"""Lines with markers and intervals, and how a measured number is said in a hover text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from theodolite.core.rows import Row
from theodolite.reports.figures.words import in_words
from theodolite.reports.look import DASHES, NAME, SYMBOLS, colours, faded
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Scatter


@dataclass(frozen=True, kw_only=True)
class Pen:
    """How a line is drawn, and what it is called (anybody's string)."""

    name: str
    colour: str
    symbol: str = SYMBOLS[0]
    dash: str = DASHES[0]
    width: float = 2.0
    legend: bool = True
    group: str = ""

    def silent(self, known: set[str]) -> Pen:
        """The same pen, left out of the legend where its name is among those known; it is known from then on."""
        seen = self.name in known
        known.add(self.name)
        return replace(self, legend=self.legend and not seen)


def pens(names: Sequence[str]) -> dict[str, Pen]:
    """A pen for each name: colour, symbol and dash all tell it. A name begins with a state, or is anybody's string."""
    chosen = colours(names)
    return {
        name: Pen(
            name=in_words(name),
            colour=chosen[name],
            symbol=SYMBOLS[i % len(SYMBOLS)],
            dash=DASHES[i // len(SYMBOLS) % len(DASHES)],
        )
        for i, name in enumerate(dict.fromkeys(names))
    }


def line(x: Sequence[Any], rows: Sequence[Row], pen: Pen, *, before: str = "", mode: str = "lines+markers") -> Scatter:
    """The rows' values over x with their intervals as bars. `before` is what a hover text says of x, as Plotly's template."""
    from plotly.graph_objects import Scatter

    return Scatter(
        x=list(x),
        y=[value_of(row) for row in rows],
        error_y=bars(rows, pen.colour),
        text=[said(row) for row in rows],
        hovertemplate=f"{before}%{{x}}: %{{text}}",
        mode=mode,
        **drawn(pen),
    )


def drawn(pen: Pen) -> dict[str, Any]:
    """A pen as the arguments of a Plotly trace."""
    return {
        "name": plain(pen.name, NAME),
        "legendgroup": plain(pen.group or pen.name, NAME),
        "showlegend": pen.legend,
        "line": {"color": pen.colour, "width": pen.width, "dash": pen.dash},
        "marker": {"color": pen.colour, "symbol": pen.symbol, "size": 7},
    }


def bars(rows: Sequence[Row], colour: str) -> dict[str, Any] | None:
    """The rows' intervals as error bars; None where no row has one."""
    if not any(_has_interval(row) for row in rows):
        return None
    up = [max(0.0, row.high - row.value) if row.high is not None and _has_interval(row) else 0.0 for row in rows]
    down = [max(0.0, row.value - row.low) if row.low is not None and _has_interval(row) else 0.0 for row in rows]
    # Paler than the line, so that bars of several lines at one place leave the lines to be seen.
    return {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "color": faded(colour),
        "thickness": 1.2,
        "width": 3,
    }


def value_of(row: Row) -> float | None:
    """The value, or None, a gap, where it is not finite."""
    return row.value if math.isfinite(row.value) else None


def said(row: Row) -> str:
    """`0.812 [0.79, 0.83], n = 1,500`, or why there is no number."""
    if not math.isfinite(row.value):
        return plain(row.reason or "not finite", 120)
    told = f"{row.value:.4g}"
    if _has_interval(row):
        told += f" [{row.low:.4g}, {row.high:.4g}]"
    return told if row.n is None else f"{told}, n = {row.n:,}"


def _has_interval(row: Row) -> bool:
    return all(one is not None and math.isfinite(one) for one in (row.low, row.high, row.value))
