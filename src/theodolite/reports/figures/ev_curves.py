"""Explained-variance curves: how much of a cloud its first directions hold (IL23, figure 2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, grouped, setting_of, state_rank
from theodolite.reports.figures.lines import Pen, drawn, line, pens, value_of
from theodolite.reports.look import panels, place

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

MOST = 20
"""Directions the curves go to."""
FEWEST = 3
"""Directions that make a curve."""
COLUMNS = 3
_EV = re.compile(r"ev_([1-9]\d*)")


@dataclass(frozen=True)
class EVCurves(RowsDisplay):
    """EV_k over k up to 20, in (0, 1], small is isotropic: a line for each seed, a thick one through their medians."""

    fields: ClassVar[tuple[str, ...]] = (
        "model",
        "task",
        "state",
        "layer",
        "setting",
        "seed",
        "metric",
        "value",
        "n",
        "d",
        "reason",
    )

    @classmethod
    def of(cls, rows: Iterable[Row]) -> EVCurves | None:
        """The rows `ev_1` … `ev_20` of the last step and layer of each model, task and state; None where none has three."""
        found = [row for row in rows if 1 <= direction(row) <= MOST]
        kept: list[Row] = []
        for group in grouped(found, lambda row: (row.model, row.task, row.state, setting_of(row), row.seed)).values():
            curves = grouped(group, lambda row: (row.step or 0, row.layer is None, row.layer or 0))
            whole = [key for key, members in curves.items() if len({direction(row) for row in members}) >= FEWEST]
            kept += curves[max(whole)] if whole else []
        return cls(tuple(sorted(kept, key=direction))) if kept else None

    @property
    def name(self) -> str:
        return "ev-curves"

    @property
    def title(self) -> str:
        return "Explained variance of the first directions"

    @property
    def note(self) -> str:
        return (
            "Share of the uncentred cloud on its first k directions; the lower the curve, the more isotropic. Thin lines are "
            "seeds, thick ones their medians."
        )

    def plot(self) -> Figure:
        """EV_k over k, a panel for each model and task."""
        shown = grouped(self.rows, lambda row: (row.model, row.task))
        titles = [", ".join(filter(None, key)) for key in shown]
        figure = panels(titles, columns=COLUMNS, shared_y=True)
        chosen, known = pens(sorted(dict.fromkeys(map(_name, self.rows)), key=state_rank)), set[str]()
        wide = min(COLUMNS, len(shown))
        for i, group in enumerate(shown.values()):
            for name, members in grouped(group, _name).items():
                for trace in _traces(members, chosen[name].silent(known)):
                    figure.add_trace(trace, **place(i, wide))
        figure.update_xaxes(title_text="number of directions k")
        return figure.update_yaxes(title_text="EV<sub>k</sub> (small is isotropic)", col=1, rangemode="tozero")


def direction(row: Row) -> int:
    """k of a row `ev_k`; 0 of another metric."""
    known = _EV.fullmatch(row.metric)
    return int(known[1]) if known else 0


def _name(row: Row) -> str:
    return ", ".join(filter(None, [row.state, setting_of(row)])) or "all"


def _traces(rows: Sequence[Row], pen: Pen) -> list[Scatter]:
    seeds = grouped(rows, lambda row: row.seed)
    if len(seeds) == 1:
        return [line([direction(row) for row in rows], rows, pen, before="first ")]
    return [_thin(seeds.values(), pen), _medians(rows, pen)]


def _thin(seeds: Iterable[Sequence[Row]], pen: Pen) -> Scatter:
    from plotly.graph_objects import Scatter

    x: list[Any] = []
    y: list[Any] = []
    told: list[str] = []
    for rows in seeds:  # one trace for all, with gaps between
        x += [*(direction(row) for row in rows), None]
        y += [*(value_of(row) for row in rows), None]
        told += [*(f"{row.value:.4g}, seed {row.seed}" for row in rows), ""]
    look = drawn(replace(pen, width=0.8, legend=False))
    return Scatter(x=x, y=y, text=told, hovertemplate="first %{x}: %{text}", mode="lines", opacity=0.45, **look)


def _medians(rows: Sequence[Row], pen: Pen) -> Scatter:
    from plotly.graph_objects import Scatter

    values = {k: [row.value for row in members if value_of(row) is not None] for k, members in grouped(rows, direction).items()}
    look = drawn(replace(pen, width=2.5, name=f"{pen.name}, median"))
    return Scatter(
        x=list(values),
        y=[median(each) if each else None for each in values.values()],
        hovertemplate="first %{x}: median %{y:.4g}",
        mode="lines+markers",
        **look,
    )
