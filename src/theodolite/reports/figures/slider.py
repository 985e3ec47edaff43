"""A slider over training steps or layers: one frame a place, and buttons that play them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from theodolite.reports.look import AXIS, GRID, PALETTE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BELOW = 150
"""Pixels that slider and buttons take below a plot."""


def with_slider(figure: Figure, places: Sequence[int], frames: Sequence[Any], *, what: str, start: int) -> Figure:
    """Give a figure a slider: `frames[i]` is what it shows at `places[i]`; it opens at index `start`."""
    names = [str(place) for place in places]
    figure.frames = [frame.update(name=name) for frame, name in zip(frames, names, strict=True)]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    running = {"fromcurrent": True, "frame": {"duration": 350, "redraw": True}, "transition": {"duration": 0}}
    figure.update_layout(
        sliders=[
            {
                "active": start,
                "steps": [{"label": name, "method": "animate", "args": [[name], at_once]} for name in names],
                "currentvalue": {"prefix": f"{what} ", "xanchor": "left", "font": {"size": 13}},
                "x": 0,
                "len": 1,
                "pad": {"t": 50, "b": 0},
                "ticklen": 3,
                "minorticklen": 2,
                "font": {"size": 11},
                "bgcolor": GRID,
                "bordercolor": GRID,
                "activebgcolor": PALETTE[0],
                "tickcolor": AXIS,
            }
        ],
        updatemenus=[
            {
                "type": "buttons",
                "direction": "left",
                "showactive": False,
                "bgcolor": "rgba(0,0,0,0)",
                "bordercolor": AXIS,
                "x": 1,
                "xanchor": "right",
                "y": 0,
                "yanchor": "top",
                "pad": {"t": 44, "r": 0},
                "font": {"size": 11},
                "buttons": [
                    {"label": "▶", "method": "animate", "args": [None, running]},
                    {"label": "❚❚", "method": "animate", "args": [[None], at_once]},
                ],
            }
        ],
        margin_b=BELOW - 20,
    )
    return figure


def without_slider(figure: Figure) -> Figure:
    """The figure as it opens, without its controls, and with the place they show written on it: for paper."""
    if not figure.layout.sliders:
        return figure
    slider = figure.layout.sliders[0]
    shown = f"{slider.currentvalue.prefix}{slider.steps[slider.active].label}"
    figure.layout.sliders, figure.layout.updatemenus, figure.frames = (), (), ()
    figure.add_annotation(text=shown, xref="paper", yref="paper", x=1, y=1, xanchor="right", yanchor="bottom", showarrow=False)
    return figure.update_layout(margin_b=None, height=figure.layout.height - BELOW)
