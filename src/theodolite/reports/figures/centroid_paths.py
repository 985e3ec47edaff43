"""The paths of the labels' centroids through fine-tuning, in the first directions of their space (ZS22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import dist
from typing import TYPE_CHECKING, Any

from theodolite.reports.figures.base import Shown, file_name, frame_of, grouped
from theodolite.reports.figures.lines import Pen, drawn, pens
from theodolite.reports.figures.slider import BELOW, with_slider
from theodolite.reports.look import AXIS, panels
from theodolite.reports.plain import clean

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    from plotly.graph_objects import Figure, Scatter

COLUMNS = ("task", "layer", "label", "step", "x", "y", "z")
NAMED = 6
"""Labels that are all named; of more, the closest ones are."""
CLOSEST = 3


@dataclass(frozen=True)
class Stop:
    """Where a label's centroid is at a step."""

    task: str
    layer: int
    label: str
    step: int
    x: float
    y: float
    z: float
    model: str = ""


@dataclass(frozen=True)
class CentroidPaths(Shown):
    """Centroids in two principal directions, a panel for the lowest layer and one for the highest, walked through by a slider."""

    stops: tuple[Stop, ...]

    @classmethod
    def of(cls, table: pyarrow.Table | None) -> CentroidPaths | None:
        """The paths of a table with the columns task, layer, label, step, x, y and z, of one task; None where it has no line."""
        if table is None or table.num_rows == 0:
            return None
        models = table["model"].to_pylist() if "model" in table.column_names else [""] * table.num_rows
        lines = zip(*(table[name].to_pylist() for name in COLUMNS), models, strict=True)
        stops = [_stop(line) for line in lines]
        for what, found in (("task", {stop.task for stop in stops}), ("model", {stop.model for stop in stops})):
            if len(found) > 1:
                named = ", ".join(clean(one, 40) for one in sorted(found)[:4])
                raise ValueError(
                    f"CentroidPaths shows one {what}, and this table is of {len(found)} ({named}); give it the lines of one"
                )
        return cls(tuple(sorted(stops, key=lambda stop: (stop.layer, stop.label, stop.step))))

    @property
    def name(self) -> str:
        return file_name("centroid-paths", self.stops[0].model, self.stops[0].task)

    @property
    def title(self) -> str:
        told = ", ".join(clean(one, 60) for one in (self.stops[0].model, self.stops[0].task) if one)
        return "Paths of the labels' centroids" + (f": {told}" if told else "")

    @property
    def note(self) -> str:
        return (
            "A hollow mark is where a label starts, a full one where it is at the step. Of many labels, the three closest before "
            "training have colours. The slider walks through training."
        )

    def frame(self) -> pd.DataFrame:
        """Every place of every centroid, one line each."""
        return frame_of({name: [getattr(stop, name) for stop in self.stops] for name in ("model", *COLUMNS)})

    def plot(self) -> Figure:
        """The paths up to a step, by a slider; it opens at the last."""
        from plotly.graph_objects import Frame

        steps = sorted({stop.step for stop in self.stops})
        layers = sorted({stop.layer for stop in self.stops})
        shown = [layers[0], layers[-1]] if len(layers) > 1 else layers
        figure = panels([f"layer {layer}" for layer in shown], columns=2, height=420, horizontal_spacing=0.12)
        for column, trace in self._until(steps[-1], shown):
            figure.add_trace(trace, row=1, col=column)
        frames = [
            Frame(data=[trace for _, trace in self._until(step, shown)], traces=list(range(len(figure.data)))) for step in steps
        ]
        self._fix_axes(figure, shown)
        figure.update_layout(height=figure.layout.height + BELOW)
        return with_slider(figure, steps, frames, what="step", start=len(steps) - 1)

    def _fix_axes(self, figure: Figure, layers: Sequence[int]) -> None:
        # Ranges hold still while the slider moves, and a unit is as long on both axes, so that distances can be seen.
        for column, layer in enumerate(layers, start=1):
            inside = [stop for stop in self.stops if stop.layer == layer]
            x, y = [stop.x for stop in inside], [stop.y for stop in inside]
            margin = 0.06 * max(max(x) - min(x), max(y) - min(y), 1e-9)
            figure.update_xaxes(title_text="direction 1", range=[min(x) - margin, max(x) + margin], row=1, col=column)
            second = {"range": [min(y) - margin, max(y) + margin], "scaleanchor": "x" if column == 1 else f"x{column}"}
            figure.update_yaxes(title_text="direction 2", **second, row=1, col=column)

    def _until(self, step: int, layers: Sequence[int]) -> list[tuple[int, Scatter]]:
        from plotly.graph_objects import Scatter

        chosen = pens(self._named(layers[-1]))
        known: set[str] = set()
        found: list[tuple[int, Scatter]] = []
        for column, layer in enumerate(layers, start=1):
            paths = grouped((stop for stop in self.stops if stop.layer == layer), lambda stop: stop.label)
            others = [path for label, path in paths.items() if label not in chosen]
            if others:
                pen = Pen(name=f"{len(others)} other labels", colour=AXIS, width=0.8).silent(known)
                found.append((column, _joined(others, step, pen)))
            for label in (label for label in chosen if label in paths):
                pen = chosen[label].silent(known)
                path = [stop for stop in paths[label] if stop.step <= step]
                marks = [f"{pen.symbol}-open" if i == 0 else pen.symbol for i in range(len(path))]
                sizes = [11 if i in (0, len(path) - 1) else 4 for i in range(len(path))]
                look = drawn(replace(pen, width=1.8))
                look["marker"] = {
                    "color": pen.colour,
                    "symbol": marks,
                    "size": sizes,
                    "opacity": 1,
                    "line": {"width": 1.5, "color": pen.colour},
                }
                places: dict[str, Any] = {
                    "x": [stop.x for stop in path],
                    "y": [stop.y for stop in path],
                    "text": [f"{stop.step:,}" for stop in path],
                }
                found.append(
                    (column, Scatter(**places, mode="lines+markers", hovertemplate="step %{text}: (%{x:.3g}, %{y:.3g})", **look))
                )
        return found

    def _named(self, layer: int) -> list[str]:
        labels = list(dict.fromkeys(stop.label for stop in self.stops))
        if len(labels) <= NAMED:
            return labels
        first = min(stop.step for stop in self.stops)
        at = {stop.label: (stop.x, stop.y, stop.z) for stop in self.stops if stop.layer == layer and stop.step == first}
        if len(at) < CLOSEST:
            return labels[:CLOSEST]
        one, other = min(combinations(at, 2), key=lambda pair: dist(at[pair[0]], at[pair[1]]))
        third = min(
            (label for label in at if label not in (one, other)),
            key=lambda label: dist(at[label], at[one]) + dist(at[label], at[other]),
        )
        return [one, other, third]


def _stop(line: tuple[Any, ...]) -> Stop:
    task, layer, label, step, x, y, z, model = line
    return Stop(str(task or ""), int(layer), str(label or ""), int(step), float(x), float(y), float(z or 0), str(model or ""))


def _joined(paths: Sequence[Sequence[Stop]], step: int, pen: Pen) -> Scatter:
    from plotly.graph_objects import Scatter

    x: list[Any] = []
    y: list[Any] = []
    for path in paths:
        x += [*(stop.x for stop in path if stop.step <= step), None]
        y += [*(stop.y for stop in path if stop.step <= step), None]
    return Scatter(x=x, y=y, mode="lines", hoverinfo="skip", **drawn(pen))
