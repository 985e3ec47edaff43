"""Heat maps of the distances between labels, one for each state, with one colour scale and one order of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from theodolite.core.rows import Row
from theodolite.core.states import state_order, state_title
from theodolite.reports.displays.base import FigureSpec, RowsDisplay, frame_of
from theodolite.reports.plain_text import plain
from theodolite.reports.theme import CELL_SCALE, NAME, panel_grid, panel_position

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure, Heatmap

WIDTH = 420
"""Pixels that a map is wide on a usual page."""


@dataclass(frozen=True, kw_only=True)
class HeatMapSpec(FigureSpec):
    """The declaration of heat maps. Its `select` returns rows that have one label as `label` and the other as `setting`.

    Parameters
    ----------
    bar_title
        Title of the colour bar.
    """

    bar_title: str

    def display(self, rows: tuple[Row, ...], **labels: str) -> HeatMapDisplay:
        """The heat maps of these rows."""
        return HeatMapDisplay(rows=rows, fields=self.fields, bar_title=self.bar_title, **labels)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeatMapDisplay(RowsDisplay):
    """Rows of two labels each as heat maps; labels that are close in the first one are side by side in all of them."""

    bar_title: str

    def frame(self) -> pd.DataFrame:
        """Every value, one per line, with its two labels."""
        labels = {"first": [row.label for row in self.rows], "second": [row.setting for row in self.rows]}
        return frame_of({**labels, **{name: [getattr(row, name) for row in self.rows] for name in self.fields}})

    def plot(self) -> Figure:
        """A heat map for each state."""
        states = sorted({row.state for row in self.rows}, key=lambda state: (state_order(state), state))
        labels = sorted({label for row in self.rows for label in (row.label, row.setting)})
        squares = [self._square(state, labels) for state in states]
        order = _similar_together(squares[0])  # of the first state in all maps, so that what moved stands out
        height = max(320, min(640, 14 * len(labels) + 120))
        titles = [state_title(state) or "all" for state in states]
        figure = panel_grid(titles, columns=2, height=height, horizontal_spacing=0.03)
        for i, square in enumerate(squares):
            place = panel_position(i, 2)
            figure.add_trace(_heat_map(square[np.ix_(order, order)], [labels[j] for j in order]), **place)
            is_first = place["col"] == 1
            figure.update_yaxes(showticklabels=is_first, title_text="label" if is_first else "", **place)
        ticks = {
            "tickvals": list(range(len(labels))),
            "ticktext": [plain(labels[i], 24 if len(labels) <= 20 else 14) for i in order],
            # Letters shrink with the number of labels, down to what can still be read.
            "tickfont": {"size": max(6.5, min(12.0, 0.85 * WIDTH / len(labels)))},
            "showgrid": False,
            "ticks": "",
        }
        figure.update_xaxes(**ticks, tickangle=-90 if len(labels) > 6 else 0, title_text="label", constrain="domain")
        figure.update_yaxes(**ticks, autorange="reversed")  # the first label on top, as in a matrix
        bar = {"title": {"text": self.bar_title, "side": "right"}, "thickness": 12, "outlinewidth": 0, "len": 0.9}
        return figure.update_layout(coloraxis={"colorscale": CELL_SCALE, "cmin": 0, "colorbar": bar})

    def _square(self, state: str, labels: Sequence[str]) -> NDArray[np.float64]:
        places = {label: i for i, label in enumerate(labels)}
        square = np.full((len(labels), len(labels)), np.nan)
        for row in self.rows:
            if row.state == state:
                first, second = places[row.label], places[row.setting]
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
    return Heatmap(
        z=[[value if np.isfinite(value) else None for value in line] for line in square.tolist()],
        text=[[f"{first} and {second}" for second in names] for first in names],
        coloraxis="coloraxis",
        hovertemplate="%{text}: %{z:.4g}<extra></extra>",
        xgap=0.5,
        ygap=0.5,
        hoverongaps=False,
    )
