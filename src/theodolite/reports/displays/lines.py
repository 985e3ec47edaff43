"""Lines over a numeric axis (layers, training steps, directions): in panels, with intervals, seeds, boxes or a slider."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from theodolite.core.rows import Row
from theodolite.metrics.registry import axis_of
from theodolite.reports.displays.base import FigureSpec, RowsDisplay, frame_of, grouped
from theodolite.reports.displays.pens import Pen, Series, state_pens
from theodolite.reports.displays.traces import (
    Point,
    add_slider,
    error_bars,
    finite_value,
    hover_text,
    joined_trace,
    line_trace,
    name_once,
)
from theodolite.reports.plain_text import plain
from theodolite.reports.theme import AXIS, CLEAR, NAME, faded, panel_grid, panel_position

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Box, Figure, Scatter

MOST_TICKS = 14
"""Positions up to which a `whole` axis names every one."""


@dataclass(frozen=True, kw_only=True)
class XAxis:
    """What lines are drawn over.

    Parameters
    ----------
    title
        Title of the axis.
    place
        The position of a row on it.
    hover
        What comes before the position in a hover text.
    whole
        Whether every whole number gets a tick, if there are not too many.
    column
        Column of the frame that holds the position, if it is not a field of a row.
    """

    title: str
    place: Callable[[Row], float | None]
    hover: str
    whole: bool = False
    column: str = ""


@dataclass(frozen=True, kw_only=True)
class LineSpec(FigureSpec):
    """The declaration of lines. Rows share a panel if they agree in the fields of `panel` and in their vertical axis.

    Parameters
    ----------
    x
        The horizontal axis.
    line
        The name of the line that a row is on.
    y
        The title of the vertical axis that a row belongs to: its metric's by default.
    panel
        Fields of a row: each of their values has a panel.
    pens
        The pens of the lines, given the rows of each. Lines without one are drawn together as thin grey ones.
    merge
        Whether panels of one line each become one panel.
    columns, height
        Panels side by side at most, and pixels of one.
    mode
        Plotly's mode of the lines.
    hover
        What a hover text says of y, as Plotly's template.
    median_of_seeds
        Whether several seeds are drawn as thin lines with their median as a thick one.
    boxes
        A metric that is drawn as a box of points per position instead.
    slider
        `layer`: one layer is shown at a time. `step`: dots mark the lines at one training step.
    axes, y_axis
        Further options of both axes, and of the vertical one, for Plotly.
    """

    x: XAxis
    line: Callable[[Row], str]
    y: Callable[[Row], str] = lambda row: axis_of(row.metric)
    panel: tuple[str, ...] = ()
    pens: Callable[[Series], dict[str, Pen]] = state_pens
    merge: bool = False
    columns: int = 3
    height: int = 360
    mode: str = "lines+markers"
    hover: str = "%{text}"
    median_of_seeds: bool = False
    boxes: str = ""
    slider: Literal["", "layer", "step"] = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    y_axis: Mapping[str, Any] = field(default_factory=dict)

    def display(self, rows: tuple[Row, ...], **labels: str) -> LineDisplay:
        """The lines of these rows."""
        return LineDisplay(rows=rows, fields=self.fields, spec=self, **labels)


@dataclass(frozen=True, eq=False, kw_only=True)
class LineDisplay(RowsDisplay):
    """Rows as lines."""

    spec: LineSpec

    def frame(self) -> pd.DataFrame:
        """The rows that are plotted, one per line, with the fields that matter here."""
        x = self.spec.x
        columns = {name: x.place if name == x.column else attrgetter(name) for name in self.fields}
        return frame_of({name: [value(row) for row in self.rows] for name, value in columns.items()})

    def plot(self) -> Figure:
        """The lines, one panel for each vertical axis and each value of the fields that the declaration names."""
        spec, panels = self.spec, self._panels()
        # Pens are chosen for all panels together, so that a name looks the same in each of them.
        series: dict[str, list[Row]] = {}
        for lines in panels.values():
            for name, rows in lines.items():
                series.setdefault(name, []).extend(rows)
        pens = spec.pens(series)
        shared_y = len({y_title for _, y_title in panels}) == 1
        titles = [title for title, _ in panels]
        figure = panel_grid(titles, columns=spec.columns, height=spec.height, shared_y=shared_y)
        for i, ((_, y_title), lines) in enumerate(panels.items()):
            place = panel_position(i, min(spec.columns, len(panels)))
            for trace in self._traces(lines, pens, self._layers[-1]):
                figure.add_trace(trace, **place)
            if not shared_y or place["col"] == 1:  # a shared axis needs its title once per row
                figure.update_yaxes(title_text=y_title, **place)
        figure.update_yaxes(**spec.axes, **spec.y_axis)
        every = spec.x.whole and len({spec.x.place(row) for row in self.rows}) <= MOST_TICKS
        figure.update_xaxes(title_text=spec.x.title, **({"dtick": 1} if every else {}), **spec.axes)
        figure = name_once(figure)
        if spec.slider == "step":
            return self._with_cursor(figure, {name: series[name] for name in pens if name in series}, pens)
        return self._with_layers(figure, panels, pens) if len(self._layers) > 1 else figure

    @property
    def _layers(self) -> list[int | None]:
        """The positions of a slider over layers; one that stands for all rows if there is no such slider."""
        return [*sorted({row.layer or 0 for row in self.rows})] if self.spec.slider == "layer" else [None]

    def _panels(self) -> dict[tuple[str, str], dict[str, list[Row]]]:
        """Lines by the title of their panel and of its vertical axis."""
        spec = self.spec
        groups = grouped(self.rows, lambda row: (_comma_joined(*(getattr(row, name) for name in spec.panel)), spec.y(row)))
        panels = {titles: grouped(rows, lambda row: spec.line(row) or "all") for titles, rows in groups.items()}
        if not spec.merge or any(len(lines) > 1 for lines in panels.values()):
            return panels
        # One line per panel is hard to compare: all of them go into one panel, named by what the panels were.
        (y_title,) = {y_title for _, y_title in panels}
        merged: dict[str, list[Row]] = {}
        for (title, _), rows in groups.items():
            merged.setdefault(_comma_joined(title, spec.line(rows[0])) or "all", []).extend(rows)
        return {("", y_title): merged}

    def _traces(self, lines: Series, pens: Mapping[str, Pen], layer: int | None) -> Iterator[Scatter | Box]:
        # Every layer has the same traces in the same order, some of them empty: a slider's frame replaces them one by one.
        lines = {name: [row for row in rows if layer is None or (row.layer or 0) == layer] for name, rows in lines.items()}
        others = [rows for name, rows in lines.items() if name not in pens]
        if others:
            points = [[self._point(row, f"{plain(self.spec.line(row), NAME)}: ") for row in rows] for rows in others]
            pen = Pen(name=f"{len(others)} other labels", colour=AXIS, width=0.9)
            yield joined_trace(points, pen, hover=self._hover + "<extra></extra>")
        for name, pen in pens.items():
            if name in lines:
                yield from self._line_traces(lines[name], pen)

    def _line_traces(self, rows: Sequence[Row], pen: Pen) -> Iterator[Scatter | Box]:
        spec = self.spec
        seeds = grouped(rows, lambda row: row.seed) or {None: []}  # an empty trace keeps its place in a slider's frames
        if rows and rows[0].metric == spec.boxes:
            yield self._boxes(rows, pen)
        elif len(seeds) > 1 and spec.median_of_seeds:
            thin = replace(pen, width=0.8)
            points = [[self._point(row, after=f", seed {row.seed}") for row in group] for group in seeds.values()]
            yield joined_trace(points, thin, hover=self._hover, opacity=0.45, showlegend=False)
            places = grouped((row for row in rows if finite_value(row) is not None), spec.x.place)
            medians = [(place, median(row.value for row in group), "") for place, group in places.items()]
            thick = replace(pen, width=2.5, name=f"{pen.name}, median")
            yield line_trace(medians, thick, hover=f"{spec.x.hover}%{{x}}: median %{{y:.4g}}")
        else:
            # Seeds share a pen and a name: how far apart they are is what they are there for.
            for group in seeds.values():
                bars = error_bars(group, pen.colour)
                yield line_trace(list(map(self._point, group)), pen, hover=self._hover, mode=spec.mode, error_y=bars)

    @property
    def _hover(self) -> str:
        return f"{self.spec.x.hover}%{{x}}: {self.spec.hover}"

    def _point(self, row: Row, before: str = "", after: str = "") -> Point:
        # A spectrum has thousands of points: a text for each, which its hover does not show, would double the page.
        text = before + hover_text(row) + after if "text" in self.spec.hover else ""
        return self.spec.x.place(row), finite_value(row), text

    def _boxes(self, rows: Sequence[Row], pen: Pen) -> Box:
        from plotly.graph_objects import Box

        x, y, text = zip(*(self._point(row, f"{plain(row.label, NAME)}: ") for row in rows), strict=True)
        dots = {"boxpoints": "all", "jitter": 0.5, "pointpos": 0, "marker": {"color": pen.colour, "size": 5}}
        outline = {"line": {"color": faded(pen.colour), "width": 1.2}, "fillcolor": CLEAR, "showlegend": False}
        return Box(x=x, y=y, text=text, hovertemplate=f"{self._hover}<extra></extra>", **dots, **outline)

    def _with_layers(self, figure: Figure, panels: Mapping[Any, Series], pens: Mapping[str, Pen]) -> Figure:
        # Plotly merges a frame into its traces, so a frame has only what changes.
        frames = {
            layer or 0: [{"x": trace.x, "y": trace.y} for lines in panels.values() for trace in self._traces(lines, pens, layer)]
            for layer in self._layers
        }
        return add_slider(figure, frames, prefix="layer", traces=range(len(figure.data)))

    def _with_cursor(self, figure: Figure, lines: Series, pens: Mapping[str, Pen]) -> Figure:
        """Dots on the labels' lines at one training step, and a slider that moves them."""
        steps = sorted({row.step for rows in lines.values() for row in rows if row.step is not None})
        frames = {step: [_cursor(lines, pens, step)] for step in steps}
        look = {"mode": "markers", "hovertemplate": f"{self._hover}<extra></extra>", "showlegend": False}
        figure.add_scatter(**frames[steps[-1]][0], **look, name="at the step")
        return add_slider(figure, frames, prefix="step", traces=[len(figure.data) - 1])


def _cursor(lines: Series, pens: Mapping[str, Pen], step: int) -> dict[str, Any]:
    # The mean of all labels is a line without dots: it is a reference, not something to read off.
    dots = [(row, pens[name]) for name, rows in lines.items() for row in rows if row.step == step and row.label]
    return {
        "x": [step] * len(dots),
        "y": [finite_value(row) for row, _ in dots],
        "text": [f"{plain(row.label, NAME)}: {hover_text(row)}" for row, _ in dots],
        "marker": {
            "size": 11,
            "color": [pen.colour for _, pen in dots],
            "symbol": [pen.symbol for _, pen in dots],
            "line": {"width": 1, "color": AXIS},
        },
    }


def _comma_joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))
