"""How far the labels' centroids went in each layer, and in how many directions (ZS22, movement by layer)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, grouped, one_of
from theodolite.reports.figures.lines import Pen, line, said, value_of
from theodolite.reports.look import NAME, PALETTE, faded, panels
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Box, Figure

MOVED = "centroid_movement"
SHARES = {"movement_share_1": "on one direction", "movement_share_2": "on two directions"}


@dataclass(frozen=True)
class CentroidMovement(RowsDisplay):
    """The distance each label's centroid moved over the mean norm at the start, by layer; and how few directions hold it all."""

    fields: ClassVar[tuple[str, ...]] = ("model", "task", "layer", "label", "metric", "value", "low", "high", "n", "reason")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> CentroidMovement | None:
        """`centroid_movement` and `movement_share_1`, `_2` of one model and task by layer; None where there are none."""
        found = [row for row in rows if row.metric in (MOVED, *SHARES) and row.layer is not None]
        one_of(found, "CentroidMovement", "model", "task")
        return cls(tuple(sorted(found, key=lambda row: row.layer or 0))) if found else None

    @property
    def name(self) -> str:
        return self.file_name("centroid-movement", "model", "task")

    @property
    def title(self) -> str:
        return f"Movement of the labels' centroids by layer{self.about('model', 'task')}"

    @property
    def note(self) -> str:
        return (
            "A dot is a label: how far its centroid went in fine-tuning, over the mean norm before. A share near 1 says that all "
            "labels moved along one direction (or two)."
        )

    def plot(self) -> Figure:
        """Distances by layer, and the shares beside them."""
        shares = [row for row in self.rows if row.metric in SHARES]
        figure = panels([""] * (2 if shares else 1), columns=2, height=360)
        figure.add_trace(self._distances(), row=1, col=1)
        figure.update_yaxes(title_text="distance moved / mean norm", rangemode="tozero", row=1, col=1)
        for i, (metric, members) in enumerate(grouped(shares, lambda row: row.metric).items(), start=1):
            pen = Pen(name=SHARES[metric], colour=PALETTE[i % len(PALETTE)])
            figure.add_trace(line([row.layer for row in members], members, pen, before="layer "), row=1, col=2)
            figure.update_yaxes(title_text="share of the movement", range=[0, 1.05], row=1, col=2)
        return figure.update_xaxes(title_text="layer", dtick=1)

    def _distances(self) -> Box:
        from plotly.graph_objects import Box

        moved = [row for row in self.rows if row.metric == MOVED]
        return Box(
            x=[row.layer for row in moved],
            y=[value_of(row) for row in moved],
            text=[f"{plain(row.label, NAME)}: {said(row)}" for row in moved],
            hovertemplate="layer %{x}, %{text}<extra></extra>",
            boxpoints="all",
            jitter=0.5,
            pointpos=0,
            marker={"color": PALETTE[0], "size": 5},
            line={"color": faded(PALETTE[0]), "width": 1.2},
            fillcolor="rgba(0,0,0,0)",
            showlegend=False,
        )
