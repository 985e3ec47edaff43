"""The sweep: score and isotropy against the number of removed top directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import SCORED, RowsDisplay, grouped, one_of, setting_of, states_of
from theodolite.reports.figures.lines import line, pens
from theodolite.reports.figures.words import axis
from theodolite.reports.look import panels

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

METRICS = ("spearman", "log_partition_isotropy", "iso_score")
SETTING = "sweep global"


@dataclass(frozen=True)
class Sweep(RowsDisplay):
    """Spearman, log I and IsoScore over the number D of removed top directions: a panel for each, a line for each state."""

    fields: ClassVar[tuple[str, ...]] = (*SCORED, "label")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Sweep | None:
        """The rows of one model whose setting is `sweep global`, D as their label; None where there are none."""
        found = [row for row in rows if setting_of(row) == SETTING and row.metric in METRICS and row.label.isdecimal()]
        one_of(found, "Sweep", "model", "task")
        return cls(tuple(sorted(found, key=_removed))) if found else None

    @property
    def name(self) -> str:
        return self.file_name("sweep", "model")

    @property
    def title(self) -> str:
        return f"Removing more and more top directions{self.about('model')}"

    @property
    def note(self) -> str:
        return (
            "D = 0 is the centred cloud. Where the fine-tuned line of isotropy lies under the other at one D, it "
            "has more long directions left."
        )

    def plot(self) -> Figure:
        """Score and isotropy over D."""
        shown = [metric for metric in METRICS if any(row.metric == metric for row in self.rows)]
        figure = panels([""] * len(shown), columns=3, height=320, horizontal_spacing=0.1)
        chosen, known = pens(states_of(self.rows)), set[str]()
        for column, metric in enumerate(shown, start=1):
            for state, members in grouped((row for row in self.rows if row.metric == metric), lambda row: row.state).items():
                pen = chosen[state].silent(known)
                figure.add_trace(line([_removed(row) for row in members], members, pen, before="D = "), row=1, col=column)
            figure.update_yaxes(title_text=axis(metric), row=1, col=column)
        return figure.update_xaxes(title_text="removed directions D")


def _removed(row: Row) -> int:
    return int(row.label)
