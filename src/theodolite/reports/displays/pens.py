"""Pens: the colour, symbol and dash of every line and dot, so that a state looks the same in all figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from theodolite.core.rows import Row
from theodolite.core.states import state_order, state_title
from theodolite.reports.plain_text import plain
from theodolite.reports.theme import DASHES, GREY, NAME, PALETTE, SYMBOLS, colours_of, ramp_colours

NAMED_LABELS = 3
"""Labels that are named of those that grow most, and of those that grow least."""
Series: TypeAlias = Mapping[str, Sequence[Row]]
"""Rows by the name of their line."""


@dataclass(frozen=True, kw_only=True)
class Pen:
    """How a series is drawn, and what the legend calls it; the name may be a string from the data."""

    name: str
    colour: str
    symbol: str = SYMBOLS[0]
    dash: str = DASHES[0]
    width: float = 2.0

    def style(self) -> dict[str, Any]:
        """The pen as arguments of a Plotly trace."""
        return {
            "name": plain(self.name, NAME),
            "legendgroup": plain(self.name, NAME),
            "line": {"color": self.colour, "width": self.width, "dash": self.dash},
            "marker": {"color": self.colour, "symbol": self.symbol, "size": 7},
        }


def state_pens(names: Iterable[str]) -> dict[str, Pen]:
    """A pen for each name, states first and in their order; colour, symbol and dash all tell it apart.

    Parameters
    ----------
    names
        Names of series. One that begins with a state has the state's colour and title.
    """
    # A stable sort: names that are not states stay in the order they came.
    ordered = sorted(dict.fromkeys(names), key=lambda name: state_order(name.partition(",")[0]))
    colours = colours_of(ordered)
    return {
        name: Pen(
            name=state_title(name),
            colour=colours[name],
            symbol=SYMBOLS[i % len(SYMBOLS)],
            dash=DASHES[i // len(SYMBOLS) % len(DASHES)],
        )
        for i, name in enumerate(ordered)
    }


def unit_pens(lines: Series) -> dict[str, Pen]:
    """A state keeps its colour; its [CLS] is dotted, with open symbols."""
    # Without its unit, a name is that of its state (and step), which chooses the colour.
    bases = {name: name.replace(", [CLS]", "").replace(", tokens", "") for name in lines}
    pens = state_pens(bases.values())
    order = list(pens)
    units: dict[str, Pen] = {}
    for name in sorted(lines, key=lambda name: order.index(bases[name])):
        pen = replace(pens[bases[name]], name=state_title(name))
        units[name] = replace(pen, dash="dot", symbol=f"{pen.symbol}-open") if "[CLS]" in name else pen
    return units


def growth_pens(lines: Series) -> dict[str, Pen]:
    """Pens for the labels that grow most and least, and for the mean of all labels."""
    growth = {name: rows[-1].value - rows[0].value for name, rows in lines.items() if rows[0].label}
    # A label without a number at one end has no growth, and is not named.
    ordered = sorted((name for name in growth if not math.isnan(growth[name])), key=lambda name: -growth[name])
    extremes = ordered if len(ordered) <= 2 * NAMED_LABELS else [*ordered[:NAMED_LABELS], *ordered[-NAMED_LABELS:]]
    pens = {
        name: Pen(name=name, colour=PALETTE[i], symbol=SYMBOLS[i], dash="solid" if i < NAMED_LABELS else "dot")
        for i, name in enumerate(extremes)
    }
    return pens | {name: Pen(name=name, colour=GREY, dash="dash", width=3) for name in lines if not lines[name][0].label}


def ramp_pens(lines: Series) -> dict[str, Pen]:
    """Pens for layers: low ones are blue, high ones orange."""
    ordered = sorted(lines, key=lambda name: lines[name][0].layer or 0)
    return {
        name: Pen(name=name, colour=colour, symbol=SYMBOLS[i % len(SYMBOLS)], width=1.8)
        for i, (name, colour) in enumerate(zip(ordered, ramp_colours(len(lines)), strict=True))
    }
