"""Parts that figures are drawn with: lines, error bars and hover texts of rows, the legend, and the slider."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.rows import Row
from theodolite.reports.displays.pens import Pen
from theodolite.reports.plain_text import plain
from theodolite.reports.theme import AXIS, CLEAR, GRID, PALETTE, faded

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

SLIDER_HEIGHT = 150
"""Pixels that slider and buttons take below a plot."""
Point: TypeAlias = tuple[Any, Any, str]
"""x, y and hover text."""
Changes: TypeAlias = Mapping[str, Any]
"""Arguments of a trace that differ from one position of a slider to the next."""


def line_trace(points: Sequence[Point], pen: Pen, *, hover: str = "%{x}: %{text}", **options: Any) -> Scatter:
    """Points joined by a line.

    Parameters
    ----------
    points
        x, y and hover text of each point; None as y leaves a gap.
    pen
        How the line is drawn.
    hover
        Plotly's template of a hover text.
    options
        Further arguments of the trace; they win over those of the pen.
    """
    from plotly.graph_objects import Scatter

    x, y, text = zip(*points, strict=True) if points else ((), (), ())
    data = {"x": x, "y": y, "text": text if any(text) else None, "hovertemplate": hover, "mode": "lines+markers"}
    return Scatter(**{**data, **pen.style(), **options})


def joined_trace(lines: Iterable[Sequence[Point]], pen: Pen, **options: Any) -> Scatter:
    """Several lines as one trace with gaps between them, which draws much faster than one trace each.

    Parameters
    ----------
    lines
        The points of each line.
    pen, options
        As for `line_trace`.
    """
    return line_trace([point for line in lines for point in (*line, (None, None, ""))], pen, **{"mode": "lines", **options})


def error_bars(rows: Sequence[Row], colour: str) -> dict[str, Any] | None:
    """The rows' intervals as Plotly's error bars; None if no row has one."""
    if not any(map(_has_interval, rows)):
        return None
    up = [max(0.0, row.high - row.value) if row.high is not None and _has_interval(row) else 0.0 for row in rows]
    down = [max(0.0, row.value - row.low) if row.low is not None and _has_interval(row) else 0.0 for row in rows]
    # Paler than the line, so that the bars of several lines at one place do not hide the lines.
    look = {"color": faded(colour), "thickness": 1.2, "width": 3}
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, **look}


def finite_value(row: Row) -> float | None:
    """The value, or None, a gap in a line, if it is not finite."""
    return row.value if math.isfinite(row.value) else None


def hover_text(row: Row) -> str:
    """`0.812 [0.79, 0.83], n = 1,500`, or why there is no number."""
    if not math.isfinite(row.value):
        return plain(row.reason or "not finite", 120)
    interval = f" [{row.low:.4g}, {row.high:.4g}]" if _has_interval(row) else ""
    return f"{row.value:.4g}{interval}" + ("" if row.n is None else f", n = {row.n:,}")


def name_once(figure: Figure) -> Figure:
    """The figure with every name once in its legend, although several panels show it."""
    names: set[str] = set()
    for trace in figure.data:
        if trace.showlegend is None:  # what was hidden on purpose stays hidden, and does not use up the name
            trace.showlegend = trace.name not in names
            names.add(trace.name)
    return figure


def add_slider(figure: Figure, frames: Mapping[int, Sequence[Changes]], *, prefix: str, traces: Sequence[int]) -> Figure:
    """Give a figure a slider and buttons that play it; it opens at the last position.

    Parameters
    ----------
    figure
        The figure as it is at the last position.
    frames
        For each position in order, what changes of each of the traces, as arguments of the trace.
    prefix
        What a position is, such as `step`.
    traces
        Numbers of the traces that the frames change.
    """
    from plotly.graph_objects import Frame

    names = [str(position) for position in frames]
    kinds = [figure.data[i].type for i in traces]
    # Frames need the type of their traces: Plotly takes a trace without one for a scatter.
    figure.frames = [
        Frame(name=name, traces=list(traces), data=[{"type": kind, **change} for kind, change in zip(kinds, frame, strict=True)])
        for name, frame in zip(names, frames.values(), strict=True)
    ]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    running = {"fromcurrent": True, "frame": {"duration": 350, "redraw": True}, "transition": {"duration": 0}}
    slider = {
        "active": len(names) - 1,
        "steps": [{"label": name, "method": "animate", "args": [[name], at_once]} for name in names],
        "currentvalue": {"prefix": f"{prefix} ", "xanchor": "left", "font": {"size": 13}},
        "x": 0, "len": 1, "pad": {"t": 50, "b": 0}, "ticklen": 3, "minorticklen": 2, "font": {"size": 11},
        "bgcolor": GRID, "bordercolor": GRID, "activebgcolor": PALETTE[0], "tickcolor": AXIS,
    }  # fmt: skip
    buttons = {
        "type": "buttons", "direction": "left", "showactive": False, "bgcolor": CLEAR, "bordercolor": AXIS,
        "x": 1, "xanchor": "right", "y": 0, "yanchor": "top", "pad": {"t": 44, "r": 0}, "font": {"size": 11},
        "buttons": [
            {"label": "▶", "method": "animate", "args": [None, running]},
            {"label": "❚❚", "method": "animate", "args": [[None], at_once]},
        ],
    }  # fmt: skip
    height = figure.layout.height + SLIDER_HEIGHT
    return figure.update_layout(sliders=[slider], updatemenus=[buttons], margin_b=SLIDER_HEIGHT - 20, height=height)


def remove_slider(figure: Figure) -> Figure:
    """The figure as it opens, without controls, and with their position written on it, for paper."""
    if not figure.layout.sliders:
        return figure
    slider = figure.layout.sliders[0]
    position = f"{slider.currentvalue.prefix}{slider.steps[slider.active].label}"
    figure.layout.sliders, figure.layout.updatemenus, figure.frames = (), (), ()
    corner = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right", "yanchor": "bottom", "showarrow": False}
    figure.add_annotation(text=position, **corner)
    return figure.update_layout(margin_b=None, height=figure.layout.height - SLIDER_HEIGHT)


def _has_interval(row: Row) -> bool:
    return all(bound is not None and math.isfinite(bound) for bound in (row.low, row.high, row.value))
