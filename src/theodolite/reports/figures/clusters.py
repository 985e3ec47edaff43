"""Clusters before and after fine-tuning, beside the number of labels they could at best come down to (ZS22)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, grouped, last_layer, one_of, states_of
from theodolite.reports.figures.lines import Pen, drawn, line, pens, said, value_of
from theodolite.reports.look import AXIS, GREY, NAME, panels
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

COUNT, LABELS = "clusters", "labels"


@dataclass(frozen=True)
class Clusters(RowsDisplay):
    """The number of clusters by task and state in the last layer, and by layer where several were probed; fewer is simpler."""

    fields: ClassVar[tuple[str, ...]] = ("model", "task", "state", "layer", "metric", "value", "n", "reason")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Clusters | None:
        """The rows `clusters` and `labels` of one model, each task tuned on itself; None where nothing was clustered."""
        found = [
            row for row in rows if row.metric in (COUNT, LABELS) and row.step is None and not row.setting.startswith("tuned on ")
        ]
        one_of(found, "Clusters", "model")
        return cls(tuple(found)) if any(row.metric == COUNT for row in found) else None

    @property
    def name(self) -> str:
        return self.file_name("clusters", "model")

    @property
    def title(self) -> str:
        return f"Clusters before and after{self.about('model')}"

    @property
    def note(self) -> str:
        return (
            "The convex clusters that DirectProbe ends with, none of which meets one of another label. At the grey mark there is "
            "one a label: a plane parts any two."
        )

    def plot(self) -> Figure:
        """Clusters by task, and by layer where there are several."""
        tasks = list(dict.fromkeys(row.task for row in self.rows))
        counted = [row for row in self.rows if row.metric == COUNT]
        layered = {
            task: group for task, group in grouped(counted, lambda row: row.task).items() if len({row.layer for row in group}) > 1
        }
        titles = ["last layer", *(f"{task}, by layer" for task in layered)] if layered else [""]
        figure = panels(titles, columns=2, height=max(300, 40 * len(tasks) + 140), horizontal_spacing=0.18, vertical_spacing=0.2)
        chosen = pens(states_of(counted))
        for trace in self._ends(counted, tasks, chosen):
            figure.add_trace(trace, row=1, col=1)
        figure.update_xaxes(title_text="clusters", type="log" if _wide(counted) else "linear", row=1, col=1)
        names = [plain(task or "all", NAME) for task in tasks]
        figure.update_yaxes(
            tickvals=list(range(len(tasks))), ticktext=names, range=[len(tasks) - 0.5, -0.5], title_text="task", row=1, col=1
        )
        for i, group in enumerate(layered.values(), start=1):
            self._by_layer(figure, group, chosen, row=i // 2 + 1, col=i % 2 + 1)
        return figure

    def _ends(self, counted: Sequence[Row], tasks: Sequence[str], chosen: dict[str, Pen]) -> list[Scatter]:
        from plotly.graph_objects import Scatter

        ends = [
            row for group in grouped(counted, lambda row: row.task).values() for row in group if row.layer == last_layer(group)
        ]
        reached = grouped(ends, lambda row: row.task)
        x: list[Any] = []
        y: list[Any] = []
        for task, members in reached.items():
            x += [*(value_of(row) for row in members), None]
            y += [*(tasks.index(task) for _ in members), None]
        quiet = {"showlegend": False, "hoverinfo": "skip", "line": {"color": AXIS, "width": 2}}
        traces = [Scatter(x=x, y=y, mode="lines", **quiet)]
        known = {row.task: row for row in self.rows if row.metric == LABELS}
        mark = {"symbol": "line-ns-open", "size": 20, "color": GREY, "line": {"width": 3}}
        if known:
            told = [f"{plain(task, NAME)}: {row.value:.0f} labels" for task, row in known.items()]
            at = [tasks.index(task) for task in known]
            values = [row.value for row in known.values()]
            traces.append(Scatter(x=values, y=at, text=told, hovertemplate="%{text}", mode="markers", name="labels", marker=mark))
        for state, members in grouped(ends, lambda row: row.state).items():
            told = [f"{plain(row.task, NAME)}: {said(row)}" for row in members]
            dots = {"x": [value_of(row) for row in members], "y": [tasks.index(row.task) for row in members], "text": told}
            traces.append(Scatter(**dots, hovertemplate="%{text}", mode="markers", **drawn(chosen[state])))
        return traces

    def _by_layer(self, figure: Figure, rows: Sequence[Row], chosen: dict[str, Pen], **at: int) -> None:
        known = set(chosen)
        for state, members in grouped(sorted(rows, key=lambda row: row.layer or 0), lambda row: row.state).items():
            figure.add_trace(line([row.layer for row in members], members, chosen[state].silent(known), before="layer "), **at)
        figure.update_xaxes(title_text="layer", **at)
        figure.update_yaxes(title_text="clusters", rangemode="tozero", **at)


def _wide(rows: Sequence[Row]) -> bool:
    values = [row.value for row in rows if value_of(row) is not None and row.value > 0]
    return bool(values) and max(values) > 20 * min(values)
