"""How all displays look: one palette, one layout, on paper, on a light page and on a dark one.

Backgrounds are transparent, so that a page's own shows through; colours of lines and letters stand out against white and against
near-black alike (a contrast of 3 at least), and stay apart for readers with red-green blindness. A line is told by its marker and
dash too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Theme: TypeAlias = Literal["any", "light", "dark", "paper"]
"""`any` can be read on light and dark; the others are for one background, `paper` brings its own white."""

PALETTE = ("#2f72c4", "#d55e00", "#0f9b76", "#b5569b", "#8d5a4c", "#3a9cc2")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#7b7d80"
"""What is there to compare with, and letters where the background is not known."""
RAMP = ("#3d5fc0", "#7d5cb8", "#b5569b", "#d1605f", "#d87a2a")
"""From few to many, early to late: blue to orange, each step lighter than the last."""
CELLS = "Cividis"
"""For cells that hide the background: even in lightness, the same to all eyes."""
STATES = ("pre-trained", "fine-tuned", "isolayer", "isobn")
"""States that have a colour of their own in every display, in the order of the palette."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
INK: dict[Theme, str] = {"any": GREY, "light": "#33373d", "dark": "#c9cdd3", "paper": "#1d2025"}
GRID = "rgba(128,132,140,0.22)"
AXIS = "rgba(128,132,140,0.65)"
NAME = 40
"""Characters of a name on an axis, in a legend or above a panel."""


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name: the first of a known state (`fine-tuned, tokens`) has the state's, others what is left."""
    wanted = list(dict.fromkeys(names))
    own: dict[str, str] = {}
    for name in wanted:
        state = name.partition(",")[0]
        if state in STATES and PALETTE[STATES.index(state)] not in own.values():
            own[name] = PALETTE[STATES.index(state)]
    free = [each for each in PALETTE if each not in own.values()] or list(PALETTE)
    others = [name for name in wanted if name not in own]
    return own | {name: free[i % len(free)] for i, name in enumerate(others)}


def ramp(count: int) -> list[str]:
    """`count` colours from the beginning of the ramp to its end."""
    return [_between(i / (count - 1) if count > 1 else 0.0) for i in range(count)]


def faded(colour: str, strength: float = 0.55) -> str:
    """A colour of the palette that lets what is behind it through."""
    return f"rgba({','.join(map(str, _channels(colour)))},{strength})"


def scale() -> list[list[Any]]:
    """The ramp as Plotly takes a continuous colour scale."""
    return [[i / (len(RAMP) - 1), colour] for i, colour in enumerate(RAMP)]


def template(theme: Theme = "any") -> Any:
    """The layout that all displays share."""
    from plotly.graph_objects import layout

    ink = INK[theme]
    ground = "#ffffff" if theme == "paper" else "rgba(0,0,0,0)"
    axis = {
        "showgrid": True, "gridcolor": GRID, "zeroline": False, "showline": True, "linecolor": AXIS, "ticks": "outside",
        "ticklen": 4, "tickcolor": AXIS, "automargin": True, "title": {"standoff": 8, "font": {"size": 13}},
    }  # fmt: skip
    # WebGL draws a faint line on a transparent ground as none, so these are not faint.
    solid = {
        "showbackground": False,
        "gridcolor": "#9a9da3",
        "linecolor": GREY,
        "zeroline": False,
        "showspikes": False,
        "nticks": 5,
    }
    return layout.Template(
        layout={
            "font": {"family": FONT, "size": 12, "color": ink},
            "paper_bgcolor": ground,
            "plot_bgcolor": ground,
            "colorway": list(PALETTE),
            "xaxis": axis,
            "yaxis": axis,
            "scene": {"xaxis": solid, "yaxis": solid, "zaxis": solid},
            "legend": {"bgcolor": "rgba(0,0,0,0)", "tracegroupgap": 0},
            "hoverlabel": {"align": "left", "namelength": NAME, "font": {"family": FONT, "size": 12}},
            "title": {"x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 15}},
            "margin": {"l": 64, "r": 16, "t": 28, "b": 48},
            "coloraxis": {"colorbar": {"outlinewidth": 0, "thickness": 12}},
        }
    )


def panels(titles: Sequence[str], *, columns: int = 3, height: int = 340, shared_y: bool = False, **options: Any) -> Figure:
    """A figure of panels in rows of at most `columns`, each `height` pixels high, with `titles` (anybody's) above them."""
    from plotly.subplots import make_subplots

    wide = min(columns, max(1, len(titles)))
    deep = max(1, math.ceil(len(titles) / wide))
    shown = [plain(title, NAME) for title in titles] if len(titles) > 1 or any(titles) else None
    options = {"horizontal_spacing": 0.07 if shared_y else 0.11, "vertical_spacing": 0.26 / deep, **options}
    figure = make_subplots(rows=deep, cols=wide, subplot_titles=shown, shared_yaxes="all" if shared_y else False, **options)
    figure.update_annotations(font_size=13)
    return dressed(figure, height=height * deep + 60)


def place(index: int, columns: int) -> dict[str, int]:
    """Row and column of the panel with this index, from 0."""
    return {"row": index // columns + 1, "col": index % columns + 1}


def dressed(figure: Figure, *, height: int, theme: Theme = "any") -> Figure:
    """The figure in the shared layout, its legend below everything else."""
    below = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "xref": "paper", "x": 0, "xanchor": "left"}
    return figure.update_layout(template=template(theme), height=height, legend=below)


def _between(at: float) -> str:
    place = at * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    first, second = (_channels(RAMP[i]) for i in (low, low + 1))
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in zip(first, second, strict=True))


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
