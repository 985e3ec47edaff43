"""Scores and isotropy before and after an isotropy layer, seed by seed (IL23, tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, grouped, one_of, setting_of, state_rank
from theodolite.reports.figures.lines import drawn, pens, said, value_of
from theodolite.reports.figures.words import axis, in_words
from theodolite.reports.look import AXIS, NAME, panels
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

SCORES = ("accuracy", "matthews")
SHAPES = ("iso_score", "ev_1")


@dataclass(frozen=True)
class SeedScores(RowsDisplay):
    """The task's metric, IsoScore and EV1 of each seed by state: a column of panels a task, seeds joined, a bar at the median."""

    fields: ClassVar[tuple[str, ...]] = ("model", "task", "state", "seed", "metric", "value", "n", "reason")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> SeedScores | None:
        """One model's rows of `accuracy` or `matthews`, `iso_score` and `ev_1` by seed, of tasks scored in two states or more."""
        told = (row for row in rows if row.metric in SCORES + SHAPES and row.seed is not None and not setting_of(row))
        # Scores of an epoch and shapes of a step are what led to a state; its last ones are the state's own.
        scored_rows = [row for row in told if row.split not in ("train", "validation") and row.state != "fine-tuning"]
        by_cell = grouped(scored_rows, lambda row: (row.model, row.task, row.state, row.seed, row.metric))
        found = [max(group, key=_lateness) for group in by_cell.values()]
        tasks = grouped((row for row in found if row.metric in SCORES), lambda row: row.task)
        scored = {task: {row.state for row in group} for task, group in tasks.items()}
        kept = [row for row in found if len(scored.get(row.task, ())) > 1 and row.state in scored[row.task]]
        one_of(kept, "SeedScores", "model")
        return cls(tuple(sorted(kept, key=lambda row: (state_rank(row.state), row.seed or 0)))) if kept else None

    @property
    def name(self) -> str:
        return self.file_name("scores-by-seed", "model")

    @property
    def title(self) -> str:
        return f"Scores and isotropy over seeds{self.about('model')}"

    @property
    def note(self) -> str:
        return "One point a seed, joined by a line between states; the bar is the median over seeds."

    def plot(self) -> Figure:
        """Panels of tasks by metric, states beside each other."""
        tasks = sorted({row.task for row in self.rows})
        kinds = [kind for kind in (SCORES, *((shape,) for shape in SHAPES)) if any(row.metric in kind for row in self.rows)]
        titles = tasks + [""] * (len(tasks) * (len(kinds) - 1))
        figure = panels(titles, columns=len(tasks), height=230, horizontal_spacing=0.12, vertical_spacing=0.07)
        states = list(dict.fromkeys(row.state for row in self.rows))
        for i, kind in enumerate(kinds, start=1):
            for j, task in enumerate(tasks, start=1):
                group = [row for row in self.rows if row.task == task and row.metric in kind]
                for trace in _panel(group, states, legend=(i, j) == (1, 1)):
                    figure.add_trace(trace, row=i, col=j)
                figure.update_yaxes(title_text=axis(group[0].metric) if group else "", row=i, col=j)
        names = [plain(in_words(state), NAME) for state in states]
        figure.update_xaxes(tickvals=list(range(len(states))), ticktext=[""] * len(states), range=[-0.5, len(states) - 0.5])
        return figure.update_xaxes(ticktext=names, title_text="trained with", row=len(kinds))


def _lateness(row: Row) -> tuple[bool, int, int]:
    return (row.layer is None, row.step or 0, row.layer or 0)


def _panel(rows: Sequence[Row], states: Sequence[str], *, legend: bool) -> list[Scatter]:
    from plotly.graph_objects import Scatter

    x: list[Any] = []
    y: list[Any] = []
    for members in grouped(rows, lambda row: row.seed).values():
        x += [*(states.index(row.state) for row in members), None]
        y += [*(value_of(row) for row in members), None]
    traces = [Scatter(x=x, y=y, mode="lines", line={"color": AXIS, "width": 1}, hoverinfo="skip", showlegend=False)]
    for state, pen in pens(states).items():
        members = [row for row in rows if row.state == state]
        told = [f"seed {row.seed}: {said(row)}" for row in members]
        dots: dict[str, Any] = {"x": [states.index(state)] * len(members), "y": [value_of(row) for row in members], "text": told}
        look = drawn(pen) | {"showlegend": False}
        traces.append(Scatter(**dots, hovertemplate="%{text}", mode="markers", opacity=0.75, **look))
        known = [row.value for row in members if value_of(row) is not None]
        if known:
            mark = {"symbol": "line-ew-open", "size": 30, "color": pen.colour, "line": {"width": 3}}
            middle = {"x": [states.index(state)], "y": [median(known)], "name": "median over seeds", "legendgroup": "median"}
            last = legend and state == states[0]
            traces.append(
                Scatter(**middle, mode="markers", marker=mark, showlegend=last, hovertemplate="median %{y:.4g}<extra></extra>")
            )
    return traces
