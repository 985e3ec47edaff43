"""How all figures look: one palette, one layout and the pens of every line, for paper, for a light page and for a dark one.

Backgrounds are transparent, so that a page's own shows through. The colours of lines and letters have a contrast of at least 3
against white and against near-black, and stay apart for readers with red-green blindness; lines also differ in marker and dash.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from theodolite.core.rows import Row
from theodolite.core.states import COSREG, FINE_TUNED, ISOBN, ISOLAYER, ISTAR, PRE_TRAINED, state_order, state_title
from theodolite.reports.wording import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Box, Figure, Scatter

# `any` can be read on light and dark; the others are for one background, and `paper` brings its own white.
Theme: TypeAlias = Literal["any", "light", "dark", "paper"]
# x, y and hover text.
Point: TypeAlias = tuple[Any, Any, str]
# Rows by the name of their line.
Series: TypeAlias = Mapping[str, Sequence[Row]]

PALETTE = ("#2f72c4", "#d55e00", "#0f9b76", "#b5569b", "#8d5a4c", "#3a9cc2")
# For the classes of a cloud's points, which are too small to be told apart by symbols alone.
CLASS_COLOURS = (*PALETTE, "#c39b16", "#5f8f2f", "#d9708f", "#6c63c9", "#4b868c", "#c0453a")
# States that have the same colour in every figure, in the order of the palette.
COLOURED_STATES = (PRE_TRAINED, FINE_TUNED, ISOLAYER, ISOBN, COSREG, ISTAR)
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot")
# For references, and for letters if the background is not known.
GREY = "#7b7d80"
# From few to many, early to late: blue to orange, each step lighter than the one before.
RAMP = ("#3d5fc0", "#7d5cb8", "#b5569b", "#d1605f", "#d87a2a")
# For heat maps: even in lightness, and the same to all eyes.
CELL_SCALE = "Cividis"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
INK: dict[Theme, str] = {"any": GREY, "light": "#33373d", "dark": "#c9cdd3", "paper": "#1d2025"}
GRID = "rgba(128,132,140,0.22)"
AXIS = "rgba(128,132,140,0.65)"
CLEAR = "rgba(0,0,0,0)"
# Characters of a name on an axis, in a legend or above a panel.
NAME = 40
# Labels that are named of those that grow most, and of those that grow least.
NAMED_LABELS = 3
# Lines that show what chance alone gives: always answering the most frequent label, shuffled labels, pairs of any cosine.
ALL_PAIRS = "matches among all pairs"
CHANCE = ("most frequent label", "shuffled labels", ALL_PAIRS)


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name: the first name of a known state has the state's colour, the others share what is left."""
    unique = list(dict.fromkeys(names))
    colours: dict[str, str] = {}
    for name in unique:
        state = name.partition(",")[0]
        if state in COLOURED_STATES and PALETTE[COLOURED_STATES.index(state)] not in colours.values():
            colours[name] = PALETTE[COLOURED_STATES.index(state)]
    # A colour that stands for a state means nothing else in the same figure, unless there are more names than colours.
    free = [colour for colour in PALETTE if colour not in colours.values()] or list(PALETTE)
    others = [name for name in unique if name not in colours]
    return colours | {name: free[i % len(free)] for i, name in enumerate(others)}


def ramp_colours(count: int) -> list[str]:
    """`count` colours, evenly spaced from the start of the ramp to its end."""
    return [_ramp_colour(i / (count - 1) if count > 1 else 0.0) for i in range(count)]


def faded(colour: str, strength: float = 0.55) -> str:
    """A colour of the palette with an opacity, for what must not hide the lines behind it."""
    return f"rgba({','.join(map(str, _channels(colour)))},{strength})"


def ramp_scale() -> list[list[Any]]:
    """The ramp as Plotly takes a continuous colour scale."""
    return [[i / (len(RAMP) - 1), colour] for i, colour in enumerate(RAMP)]


