"""Dots with intervals over categories (repairs, tasks, states): in panels, coloured by state, joined or with medians."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from theodolite.core.rows import Row
from theodolite.core.states import state_title
from theodolite.metrics.registry import axis_of
from theodolite.reports.displays.base import FigureSpec, RowsDisplay, grouped, last_layer
from theodolite.reports.displays.pens import Pen, state_pens
from theodolite.reports.displays.traces import (
    error_bars,
    finite_value,
    hover_text,
    joined_trace,
    line_trace,
    name_once,
)
from theodolite.reports.plain_text import plain
from theodolite.reports.theme import AXIS, GREY, NAME, panel_grid, panel_position

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

WIDE = 20
"""Values that span more than this factor are drawn on a logarithmic axis."""
FRAME_HEIGHT = 120
"""Pixels of a panel for its axes and titles, besides the lines of its categories."""


@dataclass(frozen=True, kw_only=True)
class DotSpec(FigureSpec):
    """The declaration of dots: categories on one axis, values on the other, a panel for each metric.

    Parameters
    ----------
    category, category_title
        The field of a row that is its category, and the title of that axis.
    facet
        A field of a row: each of its values has a column of panels of its own.
    one_panel
        Metrics that are drawn in the panel of another one.
    vertical
        Whether values go upwards; otherwise they go to the right, with one line per category.
    dodge
        How far apart the states are within a category, whose lines are 1 apart.
    row_height, least_height
        Pixels of a category's line, and those that a panel has at least.
    join
        What the dots that are joined by a line have in common; None joins none.
    hover
        What a hover text says before the value: the category by default.
    medians
        Whether a bar marks the median of the dots of each category.
    zero
        A metric whose panel has a line at 0.
    reference
        A metric that is drawn as a grey mark, not as dots.
    by_layer
        Whether dots are of the last layer, and further panels show the layers of each category that has several.
    options
        Further options of the panels.
    """

    category: str
    category_title: str
    facet: str = ""
    one_panel: Mapping[str, str] = field(default_factory=dict)
    vertical: bool = False
    dodge: float = 0.0
    row_height: int = 40
    least_height: int = 0
    join: Callable[[Row], Any] | None = None
    hover: Callable[[Row], str] | None = None
    medians: bool = False
    zero: str = ""
    reference: str = ""
    by_layer: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def display(self, rows: tuple[Row, ...], **labels: str) -> DotDisplay:
        """The dots of these rows."""
        return DotDisplay(rows=rows, fields=self.fields, spec=self, **labels)


@dataclass(frozen=True, eq=False, kw_only=True)
class DotDisplay(RowsDisplay):
    """Rows as dots."""

    spec: DotSpec

    def plot(self) -> Figure:
        """The dots, a panel for each metric."""
        spec, categories = self.spec, self._categories
        pens = state_pens(row.state for row in self.rows if row.metric != spec.reference)
        panels, layered = self._panels(), self._layered()
        titles = [title for title, _ in panels] + [f"{name}, by layer" for name in layered]
        if layered:
            titles[0] = "last layer"
        across = 2 if layered else 3  # lines over layers need more room than dots
        if spec.facet:
            across = len({getattr(row, spec.facet) for row in self.rows})
        height = max(spec.least_height, spec.row_height * (1 if spec.vertical else len(categories)) + FRAME_HEIGHT)
        figure = panel_grid(titles, columns=across, height=height, shared_y=not (spec.vertical or layered), **spec.options)
        across = min(across, len(titles))
        for i, (_, rows) in enumerate(panels):
            place = panel_position(i, across)
            for trace in self._traces(rows, pens):
                figure.add_trace(trace, **place)
            self._update_axes(figure, rows, place, is_last=i >= len(panels) - across)
        for i, rows in enumerate(layered.values(), start=len(panels)):
            self._draw_layers(figure, rows, pens, panel_position(i, across))
        return name_once(figure)

    @property
    def _categories(self) -> list[str]:
        return list(dict.fromkeys(getattr(row, self.spec.category) for row in self.rows))

    def _panels(self) -> list[tuple[str, list[Row]]]:
        """Title and rows of each panel of dots; those of a facet below each other, with its name above the first."""
        spec = self.spec
        kinds = grouped(
            (row for row in self.rows if row.metric != spec.reference), lambda row: spec.one_panel.get(row.metric, row.metric)
        )
        facets = sorted({getattr(row, spec.facet) for row in self.rows}) if spec.facet else [""]
        return [
            (facet if i == 0 else "", [row for row in rows if not facet or getattr(row, spec.facet) == facet])
            for i, rows in enumerate(kinds.values())
            for facet in facets
        ]

    def _layered(self) -> dict[str, list[Row]]:
        """The rows of each category that was measured at several layers, if these get panels of their own."""
        rows = [row for row in self.rows if self.spec.by_layer and row.metric != self.spec.reference]
        groups = grouped(rows, lambda row: str(getattr(row, self.spec.category)))
        return {name: group for name, group in groups.items() if len({row.layer for row in group}) > 1}

    def _traces(self, rows: Sequence[Row], pens: Mapping[str, Pen]) -> Iterator[Scatter]:
        spec, names = self.spec, list(pens)
        if spec.by_layer:
            groups = grouped(rows, self._category).values()
            rows = [row for group in groups for row in group if row.layer == last_layer(group)]  # tasks may differ in layers
        places = {name: i for i, name in enumerate(self._categories)}
        if spec.join is not None:
            joined = grouped(rows, spec.join).values()
            lines = [[self._point(finite_value(row), places[self._category(row)], "") for row in group] for group in joined]
            pen = Pen(name="", colour=AXIS, width=1 if spec.vertical else 2)
            yield joined_trace(lines, pen, hover="", hoverinfo="skip", showlegend=False)
        if spec.reference:
            yield from self._references(places)
        # If the categories are the states, the axis names them, and a legend would say it again.
        legend = {"showlegend": False, "opacity": 0.75} if spec.medians else {}
        for state, group in grouped(rows, lambda row: row.state).items():
            pen = pens[state]
            shift = (names.index(state) - (len(names) - 1) / 2) * spec.dodge
            texts = [plain(spec.hover(row) if spec.hover else self._category(row), NAME) for row in group]
            points = [
                self._point(finite_value(row), places[self._category(row)] + shift, f"{text}: {hover_text(row)}")
                for row, text in zip(group, texts, strict=True)
            ]
            bars = {f"error_{'y' if spec.vertical else 'x'}": error_bars(group, pen.colour)}
            yield line_trace(points, pen, hover="%{text}", mode="markers", **bars, **legend)
            if spec.medians:
                yield from self._median(group, places[self._category(group[0])], pen)

    def _point(self, value: float | None, place: float, text: str) -> tuple[Any, Any, str]:
        return (place, value, text) if self.spec.vertical else (value, place, text)

    def _category(self, row: Row) -> str:
        return str(getattr(row, self.spec.category))

    def _median(self, rows: Sequence[Row], place: int, pen: Pen) -> Iterator[Scatter]:
        values = [row.value for row in rows if finite_value(row) is not None]
        if values:
            bar = {"symbol": "line-ew-open", "size": 30, "color": pen.colour, "line": {"width": 3}}
            name = {"name": "median over seeds", "legendgroup": "median"}
            hover = "median %{y:.4g}<extra></extra>"
            yield line_trace([(place, median(values), "")], pen, hover=hover, mode="markers", marker=bar, **name)

    def _references(self, places: Mapping[str, int]) -> Iterator[Scatter]:
        # Every state says the same of a category, so one mark stands for all of them.
        marks = {self._category(row): row for row in self.rows if row.metric == self.spec.reference}
        texts = {name: f"{plain(name, NAME)}: {row.value:.0f} {row.metric}" for name, row in marks.items()}
        points = [self._point(finite_value(row), places[name], texts[name]) for name, row in marks.items()]
        line = {"symbol": "line-ns-open", "size": 20, "color": GREY, "line": {"width": 3}}
        if points:
            yield line_trace(points, Pen(name=self.spec.reference, colour=GREY), hover="%{text}", mode="markers", marker=line)

    def _update_axes(self, figure: Figure, rows: Sequence[Row], place: Mapping[str, int], *, is_last: bool) -> None:
        spec, count = self.spec, len(self._categories)
        value_axis = {"title_text": axis_of(rows[0].metric) if rows else ""}
        values = [value for row in rows if (value := finite_value(row)) is not None and value > 0]
        if spec.by_layer and values and max(values) > WIDE * min(values):
            value_axis["type"] = "log"
        # States are next to each other within a category, so the axis is one of numbers whose ticks are named.
        names = [plain(state_title(str(name)) or "all", NAME) for name in self._categories]
        ticks: dict[str, Any] = {"tickvals": list(range(count)), "ticktext": names, "range": [count - 0.5, -0.5]}
        if spec.vertical:
            ticks |= {"range": [-0.5, count - 0.5]} if is_last else {"range": [-0.5, count - 0.5], "ticktext": [""] * count}
        if is_last if spec.vertical else place["col"] == 1:
            ticks["title_text"] = spec.category_title
        figure.update_xaxes(**(ticks if spec.vertical else value_axis), **place)
        figure.update_yaxes(**(value_axis if spec.vertical else ticks), **place)
        if any(row.metric == spec.zero for row in rows):
            figure.add_vline(x=0, line_width=1, line_color=AXIS, **place)

    def _draw_layers(self, figure: Figure, rows: Sequence[Row], pens: Mapping[str, Pen], place: Mapping[str, int]) -> None:
        for state, group in grouped(sorted(rows, key=lambda row: row.layer or 0), lambda row: row.state).items():
            points = [(row.layer, finite_value(row), hover_text(row)) for row in group]
            bars = error_bars(group, pens[state].colour)
            figure.add_trace(line_trace(points, pens[state], hover="layer %{x}: %{text}", error_y=bars), **place)
        figure.update_xaxes(title_text="layer", **place)
        figure.update_yaxes(title_text=axis_of(rows[0].metric), rangemode="tozero", **place)
