"""Scores after each repair, before and after fine-tuning, with their intervals (RP21, tables 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import SCORED, RowsDisplay, grouped, last_layer, one_of, states_of
from theodolite.reports.figures.lines import Pen, bars, drawn, pens, said, value_of
from theodolite.reports.look import AXIS, NAME, panels
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

SCORE, CHANGE = "spearman", "spearman_change"
BASELINE = "baseline"
REPAIRS = (
    BASELINE, "baseline [CLS]", "zero-mean", "clustering+zero-mean", "global", "global scaled", "cluster-based",
    "cluster-based scaled",
    "least global 100", "least global 700", "least cluster-based 100", "least cluster-based 700",
)  # fmt: skip
"""Settings that are repairs, in reading order; others follow as they came."""


@dataclass(frozen=True)
class RepairScores(RowsDisplay):
    """Spearman after each repair in the last layer, and its change against the same state's baseline, with intervals."""

    fields: ClassVar[tuple[str, ...]] = SCORED

    @classmethod
    def of(cls, rows: Iterable[Row]) -> RepairScores | None:
        """The rows `spearman` and `spearman_change` of one model's last layer, without sweeps; None where nothing is repaired."""
        found = repaired(rows)
        one_of(found, "RepairScores", "model", "task")
        last = last_layer(found)
        kept = [row for row in found if row.layer == last]
        return cls(tuple(sorted(kept, key=lambda row: order(row.setting)))) if len({row.setting for row in kept}) > 1 else None

    @property
    def name(self) -> str:
        return self.file_name("repair-scores", "model")

    @property
    def title(self) -> str:
        return f"Scores after each repair{self.about('model')}"

    @property
    def note(self) -> str:
        return (
            "Left the score, right its change against the same state without a repair. Bars are intervals of a bootstrap over "
            "sentence pairs; where one crosses 0, the change could be either way."
        )

    def plot(self) -> Figure:
        """Score and change, a line for each repair."""
        shown = [metric for metric in (SCORE, CHANGE) if any(row.metric == metric for row in self.rows)]
        settings = list(dict.fromkeys(row.setting for row in self.rows))
        figure = panels([""] * len(shown), columns=2, shared_y=True, height=34 * len(settings) + 80)
        chosen, known = pens(states_of(self.rows)), set[str]()
        for column, metric in enumerate(shown, start=1):
            for state, members in grouped((row for row in self.rows if row.metric == metric), lambda row: row.state).items():
                shift = (list(chosen).index(state) - (len(chosen) - 1) / 2) * 0.28
                places = [settings.index(row.setting) + shift for row in members]
                figure.add_trace(_dots(members, places, chosen[state].silent(known)), row=1, col=column)
            figure.update_xaxes(title_text="change" if metric == CHANGE else "Spearman", row=1, col=column)
        if CHANGE in shown:
            figure.add_vline(x=0, line_width=1, line_color=AXIS, row=1, col=len(shown))
        # States lie beside each other within a repair's line, so the axis is of numbers and its ticks are named.
        names = [plain(one, NAME) for one in settings]
        figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5])
        return figure.update_yaxes(title_text="repair", col=1)


def repaired(rows: Iterable[Row]) -> list[Row]:
    """Scores and changes of scores by repair, without sweeps and without rows of a training step."""
    found = (row for row in rows if row.metric in (SCORE, CHANGE) and row.setting and row.step is None)
    return [row for row in found if not row.setting.startswith("sweep ")]


def order(setting: str) -> int:
    """Where a repair stands among the repairs."""
    return REPAIRS.index(setting) if setting in REPAIRS else len(REPAIRS)


def _dots(rows: list[Row], places: list[float], pen: Pen) -> Scatter:
    from plotly.graph_objects import Scatter

    told = [f"{plain(row.setting, NAME)}: {said(row)}" for row in rows]
    return Scatter(
        x=[value_of(row) for row in rows],
        y=places,
        error_x=bars(rows, pen.colour),
        text=told,
        hovertemplate="%{text}",
        mode="markers",
        **drawn(pen),
    )
