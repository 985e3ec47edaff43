"""What all displays have in common: a title and a note, their numbers as a frame, a plot, and the parts plots are made of."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from theodolite.core.measures import MEASURES
from theodolite.core.numbers import interval_text, number_text
from theodolite.core.rows import Row
from theodolite.metrics.registry import METRICS, label_of
from theodolite.reports.tables import ABOUT_FIELDS
from theodolite.reports.theme import AXIS, CLEAR, GRID, PALETTE, faded, panel_grid
from theodolite.reports.wording import clean, file_name, is_value, plain

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from theodolite.core.result import Result

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
# Fields of a row that the frame of a display has as columns.
FRAME_FIELDS = (*ABOUT_FIELDS, "metric", "value", "low", "high", "n", "d", "reason")
# Pixels that slider and buttons take below a plot.
SLIDER_HEIGHT = 150
# What an axis spans at least: this share of the range of a bounded metric, or of the largest value of another.
LEAST_SPAN, RELATIVE_SPAN = 0.1, 0.25


@dataclass(frozen=True, eq=False, kw_only=True)
class Display(ABC):
    """One figure with the numbers behind it; a notebook shows it as its plot."""

    name: str
    kind: str
    heading: str
    title: str
    note: str

    @abstractmethod
    def frame(self) -> pd.DataFrame:
        """The numbers that are plotted, one per line."""

    @abstractmethod
    def plot(self) -> Figure:
        """A Plotly figure: `.show()` it, or write it with `.write_image()`."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **options: Any) -> Any:
        figure = self.plot().update_layout(title_text=plain(self.title), margin_t=72)
        # Without Plotly's button that uploads a chart to its servers.
        config = {"showSendToCloud": False, "displaylogo": False}
        return figure._repr_mimebundle_(include, exclude, **{"config": config, **options})


@dataclass(frozen=True, eq=False, kw_only=True)
class DrawnDisplay(Display):
    """A display that is a function of its numbers; neither frame nor figure is made before it is asked for."""

    columns: Callable[[], Mapping[str, Sequence[Any]]]
    draw: Callable[[], Figure]

    def frame(self) -> pd.DataFrame:
        """The numbers that are plotted, one per line."""
        return frame_of(self.columns())

    def plot(self) -> Figure:
        """A Plotly figure of the numbers."""
        return self.draw()


