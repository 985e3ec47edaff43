"""How rows are plotted: lines over layers, steps or directions, and dots with intervals over repairs, tasks or states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from theodolite.core.numbers import number_text
from theodolite.core.rows import Row
from theodolite.core.states import state_title
from theodolite.metrics.registry import axis_of, label_of
from theodolite.reports.displays import (
    FigureSpec,
    add_slider,
    error_bars,
    finite_value,
    grouped,
    hover_text,
    of_last_layer,
    steady_range,
)
from theodolite.reports.theme import (
    AXIS,
    GREY,
    NAME,
    Pen,
    Point,
    Series,
    faded,
    panel_grid,
    panel_position,
    state_pens,
    tick_step,
)
from theodolite.reports.wording import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Box, Figure, Scatter

HEIGHT = 360
# How many times the median span of the panels a panel may span if they share an axis.
ONE_SCALE = 20
# Values that span more than this factor are drawn on a logarithmic axis.
WIDE = 20
# Pixels of a panel for its axes and titles, besides the lines of its categories.
FRAME_HEIGHT = 120
# An axis of changes reaches this far below 0, or this many times as far as the median change; an arrow marks what is further.
AROUND_ZERO, TYPICAL = 0.1, 5.0
BEYOND = "triangle-left"


@dataclass(frozen=True, kw_only=True)
class XAxis:
    """What lines are drawn over."""

    title: str
    position: Callable[[Row], float | None]
    hover: str
    integers: bool = False
    column: str = ""


@dataclass(frozen=True, kw_only=True)
class LineSpec(FigureSpec):
    """The declaration of lines. Rows share a panel if they agree in the fields of `panel` and in their vertical axis."""

    x: XAxis
    line: Callable[[Row], str]
    y: Callable[[Row], str] = lambda row: axis_of(row.metric)
    panel: tuple[str, ...] = ()
    pens: Callable[[Series], dict[str, Pen]] = state_pens
    merge: bool = False
    panels_across: int = 3
    mode: str = "lines+markers"
    hover: str = "%{text}"
    median_of_seeds: bool = False
    boxes: str = ""
    slider: Literal["", "layer", "step"] = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    y_axis: Mapping[str, Any] = field(default_factory=dict)
    level: Callable[[Row], tuple[float, str] | None] | None = None  # a line to compare with, such as chance, and its name

    def columns(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """The columns of the frame of these rows, with the position on the axis if it is not a field of a row."""
        position = {self.x.column: [self.x.position(row) for row in rows]} if self.x.column else {}
        return super().columns(rows) | position

    def plot(self, rows: Sequence[Row]) -> Figure:
        """The lines, one panel for each vertical axis and each value of the fields in `panel`."""
        panels = self._panels(rows)
        # Pens are chosen for all panels together, so that a name looks the same in each of them.
        series: dict[str, list[Row]] = {}
        for lines in panels.values():
            for name, members in lines.items():
                series.setdefault(name, []).extend(members)
        pens = self.pens(series)
        layers = sorted({row.layer or 0 for row in rows}) if self.slider == "layer" else []
        by_title = grouped(panels.items(), lambda panel: panel[0][1])
        one_scale = {y_title: _have_one_scale(lines for _, lines in members) for y_title, members in by_title.items()}
        shared_y = len(one_scale) == 1 and all(one_scale.values())
        figure = panel_grid([title for title, _ in panels], columns=self.panels_across, height=HEIGHT, shared_y=shared_y)
        for i, ((_, y_title), lines) in enumerate(panels.items()):
            position = panel_position(i, min(self.panels_across, len(panels)))
            for trace in self._traces(lines, pens, layers[-1] if layers else None):
                figure.add_trace(trace, **position)
            if not shared_y or position["col"] == 1:  # a shared axis needs its title once per row
                figure.update_yaxes(title_text=y_title, **position)
            if not (self.axes or self.y_axis):
                members = [row for row in rows if self.y(row) == y_title] if one_scale[y_title] else list(chain(*lines.values()))
                levels = [level[0] for level in map(self.level, members) if level] if self.level else []
                figure.update_yaxes(range=steady_range(members, levels), **position)
        moving = len(figure.data)  # what is added from here on is the same in every frame of a slider
        for i, lines in enumerate(panels.values()):
            for trace in self._levels([row for members in lines.values() for row in members]):
                figure.add_trace(trace, **panel_position(i, min(self.panels_across, len(panels))))
        figure.update_yaxes(**self.axes, **self.y_axis)
        ticks = {"dtick": tick_step(len({self.x.position(row) for row in rows}))} if self.x.integers else {}
        figure.update_xaxes(title_text=self.x.title, **ticks, **self.axes)
        if self.slider == "step":
            return self._with_cursor(figure, {name: series[name] for name in pens if name in series}, pens)
        if len(layers) < 2:
            return figure
        # Plotly merges a frame into its traces, so a frame has only what changes.
        frames = {
            layer: [{"x": trace.x, "y": trace.y} for lines in panels.values() for trace in self._traces(lines, pens, layer)]
            for layer in layers
        }
        return add_slider(figure, frames, prefix="layer", traces=range(moving))

    def _levels(self, rows: Sequence[Row]) -> Iterator[Scatter]:
        """What the lines of a panel are compared with, across all of it."""
        positions = [position for position in map(self.x.position, rows) if position is not None]
        for level in dict.fromkeys(self.level(row) for row in rows) if self.level else ():
            if level is not None and positions:
                value, name = level
                points = [(position, value, "") for position in (min(positions), max(positions))]
                yield Pen(name=name, colour=GREY, dash="dash", width=1.5).draw(points, hover=f"{name}: {value:.3g}", mode="lines")

    def _panels(self, rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, list[Row]]]:
        """Lines by the title of their panel and of its vertical axis."""
        groups = grouped(rows, lambda row: (", ".join(filter(None, (getattr(row, name) for name in self.panel))), self.y(row)))
        panels = {titles: grouped(members, lambda row: self.line(row) or "all") for titles, members in groups.items()}
        has_one_axis = len({y_title for _, y_title in panels}) == 1
        if not self.merge or not has_one_axis or any(len(lines) > 1 for lines in panels.values()):
            return panels
        # One line per panel is hard to compare: all of them go into one panel, named by what the panels were.
        (y_title,) = {y_title for _, y_title in panels}
        merged: dict[str, list[Row]] = {}
        for (title, _), members in groups.items():
            # A state comes first: it chooses the colour.
            names = (self.line(members[0]), title) if members[0].state else (title, self.line(members[0]))
            merged.setdefault(", ".join(filter(None, names)) or "all", []).extend(members)
        return {("", y_title): merged}

    def _traces(self, lines: Series, pens: Mapping[str, Pen], layer: int | None) -> Iterator[Scatter | Box]:
        # Every layer has the same traces in the same order, some of them empty: a slider's frame replaces them one by one.
        lines = {name: [row for row in rows if layer is None or (row.layer or 0) == layer] for name, rows in lines.items()}
        others = [rows for name, rows in lines.items() if name not in pens]
        if others:
            points = [[self._point(row, f"{plain(self.line(row), NAME)}: ") for row in rows] for rows in others]
            pen = Pen(name=f"{len(others)} other labels", colour=AXIS, width=0.9)
            yield pen.draw_together(points, hover=self._hover + "<extra></extra>")
        for name, pen in pens.items():
            if name in lines:
                yield from self._line_traces(lines[name], pen)

    def _line_traces(self, rows: Sequence[Row], pen: Pen) -> Iterator[Scatter | Box]:
        seeds = grouped(rows, lambda row: row.seed) or {None: []}  # an empty trace keeps its place in a slider's frames
        if rows and rows[0].metric == self.boxes:
            points = [self._point(row, f"{plain(row.label, NAME)}: ") for row in rows]
            yield pen.draw_boxes(points, hover=f"{self._hover}<extra></extra>")
        elif len(seeds) > 1 and self.median_of_seeds:
            thin = replace(pen, width=0.8)
            curves = [[self._point(row, after=f", seed {row.seed}") for row in group] for group in seeds.values()]
            yield thin.draw_together(curves, hover=self._hover, opacity=0.45, showlegend=False)
            positions = grouped((row for row in rows if finite_value(row) is not None), self.x.position)
            medians = [(position, median(row.value for row in group), "") for position, group in positions.items()]
            thick = replace(pen, width=2.5, name=f"{pen.name}, median")
            yield thick.draw(medians, hover=f"{self.x.hover}%{{x}}: median %{{y:.4g}}", mode=self.mode)
        else:
            # Seeds share a pen and a name: how far apart they are is what they are there for.
            for group in seeds.values():
                bars = error_bars(group, pen.colour)
                yield pen.draw(list(map(self._point, group)), hover=self._hover, mode=self.mode, error_y=bars)

    @property
    def _hover(self) -> str:
        return f"{self.x.hover}%{{x}}: {self.hover}"

    def _point(self, row: Row, before: str = "", after: str = "") -> Point:
        # A spectrum has thousands of points: a text for each, which its hover does not show, would double the page.
        text = before + hover_text(row) + after if "text" in self.hover else ""
        return self.x.position(row), finite_value(row), text

    def _with_cursor(self, figure: Figure, lines: Series, pens: Mapping[str, Pen]) -> Figure:
        """Dots on the labels' lines at one training step, and a slider that moves them."""
        steps = sorted({row.step for rows in lines.values() for row in rows if row.step is not None})
        frames = {step: [_cursor(lines, pens, step)] for step in steps}
        look = {"mode": "markers", "hovertemplate": f"{self._hover}<extra></extra>", "showlegend": False}
        figure.add_scatter(**frames[steps[-1]][0], **look, name="at the step")
        return add_slider(figure, frames, prefix="step", traces=[len(figure.data) - 1])


