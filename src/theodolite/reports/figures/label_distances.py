"""Heat maps of the distances between labels, before and after, on one colour scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, frame_of, last_layer, one_of, states_of
from theodolite.reports.look import CELLS, NAME, panels
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure, Heatmap

METRIC = "label_distance"
WIDTH = 420
"""Pixels that a map is wide on a usual page."""


@dataclass(frozen=True)
class LabelDistances(RowsDisplay):
    """Distance of every two labels, at least 0, a map for each state; like labels lie side by side, as the first map has them."""

    pairs: tuple[tuple[str, str], ...] = field(default=())
    fields: ClassVar[tuple[str, ...]] = ("model", "task", "state", "layer", "value", "low", "high", "n")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> LabelDistances | None:
        """The rows `label_distance` of one model and task, of the last layer; None where there are none."""
        given = list(rows)
        told = [row for row in given if row.metric == METRIC and "|" in row.setting]
        steps = [row.step for row in told if row.step is not None]
        # Where nothing was probed for itself, a tracked run's first step and its last stand for before and after.
        found = [row for row in told if row.step is None] or [row for row in told if row.step in (min(steps), max(steps))]
        one_of(found, "LabelDistances", "model", "task")
        last = last_layer(found)
        kept = tuple(row for row in found if row.layer == last)
        labels = {row.label for row in given if row.label}
        return cls(kept, tuple(_pair(row.setting, labels) for row in kept)) if kept else None

    @property
    def name(self) -> str:
        return self.file_name("label-distances", "model", "task")

    @property
    def title(self) -> str:
        return f"Distances between labels{self.about('model', 'task')}"

    @property
    def note(self) -> str:
        return "Both maps have one colour scale: brighter is further apart. Labels that are close before lie side by side."

    def frame(self) -> pd.DataFrame:
        """Every distance, one line each, with its two labels."""
        told = {name: [getattr(row, name) for row in self.rows] for name in self.fields}
        return frame_of({"first": [a for a, _ in self.pairs], "second": [b for _, b in self.pairs], **told})

    def plot(self) -> Figure:
        """A heat map for each state."""
        states = states_of(self.rows)
        labels = sorted({label for pair in self.pairs for label in pair})
        squares = {state: self._square(state, labels) for state in states}
        order = _side_by_side(squares[states[0]])
        names = [_tick(labels[i], len(labels)) for i in order]
        figure = panels(
            [state or "all" for state in states],
            columns=2,
            height=max(320, min(640, 14 * len(labels) + 120)),
            horizontal_spacing=0.03,
        )
        for i, square in enumerate(squares.values()):
            at = {"row": i // 2 + 1, "col": i % 2 + 1}
            figure.add_trace(_map(square[np.ix_(order, order)], [labels[j] for j in order]), **at)
            figure.update_yaxes(showticklabels=at["col"] == 1, title_text="label" if at["col"] == 1 else "", **at)
        size = max(6.5, min(12.0, 0.85 * WIDTH / len(labels)))
        ticks = {
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "tickfont": {"size": size},
            "showgrid": False,
            "ticks": "",
        }
        figure.update_xaxes(**ticks, tickangle=-90 if len(labels) > 6 else 0, title_text="label", constrain="domain")
        figure.update_yaxes(**ticks, autorange="reversed")
        bar = {"title": {"text": "distance", "side": "right"}, "thickness": 12, "outlinewidth": 0, "len": 0.9}
        return figure.update_layout(coloraxis={"colorscale": CELLS, "cmin": 0, "colorbar": bar})

    def _square(self, state: str, labels: Sequence[str]) -> NDArray[np.float64]:
        at = {label: i for i, label in enumerate(labels)}
        square = np.full((len(labels), len(labels)), np.nan)
        for row, (first, second) in zip(self.rows, self.pairs, strict=True):
            if row.state == state:
                square[at[first], at[second]] = square[at[second], at[first]] = row.value
        return square


def _pair(setting: str, labels: set[str]) -> tuple[str, str]:
    # A label may hold the sign that parts two: the cut with a known label on both sides is the right one.
    cuts = [(setting[:i], setting[i + 1 :]) for i, sign in enumerate(setting) if sign == "|"]
    return next((cut for cut in cuts if labels >= set(cut)), cuts[0])


def _tick(label: str, count: int) -> str:
    return plain(label, 24 if count <= 20 else 14)


def _side_by_side(square: NDArray[np.float64]) -> list[int]:
    if len(square) < 3:
        return list(range(len(square)))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    known = square[np.isfinite(square)]
    filled = np.where(np.isfinite(square), square, known.max() if known.size else 1.0)
    np.fill_diagonal(filled, 0.0)
    return [int(i) for i in leaves_list(linkage(squareform(filled, checks=False), "average", optimal_ordering=True))]


def _map(square: NDArray[np.float64], labels: Sequence[str]) -> Heatmap:
    from plotly.graph_objects import Heatmap

    shown = [plain(label, NAME) for label in labels]
    told = [[f"{a} and {b}" for b in shown] for a in shown]
    values: list[list[Any]] = [[value if np.isfinite(value) else None for value in line] for line in square.tolist()]
    return Heatmap(
        z=values,
        text=told,
        coloraxis="coloraxis",
        hovertemplate="%{text}: %{z:.4g}<extra></extra>",
        xgap=0.5,
        ygap=0.5,
        hoverongaps=False,
    )
