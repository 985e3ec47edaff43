"""What probes score, and how alike training and test rows are laid out, by task and state (ZS22)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, grouped, last_layer, one_of, states_of
from theodolite.reports.figures.lines import drawn, pens, said, value_of
from theodolite.reports.look import NAME, panels, place
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

METRICS = {
    "probe_accuracy": "probe accuracy",
    "hull_accuracy": "accuracy of the nearest hull",
    "train_test_similarity": "similarity of train and test",
}


@dataclass(frozen=True)
class ProbeScores(RowsDisplay):
    """Accuracy of the classifier probe and of the nearest hull, and train/test similarity, in the last layer; more is better."""

    fields: ClassVar[tuple[str, ...]] = ("model", "task", "state", "layer", "metric", "value", "low", "high", "n", "reason")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> ProbeScores | None:
        """The last layer's scores of one model, each task tuned on itself; None where nothing was probed."""
        found = [row for row in rows if row.metric in METRICS and row.step is None and not row.setting.startswith("tuned on ")]
        one_of(found, "ProbeScores", "model")
        ends = [row for task in grouped(found, lambda row: row.task).values() for row in task if row.layer == last_layer(task)]
        return cls(tuple(_spread(ends, list(rows)))) if ends else None

    @property
    def name(self) -> str:
        return self.file_name("probe-scores", "model")

    @property
    def title(self) -> str:
        return f"What probes score before and after{self.about('model')}"

    @property
    def note(self) -> str:
        return "On held-out rows of the last layer. Bars are the deviation over initialisations, or an interval over labels."

    def plot(self) -> Figure:
        """A panel for each score, a line for each task."""
        from plotly.graph_objects import Scatter

        tasks = list(dict.fromkeys(row.task for row in self.rows))
        shown = [metric for metric in METRICS if any(row.metric == metric for row in self.rows)]
        figure = panels([""] * len(shown), columns=3, height=max(260, 40 * len(tasks) + 120), shared_y=True)
        chosen, known = pens(states_of(self.rows)), set[str]()
        for i, metric in enumerate(shown):
            rows = [row for row in self.rows if row.metric == metric]
            for state, members in grouped(rows, lambda row: row.state).items():
                told = [f"{plain(row.task, NAME)}: {said(row)}" for row in members]
                dots = {"x": [value_of(row) for row in members], "y": [tasks.index(row.task) for row in members], "text": told}
                pen = drawn(chosen[state].silent(known))
                trace = Scatter(**dots, error_x=_bars(members), hovertemplate="%{text}", mode="markers", **pen)
                figure.add_trace(trace, **place(i, 3))
            figure.update_xaxes(title_text=METRICS[metric], **place(i, 3))
        names = [plain(task or "all", NAME) for task in tasks]
        figure.update_yaxes(tickvals=list(range(len(tasks))), ticktext=names, range=[len(tasks) - 0.5, -0.5])
        return figure.update_yaxes(title_text="task", col=1)


def _spread(rows: Sequence[Row], every: Sequence[Row]) -> list[Row]:
    """The rows, the probe's accuracy with its deviation over initialisations as its bounds."""
    spreads = {
        (row.task, row.state, row.layer, row.seed): row.value
        for row in every
        if row.metric == "probe_accuracy_sd" and not row.setting
    }
    found = []
    for row in rows:
        sd = spreads.get((row.task, row.state, row.layer, row.seed)) if row.metric == "probe_accuracy" else None
        found.append(row if sd is None else replace(row, low=row.value - sd, high=row.value + sd))
    return found


def _bars(rows: Sequence[Row]) -> dict[str, object] | None:
    if all(row.low is None or row.high is None for row in rows):
        return None
    up = [0.0 if row.high is None else max(0.0, row.high - row.value) for row in rows]
    down = [0.0 if row.low is None else max(0.0, row.value - row.low) for row in rows]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.2, "width": 3}