def _have_one_scale(panels: Iterable[Series]) -> bool:
    """Whether one axis can serve all panels: no panel spans many times as much as most of them, which it would flatten."""
    values = [[row.value for rows in lines.values() for row in rows if finite_value(row) is not None] for lines in panels]
    spans = [max(panel) - min(panel) for panel in values if panel]
    return not spans or max(spans) <= ONE_SCALE * median(spans)


def _cursor(lines: Series, pens: Mapping[str, Pen], step: int) -> dict[str, Any]:
    # The mean of all labels is a line without dots: it is a reference, not something to read off.
    dots = [(row, pens[name]) for name, rows in lines.items() for row in rows if row.step == step and row.label]
    colours, symbols = [pen.colour for _, pen in dots], [pen.symbol for _, pen in dots]
    marker = {"size": 11, "color": colours, "symbol": symbols, "line": {"width": 1, "color": AXIS}}
    values = [finite_value(row) for row, _ in dots]
    texts = [f"{plain(row.label, NAME)}: {hover_text(row)}" for row, _ in dots]
    return {"x": [step] * len(dots), "y": values, "text": texts, "marker": marker}


@dataclass(frozen=True, kw_only=True)
class DotSpec(FigureSpec):
    """The declaration of dots: categories on one axis, values on the other, a panel for each metric."""

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
    reference_of: tuple[str, ...] = ()  # the metrics that it is compared with; all if empty
    by_layer: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def plot(self, rows: Sequence[Row]) -> Figure:
        """The dots, a panel for each metric."""
        positions = {name: i for i, name in enumerate(dict.fromkeys(map(self._category, rows)))}
        dots = [row for row in rows if row.metric != self.reference]
        pens = state_pens(row.state for row in dots)
        panels, layered = self._panels(dots), self._layered(dots)
        titles = [title for title, _ in panels] + [f"{name}, by layer" for name in layered]
        if layered:
            titles[0] = "last layer"
        across = 2 if layered else 3  # lines over layers need more room than dots
        if self.facet:
            across = len({getattr(row, self.facet) for row in rows})
        height = max(self.least_height, self.row_height * (1 if self.vertical else len(positions)) + FRAME_HEIGHT)
        figure = panel_grid(titles, columns=across, height=height, shared_y=not (self.vertical or layered), **self.options)
        # Where there is little room, the names of the categories are above their lines and leave the width to the axis.
        figure.update_layout(meta={} if self.vertical else {"names": "above"})
        across, lowest = min(across, len(titles)), lowest_shown(rows, self.zero)
        references = [row for row in rows if row.metric == self.reference]
        for i, (_, members) in enumerate(panels):
            position = panel_position(i, across)
            compared = references if not self.reference_of or {row.metric for row in members} & {*self.reference_of} else []
            for trace in (*self._backdrop(members, compared, positions), *self._dots(members, positions, pens, lowest)):
                figure.add_trace(trace, **position)
            is_last = i >= len(panels) - across
            self._update_axes(figure, [*members, *compared], list(positions), position, is_last=is_last, lowest=lowest)
        for i, members in enumerate(layered.values(), start=len(panels)):
            self._draw_layers(figure, members, pens, panel_position(i, across))
        return figure

    def _panels(self, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
        """Title and rows of each panel of dots; those of a facet below each other, with its name above the first."""
        kinds = grouped(rows, lambda row: self.one_panel.get(row.metric, row.metric))
        facets = sorted({getattr(row, self.facet) for row in rows}) if self.facet else [""]
        return [
            (facet if i == 0 else "", [row for row in members if not facet or getattr(row, self.facet) == facet])
            for i, members in enumerate(kinds.values())
            for facet in facets
        ]

    def _layered(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        """The rows of each category that was measured at several layers, if these get panels of their own."""
        groups = grouped(rows, self._category) if self.by_layer else {}
        return {name: group for name, group in groups.items() if len({row.layer for row in group}) > 1}

    def _backdrop(self, rows: Sequence[Row], references: Sequence[Row], positions: Mapping[str, int]) -> Iterator[Scatter]:
        """What is behind the dots: the lines that join them, and the grey marks."""
        if self.join is not None:
            groups = grouped(self._of_last_layer(rows), self.join).values()
            lines = [[self._point(finite_value(row), positions[self._category(row)], "") for row in group] for group in groups]
            pen = Pen(name="", colour=AXIS, width=1 if self.vertical else 2)
            yield pen.draw_together(lines, hover="", hoverinfo="skip", showlegend=False)
        # Every state says the same of a category, so one mark stands for all of them.
        marks = {self._category(row): row for row in references}
        if marks:
            texts = {
                name: f"{plain(name, NAME)}: {number_text(row.value)}, {label_of(row.metric)}" for name, row in marks.items()
            }
            points = [self._point(finite_value(row), positions[name], texts[name]) for name, row in marks.items()]
            mark = {"symbol": "line-ns-open", "size": 20, "color": GREY, "line": {"width": 3}}
            yield Pen(name=label_of(self.reference), colour=GREY).draw(points, hover="%{text}", mode="markers", marker=mark)

    def _dots(
        self, rows: Sequence[Row], positions: Mapping[str, int], pens: Mapping[str, Pen], lowest: float
    ) -> Iterator[Scatter]:
        names = list(pens)
        # If the categories are the states, the axis names them, and a legend would say it again.
        legend = {"showlegend": False, "opacity": 0.75} if self.medians else {}
        # Where the axis ends; without an arrow it reaches as far as every interval.
        end = 1.05 * lowest if has_arrows(rows, self.zero, lowest) else -math.inf
        for state, group in grouped(self._of_last_layer(rows), lambda row: row.state).items():
            pen = pens[state]
            shift = (names.index(state) - (len(names) - 1) / 2) * self.dodge
            points = []
            for row in group:
                text = f"{plain(self.hover(row) if self.hover else self._category(row), NAME)}: {hover_text(row)}"
                value = finite_value(row)
                shown = max(lowest, value) if row.metric == self.zero and value is not None else value
                points.append(self._point(shown, positions[self._category(row)] + shift, text))
            beyond = [row.metric == self.zero and row.value < lowest for row in group]
            marker = {"color": pen.colour, "size": 7, "symbol": [BEYOND if out else pen.symbol for out in beyond]}
            inside = [replace(row, low=None, high=None) if out else row for row, out in zip(group, beyond, strict=True)]
            bars = {f"error_{'y' if self.vertical else 'x'}": error_bars(inside, pen.colour)}
            yield pen.draw(points, hover="%{text}", mode="markers", marker=marker, **bars, **legend)
            cut = [(end, y, text) for (_, y, text), row in zip(points, inside, strict=True) if (row.low or 0.0) < end]
            if cut:
                tip = {"color": faded(pen.colour), "size": 6, "symbol": BEYOND}
                yield pen.draw(cut, hover="%{text}", mode="markers", marker=tip, showlegend=False)
            values = [row.value for row in group if finite_value(row) is not None]
            if self.medians and values:
                bar = {"symbol": "line-ew-open", "size": 30, "color": pen.colour, "line": {"width": 3}}
                look = {"mode": "markers", "marker": bar, "name": "median over seeds", "legendgroup": "median"}
                middle = (positions[self._category(group[0])], median(values), "")
                yield pen.draw([middle], hover="median %{y:.4g}<extra></extra>", **look)

    def _of_last_layer(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of each category's last layer, if only that is drawn as dots; tasks may differ in layers."""
        if not self.by_layer:
            return rows
        return [row for group in grouped(rows, self._category).values() for row in of_last_layer(group)]

    def _point(self, value: float | None, position: float, text: str) -> Point:
        return (position, value, text) if self.vertical else (value, position, text)

    def _category(self, row: Row) -> str:
        return str(getattr(row, self.category))

    def _update_axes(
        self,
        figure: Figure,
        rows: Sequence[Row],
        categories: Sequence[str],
        position: Mapping[str, int],
        *,
        is_last: bool,
        lowest: float,
    ) -> None:
        count = len(categories)
        value_axis: dict[str, Any] = {"title_text": axis_of(rows[0].metric) if rows else ""}
        values = [value for row in rows if (value := finite_value(row)) is not None and value > 0]
        if self.by_layer and values and max(values) > WIDE * min(values):
            value_axis["type"] = "log"
        elif any(row.metric == self.zero for row in rows):
            value_axis |= {"rangemode": "tozero"}
            if has_arrows(rows, self.zero, lowest):
                highest = max([0.0, *(end for row in rows for end in (row.value, row.high or 0.0) if math.isfinite(end))])
                value_axis["range"] = [1.08 * lowest, highest - 0.08 * lowest]
        elif self.by_layer:
            value_axis["rangemode"] = "tozero"
        else:
            value_axis["range"] = steady_range(rows)
        # States are next to each other within a category, so the axis is one of numbers whose ticks are named.
        names = [plain(state_title(name) or "all", NAME) for name in categories]
        ticks: dict[str, Any] = {"tickvals": list(range(count)), "ticktext": names, "range": [count - 0.5, -0.5]}
        if self.vertical:
            ticks |= {"range": [-0.5, count - 0.5], "ticktext": names if is_last else [""] * count}
        if is_last if self.vertical else position["col"] == 1:
            ticks["title_text"] = self.category_title
        figure.update_xaxes(**(ticks if self.vertical else value_axis), **position)
        figure.update_yaxes(**(value_axis if self.vertical else ticks), **position)
        if any(row.metric == self.zero for row in rows):
            figure.add_vline(x=0, line_width=1, line_color=AXIS, **position)

    def _draw_layers(self, figure: Figure, rows: Sequence[Row], pens: Mapping[str, Pen], position: Mapping[str, int]) -> None:
        for state, group in grouped(sorted(rows, key=lambda row: row.layer or 0), lambda row: row.state).items():
            points = [(row.layer, finite_value(row), hover_text(row)) for row in group]
            bars = error_bars(group, pens[state].colour)
            figure.add_trace(pens[state].draw(points, hover="layer %{x}: %{text}", error_y=bars), **position)
        figure.update_xaxes(title_text="layer", dtick=tick_step(len({row.layer for row in rows})), **position)
        figure.update_yaxes(title_text=axis_of(rows[0].metric), rangemode="tozero", **position)


def lowest_shown(rows: Sequence[Row], zero: str) -> float:
    """Where an axis of changes ends on the left: one change that does great harm must not hide what all others do."""
    changes = [row for row in rows if row.metric == zero and math.isfinite(row.value)]
    ends = [abs(row.value) for row in changes if row.value > 0]
    return -max(AROUND_ZERO, TYPICAL * median(abs(row.value) for row in changes), *ends) if changes else -math.inf


def has_arrows(rows: Sequence[Row], zero: str, lowest: float | None = None) -> bool:
    """Whether one of these changes is beyond the axis, and so drawn as an arrow."""
    lowest = lowest_shown(rows, zero) if lowest is None else lowest
    return any(row.metric == zero and row.value < lowest for row in rows)
