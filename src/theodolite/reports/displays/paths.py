"""Paths of the labels' centroids through fine-tuning, in the first two principal directions, walked through with a slider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import dist
from typing import TYPE_CHECKING, Any

from theodolite.reports.displays.base import Display, frame_of, grouped, records_of, titles_of
from theodolite.reports.displays.pens import Pen, state_pens
from theodolite.reports.displays.traces import add_slider, joined_trace, line_trace, name_once
from theodolite.reports.theme import AXIS, panel_grid

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure, Scatter

    from theodolite.core.result import Result

COLUMNS = ("task", "layer", "label", "step", "x", "y", "z")
ALL_NAMED = 6
"""Labels up to which every one is named; of more, only the closest ones are."""
CLOSEST = 3


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a label's centroid is at a training step."""

    model: str
    task: str
    layer: int
    label: str
    step: int
    x: float
    y: float
    z: float


@dataclass(frozen=True, kw_only=True)
class PathSpec:
    """The declaration of centroid paths, which come from a table of a result's records.

    Parameters
    ----------
    name, heading, note
        As those of `Display`.
    record
        Name of the table; its columns are task, layer, label, step, x, y, z, and model if there are several.
    """

    name: str
    heading: str
    note: str
    record: str

    def displays(self, result: Result) -> Iterator[Display]:
        """One figure for each model and task."""
        stops = [_stop(line) for line in records_of(result, self.record, COLUMNS)]
        for (model, task), group in grouped(stops, lambda stop: (stop.model, stop.task)).items():
            ordered = tuple(sorted(group, key=lambda stop: (stop.layer, stop.label, stop.step)))
            yield PathDisplay(stops=ordered, **titles_of(self.name, self.heading, [model, task]), note=self.note)


@dataclass(frozen=True, eq=False, kw_only=True)
class PathDisplay(Display):
    """Centroids on two principal directions, in a panel for the lowest layer and one for the highest."""

    stops: tuple[Stop, ...]

    def frame(self) -> pd.DataFrame:
        """Every position of every centroid, one per line."""
        return frame_of({name: [getattr(stop, name) for stop in self.stops] for name in ("model", *COLUMNS)})

    def plot(self) -> Figure:
        """The paths up to a training step, which a slider chooses; it opens at the last one."""
        steps = sorted({stop.step for stop in self.stops})
        layers = sorted({stop.layer for stop in self.stops})
        ends = dict.fromkeys([layers[0], layers[-1]])  # one panel if there is one layer
        figure = panel_grid([f"layer {layer}" for layer in ends], columns=2, height=420, horizontal_spacing=0.12)
        pens = state_pens(self._named_labels(layers[-1]))
        for column, layer in enumerate(ends, start=1):
            for trace in self._traces(layer, pens, until=steps[-1]):
                figure.add_trace(trace, row=1, col=column)
            self._fix_axes(figure, layer, column)
        frames = {step: [_changes(trace) for layer in ends for trace in self._traces(layer, pens, until=step)] for step in steps}
        return add_slider(name_once(figure), frames, prefix="step", traces=range(len(figure.data)))

    def _traces(self, layer: int, pens: Mapping[str, Pen], *, until: int) -> Iterator[Scatter]:
        paths = grouped((stop for stop in self.stops if stop.layer == layer), lambda stop: stop.label)
        paths = {label: [stop for stop in path if stop.step <= until] for label, path in paths.items()}
        others = [path for label, path in paths.items() if label not in pens]
        if others:
            points = [[(stop.x, stop.y, "") for stop in path] for path in others]
            pen = Pen(name=f"{len(others)} other labels", colour=AXIS, width=0.8)
            yield joined_trace(points, pen, hover="", hoverinfo="skip")
        for label, pen in pens.items():
            if label in paths:
                yield _path_trace(paths[label], replace(pen, width=1.8))

    def _fix_axes(self, figure: Figure, layer: int, column: int) -> None:
        # Ranges stand still while the slider moves, and a unit is as long on both axes, so that distances can be seen.
        stops = [stop for stop in self.stops if stop.layer == layer]
        x, y = [stop.x for stop in stops], [stop.y for stop in stops]
        # A label that does not move at all still needs an axis of some length.
        margin = 0.06 * max(max(x) - min(x), max(y) - min(y), 1e-9)
        figure.update_xaxes(title_text="direction 1", range=[min(x) - margin, max(x) + margin], row=1, col=column)
        anchor = {"scaleanchor": "x" if column == 1 else f"x{column}"}
        figure.update_yaxes(title_text="direction 2", range=[min(y) - margin, max(y) + margin], **anchor, row=1, col=column)

    def _named_labels(self, layer: int) -> Sequence[str]:
        """All labels if they are few; otherwise the two that are closest in this layer at the start, and a third near both."""
        labels = list(dict.fromkeys(stop.label for stop in self.stops))
        # Close before training: what tuning does to labels that are hard to tell apart is what the figure is for.
        start = min(stop.step for stop in self.stops)
        at = {stop.label: (stop.x, stop.y, stop.z) for stop in self.stops if stop.layer == layer and stop.step == start}
        if len(labels) <= ALL_NAMED:
            return labels
        if len(at) < CLOSEST:
            return labels[:CLOSEST]
        first, second = min(combinations(at, 2), key=lambda pair: dist(at[pair[0]], at[pair[1]]))
        rest = [label for label in at if label not in (first, second)]
        return [first, second, min(rest, key=lambda label: dist(at[label], at[first]) + dist(at[label], at[second]))]


def _path_trace(path: Sequence[Stop], pen: Pen) -> Scatter:
    ends = (0, len(path) - 1)  # the start and the present are large, what is between is small
    marker = {
        "color": pen.colour,
        "symbol": [f"{pen.symbol}-open" if i == 0 else pen.symbol for i in range(len(path))],
        "size": [11 if i in ends else 4 for i in range(len(path))],
        "opacity": 1,
        "line": {"width": 1.5, "color": pen.colour},
    }
    points = [(stop.x, stop.y, f"{stop.step:,}") for stop in path]
    return line_trace(points, pen, hover="step %{text}: (%{x:.3g}, %{y:.3g})", marker=marker)


def _changes(trace: Scatter) -> dict[str, Any]:
    """What of a trace depends on the step."""
    marker = {"symbol": trace.marker.symbol, "size": trace.marker.size}
    return {"x": trace.x, "y": trace.y, "text": trace.text, "marker": marker}


def _stop(line: Mapping[str, Any]) -> Stop:
    return Stop(
        model=str(line.get("model") or ""),
        task=str(line["task"] or ""),
        layer=int(line["layer"]),
        label=str(line["label"] or ""),
        step=int(line["step"]),
        x=float(line["x"]),
        y=float(line["y"]),
        z=float(line["z"] or 0),
    )