@dataclass(frozen=True, kw_only=True)
class FigureSpec(ABC):
    """The declaration of a figure that is drawn from rows."""

    name: str
    heading: str
    note: str
    metrics: tuple[str, ...]
    of_states: str = ""  # what the heading ends with if there are several states
    asides: tuple[tuple[Callable[[Sequence[Row]], bool], str], ...] = ()  # what the note ends with for rows of which it is true
    split: tuple[str, ...] = ("model", "task")
    select: Callable[[Sequence[Row]], Sequence[Row]] = list
    source: Callable[[Result], Sequence[Row]] = lambda result: result.rows

    def displays(self, result: Result) -> Iterator[Display]:
        """The figures that a result has numbers for, one for each value of the fields in `split`."""
        # In the declared order, so that panels and figures do not depend on the order in which a run happened to measure.
        order = {metric: i for i, metric in enumerate(self.metrics)}
        measured = (row for row in self.source(result) if row.metric in order and is_value(row))
        rows = sorted(measured, key=lambda row: order[row.metric])
        for values, group in grouped(rows, lambda row: tuple(getattr(row, name) for name in self.split)).items():
            selected = tuple(self.select(group))
            if selected:
                heading = self.heading + (self.of_states if len({row.state for row in selected}) > 1 else "")
                note = " ".join([self.note, *(sentence for applies, sentence in self.asides if applies(selected))]).strip()
                titles = titles_of(self.name, heading, values)
                yield DrawnDisplay(
                    columns=partial(self.columns, selected), draw=partial(self.draw, selected), note=note, **titles
                )

    def columns(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """The columns of the frame of these rows."""
        return field_columns(rows, FRAME_FIELDS)

    def draw(self, rows: Sequence[Row]) -> Figure:
        """The figure of these rows, with every name once in its legend."""
        return name_once(self.plot(rows))

    @abstractmethod
    def plot(self, rows: Sequence[Row]) -> Figure:
        """The figure of these rows, in their order."""


def titles_of(kind: str, heading: str, values: Sequence[str]) -> dict[str, str]:
    """Name, kind, heading and title of a display."""
    # The file name has the metric's name, which is shorter and has no spaces; the title has its label.
    words = ", ".join(clean(label_of(value) if value in METRICS else value, 60) for value in values if value)
    title = f"{heading}: {words}" if words else heading
    return {"name": file_name(kind, *values), "kind": kind, "heading": heading, "title": title}


def field_columns(rows: Sequence[Row], fields: Iterable[str]) -> dict[str, list[Any]]:
    """Some fields of rows as columns."""
    return {name: [getattr(row, name) for row in rows] for name in fields}


def heat_map(cells: Any, x: Sequence[str], y: Sequence[str], *, height: int, **look: Any) -> Figure:
    """A figure of one panel with a value in every cell; the first line of `cells` is at the bottom."""
    from plotly.graph_objects import Heatmap

    return panel_grid([""], columns=1, height=height).add_trace(Heatmap(z=cells, x=x, y=y, **look))


def frame_of(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Columns as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"a frame needs pandas ({error}); install it with: pip install pandas") from None
    return pd.DataFrame(dict(columns))


def records_of(result: Result, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of one of a result's item-level tables; none if it has no such table."""
    table = result.records.get(name)
    if table is None:
        return []
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise ValueError(f"the record {name!r} lacks the column {missing[0]!r}; it must have {', '.join(columns)}")
    lines: list[dict[str, Any]] = table.to_pylist()
    return lines


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by key; keys and items in the order they came."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def of_last_layer(rows: Sequence[Row]) -> list[Row]:
    """The rows of the highest layer among them; if no row has a layer, all."""
    last = max((row.layer for row in rows if row.layer is not None), default=None)
    return [row for row in rows if row.layer == last]


def error_bars(rows: Sequence[Row], colour: str) -> dict[str, Any] | None:
    """The rows' intervals as Plotly's error bars; None if no row has one."""
    intervals = [_interval(row) for row in rows]
    if not any(intervals):
        return None
    ends = [interval or (row.value, row.value) for interval, row in zip(intervals, rows, strict=True)]
    up = [max(0.0, high - row.value) for (_, high), row in zip(ends, rows, strict=True)]
    down = [max(0.0, row.value - low) for (low, _), row in zip(ends, rows, strict=True)]
    # Paler than the line, so that the bars of several lines at one place do not hide the lines.
    look = {"color": faded(colour), "thickness": 1.2, "width": 3}
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, **look}


def steady_range(rows: Sequence[Row], levels: Iterable[float] = ()) -> list[float] | None:
    """The ends of an axis on which a small change looks small; None if rows and levels are far enough apart to fill an axis.

    An axis spans at least a tenth of what a metric can be, or a quarter of the largest value if that has no bounds.
    """
    finite = [row for row in rows if math.isfinite(row.value)]
    if not finite:
        return None
    values = [*levels, *(value for row in finite for value in (row.value, *(_interval(row) or ())))]
    low, high = min(values), max(values)
    bounds = METRICS[finite[0].metric].limits if finite[0].metric in METRICS else (-math.inf, math.inf)
    if all(map(math.isfinite, bounds)):
        least = LEAST_SPAN * (bounds[1] - bounds[0])
    elif finite[0].metric in MEASURES and max(-low, high) <= 1:
        least = LEAST_SPAN  # a score, at most 1
    else:
        least = RELATIVE_SPAN * max(abs(low), abs(high))
    if high - low >= least:
        return None
    start = max(bounds[0], min((low + high - least) / 2, bounds[1] - least))
    # A dot at a bound needs some room beyond it.
    return [start - 0.04 * least, start + 1.04 * least]


def has_intervals(rows: Sequence[Row]) -> bool:
    """Whether any row has an interval."""
    return any(_interval(row) for row in rows)


def finite_value(row: Row) -> float | None:
    """The value, or None, a gap in a line, if it is not finite."""
    return row.value if math.isfinite(row.value) else None


def hover_text(row: Row) -> str:
    """`0.812 [0.79, 0.83], n = 1,500`, or why there is no number."""
    if not math.isfinite(row.value):
        return plain(row.reason or "not finite", 120)
    interval = _interval(row)
    value = f"{number_text(row.value)} {interval_text(*interval)}" if interval else number_text(row.value)
    return value if row.n is None else f"{value}, n = {row.n:,}"


def name_once(figure: Figure) -> Figure:
    """The figure with every name once in its legend, although several panels show it."""
    names: set[str] = set()
    for trace in figure.data:
        if trace.showlegend is None:  # what was hidden on purpose stays hidden, and does not use up the name
            trace.showlegend = bool(trace.name) and trace.name not in names
            names.add(trace.name)
    return figure


def add_slider(
    figure: Figure, frames: Mapping[int, Sequence[Mapping[str, Any]]], *, prefix: str, traces: Sequence[int]
) -> Figure:
    """Give a figure a slider and buttons that play it; it opens at the last position."""
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


def _interval(row: Row) -> tuple[float, float] | None:
    if row.low is None or row.high is None or not all(map(math.isfinite, (row.low, row.high, row.value))):
        return None
    return row.low, row.high
