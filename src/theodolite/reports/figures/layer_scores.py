"""Scores after each repair, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import SCORED, RowsDisplay, grouped, one_of, states_of
from theodolite.reports.figures.lines import line, pens
from theodolite.reports.figures.repair_scores import CHANGE, SCORE, order, repaired
from theodolite.reports.figures.words import axis
from theodolite.reports.look import panels, place

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class LayerScores(RowsDisplay):
    """Spearman over the layers: a panel for each state, a line for each repair, with intervals."""

    metric: str = SCORE
    fields: ClassVar[tuple[str, ...]] = SCORED

    @classmethod
    def of(cls, rows: Iterable[Row], metric: str = SCORE) -> LayerScores | None:
        """`spearman` (or `spearman_change`) of one model's repairs at two layers or more; None where there is none."""
        if metric not in (SCORE, CHANGE):
            raise ValueError(f"metric={metric!r} is no score by layer; use {SCORE!r} or {CHANGE!r}")
        found = [row for row in repaired(rows) if row.metric == metric and row.layer is not None]
        one_of(found, "LayerScores", "model", "task")
        by_line = grouped(found, lambda row: (row.state, row.setting))
        kept = [row for group in by_line.values() if len({row.layer for row in group}) > 1 for row in group]
        return cls(tuple(sorted(kept, key=lambda row: (order(row.setting), row.layer or 0))), metric) if kept else None

    @property
    def name(self) -> str:
        return self.file_name("change-by-layer" if self.metric == CHANGE else "score-by-layer", "model")

    @property
    def title(self) -> str:
        what = "Change of the score" if self.metric == CHANGE else "Scores"
        return f"{what} by layer after each repair{self.about('model')}"

    @property
    def note(self) -> str:
        return "Each layer is repaired and scored by itself. Bars are intervals of a bootstrap over sentence pairs."

    def plot(self) -> Figure:
        """The score over the layers, a panel for each state."""
        states = states_of(self.rows)
        figure = panels(states, columns=2, shared_y=True, height=380)
        chosen, known = pens(list(dict.fromkeys(row.setting for row in self.rows))), set[str]()
        for i, state in enumerate(states):
            for setting, members in grouped((row for row in self.rows if row.state == state), lambda row: row.setting).items():
                pen = chosen[setting].silent(known)
                figure.add_trace(
                    line([row.layer for row in members], members, pen, before="layer "), **place(i, min(2, len(states)))
                )
        figure.update_xaxes(title_text="layer", dtick=1)
        return figure.update_yaxes(title_text=axis(self.metric), col=1)
