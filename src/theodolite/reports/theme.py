"""How all figures look: one palette and one layout, for paper, for a light page and for a dark one.

Backgrounds are transparent, so that a page's own shows through. The colours of lines and letters have a contrast of at least 3
against white and against near-black, and stay apart for readers with red-green blindness; lines also differ in marker and dash.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from theodolite.core.states import COSREG, FINE_TUNED, ISOBN, ISOLAYER, ISTAR, PRE_TRAINED
from theodolite.reports.plain_text import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Theme: TypeAlias = Literal["any", "light", "dark", "paper"]
"""`any` can be read on light and dark; the others are for one background, and `paper` brings its own white."""

PALETTE = ("#2f72c4", "#d55e00", "#0f9b76", "#b5569b", "#8d5a4c", "#3a9cc2")
CLASS_COLOURS = (*PALETTE, "#c39b16", "#5f8f2f", "#d9708f", "#6c63c9", "#4b868c", "#c0453a")
"""For the classes of a cloud's points, which are too small to be told apart by symbols alone."""
COLOURED_STATES = (PRE_TRAINED, FINE_TUNED, ISOLAYER, ISOBN, COSREG, ISTAR)
"""States that have the same colour in every figure, in the order of the palette."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#7b7d80"
"""For references, and for letters if the background is not known."""
RAMP = ("#3d5fc0", "#7d5cb8", "#b5569b", "#d1605f", "#d87a2a")
"""From few to many, early to late: blue to orange, each step lighter than the one before."""
CELL_SCALE = "Cividis"
"""For heat maps: even in lightness, and the same to all eyes."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
INK: dict[Theme, str] = {"any": GREY, "light": "#33373d", "dark": "#c9cdd3", "paper": "#1d2025"}
GRID = "rgba(128,132,140,0.22)"
AXIS = "rgba(128,132,140,0.65)"
CLEAR = "rgba(0,0,0,0)"
NAME = 40
"""Characters of a name on an axis, in a legend or above a panel."""


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name: the first name of a known state has the state's colour, the others share what is left.

    Parameters
    ----------
    names
        Names of series; one that begins with a state, such as `fine-tuned, tokens`, is of that state.
    """
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
    return layout.Template(
        layout={
            "font": {"family": FONT, "size": 12, "color": INK[theme]},
            "paper_bgcolor": ground,
            "plot_bgcolor": ground,
            "colorway": list(PALETTE),
            "xaxis": axis,
            "yaxis": axis,
            "scene": {"xaxis": scene_axis, "yaxis": scene_axis, "zaxis": scene_axis},
            "legend": {"bgcolor": CLEAR, "tracegroupgap": 0},
            "hoverlabel": {"align": "left", "namelength": NAME, "font": {"family": FONT, "size": 12}},
            "title": {"x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 15}},
            "margin": {"l": 64, "r": 16, "t": 28, "b": 48},
            "coloraxis": {"colorbar": {"outlinewidth": 0, "thickness": 12}},
            # Without colours of its own, the bar of buttons would be black on a transparent ground.
            "modebar": {"bgcolor": CLEAR, "color": AXIS, "activecolor": INK[theme]},
        }
    )


def panel_grid(titles: Sequence[str], *, columns: int = 3, height: int = 340, shared_y: bool = False, **options: Any) -> Figure:
    """A figure of panels in the shared layout, its legend below everything else.

    Parameters
    ----------
    titles
        One title per panel, shown above it; they may be strings from the data.
    columns
        Panels side by side at most.
    height
        Height of one panel in pixels.
    shared_y
        Whether all panels have one vertical axis.
    options
        Further options of Plotly's `make_subplots`.
    """
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


def _ramp_colour(share: float) -> str:
    place = share * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    first, second = (_channels(RAMP[i]) for i in (low, low + 1))
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in zip(first, second, strict=True))


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
