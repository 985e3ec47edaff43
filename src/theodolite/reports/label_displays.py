"""What happens to labels: heat maps of the distances between them, and the paths of their centroids through fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import dist
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.pictures import AXES
from theodolite.core.rows import Row
from theodolite.core.states import state_order, state_title
from theodolite.reports.displays import (
    Display,
    DrawnDisplay,
    FigureSpec,
    add_slider,
    grouped,
    heat_map,
    name_once,
    records_of,
    titles_of,
)
from theodolite.reports.theme import AXIS, CELL_SCALE, GREY, NAME, PALETTE, Pen, panel_grid, panel_position, state_pens
from theodolite.reports.wording import CUT, clean, plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Heatmap, Scatter

    from theodolite.core.result import Result

# Pixels of a heat map's cell that leave room for its label, and of the label's letters.
CELL, LETTERS = 14, 11
# Characters of a label on a heat map, and pixels of its colour bar with the margins.
SHOWN, BAR = 18, 130
PATH_HEADING = "Paths of the labels' centroids"
PATH_NOTE = (
    "A hollow mark shows where a label starts, and a filled one where it is at the step. If there are many labels, only the "
    "three that are closest before training are coloured. The slider moves through training. The first seed is shown."
)
# Where a label's centroid is at a training step: a line of the record `paths`.
Stop: TypeAlias = dict[str, Any]
PATH_COLUMNS = ("task", "layer", "label", "step", *AXES)
# Labels up to which the cells of a heat map show their numbers.
NUMBERED = 8
# Labels up to which every path is named; of more, only the closest ones are.
ALL_NAMED, CLOSEST = 6, 3
# Labels of each layer that are named because they moved furthest on the two directions drawn.
OUTERMOST = 2


@dataclass(frozen=True, kw_only=True)
class HeatMapSpec(FigureSpec):
    """The declaration of heat maps of distances: one for each state, with one colour scale and one order of the labels.

    Its `select` returns rows of pairs of labels.
    """

    def columns(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """The columns of the frame, with the two labels as `first` and `second`."""
        columns = super().columns(rows)
        return {"first": columns.pop("label"), "second": columns.pop("other_label"), **columns}

    def plot(self, rows: Sequence[Row]) -> Figure:
        """A heat map for each state; labels that are close in the first one are side by side in all of them."""
        states = sorted({row.state for row in rows}, key=lambda state: (state_order(state), state))
        labels = sorted({label for row in rows for label in (row.label, row.other_label)})
        squares = [_square([row for row in rows if row.state == state], labels) for state in states]
        order = _similar_together(squares[0])  # of the first state in all maps, so that what moved stands out
        height = max(320, CELL * len(labels) + 140)
        titles = [state_title(state) for state in states]
        figure = panel_grid(titles, columns=2, height=height, horizontal_spacing=0.03)
        for i, square in enumerate(squares):
            position = panel_position(i, 2)
            figure.add_trace(_heat_map(square[np.ix_(order, order)], [labels[j] for j in order]), **position)
            is_first = position["col"] == 1
            figure.update_yaxes(showticklabels=is_first, title_text="label" if is_first else "", **position)
        names = [plain(_without_middle(labels[i]), NAME) for i in order]
        font = {"size": LETTERS}
        ticks = {"tickvals": list(range(len(labels))), "ticktext": names, "tickfont": font, "showgrid": False, "ticks": ""}
        figure.update_xaxes(**ticks, tickangle=-90 if len(labels) > 6 else 0, title_text="label", constrain="domain")
        figure.update_yaxes(**ticks, autorange="reversed")  # the first label on top, as in a matrix
        bar = {"title": {"text": "distance", "side": "right"}, "thickness": 12, "outlinewidth": 0, "len": 0.9}
        # A narrower page scrolls sideways: letters that are squeezed over each other say nothing.
        needed = CELL * len(labels) + 7 * min(SHOWN, max(map(len, labels))) + BAR
        return figure.update_layout(coloraxis={"colorscale": CELL_SCALE, "cmin": 0, "colorbar": bar}, meta={"panel": needed})


@dataclass(frozen=True, kw_only=True)
class PlaceMapSpec(FigureSpec):
    """The declaration of a heat map of one score: layers across, the setting of the rows down."""

    def plot(self, rows: Sequence[Row]) -> Figure:
        """A cell for each layer and setting, with its number if there is room."""
        layers, settings = sorted({row.layer or 0 for row in rows}), sorted({row.setting for row in rows})
        values = {(row.setting, row.layer or 0): row.value for row in rows}
        cells = [[values.get((setting, layer)) for layer in layers] for setting in settings]
        look: dict[str, Any] = {"hovertemplate": "layer %{x}, %{y}: %{z:.4f}<extra></extra>"}
        look |= {"texttemplate": "%{z:.3f}"} if len(layers) <= NUMBERED else {}
        look |= {"coloraxis": "coloraxis", "xgap": 1, "ygap": 1, "hoverongaps": False}
        names = [plain(setting, NAME) for setting in settings]
        figure = heat_map(cells, list(map(str, layers)), names, height=44 * len(settings) + 120, **look)
        figure.update_xaxes(title_text="layer", type="category", showgrid=False)
        figure.update_yaxes(autorange="reversed", showgrid=False)
        bar = {"title": {"text": "score", "side": "right"}, "thickness": 12, "outlinewidth": 0}
        return figure.update_layout(coloraxis={"colorscale": CELL_SCALE, "colorbar": bar})


@dataclass(frozen=True, kw_only=True)
class MovementSpec(FigureSpec):
    """The declaration of labels on the first two directions of their centroids' movement: one panel per layer, on one scale."""

    named: tuple[str, ...] = ()

    def plot(self, rows: Sequence[Row]) -> Figure:
        """A dot for each label, from the origin, which is where a label that did not move would be."""
        from plotly.graph_objects import Scatter

        first, second = self.metrics
        layers: dict[int, dict[str, tuple[float, float]]] = {}
        values = {(row.metric, row.layer, row.label): row.value for row in rows}
        for row in rows:
            y = values.get((second, row.layer, row.label))
            if row.metric == first and y is not None:
                layers.setdefault(row.layer or 0, {})[row.label] = (row.value, y)
        columns = min(4, len(layers))
        lines = -(-len(layers) // columns)
        figure = panel_grid([f"layer {layer}" for layer in layers], columns=columns, height=300 * lines, horizontal_spacing=0.04)
        for number, (layer, movements) in enumerate(layers.items()):
            outermost = sorted(movements, key=lambda label: -dist(movements[label], (0.0, 0.0)))[:OUTERMOST]
            named = {*outermost, *self.named}
            for apart in (False, True):
                points = {label: movement for label, movement in movements.items() if (label in named) == apart}
                names = [plain(label, NAME) for label in points]
                figure.add_trace(
                    Scatter(
                        x=[x for x, _ in points.values()], y=[y for _, y in points.values()], text=names, name="",
                        mode="markers+text" if apart else "markers", textposition="top center", textfont={"size": 9},
                        marker={"color": PALETTE[1] if apart else GREY, "size": 7 if apart else 5}, showlegend=False,
                        hovertemplate=f"%{{text}}, layer {layer}: (%{{x:.3g}}, %{{y:.3g}})<extra></extra>", cliponaxis=False,
                    ),
                    **panel_position(number, columns),
                )  # fmt: skip
        figure.update_xaxes(title_text="direction 1", matches="x", zeroline=True)
        figure.update_yaxes(matches="y", zeroline=True)
        return figure.update_yaxes(title_text="direction 2", col=1)


def path_displays(result: Result) -> Iterator[Display]:
    """The paths of the labels' centroids, one display for each model and task."""
    stops: list[Stop] = []
    for line in records_of(result, "paths", PATH_COLUMNS):
        stop: Stop = {name: str(line.get(name) or "") for name in ("model", "task", "label")}
        stop |= {name: int(line[name]) for name in ("layer", "step")} | {axis: float(line[axis] or 0) for axis in AXES}
        stops.append(stop | {"seed": int(line.get("seed") or 0)})
    for names, group in grouped(stops, lambda stop: (stop["model"], stop["task"])).items():
        first = min(stop["seed"] for stop in group)  # each seed has principal directions of its own
        one_seed = [stop for stop in group if stop["seed"] == first]
        ordered = sorted(one_seed, key=lambda stop: (stop["layer"], stop["label"], stop["step"]))
        titles = titles_of("centroid-paths", PATH_HEADING, names)
        yield DrawnDisplay(columns=partial(_path_columns, ordered), draw=partial(_draw_paths, ordered), note=PATH_NOTE, **titles)


def _path_columns(stops: Sequence[Stop]) -> dict[str, list[Any]]:
    return {name: [stop[name] for stop in stops] for name in ("model", *PATH_COLUMNS)}


def _draw_paths(stops: Sequence[Stop]) -> Figure:
    """Centroids on two principal directions, at the lowest layer and the highest, up to a step that a slider chooses."""
    steps = sorted({stop["step"] for stop in stops})
    by_layer = grouped(stops, lambda stop: stop["layer"])
    ends = dict.fromkeys([min(by_layer), max(by_layer)])  # one panel if there is one layer
    figure = panel_grid([f"layer {layer}" for layer in ends], columns=2, height=420, horizontal_spacing=0.12)
    pens = state_pens(_named_labels(stops, max(by_layer)))
    for column, layer in enumerate(ends, start=1):
        for trace in _path_traces(by_layer[layer], pens, until=steps[-1]):
            figure.add_trace(trace, row=1, col=column)
        _fix_axes(figure, by_layer[layer], column)
    frames = {
        step: [_changes(trace) for layer in ends for trace in _path_traces(by_layer[layer], pens, until=step)] for step in steps
    }
    return add_slider(name_once(figure), frames, prefix="step", traces=range(len(figure.data)))


def _path_traces(stops: Sequence[Stop], pens: Mapping[str, Pen], *, until: int) -> Iterator[Scatter]:
    paths = grouped(stops, lambda stop: stop["label"])
    paths = {label: [stop for stop in path if stop["step"] <= until] for label, path in paths.items()}
    others = [path for label, path in paths.items() if label not in pens]
    if others:
        points = [[(stop["x"], stop["y"], "") for stop in path] for path in others]
        pen = Pen(name=f"{len(others)} other labels", colour=AXIS, width=0.8)
        yield pen.draw_together(points, hover="", hoverinfo="skip")
    for label, pen in pens.items():
        if label in paths:
            yield _path_trace(paths[label], replace(pen, width=1.8))


def _fix_axes(figure: Figure, stops: Sequence[Stop], column: int) -> None:
    # Ranges stand still while the slider moves, and a unit is as long on both axes, so that distances can be seen.
    x, y = ([stop[axis] for stop in stops] for axis in ("x", "y"))
    # A label that does not move at all still needs an axis of some length.
    margin = 0.06 * max(max(x) - min(x), max(y) - min(y), 1e-9)
    figure.update_xaxes(title_text="direction 1", range=[min(x) - margin, max(x) + margin], row=1, col=column)
    anchor = {"scaleanchor": "x" if column == 1 else f"x{column}"}
    figure.update_yaxes(title_text="direction 2", range=[min(y) - margin, max(y) + margin], **anchor, row=1, col=column)


def _named_labels(stops: Sequence[Stop], layer: int) -> Sequence[str]:
    """All labels if they are few; otherwise the two that are closest in this layer at the start, and a third near both."""
    labels = list(dict.fromkeys(stop["label"] for stop in stops))
    if len(labels) <= ALL_NAMED:
        return labels
    # Close before training: what tuning does to labels that are hard to tell apart is what the figure is for.
    start = min(stop["step"] for stop in stops)
    starts = [stop for stop in stops if stop["layer"] == layer and stop["step"] == start]
    if len(starts) < CLOSEST:
        return labels[:CLOSEST]
    at = {stop["label"]: [stop[axis] for axis in AXES] for stop in starts}
    first, second = min(combinations(at, 2), key=lambda pair: dist(at[pair[0]], at[pair[1]]))
    rest = [label for label in at if label not in (first, second)]
    return [first, second, min(rest, key=lambda label: dist(at[label], at[first]) + dist(at[label], at[second]))]


def _path_trace(path: Sequence[Stop], pen: Pen) -> Scatter:
    ends = (0, len(path) - 1)  # the start and the present are large, what is between is small
    symbols = [f"{pen.symbol}-open" if i == 0 else pen.symbol for i in range(len(path))]
    sizes = [11 if i in ends else 4 for i in range(len(path))]
    outline = {"width": 1.5, "color": pen.colour}
    marker = {"color": pen.colour, "symbol": symbols, "size": sizes, "opacity": 1, "line": outline}
    points = [(stop["x"], stop["y"], f"{stop['step']:,}") for stop in path]
    return pen.draw(points, hover="step %{text}: (%{x:.3g}, %{y:.3g})", marker=marker)


def _changes(trace: Scatter) -> dict[str, Any]:
    """What of a trace depends on the step."""
    marker = {"symbol": trace.marker.symbol, "size": trace.marker.size}
    return {"x": trace.x, "y": trace.y, "text": trace.text, "marker": marker}


def _without_middle(label: str) -> str:
    """A label that fits an axis: of a long one its start and its end, which tell it from others that start alike."""
    text = clean(label)
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]}{CUT}{text[1 - SHOWN // 2 :]}"


def _square(rows: Sequence[Row], labels: Sequence[str]) -> NDArray[np.float64]:
    numbers = {label: i for i, label in enumerate(labels)}
    square = np.full((len(labels), len(labels)), np.nan)
    for row in rows:
        first, second = numbers[row.label], numbers[row.other_label]
        square[first, second] = square[second, first] = row.value
    return square


def _similar_together(square: NDArray[np.float64]) -> list[int]:
    """An order of the labels in which close ones are neighbours: the leaves of an average-linkage tree."""
    if len(square) < 3:
        return list(range(len(square)))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    finite = square[np.isfinite(square)]
    # A pair without a distance counts as far apart: linkage needs a number for every pair.
    filled = np.where(np.isfinite(square), square, finite.max() if finite.size else 1.0)
    np.fill_diagonal(filled, 0.0)
    return [int(i) for i in leaves_list(linkage(squareform(filled, checks=False), "average", optimal_ordering=True))]


def _heat_map(square: NDArray[np.float64], labels: Sequence[str]) -> Heatmap:
    from plotly.graph_objects import Heatmap

    names = [plain(label, NAME) for label in labels]
    cells = [[value if np.isfinite(value) else None for value in line] for line in square.tolist()]
    texts = [[f"{first} and {second}" for second in names] for first in names]
    look = {"coloraxis": "coloraxis", "xgap": 0.5, "ygap": 0.5, "hoverongaps": False}
    # Few cells have room for their numbers.
    numbers = {"texttemplate": "%{z:.2f}"} if len(labels) <= NUMBERED else {}
    return Heatmap(z=cells, text=texts, hovertemplate="%{text}: %{z:.4g}<extra></extra>", **numbers, **look)
