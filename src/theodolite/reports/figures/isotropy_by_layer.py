"""Isotropy by layer: tokens and [CLS], before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, file_name, grouped, setting_of, states_of
from theodolite.reports.figures.lines import Pen, line, pens
from theodolite.reports.figures.words import axis, heading
from theodolite.reports.look import panels, place

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

METRICS = (
    "log_partition_isotropy",
    "log_partition_isotropy_unit_norm",
    "iso_score_corrected",
    "iso_score",
    "mean_cosine",
    "effective_rank",
    "ev_1",
)
"""Metrics that a report shows by layer, where there are rows of them."""
UNITS = {"tokens": "tokens", "cls": "[CLS]"}
COLUMNS = 3


@dataclass(frozen=True)
class IsotropyByLayer(RowsDisplay):
    """One metric over the layers: a line for each state and unit; a panel for each model where one has several lines."""

    metric: str = "iso_score"
    fields: ClassVar[tuple[str, ...]] = (
        "model",
        "state",
        "setting",
        "step",
        "layer",
        "metric",
        "value",
        "low",
        "high",
        "n",
        "d",
        "reason",
    )

    @classmethod
    def of(cls, rows: Iterable[Row], metric: str = "iso_score") -> IsotropyByLayer | None:
        """The rows of a metric at two layers or more; None where there are none.

        Of a study's rows those whose setting is `tokens` or `cls`. Of rows over training steps a run's first step and its last.
        """
        found = [row for row in rows if row.metric == metric and row.layer is not None and not row.label]
        if any(setting_of(row) in UNITS for row in found):
            found = [row for row in found if setting_of(row) in UNITS]
        lines = grouped(_ends(found), lambda row: (_line(row), row.seed, row.step))
        kept = [row for group in lines.values() if len({row.layer for row in group}) > 1 for row in group]
        return cls(tuple(sorted(kept, key=lambda row: row.layer or 0)), metric) if kept else None

    @property
    def name(self) -> str:
        return file_name("isotropy-by-layer", self.metric)

    @property
    def title(self) -> str:
        return f"Isotropy by layer: {heading(self.metric)}"

    @property
    def note(self) -> str:
        return "Layer 0 is the embeddings. Bars are intervals where the run took them; [CLS] has one vector a text, tokens many."

    def plot(self) -> Figure:
        """The metric over the layers."""
        models = grouped(self.rows, lambda row: (row.model, row.task))
        alone = all(len({_line(row) for row in group}) == 1 for group in models.values())
        shown = [("", list(self.rows))] if alone else [(_panel(key, models), group) for key, group in models.items()]
        figure = panels([title for title, _ in shown], columns=COLUMNS, shared_y=True)
        chosen = _pens(self.rows, by_model=alone)
        known: set[str] = set()
        wide = min(COLUMNS, len(shown))
        for i, (_, group) in enumerate(shown):
            # Seeds share a pen and a name: how far they lie apart is what they are there for.
            for (name, _), members in grouped(group, lambda row: (_name(row, by_model=alone), row.seed)).items():
                pen = chosen[name].silent(known)
                figure.add_trace(line([row.layer for row in members], members, pen, before="layer "), **place(i, wide))
        figure.update_xaxes(title_text="layer", dtick=1 if len({row.layer for row in self.rows}) <= 14 else None)
        return figure.update_yaxes(title_text=axis(self.metric), col=1)


def _ends(rows: Sequence[Row]) -> list[Row]:
    kept = []
    for group in grouped(rows, lambda row: (row.model, row.task, row.seed)).values():
        steps = {row.step for row in group if row.step is not None}
        kept += [row for row in group if row.step is None or row.step in (min(steps), max(steps))]
    return kept


def _line(row: Row) -> tuple[str, ...]:
    step = "" if row.step is None else "last step" if row.step else "before step 1"
    return (row.model, row.task, row.state, UNITS.get(setting_of(row), ""), step)


def _panel(key: tuple[str, str], models: dict[tuple[str, str], list[Row]]) -> str:
    return ", ".join(filter(None, key)) if len({task for _, task in models}) > 1 else key[0]


def _name(row: Row, *, by_model: bool) -> str:
    return ", ".join(filter(None, [row.model if by_model else "", *_line(row)[2:]])) or "all"


def _pens(rows: Sequence[Row], *, by_model: bool) -> dict[str, Pen]:
    if by_model:
        return pens([_name(row, by_model=True) for row in rows])
    # A state keeps its colour; what is [CLS] is dashed, with a symbol of its own.
    of_state = pens(states_of(rows))
    found = {}
    for row in rows:
        pen = replace(of_state[row.state], name=_name(row, by_model=False))
        found[pen.name] = replace(pen, dash="dot", symbol=f"{pen.symbol}-open") if setting_of(row) == "cls" else pen
    return found