def template(theme: Theme = "any") -> Any:
    """The layout template that all figures share, for one background."""
    from plotly.graph_objects import layout

    ground = "#ffffff" if theme == "paper" else CLEAR
    axis = {
        "showgrid": True, "gridcolor": GRID, "zeroline": False, "showline": True, "linecolor": AXIS, "ticks": "outside",
        "ticklen": 4, "tickcolor": AXIS, "automargin": True, "title": {"standoff": 8, "font": {"size": 13}},
    }  # fmt: skip
    # WebGL does not draw a faint line on a transparent ground at all, so the lines of a scene are solid.
    scene_axis = {
        "showbackground": False, "gridcolor": "#9a9da3", "linecolor": GREY, "zeroline": False, "showspikes": False, "nticks": 5,
    }  # fmt: skip
    shared = {
        "font": {"family": FONT, "size": 12, "color": INK[theme]}, "paper_bgcolor": ground, "plot_bgcolor": ground,
        "colorway": list(PALETTE), "xaxis": axis, "yaxis": axis, "legend": {"bgcolor": CLEAR, "tracegroupgap": 0},
        "scene": {"xaxis": scene_axis, "yaxis": scene_axis, "zaxis": scene_axis}, "margin": {"l": 64, "r": 16, "t": 28, "b": 48},
        "hoverlabel": {"align": "left", "namelength": NAME, "font": {"family": FONT, "size": 12}},
        "title": {"x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 15}},
        "coloraxis": {"colorbar": {"outlinewidth": 0, "thickness": 12}},
        # Without colours of its own, the bar of buttons would be black on a transparent ground.
        "modebar": {"bgcolor": CLEAR, "color": AXIS, "activecolor": INK[theme]},
    }  # fmt: skip
    return layout.Template(layout=shared)


def panel_grid(titles: Sequence[str], *, columns: int = 3, height: int = 340, shared_y: bool = False, **options: Any) -> Figure:
    """A figure of panels in the shared layout, its legend below everything else."""
    from plotly.subplots import make_subplots

    wide = min(columns, max(1, len(titles)))
    deep = max(1, math.ceil(len(titles) / wide))
    options = {"horizontal_spacing": 0.07 if shared_y else 0.11, "vertical_spacing": 0.26 / deep, **options}
    texts = [plain(title, NAME) for title in titles] if any(titles) else None
    figure = make_subplots(rows=deep, cols=wide, subplot_titles=texts, shared_yaxes="all" if shared_y else False, **options)
    figure.update_annotations(font_size=13)
    below = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "xref": "paper", "x": 0, "xanchor": "left"}
    return figure.update_layout(template=template(), height=height * deep + 60, legend=below)


def panel_position(index: int, columns: int) -> dict[str, int]:
    """Row and column, from 1, of the panel with this index, from 0, as Plotly's `row` and `col`."""
    return {"row": index // columns + 1, "col": index % columns + 1}


@dataclass(frozen=True, kw_only=True)
class Pen:
    """How a series is drawn, and what the legend calls it; the name may be a string from the data."""

    name: str
    colour: str
    symbol: str = SYMBOLS[0]
    dash: str = DASHES[0]
    width: float = 2.0

    def draw(self, points: Sequence[Point], *, hover: str = "%{x}: %{text}", **options: Any) -> Scatter:
        """Points joined by a line."""
        from plotly.graph_objects import Scatter

        x, y, text = zip(*points, strict=True) if points else ((), (), ())
        data = {"x": x, "y": y, "text": text if any(text) else None, "hovertemplate": hover, "mode": "lines+markers"}
        name = plain(self.name, NAME)
        line = {"color": self.colour, "width": self.width, "dash": self.dash}
        marker = {"color": self.colour, "symbol": self.symbol, "size": 7}
        return Scatter(**{**data, "name": name, "legendgroup": name, "line": line, "marker": marker, **options})

    def draw_together(self, lines: Iterable[Sequence[Point]], **options: Any) -> Scatter:
        """Several lines as one trace with gaps between them, which draws much faster than one trace each."""
        return self.draw([point for line in lines for point in (*line, (None, None, ""))], **{"mode": "lines", **options})

    def draw_boxes(self, points: Sequence[Point], *, hover: str) -> Box:
        """Points with a box around those at each x."""
        from plotly.graph_objects import Box

        x, y, text = zip(*points, strict=True)
        dots = {"boxpoints": "all", "jitter": 0.5, "pointpos": 0, "marker": {"color": self.colour, "size": 5}}
        outline = {"line": {"color": faded(self.colour), "width": 1.2}, "fillcolor": CLEAR, "showlegend": False}
        return Box(x=x, y=y, text=text, hovertemplate=hover, **dots, **outline)


def state_pens(names: Iterable[str]) -> dict[str, Pen]:
    """A pen for each name, states first and in their order; colour, symbol and dash all tell it apart."""
    # A stable sort: names that are not states stay in the order they came.
    ordered = sorted(dict.fromkeys(names), key=state_order)
    colours = colours_of(ordered)
    pens: dict[str, Pen] = {}
    for i, name in enumerate(ordered):
        symbol, dash = SYMBOLS[i % len(SYMBOLS)], DASHES[i // len(SYMBOLS) % len(DASHES)]
        pens[name] = Pen(name=state_title(name), colour=colours[name], symbol=symbol, dash=dash)
    return pens


def chance_pens(lines: Series) -> dict[str, Pen]:
    """As `state_pens`, with what the others are compared with in grey and dashed."""
    grey = {name: Pen(name=name, colour=GREY, dash="dash", symbol="circle-open", width=1.5) for name in lines if name in CHANCE}
    return state_pens(name for name in lines if name not in CHANCE) | grey


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


def tick_step(count: int) -> int:
    """The step between the ticks of an axis of `count` whole numbers: 1 unless there are too many to name each."""
    return 1 + count // 15


def _ramp_colour(share: float) -> str:
    position = share * (len(RAMP) - 1)
    low = min(int(position), len(RAMP) - 2)
    first, second = (_channels(RAMP[i]) for i in (low, low + 1))
    return "#" + "".join(f"{round(a + (b - a) * (position - low)):02x}" for a, b in zip(first, second, strict=True))


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
